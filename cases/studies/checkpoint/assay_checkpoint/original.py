"""Against the original: what the stored codes lose, what the format would lose at best, and the cause where
that is much more.

Errors are |w - x| / |x| in the 2-norm over a module (w: what the bytes stand for, x: the original).
    stored   of the codes as they are
    nearest  of the nearest code under the stored scales
    best     of the nearest code under the best of a few scales for each group: SEARCH times the one that
    holds the largest
A step twice as wide doubles the error and is what one bit less would leave, so that the loss is told in bits:
log2(stored / best)."""
import numpy as np
from assay import library

from assay_checkpoint.layouts import AWQ_ORDER
from assay_checkpoint.schemes import Finding

SEARCH = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)
# Quantisers that make up for errors of earlier codes in later ones (GPTQ: a third of a bit, in the test), or
# clip for the outputs' sake, lose more of the weights themselves than rounding does. A named cause is a
# finding from one bit on, none from two.
ONE_BIT, TWO_BITS = 2.0, 4.0
# Half a unit of a scale's type: a packer that divided by the scale before it was stored had a quotient this
# much off.
UNIT = {"bf16": 2.0 ** -8, "f16": 2.0 ** -11, "f32": 2.0 ** -22, "e4m3fn": 2.0 ** -22, "e8m0": 2.0 ** -22}


class Sums:
    """Squares of errors and of the original, added up chunk by chunk."""

    def __init__(self):
        self.of = {}
        self.norm = 0.0

    def add(self, name, error):
        self.of[name] = self.of.get(name, 0.0) + float(np.sum(error * error))

    def relative(self, name):
        return float(np.sqrt(self.of[name] / self.norm)) if self.norm else 0.0


def nearest(numbers, x):
    """The nearest of sorted numbers to each x; a tie goes to either."""
    if len(numbers) == numbers[-1] - numbers[0] + 1:  # whole ones
        return np.clip(np.rint(x), numbers[0], numbers[-1])
    between = (numbers[1:] + numbers[:-1]) / 2
    return numbers[np.searchsorted(between, x, side="right")]


def _grouped(x, column, groups, how):
    """`how` (a ufunc) over the columns of each group: [rows, groups]."""
    if np.all(np.diff(column) >= 0):
        starts = np.searchsorted(column, np.arange(groups))
        return how.reduceat(x, np.minimum(starts, x.shape[1] - 1), axis=1)
    out = np.full((x.shape[0], groups), -np.inf if how is np.maximum else np.inf if how is np.minimum
                  else 0.0)
    how.at(out.T, column, x.T)
    return out


def _by_rows(of_rows, group, how):
    """`how` over the rows of each group; group: of each row, in order."""
    return how.reduceat(of_rows, np.flatnonzero(np.diff(group, prepend=group[0] - 1)), axis=0)


class Format:
    """The numbers that a group may hold under any scale."""

    def __init__(self, parts):
        self.numbers = np.unique(parts.table[np.isfinite(parts.table)]) + 0.0
        self.asymmetric = parts.zeros is not None

    def under(self, x, scale, zero=None):
        """x rounded to the nearest number of the format under these scales (and zero points)."""
        with np.errstate(all="ignore"):
            quotient = np.where(scale > 0, x / scale, 0.0)
        if zero is None:
            return nearest(self.numbers, quotient) * scale
        return (nearest(self.numbers, quotient + zero) - zero) * scale


class Search:
    """The scales of the groups in one span, by the largest element of each and SEARCH, and the squares of the
    errors under them."""

    def __init__(self, parts, form, span, numbers):
        self.parts, self.form, self.first = parts, form, span[0][0] // parts.rows_per
        shape = (-(-span[-1][1] // parts.rows_per) - self.first, parts.scales.shape[1])
        ends = np.zeros((3, *shape))
        for chunk in span:
            x, group = numbers(*chunk), self._group(*chunk)
            for end, each in zip(ends, (np.abs(x), x, -x)):
                rows = np.unique(group)
                end[rows] = np.maximum(end[rows], _by_rows(_grouped(each, parts.column, shape[1], np.maximum),
                                                           group, np.maximum))
        stored = parts.scales[self.first:self.first + shape[0]]
        with np.errstate(all="ignore"):
            coarse = parts.factor(*span[0])[:1] / stored[:1] if parts.second is not None else np.ones((1, 1))
        coarse = float(np.nanmax(np.where(np.isfinite(coarse), coarse, 0))) or 1.0
        self.scales = [self._scales(ends * factor, coarse) for factor in SEARCH]
        self.squares = np.zeros((len(SEARCH), *shape))

    def _group(self, first, last):
        return np.arange(first, last) // self.parts.rows_per - self.first

    def _scales(self, ends, coarse):
        """(scales, zero points or None) that reach the ends."""
        form = self.parts.scale_form
        numbers = self.form.numbers
        width = (np.maximum(ends[1], 0) + np.maximum(ends[2], 0)) / (numbers[-1] - numbers[0])
        ideal = width if self.form.asymmetric else ends[0] / numbers[-1]
        if form == "e8m0":
            return 2.0 ** np.ceil(np.log2(np.maximum(ideal, 2.0 ** -126))), None
        scale = library.round_to(form, (ideal / coarse).astype(np.float32)) * coarse
        if not self.form.asymmetric:
            return scale, None
        with np.errstate(all="ignore"):
            zero = np.where(scale > 0, np.rint(np.maximum(ends[2], 0) / scale) + numbers[0], 0.0)
        return scale, np.clip(zero, numbers[0], numbers[-1])

    def add(self, x, first, last):
        group, column = self._group(first, last), self.parts.column
        rows = np.unique(group)
        for squares, (scale, zero) in zip(self.squares, self.scales):
            error = x - self.form.under(x, scale[group][:, column],
                                        None if zero is None else zero[group][:, column])
            squares[rows] += _by_rows(_grouped(error * error, column, squares.shape[1], np.add), group,
                                      np.add)

    def best(self):
        return float(self.squares.min(axis=0).sum()), float(self.squares[0].sum())


class Compared:
    """A module beside its original: error, nearest, best (relative), and what was seen of the rounding."""

    def __init__(self, parts, original, rows=None, columns=None):
        sums, form, squares = Sums(), Format(parts), np.zeros(2)
        unit = UNIT.get(parts.scale_form, 2.0 ** -8)
        self.count = self.clipped = 0
        self.fits = {"nearest": 0, "toward zero": 0, "down": 0, "away from zero": 0}

        def numbers(first, last):
            x = original.numbers(first, last)
            return x if columns is None else x * columns

        for span in parts.spans(rows):
            search = Search(parts, form, span, numbers)
            for first, last in span:
                x = numbers(first, last)
                search.add(x, first, last)
                scale = np.nan_to_num(parts.factor(first, last), nan=0.0, posinf=0.0,
                                      neginf=0.0)[:, parts.column]
                zero = (
                    None
                    if parts.zeros is None
                    else parts.zeros[np.arange(first, last) // parts.rows_per][:, parts.column]
                )
                steps = np.nan_to_num(parts.steps(first, last), nan=0.0, posinf=0.0, neginf=0.0)
                with np.errstate(all="ignore"):
                    quotient = np.where(scale > 0, x / scale, 0.0)
                sums.norm += float(np.sum(x * x))
                rounded = form.under(x, scale, zero)
                sums.add("stored", steps * scale - x)
                sums.add("nearest", rounded - x)
                low, high = form.numbers[0] - (0 if zero is None
                                               else zero), form.numbers[-1] - (0 if zero is None else zero)
                out = (quotient > high + 0.5) | (quotient < low - 0.5)
                self.clipped += int(np.count_nonzero(out))
                sums.add("inside", (steps * scale - x)[~out])
                self.count += x.size
                if np.array_equal(steps * scale, rounded):
                    self.fits["nearest"] += x.size
                elif parts.element.startswith("int"):
                    self._of_integers(steps, quotient, low, high, unit)
                else:
                    self._of_floats(steps, quotient, form, unit)
            squares += search.best()
        self.inside = sums.relative("inside")
        self.error, self.nearest = sums.relative("stored"), sums.relative("nearest")
        best, self.absmax = np.sqrt(squares / sums.norm) if sums.norm else (0.0, 0.0)
        self.best, self.norm = min(float(best), self.nearest), sums.norm

    def _of_integers(self, steps, quotient, low, high, unit):
        ends = [quotient * (1 - unit), quotient * (1 + unit)]
        for name, of in (("nearest", np.rint), ("toward zero", np.trunc), ("down", np.floor),
                         ("away from zero", lambda q: np.sign(q) * np.ceil(np.abs(q)))):
            near = [np.clip(of(q), low, high) for q in ends]
            ok = (steps >= np.minimum(*near)) & (steps <= np.maximum(*near))
            if name == "nearest":  # a tie may go to either
                ok |= np.abs(steps - quotient) == 0.5
            self.fits[name] += int(np.count_nonzero(ok))

    def _of_floats(self, steps, quotient, form, unit):
        numbers = form.numbers
        for name in ("nearest", "toward zero"):
            near = []
            for q in (quotient * (1 - unit), quotient * (1 + unit)):
                if name == "nearest":
                    near.append(nearest(numbers, q))
                else:
                    at = np.clip(np.searchsorted(numbers[numbers >= 0], np.abs(q), side="right") - 1, 0, None)
                    near.append(np.copysign(numbers[numbers >= 0][at], q))
            low, high = np.minimum(*near), np.maximum(*near)
            ok = (steps >= low) & (steps <= high)
            if name == "nearest":  # a tie may go to either
                ok |= np.abs(np.abs(steps - quotient) - np.abs(near[0] - quotient)) <= np.abs(quotient) * 2.0 ** -20
            self.fits[name] += int(np.count_nonzero(ok))

    @property
    def bits_lost(self):
        return float(np.log2(self.error / self.best)) if self.best > 0 and self.error > 0 else 0.0


def _error_of(values, x):
    norm = float(np.sum(x * x))
    difference = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0) - x
    return float(np.sqrt(np.sum(difference * difference) / norm)) if norm else 0.0


def _other_nibbles(parts):
    """Codes with the nibbles of each byte in the other order, along the axis that a byte goes."""
    def turned(codes):
        return codes.reshape(*codes.shape[:-1], -1, 2)[..., ::-1].reshape(codes.shape)
    return turned


def _other_words(to_awq):
    """Codes of words read in the other of the two orders."""
    order = np.array(AWQ_ORDER)
    places = order if to_awq else np.argsort(order)

    def turned(codes):
        return codes.reshape(*codes.shape[:-1], -1, 8)[..., places].reshape(codes.shape)
    return turned


def causes(parts, original, rows):
    """(name, kind, error) of each other reading of the same bytes, on some rows."""
    first, last = rows
    x = original.numbers(first, last)
    width = parts.shape[1]
    found = []

    def tried(kind, name, values):
        if values.shape == x.shape:
            found.append((_error_of(values, x), kind, name))

    numbers, factor = parts.table, parts.factor(first, last)[:, parts.column]
    codes = parts.codes_of(first, last)
    zeros = (
        0.0 if parts.zeros is None else parts.zeros[np.arange(first, last) // parts.rows_per][:, parts.column]
    )
    if parts.bits == 4:
        along = codes.T if parts.layout in ("awq", "int4 by rows") else codes
        back = (lambda c: c.T) if along is not codes else (lambda c: c)
        if along.shape[1] % 2 == 0:
            tried("order", "the nibbles of a byte are in the other order",
                  (numbers[back(_other_nibbles(parts)(along))] - zeros) * factor)
        if along.shape[1] % 8 == 0 and parts.layout in ("words", "awq", "gptq", "quark words"):
            for to_awq in (True, False):
                name = "words of eight are in AWQ's order (0 2 4 6 1 3 5 7)" if to_awq else "words of eight are in plain order"
                tried("order", f"{name}, and are read in the other",
                      (numbers[back(_other_words(to_awq)(along))] - zeros) * factor)
    if parts.element.startswith(("int", "uint")):
        half = 1 << parts.bits - 1
        tried("order", f"codes have {half} added (or are two's complement), and are read as the other",
              (numbers[codes ^ half] - zeros) * factor)
        for off in (1, -1):
            tried("zero_point", f"zero points are off by {off:+d} (GPTQ's first version stores them less 1)",
                  (numbers[codes] - zeros - off) * factor)
        if parts.zeros is not None:
            tried("zero_point", "zero points are there, and the codes were made without",
                  numbers[codes] * factor)
    if parts.scales.shape[1] > 1:
        turned = parts.scales.reshape(parts.scales.shape[1], parts.scales.shape[0]).T
        tried("axis", "scales are stored transposed", parts.having(scales=turned).values(first, last))
        tried("axis", "groups of a row are in reverse order",
              parts.having(scales=parts.scales[:, ::-1]).values(first, last))
    if parts.shape[0] == width and parts.strategy == "channel":
        tried("axis", "scales are per input channel, and are read per output channel",
              (numbers[codes] - zeros) * parts.scales.reshape(1, -1))
    if parts.second is not None:
        tried("global", "the scale of the tensor is stored inverted",
              parts.having(divides=not parts.divides).values(first, last))
    values = parts.values(first, last)
    norm = float(np.nansum(values * values))
    if norm > 0 and np.isfinite(norm):
        by = float(np.nansum(values * x)) / norm
        if by > 0:
            says, power = f"all weights are to be multiplied with {by:.4g}", int(np.rint(np.log2(by)))
            # what the codes' own errors leave open
            if abs(by / 2.0 ** power - 1) <= _error_of(values * by, x):
                says += f" (2^{power}: as e4m3fn read as e4m3fnuz is, or an exponent off by one)"
            tried("factor", says, values * by)
    # Of those that explain it the first: what is named closer stands in front.
    least = min((error for error, _, _ in found), default=0.0)
    return [cause for cause in found if cause[0] <= ONE_BIT * least]


def columns_of(parts, original, rows):
    """The factor of each input channel that lies between the weights and their original, as AWQ and
    SmoothQuant put it there: least
    squares over some rows. None where it is one everywhere within a step."""
    first, last = rows
    x, w = original.numbers(first, last), np.nan_to_num(parts.values(first, last), nan=0.0, posinf=0.0,
                                                        neginf=0.0)
    with np.errstate(all="ignore"):
        factors = np.sum(w * x, axis=0) / np.sum(x * x, axis=0)
    factors = np.where(np.isfinite(factors) & (factors > 0), factors, 1.0)
    return factors


def judge(parts, original, rows=None):
    """(Compared, findings). original: a Stored of the module's shape."""
    if original.rows != parts.shape:
        return None, [Finding("shape", parts.module,
                              f"the original is {original}, and the weights are {list(parts.shape)}")]
    compared = Compared(parts, original, rows)
    found = []
    near, far = compared.fits["nearest"], compared.count

    def says(kind, what, note=False):
        found.append(Finding(kind, parts.module, what, note))

    bits = f"stored {compared.error:.3g}, nearest code {compared.nearest:.3g}, best {compared.best:.3g}"
    for name in ("toward zero", "down", "away from zero"):
        if compared.fits[name] == far and near < far and compared.error > compared.nearest:
            says("rounding",
                 f"every code is x / scale rounded {name} ({100 * near / far:.0f} % are the nearest): {bits}")
            return compared, found
    if compared.error <= ONE_BIT * compared.best:
        return compared, found
    sample = parts.chunks(rows, 1 << 18)[0]
    if compared.clipped and compared.inside <= ONE_BIT * compared.best and compared.error > ONE_BIT * compared.absmax:
        says("clipped",
             f"{compared.clipped} of {far} weights ({100 * compared.clipped / far:.2g} %) are beyond the ends, and are all that "
             f"is lost; a scale that holds the largest would lose {compared.absmax:.3g}: {bits}")
        return compared, found
    other = causes(parts, original, sample)
    here = _error_of(parts.values(*sample), original.numbers(*sample))
    if other and other[0][0] * ONE_BIT < here and other[0][0] <= TWO_BITS * compared.best:
        error, kind, name = other[0]
        says(kind, f"{name}: the error is {error:.3g} so, and {here:.3g} as declared (best {compared.best:.3g})")
        return compared, found
    # Whether a factor for each input channel explains it is asked of rows that did not fit it.
    fitted = columns_of(parts, original, sample)
    if len(original.numbers(*sample)) >= 16 and np.ptp(fitted) > 0:
        smoothed = Compared(parts, original, rows, fitted)
        if smoothed.error * ONE_BIT < compared.error and smoothed.error <= ONE_BIT * smoothed.best:
            says("factor",
                 f"input channels are scaled by {fitted.min():.3g} to {fitted.max():.3g}, as AWQ and SmoothQuant do, who put the "
                 f"inverse into the layer before; behind that: stored {smoothed.error:.3g}, best {smoothed.best:.3g}", note=True)
            return smoothed, found
    if compared.error > TWO_BITS * compared.best:
        says("error", f"{compared.bits_lost:.1f} bits are lost, and no cause is found: {bits}")
    else:
        says("error",
             f"{compared.bits_lost:.1f} bits are lost; quantisers that make up for errors (GPTQ) lose some: {bits}", note=True)
    return compared, found
