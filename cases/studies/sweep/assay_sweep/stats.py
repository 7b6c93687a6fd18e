"""Intervals and thresholds of what sweeps count."""
import math
import random


def interval(right, needles, z=1.959964):
    """Wilson's 95 % interval of a proportion."""
    if needles == 0:
        return 0.0, 1.0
    p, n = right / needles, needles
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


# Student's 97.5 % quantiles for 1 to 30 degrees of freedom (standard tables); the normal's beyond.
T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120,
        2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def mean_interval(values):
    """Mean of repeated measurements and the half-width of its 95 % interval (Student); infinite for one."""
    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return mean, math.inf
    deviation = math.sqrt(sum((x - mean) ** 2 for x in values) / (n - 1))
    return mean, (T975[n - 2] if n <= 31 else 1.96) * deviation / math.sqrt(n)


def gap75(rungs):
    """The gap 2^-r at which 75 % are right, between rungs by straight lines; None where the ladder does not
    cross it.
    rungs: {r: (right, needles)}."""
    at = sorted((int(r), right / n) for r, (right, n) in rungs.items() if n > 0)
    for (a, high), (b, low) in zip(at, at[1:]):
        if high >= 0.75 > low:
            return 2.0 ** -(a + (b - a) * (high - 0.75) / (high - low))
    return None


def gap75_interval(rungs, draws=200):
    """The gap and the middle 95 % of what ladders drawn with the measured shares would give (the draws are
    always the same)."""
    source, gaps = random.Random(1), []
    for _ in range(draws):
        drawn = {r: (sum(source.random() < right / n for _ in range(n)), n)
                 for r, (right, n) in rungs.items() if n > 0}
        gap = gap75(drawn)
        if gap is not None:
            gaps.append(gap)
    gaps.sort()
    if len(gaps) < draws // 2:
        return gap75(rungs), None, None
    return gap75(rungs), gaps[int(0.025 * len(gaps))], gaps[int(0.975 * len(gaps))]


def pooled(rows, key):
    """Counts of several cells added: {rung: [right, needles]} or a list of [right, needles]."""
    if key == "rungs":
        total = {}
        for row in rows:
            for rung, (right, needles) in row.get("rungs", {}).items():
                at = total.setdefault(int(rung), [0, 0])
                at[0] += right
                at[1] += needles
        return total
    total = [[0, 0] for _ in range(max((len(row.get(key, ())) for row in rows), default=0))]
    for row in rows:
        for at, (right, needles) in zip(total, row.get(key, ())):
            at[0] += right
            at[1] += needles
    return total
