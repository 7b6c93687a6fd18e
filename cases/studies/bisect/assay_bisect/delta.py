"""Delta debugging: the smallest part of a difference that still makes the difference."""
from .problems import Untestable


def smallest(items, shows):
    """A part of `items` that shows the change, no element of which can be left out: ddmin (Zeller and
    Hildebrandt, Simplifying
    and isolating failure-inducing input, 2002). shows(part): True, False, or None where it cannot be tested.
    All of `items`
    must show it, and nothing of them must not. Takes at most about k log2(n) + k^2 tests for k elements that
    matter."""
    known = {}

    def asked(part):
        key = frozenset(part)
        if key not in known:
            try:
                known[key] = shows(part)
            except Untestable:
                known[key] = None
        return known[key]

    part, pieces = list(items), 2
    while len(part) >= 2:
        bounds = [len(part) * i // pieces for i in range(pieces + 1)]
        chunks = [part[a:b] for a, b in zip(bounds, bounds[1:])]
        for chunk in chunks:
            if len(chunk) < len(part) and asked(chunk):
                part, pieces = chunk, 2
                break
        else:
            for chunk in chunks:
                rest = [item for item in part if item not in chunk]
                if pieces > 2 and asked(rest):
                    part, pieces = rest, max(2, pieces - 1)
                    break
            else:
                if pieces >= len(part):
                    break
                pieces = min(len(part), 2 * pieces)
    return part
