#!/usr/bin/env python3
"""corpus_test.py PROGRAM: each file of the corpus is small, the reader sees the defect and passes the truth
itself, and assay says the same of what the defective kernel left."""
import glob
import math
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import read  # noqa: E402


def main(program):
    files = sorted(glob.glob(os.path.join(HERE, "*.safetensors")))
    faults, seen = [], 0
    for path in files:
        name = os.path.basename(path)
        if os.path.getsize(path) > 4096:
            faults.append(f"{name} has {os.path.getsize(path)} bytes")
        about, tensors = read.read(path)
        if about["assay"] != "case 1" or f"variant={name[:-len('.safetensors')]}" not in about["case"]:
            faults.append(f"{name} is another version, or another exhibit: {about}")
        for value in [key for key in tensors if key.startswith("truth/") and key.endswith(".value")]:
            output = value[len("truth/"):-len(".value")]
            true = read.numbers(tensors[value])
            if read.bad(tensors, output, true) != 0:
                faults.append(f"{name}: the truth of {output} is wrong")
            limits = read.numbers(tensors[f"truth/{output}.limit"])
            claimed = sum(limit != math.inf for limit in limits)
            if read.bad(tensors, output, [math.nan if not math.isnan(x) else 0.0 for x in true]) != claimed:
                faults.append(f"{name}: NaN passes in {output}")
            got = tensors.get(f"got/{output}")
            if got is not None and (got[0] in read.SCALARS
                                    or got[0] == "BF16") and len(read.numbers(got)) == len(true):
                seen += read.bad(tensors, output, read.numbers(got)) > 0
    judged = subprocess.run([program, "judge", *files], capture_output=True, text=True)
    red = sum(line.startswith("FAIL ") for line in judged.stdout.splitlines())
    if judged.returncode != 1 or red != len(files):
        faults.append(f"assay judges {red} of {len(files)} as wrong:\n{judged.stdout[-2000:]}{judged.stderr[-500:]}")
    print(f"{len(files)} files; in {seen} the reader sees the defect without decoding a format")
    if faults or not files or seen == 0:
        sys.exit("\n".join(faults) or "no file")


main(os.path.abspath(sys.argv[1]))
