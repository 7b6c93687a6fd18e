"""What the tests of `assay bisect` and of `assay hunt` share: a planted history and its search. The program
is the first argument."""
import hashlib
import json
import math
import os
import subprocess
import sys

sys.dont_write_bytecode = True
ASSAY = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "assay"
HERE = os.path.dirname(ASSAY)
sys.path.insert(0, os.path.join(HERE, "bisect"))
from assay_bisect.demonstration import CASE, CASES, Draft  # noqa: E402

LAW = f"python3 {os.path.join(HERE, 'bisect', 'assay_bisect', 'demonstration_law.py')} {{plugin}}"


def git(where, *words):
    return subprocess.run(["git", "-C", where, *words], capture_output=True, text=True,
                          check=True).stdout.strip()


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def bisect(*words, **settings):
    return subprocess.run([ASSAY, "bisect", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          **settings)


def picture(folder):
    """Every file of a repository and of its checkout, beside the index, which any `git status` refreshes."""
    files = sorted(os.path.join(w, n) for w, _, names in os.walk(folder) for n in names)
    return [(f, digest(f)) for f in files if not f.endswith("/index")]


class Planted:
    """A demonstration repository in a scratch folder, and the options that search it."""

    def __init__(self, scratch, seed, plant="numbers", commits=220, where=None):
        self.draft = Draft(seed, commits, plant, where=where)
        self.folder = os.path.join(scratch, "repository")
        self.names = self.draft.write(self.folder)
        self.report = os.path.join(scratch, "report.json")
        self.state = os.path.join(scratch, "state")
        ask = ["--run", LAW] if plant == "law" else ["--case", CASES.get(plant, CASE)]
        ask += {"flaky": ["--noisy"], "speed": ["--find", "time"],
                "kernel": ["--find", "path"]}.get(plant, [])
        self.options = ["--repository", self.folder, "--good", self.names[0], "--bad", self.names[-1],
                        "--backend",
                        "kernels.so", "--state", self.state, "--json", self.report, *ask]

    def search(self, *more, build="sh build.sh"):
        done = bisect(*self.options, "--build", build, *more)
        answer = None
        if os.path.exists(self.report):
            with open(self.report) as f:
                answer = json.load(f)
        return done, answer

    def smallest(self):
        return sorted(self.names[i] for i in self.draft.smallest())

    def bound(self):
        return math.ceil(math.log2(len(self.names) - 1)) + 2
