#!/usr/bin/env python3
"""`assay shrink` on the museum: shrink_test.py ASSAY. Every exhibit with a case is shrunk beside its correct
counterpart; the file fails alike when it is replayed in a new process, and the counterpart passes on it."""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import unittest

ASSAY = os.path.abspath(sys.argv[1])
SECONDS = 25  # the default budget of assay shrink


def assay(*words):
    return subprocess.run([ASSAY, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def exhibits():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "museum", "exhibits.cpp")) as f:
        text = f.read()
    row = r'\{"\w+",\s*"(\w+)",\s*"(?:[^"\\]|\\.)*",\s*"(?:[^"\\]|\\.)*",\s*"([^"]*)"'  # number, name, title, source, line
    rows = re.findall(row, text)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus.json")) as f:
        known = {row["exhibit"] for row in json.load(f) if "exhibit" in row}
    return [(name, line) for name, line in rows if name in known and line]


class Museum(unittest.TestCase):
    def test_every_shrunk_exhibit_fails_alike_and_its_counterpart_passes(self):
        sizes = []
        with tempfile.TemporaryDirectory(prefix="shrink-test-") as scratch:
            self.assertGreaterEqual(len(exhibits()), 40)
            for name, line in exhibits():
                with self.subTest(exhibit=name):
                    file = os.path.join(scratch, name + ".safetensors")
                    shrunk = assay("shrink", f"{line} backend=museum variant={name}", "--counterpart",
                                   "museum",
                                   "--counterpart-variant", name + ".correct", "--budget", str(SECONDS), "-o",
                                   file)
                    self.assertEqual(shrunk.returncode, 1, shrunk.stdout + shrunk.stderr)
                    self.assertNotIn("is not there again", shrunk.stdout)
                    self.assertEqual(assay("run", file).returncode, 1)
                    line = re.search(r"^to       (.*)$", shrunk.stdout, re.MULTILINE)[1]
                    line = re.sub(r" fill=\S+", "", line) + f".correct fill=file:{file}"
                    counterpart = assay("run", line)
                    self.assertEqual(counterpart.returncode, 0, counterpart.stdout + counterpart.stderr)
                    sizes.append(os.path.getsize(file))
        print(f"{len(sizes)} exhibits, median file {statistics.median(sizes):.0f} bytes", file=sys.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
