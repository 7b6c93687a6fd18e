"""GGUF: each tensor names its type, whose blocks have their scales inside; assay's codec decodes them
whole."""
import numpy as np
from assay import library

from assay_checkpoint.findings import LARGEST, SMALLEST
from assay_checkpoint.files import GGML, PLAIN
from assay_checkpoint.original import ONE_BIT, TWO_BITS, Sums

BLOCKS = {kind: (block, each) for kind, block, each, _ in GGML.values()}


def _chunks(stored, rows):
    count, width = stored.rows
    each = max(1, (1 << 20) // max(1, width))
    return [(at, min(at + each, count)) for at in range(0, count if rows is None else min(count, rows), each)]


def judge(report, other, rows):
    from assay_checkpoint.judging import Module, _plain_numbers
    for name, stored in report.checkpoint.tensors.items():
        module = Module(name.removesuffix(".weight"), stored.kind, stored.kind, stored.elements,
                        stored.end - stored.start)
        if not stored.form:
            report.not_understood.append((name, f"{stored}: no codec for this type"))
            continue
        report.modules.append(module)
        if stored.kind in PLAIN or BLOCKS[stored.kind][0] == 1:
            module.plain = True
            module.absmax = _plain_numbers(report, name, stored, rows)
            continue
        module.judged, module.stored = True, f"{stored.form}, {8 * BLOCKS[stored.kind][1] / BLOCKS[stored.kind][0]:g} bits"
        _values(report, module, name, stored, rows)
        if other is not None:
            _against(report, module, name, stored, other, rows)


def _values(report, module, name, stored, rows):
    bad = seen = 0
    least, most = np.inf, -np.inf
    for first, last in _chunks(stored, rows):
        values = stored.numbers(first, last)
        finite = np.isfinite(values)
        bad += int(values.size - np.count_nonzero(finite))
        seen += values.size
        least = min(least, float(np.min(values, initial=np.inf, where=finite)))
        most = max(most, float(np.max(values, initial=-np.inf, where=finite)))
    module.absmax = max(abs(least), abs(most)) if least <= most else 0.0
    if bad:
        report.says("scale", name,
                    f"{bad} of {seen} weights are NaN or infinite: the scales of their blocks are")
    if seen > 1 and least == most:
        report.says("code", name, f"all {seen} weights are {least:g}")
    elif module.absmax and not SMALLEST <= module.absmax <= LARGEST:
        report.says("range", name,
                    f"the largest weight is {module.absmax:.3g}; trained layers have {SMALLEST:.0e} to {LARGEST:.0f}",
                    note=module.absmax < SMALLEST)


# Other places of a byte's two nibbles in 32 elements: ggml's (j and j + 16) and neighbours.
def _turned(values, to):
    of = values.reshape(-1, 2, 16) if to == "neighbours" else values.reshape(-1, 16, 2)
    return np.swapaxes(of, 1, 2).reshape(values.shape)


def _against(report, module, name, stored, other, rows):
    x_of = other.tensors.get(name)
    if x_of is None or x_of.kind not in PLAIN or x_of.rows != stored.rows:
        report.not_compared.append(name)
        return
    sums, product = Sums(), 0.0
    for first, last in _chunks(stored, rows):
        x, w = x_of.numbers(first, last), np.nan_to_num(stored.numbers(first, last), nan=0.0, posinf=0.0,
                                                        neginf=0.0)
        sums.norm += float(np.sum(x * x))
        sums.add("stored", w - x)
        sums.add("best", library.round_to(stored.form, x) - x)
        sums.add("values", w)
        product += float(np.sum(w * x))
        for to in ("neighbours", "halves"):
            sums.add(to, _turned(w, to) - x)
    report.compared += 1
    error, best = sums.relative("stored"), sums.relative("best")
    module.error, module.best = error, min(error, best)
    if error <= ONE_BIT * best:
        return
    says = f"stored {error:.3g}, as assay quantises to {stored.form} {best:.3g}"
    for to in ("neighbours", "halves"):
        if sums.relative(to) <= ONE_BIT * best:
            report.says("order", name, "the two elements of a byte are "
                        + ("neighbours, and ggml has j and j + half a block there" if to == "halves"
                           else "j and j + half a block, and are stored as neighbours") + f": {says}")
            return
    by = product / sums.of["values"] if sums.of["values"] else 0.0
    left = np.sqrt(max(0.0, 1 - by * product / sums.norm)) if sums.norm else 0.0
    if left <= ONE_BIT * best:
        report.says("factor", name, f"all weights are to be multiplied with {by:.4g}: {says}")
    else:
        report.says("error", name,
                    f"{np.log2(error / best):.1f} bits are lost, and no cause is found: {says}",
                    note=error <= TWO_BITS * best)
