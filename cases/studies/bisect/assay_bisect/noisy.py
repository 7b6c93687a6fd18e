"""The axis of commits where an answer is only likely: a Bayesian search until one commit has a posterior of 1
- error."""
import json
import math
import os
import statistics
from dataclasses import dataclass

from .bayes import FEWEST, Bayes
from .halving import NEW, OLD, UNTESTABLE
from .log import BisectLog
from .problems import NoDifference, Untestable, Usage, read_state

# Answers of each end that the threshold of a time ratio stands between, and the share of the error that each
# look may spend on ends that are alike: with all of five apart from all of five, two ways of 252, the first
# look is enough for an error of 1 %.
CALIBRATION = ((5, 0.8), (20, 0.2))


def chance(a, b):
    """The probability that two groups of one distribution are ranked as far apart as these, or further: the
    exact two-sided test of
    Mann and Whitney. The ways to each U are the coefficients of the product over i of (1 - q^(n+i)) / (1 -
    q^i)."""
    n, m = len(a), len(b)
    u = sum((x > y) + (x == y) / 2 for x in a for y in b)
    ways = [1] + [0] * (n * m)
    for i in range(1, m + 1):
        for k in range(n * m, n + i - 1, -1):
            ways[k] -= ways[k - n - i]
        for k in range(i, n * m + 1):
            ways[k] += ways[k - i]
    return min(1.0, 2 * sum(ways[:math.floor(min(u, n * m - u)) + 1]) / math.comb(n + m, n))


@dataclass
class Likely:
    commits: list      # one; or several that no testable commit tells apart
    posterior: float
    rate: float        # in how many runs the fault shows, in the mean of the posterior
    runs: int
    log: str
    threshold: float = 0.0
    old_end: bool = False


def is_run(line):
    return "threshold" in line or {"commit", "runs", "found"} <= line.keys()


class Noisy:
    def __init__(self, commits, error, most_runs, ratio=0.0):
        self.all, self.error, self.most_runs = commits, error, most_runs
        self.question, self.builder = commits.question, commits.builder
        self.journal = os.path.join(commits.folder, f"runs-{commits.old[:12]}-{commits.new[:12]}.jsonl")
        self.threshold, self.slower = ratio, True
        self.runs = 0
        self.rest = []  # what an earlier search of the same ends saw

    def _record(self, **line):
        with open(self.journal, "a") as f:
            f.write(json.dumps(line) + "\n")

    def _replay(self):
        lines = []
        if os.path.exists(self.journal):
            with open(self.journal, errors="replace") as f:
                for text in f:
                    if text.endswith("\n"):  # a line without its end was being written when the search was killed
                        lines.append(read_state(self.journal, text, is_run))
            with open(self.journal, "w") as f:
                f.writelines(json.dumps(line) + "\n" for line in lines)
        return lines

    def _one(self, commit):
        """Whether one run of the commit shows the fault."""
        commit = self.all.stands_for(commit)
        self.runs += 1
        if self.runs > self.most_runs:
            raise NoDifference(f"no answer in {self.most_runs} runs (--most-runs); the same command goes on from here with more")
        states = self._ask(commit)
        if self.question.find == "time":
            return states["time"] > self.threshold if self.slower else states["time"] < self.threshold
        return any(state in ("found", "finding") for state in states.values())

    def _ask(self, commit):
        reference = self.builder.plugin(self.all.stands_for(self.all.old)) if self.question.find == "time" else None
        return self.question.ask(self.builder.kept, self.builder.plugin(commit), commit, reference)

    def _calibrate(self, lines):
        """The threshold of time: the geometric middle between what both ends show, unless it was given.
        Raises NoDifference."""
        known = [line for line in lines if "threshold" in line]
        if known:
            self.threshold, self.slower = known[-1]["threshold"], known[-1]["slower"]
            return
        seen = {self.all.old: [], self.all.new: []}
        for answers, share in CALIBRATION:
            for end, own in seen.items():
                own += [self._ask(self.all.stands_for(end))["time"] for _ in range(answers - len(own))]
            ends = [statistics.median(own) for own in seen.values()]
            by_chance = chance(*seen.values())
            if self.threshold or by_chance <= share * self.error:
                break
        else:
            raise NoDifference(f"both ends take the same time: {ends[1]:.3f} and {ends[0]:.3f} of {self.all.old[:10]}'s in {answers} "
                               f"answers each, as far apart by chance with probability {by_chance:.2g}")
        self.slower = ends[1] > ends[0]
        self.threshold = self.threshold or math.sqrt(ends[0] * ends[1])
        self.all.say(f"  time against {self.all.old[:10]}: {ends[1]:.3f} at {self.all.new[:10]}, {ends[0]:.3f} at itself; "
                     f"threshold {self.threshold:.3f}")
        self._record(threshold=self.threshold, slower=self.slower)
        for end, answers in seen.items():  # the threshold is theirs, and what they say of it is the first that is known
            lines.append({"commit": self.all.stands_for(end), "runs": len(answers),
                          "found": sum((t > self.threshold) == self.slower for t in answers)})
            self._record(**lines[-1])

    def search(self):
        if not self.question.find == "time" and self.question.field:
            raise Usage("--noisy with --field: a field has no verdict; let the command's exit code say what was found")
        lines = self._replay()
        history = self.all.history
        try:
            for end in (self.all.old, self.all.new):
                self.builder.plugin(self.all.stands_for(end))
        except Untestable as e:
            raise Usage(f"{end[:10]} cannot be tested: {e}") from e
        if self.question.find == "time":
            self._calibrate(lines)
        excluded, newest = self.all.excluded, self.all.stands_for(self.all.new)
        if newest == self.all.stands_for(self.all.old):
            raise NoDifference("both ends are built from the same")
        if newest not in history.index:  # it went back to what stood in front of the old end
            excluded, newest = excluded & ~(1 << len(history) - 1), self.all.new
        bayes = Bayes(history, excluded, self.error, may_be_wrong=self.question.find == "time")
        name = lambda c: self.all.old if c == bayes.before else history.commits[c]  # noqa: E731
        number = {name(c): c for c in bayes.hypotheses}
        new = number[newest]
        for line in lines:
            if "runs" in line and line["commit"] in number:
                bayes.observe(number[line["commit"]], line["runs"], line["found"])
                self.runs += line["runs"]
        enough = math.ceil(math.log(self.error) / math.log1p(-FEWEST))
        log = BisectLog(os.path.join(self.all.folder, "bisect-noisy.log"), self.all.repository,
                        self.all.fixed)
        built = {bayes.before, new}
        while not self._seen(bayes) or not bayes.done():
            commit, runs = bayes.choose(built)
            if not self._seen(bayes):  # the new end first: what does not show there is not looked for
                commit, runs = new, 10
                if bayes.runs.get(new, (0, 0))[0] >= enough:
                    raise NoDifference(f"{self.all.new[:10]} did not show it in {bayes.runs[new][0]} runs; a fault that shows "
                                       f"in {FEWEST:.0%} of runs would have been seen with probability {1 - self.error:g}")
            total = found = 0
            try:
                while total < runs and not found:
                    found += self._one(name(commit))
                    total += 1
            except Untestable as e:
                bayes.skip(commit)
                log.answer(name(commit), UNTESTABLE, str(e))
                continue
            built.add(commit)
            bayes.observe(commit, total, found)
            self._record(commit=name(commit), runs=total, found=int(found))
            best, likely = bayes.answer()
            log.note(f"runs {name(commit)} {total} found {int(found)}")
            self.all.say(f"  {name(commit)[:10]} shown in {int(found)} of {total} runs; {name(best[0])[:10]} "
                         f"{'and like ' if len(best) > 1 else ''}{likely:.4f}")
        group, posterior = bayes.answer()
        commits = [name(h) for h in group]
        if bayes.before not in group:
            log.answer(self.all.old, OLD)
            log.answer(self.all.new, NEW)
            for h in group if len(group) == 1 else ():
                for parent in history.parents[h] or ():
                    log.answer(history.commits[parent], OLD)
                log.answer(name(h), NEW, f"posterior {posterior:.4f}, {self.runs} runs")
            log.end(commits)
        return Likely(commits, posterior, bayes.p, self.runs, log.path, self.threshold, bayes.before in group)

    def _seen(self, bayes):
        return any(found for _, found in bayes.runs.values())
