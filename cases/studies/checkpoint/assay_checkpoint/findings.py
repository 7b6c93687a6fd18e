"""What a checkpoint can have wrong, each kind in a line, and what is looked for in a module without the
original beside it."""
import numpy as np

from assay_checkpoint.schemes import Finding

KINDS = {
    "metadata": "the metadata contradicts itself, or a loader takes another branch for it",
    "pattern": "a name that leaves modules out, or takes them in, fits none, or fits what is stored otherwise",
    "scheme": "the metadata makes an engine choose another scheme than the bytes have",
    "fused": "modules that engines fuse into one (q, k, v; gate, up) are not all quantised, or not alike",
    "index": "the index and the files disagree",
    "missing": "a tensor that the scheme needs is not there, or under another name",
    "dtype": "a tensor has another type than its scheme has",
    "shape": "the shapes of codes, scales and zero points do not fit each other",
    "group": "a group size that does not divide the row, or another one than declared",
    "axis": "scales lie along another axis than the codes' output channels",
    "swapped": "two scales have each other's names",
    "scale": "a scale is NaN, infinite, negative, or zero over codes that are not",
    "global": "the scale of a whole tensor is inverted: multiplied where it divides, or the other way round",
    "zero_point": "zero points that the metadata does not admit, or beyond the codes",
    "code": "codes that are NaN, or all one",
    "saturated": "more codes at the ends than a flat distribution would have: clipped",
    "range": "weights of a size that no trained layer has",
    "plain": "a tensor that is not quantised has NaN or infinities",
    "order": "against the original: codes lie in another order than the layout has",
    "rounding": "against the original: every code is x / scale cut off, or rounded up, and not to nearest",
    "clipped": "against the original: outliers are clipped, and that costs more than it saves",
    "factor": "against the original: all weights are off by one factor",
    "error": "against the original: more than a bit is lost, and no cause is found",
}

# Largest magnitudes of trained layers: initialised at about 1 / sqrt(inputs) (2^-3 to 2^-8, of which the
# largest of a million is five times as far out), grown to hundreds at most. Beyond them by the same again
# nothing is a trained layer.
SMALLEST, LARGEST = 2.0 ** -10, 2.0 ** 10
MODEST = 0.5  # the middle of that


class Seen:
    """What one pass over a module's codes and scales has counted."""

    def __init__(self, parts, rows=None):
        self.elements = self.saturated = self.nan_codes = self.lost = 0
        self.absmax = 0.0
        finite = parts.table[np.isfinite(parts.table)]
        ends = (
            [finite.max()]
            if parts.zeros is None and -finite.max() in finite
            else [finite.max(), finite.min()]
        )
        top = np.isin(np.abs(parts.table), ends) if len(ends) == 1 else np.isin(parts.table, ends)
        if len(ends) == 1:  # codes beyond a symmetric quantiser's end, as -8 is, are at it too
            top |= np.abs(np.where(np.isfinite(parts.table), parts.table, 0)) > ends[0]
        used = np.zeros(len(parts.table), bool)
        for first, last in parts.chunks(rows):
            codes = parts.codes_of(first, last)
            used |= np.bincount(codes.reshape(-1), minlength=len(used))[:len(used)] > 0
            steps = parts.table[codes]
            self.nan_codes += int(np.count_nonzero(~np.isfinite(steps)))
            self.saturated += int(np.count_nonzero(top[codes]))
            if parts.zeros is not None:
                steps = steps - parts.zeros[np.arange(first, last) // parts.rows_per][:, parts.column]
            factor = parts.factor(first, last)[:, parts.column]
            self.lost += int(np.count_nonzero((factor == 0) & (steps != 0)))
            with np.errstate(all="ignore"):
                magnitude = np.abs(steps * factor)
            self.absmax = max(self.absmax, float(np.max(magnitude, initial=0, where=np.isfinite(magnitude))))
            self.elements += codes.size
        self.codes_used = int(np.count_nonzero(used))
        self.flat = _flat_share(parts, top)


def _flat_share(parts, top):
    """Of a distribution that is flat up to its ends, the share that is rounded to an end, and one element of
    each group, which the
    quantiser puts there. Weights are rarer at their ends than in the middle: more than this is clipped."""
    finite = np.unique(parts.table[np.isfinite(parts.table)])
    of_ends = np.unique(np.abs(finite)) if not np.any(top & (parts.table == finite.min())) or finite.min() == -finite.max() else finite
    end = np.max(of_ends)
    below = np.max(of_ends[of_ends < end]) if parts.zeros is None else end - 1
    share = (end - below) / 2 / end if parts.zeros is None else 1 / (len(finite) - 1)
    groups = parts.scales.size / max(1, parts.shape[0] * parts.shape[1])
    return share + groups * (1 if parts.zeros is None else 2)


def of_scales(parts, roles_name):
    """Findings about the scales alone."""
    found, where = [], f"{parts.module} scales"
    flat = parts.scales.reshape(-1)
    for word, bad in (("NaN", np.isnan(flat)), ("infinite", np.isinf(flat)), ("negative", flat < 0)):
        if bad.any():
            at = np.unravel_index(int(np.argmax(bad)), parts.scales.shape)
            found.append(Finding("scale", where,
                                 f"{int(bad.sum())} of {flat.size} are {word}, the first at {list(map(int, at))}"))
    smallest = {"f16": 2.0 ** -14, "bf16": 2.0 ** -126, "f32": 2.0 ** -126}.get(parts.scale_form)
    below = int(np.count_nonzero((flat > 0) & (flat < smallest))) if smallest else 0
    if below:
        found.append(Finding("scale", where,
                             f"{below} of {flat.size} are subnormal in {parts.scale_form}: fewer bits, and zero for "
                             "whoever flushes them", note=True))
    if parts.second is not None:
        bad = ~(np.isfinite(parts.second) & (parts.second > 0))
        if bad.any():
            found.append(Finding("global", f"{parts.module} {roles_name}",
                                 f"it is {float(parts.second[bad][0]):g}: no scale"))
    return found


def of_codes(parts, seen):
    found = []
    if seen.nan_codes:
        found.append(Finding("code", parts.module,
                             f"{seen.nan_codes} of {seen.elements} codes are NaN or infinite"))
    if seen.lost:
        found.append(Finding("scale", f"{parts.module} scales",
                             f"a scale of 0 stands over {seen.lost} codes that are not 0: their weights are lost"))
    if seen.codes_used == 1 and seen.elements > 1:
        found.append(Finding("code", parts.module, f"all {seen.elements} codes are one and the same"))
    elif seen.elements and not seen.saturated <= seen.flat * seen.elements + 3 * np.sqrt(seen.flat * seen.elements):
        found.append(Finding("saturated", parts.module,
                             f"{100 * seen.saturated / seen.elements:.3g} % of the codes are at the ends; weights "
                             f"that fall off towards them leave at most {100 * seen.flat:.3g} % there"))
    if parts.zeros is not None:
        low, high = np.min(parts.table), np.max(parts.table)
        beyond = (parts.zeros < low) | (parts.zeros > high + 1)
        if beyond.any():
            found.append(Finding("zero_point", parts.module,
                                 f"{int(beyond.sum())} of {parts.zeros.size} are beyond the codes"))
    return found


def binades(x):
    return abs(np.log2(x / MODEST)) if x > 0 else 0.0


def of_size(parts, seen, neighbours):
    """By the magnitude of the weights that the bytes imply: a global scale that was stored the other way
    round, and what no trained
    layer is. neighbours: the same magnitude of other modules and of plain weights."""
    if not seen.absmax or not np.isfinite(seen.absmax):
        return []
    near = [x for x in neighbours if SMALLEST <= x <= LARGEST]
    usual = float(np.median(near)) if near else MODEST
    beside = f"; the others' largest are about {usual:.3g}" if near else ""
    if parts.second is not None and np.all(parts.second > 0):
        scale = float(np.median(parts.second))
        other = seen.absmax * scale * scale if parts.divides else seen.absmax / scale / scale
        here, there = abs(np.log2(seen.absmax / usual)), abs(np.log2(other / usual))
        how = ("divides by", "multiplied with") if parts.divides else ("multiplies with", "divided by")
        inside = SMALLEST <= seen.absmax <= LARGEST
        if not inside and SMALLEST <= other <= LARGEST:
            return [Finding("global", parts.module,
                            f"its layout {how[0]} the scale {scale:.4g}, and the weights become as large as "
                            f"{seen.absmax:.3g}; {how[1]} it they are {other:.3g}{beside}: it is stored inverted "
                            f"({here - there:.0f} binades nearer)")]
        if inside and there + 1 < here:
            return [Finding("global", parts.module,
                            f"{how[1]} {scale:.4g} the weights would be {other:.3g}, and {seen.absmax:.3g} as its "
                            f"layout reads them{beside}: both are possible", note=True)]
    if not SMALLEST <= seen.absmax <= LARGEST:
        return [Finding("range", parts.module,
                        f"the largest weight is {seen.absmax:.3g}{beside}; trained layers have {SMALLEST:.0e} to "
                        f"{LARGEST:.0f}", note=seen.absmax < SMALLEST)]
    return []
