"""Histories at random for the tests: a trunk, branches merged into it, stretches that cannot be tested."""
from assay_bisect.history import History

BRANCHES = 0.08  # the share of commits that a branch begins at: no tolerance, a shape of history


def random_history(draw, count):
    """A History of `count` commits behind an old end that is none of them."""
    names, parents = [], {}

    def commit(own):
        names.append(f"c{len(names)}")
        parents[names[-1]] = own
        return names[-1]

    tip = commit(["old"])
    while len(names) < count:
        if draw.random() < BRANCHES:
            side = tip
            for _ in range(draw.randint(1, 8)):
                side = commit([side])
            for _ in range(draw.randint(0, 5)):
                tip = commit([tip])
            tip = commit([tip, side])
        else:
            tip = commit([tip])
    return History(names, parents)


def random_stretches(draw, count):
    """Numbers of commits that cannot be tested; never the last one."""
    broken = set()
    for _ in range(draw.randint(1, 3)):
        first = draw.randrange(count - 1)
        broken |= set(range(first, min(count - 1, first + draw.randint(1, 25))))
    return broken
