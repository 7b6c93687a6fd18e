"""Which steps are watched: every n-th of its kind, n from watched and other steps measured in turn."""
import collections
import math
import statistics

IN_TURN = 6  # steps of a kind behind its first that are watched in turn with others, to measure both
KEPT = 9  # durations of a kind that its medians are of
MOST_EVERY = 1 << 20


class Kind:
    """Steps of about one size. `every`: n, 0 as long as it is not known."""

    def __init__(self):
        self.count, self.since = 0, 0
        self.watched, self.others = (collections.deque(maxlen=KEPT) for _ in range(2))
        self.every = 0


class Steps:
    """`share`: of the steps' own time at most this much more is spent by watching. `every`: n, where it is
    given; then nothing is
    measured. A step that is called for (call()) is watched whatever n is."""

    def __init__(self, share=0.05, every=None):
        self.share, self.every, self.kinds = share, every, {}
        self.called, self.count, self.watched, self.why = "", 0, 0, {}
        self.seconds, self.more = 0.0, 0.0  # of all steps, and of them what watching cost, as far as it was measured

    def begin(self, size):
        """Whether the step that begins is watched. size: of what it is given, a whole number; steps within a
        power of two are
        one kind."""
        kind = self.kinds.setdefault(max(1, int(size)).bit_length(), Kind())
        number, kind.count, self.count = kind.count, kind.count + 1, self.count + 1
        kind.since += 1
        if self.called:
            why, self.called = self.called, ""
        elif number == 0:
            why = "the first of its kind"
        elif self.every:
            why = "every n-th" if kind.since >= self.every else ""
        elif number <= IN_TURN:
            why = "to measure" if number % 2 == 0 else ""
        else:
            why = "every n-th" if kind.every and kind.since >= kind.every else ""
        if why:
            kind.since = 0
            self.watched += 1
            self.why[why] = self.why.get(why, 0) + 1
        self._now = kind, bool(why), number
        return bool(why)

    def end(self, seconds):
        """The step took so long."""
        kind, watched, number = self._now
        self.seconds += seconds
        if watched and kind.others:
            self.more += max(0.0, seconds - statistics.median(kind.others))
        if number == 0:
            return  # what is done once is done in it
        (kind.watched if watched else kind.others).append(seconds)
        if kind.watched and kind.others and number >= IN_TURN:
            one = statistics.median(kind.others)
            more = statistics.median(kind.watched) - one
            kind.every = max(1,
                             min(MOST_EVERY, math.ceil(more / (self.share * one)))) if one > 0 else MOST_EVERY

    def call(self, why):
        """The next step is watched, for this reason."""
        self.called = why

    def as_json(self):
        rows = [{"size": f"{1 << (bits - 1)}..{(1 << bits) - 1}", "steps": kind.count,
                 "every": self.every or kind.every or None,
                 "seconds": statistics.median(kind.others) if kind.others else None,
                 "seconds_watched": statistics.median(kind.watched) if kind.watched else None}
                for bits, kind in sorted(self.kinds.items())]
        return {"steps": self.count, "watched": self.watched, "why": dict(self.why), "kinds": rows,
                "share": self.share,
                "seconds": self.seconds, "more_seconds": self.more}
