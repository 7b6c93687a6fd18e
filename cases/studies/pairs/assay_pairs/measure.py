"""A pair's two sides, judged by the same cases; found is what is red before the fix, and run and not red
after it."""
import json
import os
import re
import shlex
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

from . import corpus

# neither red nor green: nothing is said of the kernel
NOT_JUDGED = ("unsupported", "too_big", "impossible", "refused", "distrust")
# what the suite is told: nothing; op and class of shape; what the fix says
SHARES = ("untold", "shaped", "trigger")


@dataclass
class Result:
    id: str
    share: str
    seed: int
    verdict: str = ""  # found, missed, both (only shared reds), nothing (no case was judged), no_parent
    cases: int = 0  # judged on the parent
    child_cases: int = 0  # judged on the child
    shared: int = 0  # red on both sides
    red_child: list = field(default_factory=list)  # case and finding
    seconds: float = 0.0  # of judging, until the first case that finds it has ended
    first: str = ""  # that case
    says: str = ""  # what its finding says


def wilson(found, of, z=1.96):
    """The 95 % interval of a share."""
    if of == 0:
        return 0.0, 1.0
    share, square = found / of, z * z / of
    middle, half = share + square / 2, z * ((share * (1 - share) + square / 4) / of) ** 0.5
    return (middle - half) / (1 + square), (middle + half) / (1 + square)


class Judge:
    """Runs `assay run` on one side of a pair."""

    def __init__(self, pair, where, corpus_folder, include, python):
        self.pair, self.where, self.corpus, self.include, self.python = pair, where, corpus_folder, include, python
        self.adapter = os.path.join(corpus_folder, "adapters", pair["adapter"])

    def backend(self, side):
        if self.adapter.endswith(".py"):
            return f"python:{self.adapter},device=cpu"
        made = os.path.join(self.where, side, "adapter.so")
        if not os.path.exists(made):
            files = os.path.join(self.where, side, self.pair["root"])
            command = ["c++", "-std=c++20", "-O2", "-shared", "-fPIC", "-o", made, self.adapter,
                       f"-I{self.include}", f"-I{files}",
                       *[word.replace("ROOT", files) for word in shlex.split(self.pair["flags"])]]
            built = subprocess.run(command, capture_output=True, text=True, check=False)
            if built.returncode:
                raise corpus.Missing(f"{self.pair.id}: its {side} does not build: {built.stderr.strip()[:600]}")
        return made

    def run(self, side, cases, seed, budget):
        """The results of these cases, or of the suite that is made for the adapter, in the order in which
        they ended."""
        env = dict(os.environ, PAIR_FILES=os.path.join(self.where, side, self.pair["root"]),
                   PAIR_NAME=self.pair.id,
                   PYTHONDONTWRITEBYTECODE="1", PYTHONHASHSEED="0")
        if self.python:
            env["PATH"] = os.path.dirname(os.path.abspath(self.python)) + os.pathsep + env["PATH"]
        if self.pair["op"].endswith(".op"):
            env["ASSAY_OPS"] = os.path.join(self.corpus, "ops", self.pair["op"])
        report = os.path.join(self.where, "report.json")
        if os.path.exists(report):
            os.remove(report)
        command = [os.environ["ASSAY_PROGRAM"], "run", *(cases or ["strangers"]), "-b", self.backend(side),
                   "--seed", str(seed),
                   "-j", "1", "-q", "--timeout", "20", "--json", report]
        if budget:
            command += ["--budget", str(budget)]
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True,
                                  timeout=(budget or 60) + 240, check=False)
        except subprocess.TimeoutExpired:
            raise corpus.Missing(f"{self.pair.id}: assay run did not end: {shlex.join(command)}") from None
        if not os.path.exists(report):
            raise corpus.Missing(f"{self.pair.id}: {side}: {(done.stderr or done.stdout).strip()[-600:]}")
        return json.load(open(report, encoding="utf-8"))["results"]


def line(result):
    return re.sub(r" backend=\S+", "", result["case"])


def red(result):
    return not result["green"] and result["verdict"] not in NOT_JUDGED


def saying(result):
    return f"{result['verdict']}: {result['summary']}".replace("\n", " ")[:300]


def measure(judge, share, seed, budget):
    """One share, one seed. The child is asked the same cases, and whatever was red on the parent and not
    reached on the child."""
    told = {"untold": [], "shaped": [judge.pair["shaped"]], "trigger": [judge.pair["trigger"]]}[share]
    out = Result(judge.pair.id, share, seed)
    parent = judge.run("parent", told, seed, 0 if told else budget)
    child = {line(r): r for r in judge.run("child", told, seed, 0 if told else budget)}
    judged = [r for r in parent if r["verdict"] not in NOT_JUDGED]
    out.cases = len(judged)
    behind = [line(r) for r in judged if red(r) and line(r) not in child]
    if behind:
        child.update((line(r), r) for r in judge.run("child", behind[:20], seed, budget))
    spent = 0.0
    for r in parent:
        spent += r["total_seconds"]
        other = child.get(line(r))
        if not red(r) or other is None or other["verdict"] in NOT_JUDGED:
            continue
        if red(other):
            out.shared += 1
        elif not out.first:
            out.first, out.says, out.seconds = line(r), saying(r), spent
    out.child_cases = sum(r["verdict"] not in NOT_JUDGED for r in child.values())
    out.red_child = [(line(r), saying(r)) for r in child.values() if red(r)]
    out.verdict = "found" if out.first else "nothing" if not judged else "both" if out.shared else "missed"
    return out


def measure_pair(pair, mirror, corpus_folder, include, python, shares, seeds, budget,
                 tell=lambda result: None):
    """All that is asked of a pair: a list of results."""
    results = []
    with tempfile.TemporaryDirectory(prefix="assay-pairs-") as where:
        for side in ("parent", "child"):
            os.mkdir(os.path.join(where, side))
            corpus.extract(mirror, pair, side, os.path.join(where, side))
        judge = Judge(pair, where, corpus_folder, include, python)
        for share in shares:
            if share == "shaped" and not pair["shaped"]:
                continue
            for seed in seeds:
                begun = time.monotonic()
                results.append(measure(judge, share, seed, budget))
                tell(results[-1], time.monotonic() - begun)
    return results
