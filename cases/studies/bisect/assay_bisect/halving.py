"""The search where each commit answers for certain: `new` (it shows the change), `old` (it does not), or not
at all."""
import math

from .history import members

OLD, NEW, UNTESTABLE = "old", "new", "untestable"
LOOKED_AT = 10


class Halving:
    """The candidates that remain. `excluded`: commits that cannot have brought the change, since what is
    built of them is
    what is built of a parent."""

    def __init__(self, history, excluded=0):
        self.history = history
        self.remaining = history.everything() & ~excluded
        self.untestable = 0
        self.answers = {}
        self._counted = {}
        self.budget = max(0, len(history) - 1).bit_length()  # answers left of ceil(log2 n)

    def copy(self):
        other = Halving.__new__(Halving)
        other.history, other.remaining, other.untestable = self.history, self.remaining, self.untestable
        other.answers, other._counted, other.budget = dict(self.answers), {}, self.budget
        return other

    def answer(self, commit, state):
        self.answers[commit] = state
        if state != UNTESTABLE and self.splits(commit):
            self.budget -= 1
        self._counted = {}
        if state == NEW:
            self.remaining &= self.history.ancestors[commit]
        elif state == OLD:
            self.remaining &= ~self.history.ancestors[commit]
        else:
            self.untestable |= 1 << commit

    def splits(self, commit):
        """How many candidates would remain if the commit showed the change; 0 where its answer would say
        nothing."""
        if commit not in self._counted:
            inside = (self.remaining & self.history.ancestors[commit]).bit_count()
            self._counted[commit] = inside if inside < self.remaining.bit_count() else 0
        return self._counted[commit]

    def open(self):
        """The commits whose answer is wanted: candidates that split the rest and are not known to be
        untestable. Where there
        is none left, other commits that split it: one on another branch, behind some of the candidates
        only."""
        inside = [c for c in members(self.remaining & ~self.untestable) if self.splits(c)]
        outside = self.history.everything() & ~self.untestable & ~self.remaining
        return inside or [c for c in members(outside) if self.splits(c)]

    def choose(self):
        """The commit to ask next, None when all is said that can be said.

        The most information for each build: the entropy of the split, times the chance that the commit can be
        tested. That
        chance is unknown; what does not build comes in stretches, so that it grows with the distance to the
        nearest commit
        known to be untestable: d / (d + 0.3) at a distance of d commits. Branches beside each other cannot
        always be halved:
        of the LOOKED_AT best, one comes first behind either of whose answers a split is left that keeps
        within ceil(log2 n)
        answers in all."""
        total = self.remaining.bit_count()
        broken = list(members(self.untestable))
        ranked = []
        for c in self.open():
            share = self.splits(c) / total
            worth = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
            if broken:
                distance = min(abs(c - b) for b in broken)
                worth *= distance / (distance + 0.3)
            ranked.append((-worth, c))
        ranked.sort()
        for _, c in ranked[:LOOKED_AT]:
            if all(self._after(c, state)._best_side() <= 1 << max(0, self.budget - 2)
                   for state in (NEW, OLD)):
                return c
        return ranked[0][1] if ranked else None

    def _after(self, commit, state):
        other = self.copy()
        other.answer(commit, state)
        return other

    def _best_side(self):
        """The larger side of the most even split that is left."""
        total = self.remaining.bit_count()
        return min((max(self.splits(c), total - self.splits(c)) for c in self.open()), default=0)

    def wanted(self, count):
        """Up to `count` commits to ask side by side: the next one, and those that would be next behind its
        answers."""
        found, states = [], [self]
        while states and len(found) < count:
            following = []
            for state in states:
                choice = state.choose()
                if choice is None:
                    continue
                if choice not in found:
                    found.append(choice)
                following += [state._after(choice, outcome) for outcome in (NEW, OLD)]
            states = following
        return found[:count]

    def culprits(self):
        return list(members(self.remaining))
