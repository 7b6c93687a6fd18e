#!/usr/bin/env python3
"""judge_agrees_test.py BUILD COUNT [SEED]: `assay judge` of recorded tensors says what `assay run` says of
the kernel that computed them: the same verdict, and the same elements. COUNT drawn cases of the cpu backend
and of the museum's kernels, right and wrong, are run, exported with their outputs, and judged, by the program
and by its library. What takes more than numbers to see (a path, unwritten memory, a crash) is no recorder's
to tell, and is drawn again."""
import concurrent.futures
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

JUDGEABLE = ("pass", "wrong")
FEW = {"cpu": ["softmax rows=4 cols=33,257 fill=gaussian,deep,ramp variant=all",
               "rmsnorm rows=4 cols=33,257 variant=all",
               "attention heads=2 d=64 len=100 kv=f16,q8_0 fill=gaussian,ramp variant=all"],
       "museum": ["softmax rows=4 cols=33,257 variant=max_of_first_warp,max_of_first_warp.correct",
                  "rmsnorm rows=4 cols=33,257 variant=partial_warp_dropped,partial_warp_dropped.correct",
                  "attention heads=2 d=64 len=100 fill=gaussian,ramp variant=rescale_skipped,rescale_skipped.correct"]}


def assay(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)


def drawn(backend, draw, few):
    lines = assay("run", *(FEW[backend] if few else ["strangers"]), "-b", backend, "--list", "--seed",
                  str(draw.randrange(1 << 30))).stdout.splitlines()
    lines = [line for line in lines if line.split(" ", 1)[1].find("fault=") < 0 and "layout=far" not in line]
    draw.shuffle(lines)
    return lines


def ran(lines, folder):
    """line -> row of the record, of those that judge can see."""
    cases, record = os.path.join(folder, "drawn.cases"), os.path.join(folder, "drawn.jsonl")
    with open(cases, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    done = assay("run", "-q", cases, "--record", record)
    if done.returncode not in (0, 1):
        sys.exit(f"judge_agrees_test: {done.stdout}{done.stderr}")
    with open(record, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    os.unlink(record)
    found = {row["case"]: row for row in rows if row.get("verdict") in JUDGEABLE
             and row.get("repeat", "alone") != "after_calls"}
    return {line: found[line] for line in lines if line in found}  # not in the order in which jobs end


def judged(line, path):
    """(verdict, what) of the case's own outputs."""
    exported = assay("export", line, "-o", path)
    if exported.returncode not in (0, 1):
        return "not exported", exported.stderr
    text = assay("judge", path).stdout
    here = by_the_library(path)
    if not text.startswith(here):  # behind it the program counts its files
        return "otherwise by the library", here
    word = text.removeprefix("FAIL ").split(" ", 1)[0]
    what = [row[9:] for row in text.splitlines() if row.startswith("  what   ")]
    return word, (what[0] if what else "")


def by_the_library(path):
    """What the library in this process says of the file's tensors, under the contract that it names."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        about = json.loads(file.read(length))["__metadata__"]
    planes = {name.removeprefix("got/"): plane for name, plane in tensors.read_planes(path).items()}
    return library.judge(about["case"], planes, about["contract"])[1].replace("these tensors", path, 1)


def tampered(path):
    """The file with another sign at the first output."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8: 8 + length])
    begin, end = next(row["data_offsets"] for name, row in header.items() if name.startswith("got/"))
    for at in range(8 + length + begin, 8 + length + end):
        data[at] ^= 0x55
    with open(path, "wb") as file:
        file.write(data)


def main():
    count, seed = int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1
    draw = random.Random(seed)
    tally, different, right_file = {word: 0 for word in JUDGEABLE}, [], None
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for backend, share in (("cpu", count // 2), ("museum", count - count // 2)):
            lines, found = drawn(backend, draw, count < 100), {}
            while lines and len(found) < share:
                batch, lines = lines[: 2 * (share - len(found)) + 8], lines[2 * (share - len(found)) + 8:]
                found.update(list(ran(batch, folder).items())[: share - len(found)])
            files = {line: os.path.join(folder, f"{backend}{n}.safetensors") for n, line in enumerate(found)}
            for (line, row), said in zip(found.items(), pool.map(lambda pair: judged(*pair), files.items())):
                tally[row["verdict"]] += 1
                expected = row["verdict"], row["summary"] if row["verdict"] == "wrong" else ""
                if said != expected:
                    different.append(f"{line}\n  run    {expected}\n  judge  {said}")
                elif row["verdict"] == "pass" and row["elements"] > 0:
                    right_file = right_file or files[line]
                if files[line] != right_file and os.path.exists(files[line]):
                    os.unlink(files[line])
        print(f"{sum(tally.values())} cases, {tally['pass']} right and {tally['wrong']} wrong: {len(different)} judged otherwise")
        if different or sum(tally.values()) < count or not all(tally.values()):
            sys.exit("\n".join(different[:10]) or "judge_agrees_test: too few cases")
        tampered(right_file)
        if assay("judge", right_file).returncode != 1:
            sys.exit("judge_agrees_test: outputs with other bits were not found")


PROGRAM = os.path.join(os.path.abspath(sys.argv[1]), "assay")
os.environ["ASSAY_PROGRAM"] = PROGRAM
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))
from assay import library, tensors  # noqa: E402
main()
