"""The search where an answer is only likely: a fault that shows in some runs, a time that varies.

Hypothesis h is the commit that brought the fault, or `before` (the old end has it already). A run of commit c
finds it with probability p where h is among c and its ancestors, and with probability f elsewhere. p, and f
where a run may find what is not there, are unknown: both have a prior on a grid, and the posterior is over
(h, p, f) together. A search ends when one hypothesis, or a set that no testable commit tells apart, has a
posterior of 1 - error. By Bayes' theorem that is the probability that it is right, given that p is the same
at every commit that has the fault and lies within the grid."""
import math

from .history import intervals, members

# p: 1 % to 67 % in steps of 30 %, and nearly always
RATES = [0.01 * 1.3 ** i for i in range(17)] + [0.8, 0.95, 0.999]
FALSE = [0.001, 0.01, 0.03, 0.1, 0.2, 0.35]  # f, where a run may be wrong about a commit without the fault
FEWEST = RATES[0]  # a fault that shows less often is not looked for
MOST_RUNS = 24  # of one commit before the next is chosen


def entropy(p):
    return 0.0 if p <= 0 or p >= 1 else -p * math.log2(p) - (1 - p) * math.log2(1 - p)


class Bayes:
    """Candidates 0..n-1 as in History; n is `before`, and as a commit it is the old end."""

    def __init__(self, history, excluded=0, error=0.01, may_be_wrong=False, untestable=0):
        self.history, self.error = history, error
        self.before = len(history)
        self.grid = [(p, f) for p in RATES for f in FALSE
                     if p > f] if may_be_wrong else [(p, 0.0) for p in RATES]
        allowed = [h for h in range(self.before + 1) if not excluded >> h & 1]
        self.hypotheses = allowed
        self.place = {h: i for i, h in enumerate(allowed)}
        self.shows = {}  # commit -> intervals of places of the hypotheses under which it has the fault
        for c in allowed:
            own = (history.ancestors[c] if c < self.before else 0) | 1 << self.before
            bits = 0
            for h in members(own & ~excluded):
                bits |= 1 << self.place[h]
            self.shows[c] = intervals(bits)
        self.untestable = untestable
        # weight[g][i]: the joint posterior of grid point g and hypothesis i, up to a common factor
        self.weight = [[1.0] * len(allowed) for _ in self.grid]
        self.runs = {}  # commit -> (runs, of which found)
        self._totals()

    def _totals(self):
        largest = max(max(row) for row in self.weight)
        if not largest > 0:
            raise ArithmeticError("the answers contradict each other: the old end shows what must not be there, or no "
                                  "commit can have brought what was seen")
        scale = 1.0 / math.fsum(math.fsum(row) for row in self.weight)
        self.weight = [[w * scale for w in row] for row in self.weight]
        self.posterior = [math.fsum(column) for column in zip(*self.weight)]
        mass = [math.fsum(row) for row in self.weight]
        self.p = math.fsum(m * p for m, (p, _) in zip(mass, self.grid))
        self.f = math.fsum(m * f for m, (_, f) in zip(mass, self.grid))

    def observe(self, commit, runs, found):
        """`found` of `runs` runs of the commit showed the fault."""
        total, seen = self.runs.get(commit, (0, 0))
        self.runs[commit] = (total + runs, seen + found)
        shown = self.shows[commit]
        for row, (p, f) in zip(self.weight, self.grid):
            with_fault = p ** found * (1 - p) ** (runs - found)
            without = f ** found * (1 - f) ** (runs - found)
            at = 0
            for first, end in shown + [(len(row), len(row))]:
                for i in range(at, first):
                    row[i] *= without
                for i in range(first, end):
                    row[i] *= with_fault
                at = end
        self._totals()

    def skip(self, commit):
        self.untestable |= 1 << commit

    def choose(self, built=(), build_cost=1.0):
        """(commit, runs): the most information for its cost; a build that is not there yet costs `build_cost`
        runs."""
        sums, total = [0.0], 0.0
        for w in self.posterior:
            total += w
            sums.append(total)
        best, choice = -1.0, None
        # As many runs as halve the doubt whether the fault is there.
        runs = min(MOST_RUNS, max(1, math.ceil(math.log(0.5) / math.log1p(-min(self.p, 0.999)))))
        p, f = 1 - (1 - self.p) ** runs, 1 - (1 - self.f) ** runs
        if self.f > 0:  # a majority of runs is what speaks then, and one by one is as good
            runs, p, f = 1, self.p, self.f
        known = entropy(p), entropy(f)
        for c in self.hypotheses:
            if self.untestable >> c & 1:
                continue
            mass = math.fsum(sums[end] - sums[first] for first, end in self.shows[c])
            gain = entropy(mass * p + (1 - mass) * f) - mass * known[0] - (1 - mass) * known[1]
            worth = gain / (runs + (0 if c in built else build_cost))
            if worth > best:
                best, choice = worth, c
        return choice, runs

    def answer(self):
        """(hypotheses, posterior): the most likely hypothesis and those that no testable commit tells from
        it."""
        best = max(range(len(self.hypotheses)), key=lambda i: self.posterior[i])
        testable = [c for c in self.hypotheses if not self.untestable >> c & 1]
        like = set(range(len(self.hypotheses)))
        for c in testable if self.untestable else []:
            inside = {i for first, end in self.shows[c] for i in range(first, end)}
            like &= inside if best in inside else like - inside
        group = sorted(like) if self.untestable else [best]
        return [self.hypotheses[i] for i in group], math.fsum(self.posterior[i] for i in group)

    def done(self):
        return self.answer()[1] >= 1 - self.error
