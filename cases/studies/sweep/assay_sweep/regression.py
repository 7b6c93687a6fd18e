"""Whether retrieval has got worse since the last good nights: a test with a stated error probability, never a
bare threshold.

Each series (cells that differ in their seed alone) gets, night by night, a number e whose expectation is at
most 1 as long as nothing has changed (an e-value):

  paired    cells that a good night measured with the same seed. A needle is lost when it was right then and
  is wrong now, or its
            answer's log-probability fell by more than NOTICED; gained the other way round. If nothing got
            worse, a needle that
            moves is lost with probability at most 1/2:  e = 2 int_(1/2)^1 (2t)^lost (2 (1-t))^gained dt.
            Assumed: needles that move without a cause do so independently. An engine that repeats its bits
            moves none.
  unpaired  other seeds: one number per seed, its share right (models are drawn anew, so they are
  exchangeable). Student's t of
            tonight's mean against those of all nights before, which makes the nights' p independent; made an
            e-value by
            e = (1 - p + p ln p) / (p ln^2 p), and no more than MOST: shares are not normal that far out.

The e-values of nights are combined by the Shiryaev-Roberts e-detector  M_t = (1 + M_(t-1)) e_t  (Shin,
Ramdas, Rinaldo 2024, arXiv 2203.03532), which forgets nothing of a slow decline and needs no start of the
change. M_t - t is a supermartingale, so within n nights a series reaches N n / a with probability at most a /
N; a night is reported when one of its N series does, with n = NIGHTS and a = ERROR: over NIGHTS unchanged
nights the probability of any report is at most ERROR."""
import bisect
import bisect
import math

from assay_sweep import line

NIGHTS, ERROR = 400, 0.05
NOTICED = 0.5  # nats
MOST = 1000.0
TINY = 1e-300  # in place of a 0 that would be divided by
PANEL = ("seed",)


def beta_tail(lost, gained):
    """int_(1/2)^1 t^lost (1-t)^gained dt 2^(lost + gained + 1), by the binomial form of the incomplete beta
    function, in logs."""
    n = lost + gained + 1
    # int_(1/2)^1 t^a (1-t)^b dt = B(a+1, b+1) P(Binomial(n, 1/2) <= a), n = a + b + 1
    log_terms = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(lost + 1)]
    most = max(log_terms)
    log_sum = most + math.log(sum(math.exp(t - most) for t in log_terms)) - n * math.log(2)
    log_beta = math.lgamma(lost + 1) + math.lgamma(gained + 1) - math.lgamma(n + 1)
    return math.exp(min(700.0, log_beta + log_sum + (lost + gained + 1) * math.log(2)))


def student_tail(t, freedom):
    """P(T > t) of Student's distribution, by the continued fraction of the incomplete beta function
    (Lentz)."""
    if t <= 0:
        return 1 - student_tail(-t, freedom) if t < 0 else 0.5
    a, b, x = freedom / 2, 0.5, freedom / (freedom + t * t)
    if x >= 1:
        return 0.5
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x)
                     + b * math.log1p(-x))
    if x > (a + 1) / (a + b + 2):
        return 0.5 * (1 - front * _fraction(b, a, 1 - x) / b)
    return 0.5 * front * _fraction(a, b, x) / a


def _fraction(a, b, x):
    c = 1.0
    d = 1 / (1 - (a + b) * x / (a + 1) or TINY)
    result = d
    for m in range(1, 500):
        for number in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                       -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d = 1 + number * d
            d = 1 / (d or TINY)
            c = 1 + number / c
            c = c or TINY
            result *= c * d
        if abs(c * d - 1) <= 2 ** -52:
            break
    return result


def calibrated(p):
    """An e-value from a p-value: the mixture of  k p^(k-1)  over k in (0, 1)."""
    p = min(max(p, TINY), 1 - 2 ** -40)  # at p = 1 the quotient is 0 / 0
    return (1 - p + p * math.log(p)) / (p * math.log(p) ** 2)


def moved(then, now):
    """(lost, gained) needles of one cell measured twice."""
    if not then.get("bits") or not now.get("bits") or len(then["bits"]) != len(now["bits"]):
        return 0, 0
    a, b = int(then["bits"], 16), int(now["bits"], 16)
    lost, gained = (a & ~b).bit_count(), (b & ~a).bit_count()
    size = 4 * len(then["bits"])
    for i, (x, y) in enumerate(zip(then.get("centinats", ()), now.get("centinats", ()))):
        place = 1 << (size - 1 - i)
        if (a & place) == (b & place):  # counted once
            lost += y < x - 100 * NOTICED
            gained += y > x + 100 * NOTICED
    return lost, gained


def lost_needles(then, now):
    """[(place in the prompt as a share of it, whether the needle was lost)] of the needles that were right
    then."""
    if not then.get("bits") or len(then["bits"]) != len(now.get("bits", "")) or "places" not in now:
        return []
    a, b = int(then["bits"], 16), int(now["bits"], 16)
    top = 4 * len(then["bits"]) - 1
    return [(at, not b >> (top - i) & 1) for i, at in enumerate(now["places"]) if a >> (top - i) & 1]


def located(pairs):
    """The stretch of the prompt that losses stand in: of all stretches [from, to] the one whose likelihood,
    with a rate of losses
    of its own inside and another outside, exceeds one rate everywhere by the most (Kulldorff's scan
    statistic). None unless the
    excess is above  ln(stretches / ERROR),  so that losses spread evenly point nowhere. It says where losses
    stand in a night that is
    reported, and reports nothing itself. -> (from, to, lost in it, needles in it)"""
    needles = sorted(place for then, now in pairs for place in lost_needles(then, now))
    total, lost = len(needles), [i for i, (_, gone) in enumerate(needles) if gone]
    if not lost:
        return None

    def likelihood(gone, of):
        return sum(k * math.log(k / of) for k in (gone, of - gone) if k)
    alone, best = likelihood(len(lost), total), (0.0, None)
    # The best stretch begins and ends where a run of losses does: one more lost neighbour raises the rate
    # inside and lowers the other.
    ends = [b for b, last in enumerate(lost) if last + 1 not in lost[b + 1:b + 2]]
    for a, first in ((a, first) for a, first in enumerate(lost) if a == 0 or lost[a - 1] + 1 != first):
        for b in ends[bisect.bisect_left(ends, a):]:
            inside, gone = lost[b] - first + 1, b - a + 1
            if gone * total > len(lost) * inside:
                gain = likelihood(gone, inside) + likelihood(len(lost) - gone, total - inside) - alone
                best = max(best, (gain, (needles[first][0], needles[lost[b]][0], gone, inside)))
    return best[1] if best[0] > math.log(total * (total + 1) / 2 / ERROR) else None


def paired_e(pairs):
    moves = [moved(then, now) for then, now in pairs]
    lost, gained = sum(m[0] for m in moves), sum(m[1] for m in moves)
    return beta_tail(lost, gained), lost, gained


def unpaired_e(before, tonight):
    """Shares (right / needles, needles) of single seeds. Needs three earlier ones; 1 where there is nothing
    to tell."""
    n, m = len(before), len(tonight)
    if n < 3 or m < 1:
        return 1.0
    mean, now = sum(x for x, _ in before) / n, sum(x for x, _ in tonight) / m
    # The spread of models, and no less than needles that are drawn one by one would have: a series may not
    # have varied yet.
    drawn = max(mean * (1 - mean), 0.01) * sum(1 / k for _, k in tonight) / m
    variance = max(sum((x - mean) ** 2 for x, _ in before) / (n - 1), drawn)
    return min(MOST, calibrated(student_tail((mean - now) / math.sqrt(variance * (1 / n + 1 / m)), n - 1)))


def split(rows):
    series = {}
    for row in rows:
        if "right" in row and row.get("needles"):
            series.setdefault(line.without(row["cell"], *PANEL), []).append(row)
    return series


class Detector:
    """Begins at the good nights' rows, and takes the nights since, oldest first."""

    def __init__(self, good_rows, nights=NIGHTS, error=ERROR):
        self.nights, self.error, self.state = nights, error, {}
        self.known = {row["cell"]: row for row in good_rows}  # the last good measurement of a cell
        self.shares = {}  # of other seeds, by series: those of the good nights, then each night's
        for name, rows in split(list(self.known.values())).items():
            self.shares[name] = [(row["right"] / row["needles"], row["needles"]) for row in rows]

    @property
    def threshold(self):
        return max(1, len(self.state)) * self.nights / self.error

    def night(self, rows):
        """{series: what was seen, its state, and whether it is reported}."""
        found = {}
        for name, now in split(rows).items():
            pairs = [(self.known[row["cell"]], row) for row in now if row["cell"] in self.known]
            fresh = [(row["right"] / row["needles"], row["needles"]) for row in now if row["cell"] not
                     in self.known]
            before = self.shares.setdefault(name, [])
            e, lost, gained = paired_e(pairs)
            e *= unpaired_e(before, fresh)
            before += fresh
            self.state[name] = min(1e300, (1 + self.state.get(name, 0.0)) * e)
            found[name] = {"e": e, "lost": lost, "gained": gained, "pairs": len(pairs), "fresh": len(fresh),
                           "before": len(before),
                           "right": sum(row["right"] for row in now),
                           "needles": sum(row["needles"] for row in now), "places": pairs}
        for name, row in found.items():
            row.update(state=self.state[name], threshold=self.threshold,
                       reported=self.state[name] >= self.threshold)
        worse = any(row["reported"] for row in found.values())
        for row in found.values():  # a series that shows where need not be the one that shows that
            pairs = row.pop("places")
            row["where"] = located(pairs) if worse else None
        return found


def accepted(changes, name):
    """The accepted change that covers a series: its words all stand in the series' name."""
    return next((c for c in changes if set(c["cells"].split()) <= set(name.split())), None)


def judge(store, run):
    """`run` and the nights of its kind between it and the last good one, against all good ones. None without
    a good night;
    else {series: what was seen}, with the accepted change that explains a report."""
    runs = [r for r in store.runs(run.get("kind")) if r["ended"] == "complete"
            and r["started"] <= run["started"]]
    good = [r for r in runs if r["good"] and r["run"] != run["run"]]
    if not good:
        return None
    detector = Detector([row for r in good for row in store.cells(r["run"]).values()])
    found = {}
    for night in runs:
        if night["started"] > good[-1]["started"] and (not night["good"] or night["run"] == run["run"]):
            found = detector.night(list(store.cells(night["run"]).values()))
    changes = store.accepted()
    return {name: {**row, "accepted": accepted(changes, name)} for name, row in found.items()}
