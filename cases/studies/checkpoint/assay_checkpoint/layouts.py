"""How a module's tensors hold its weights: a row for each layout, and one reader for all of them.

Every layout is codes of an element format (assay's codec says what each stands for), scales of groups of
them, sometimes zero points, and sometimes a second scale of the whole tensor, which multiplies or divides:

    w[n, k] = (number[code[n, k]] - zero[group]) * scale[group] * second      (or / second)

n: output channels (of every expert, one below the other), k: inputs. Sources: the packers' own documentation
and unpackers (compressed-tensors, AutoAWQ, GPTQModel, ModelOpt, Quark, transformers), against which
packers_test.py holds them."""
import re
from dataclasses import dataclass, replace

import numpy as np

from assay_checkpoint.files import numbers_of
from assay_checkpoint.schemes import Finding

ROLES = ("weight_packed", "weight_scale_inv", "weight_scale_2", "weight_global_scale", "weight_zero_point",
         "weight_shape",
         "weight_g_idx", "weight_scale", "weight", "input_scale", "input_global_scale", "input_zero_point",
         "output_scale",
         "k_scale", "v_scale", "q_scale", "qweight", "qzeros", "scales", "g_idx", "bias")
ROLE = re.compile(rf"^(.*?)\.({'|'.join(ROLES)})$")
FUSED = re.compile(r"^(.*)_(blocks|scales)$")  # gpt-oss: all experts in one tensor
AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)  # the nibble that holds element 0, 1, 2, ...: words hold 0 2 4 6 1 3 5 7


@dataclass(frozen=True)
class Layout:
    """kinds: types that the codes may have; pack: a row of PACKS; inner, outer: the roles of the scale of a
    group and of that of the
    tensor; zero: of zero points. transposed: rows of the tensors are inputs. twos: codes are two's
    complement, not less 2^(bits-1)."""
    codes: str
    kinds: tuple
    pack: str
    inner: str
    scale_kinds: tuple
    outer: str = ""
    divides: bool = False
    zero: str = ""
    transposed: bool = False
    twos: bool = True


F = ("BF16", "F16", "F32")
LAYOUTS = {
    "words": Layout("weight_packed", ("I32",), "words", "weight_scale", F, zero="weight_zero_point",
                    twos=False),
    "int8": Layout("weight", ("I8",), "bytes", "weight_scale", F, zero="weight_zero_point"),
    "fp8": Layout("weight", ("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ"), "bytes", "weight_scale",
                  (*F, "U8", "F8_E8M0")),
    "fp8 inverse": Layout("weight", ("F8_E4M3", "F8_E4M3FNUZ"), "bytes", "weight_scale_inv",
                          (*F, "U8", "F8_E8M0")),
    "nvfp4 divided": Layout("weight_packed", ("U8",), "nibbles", "weight_scale", ("F8_E4M3",),
                            "weight_global_scale", True),
    "nvfp4 multiplied": Layout("weight", ("U8",), "nibbles", "weight_scale", ("F8_E4M3",), "weight_scale_2"),
    "mxfp4 packed": Layout("weight_packed", ("U8",), "nibbles", "weight_scale", ("U8", "F8_E8M0")),
    "mxfp4": Layout("weight", ("U8",), "nibbles", "weight_scale", ("U8", "F8_E8M0")),
    "mxfp4 blocks": Layout("blocks", ("U8",), "nibbles", "scales", ("U8", "F8_E8M0")),
    "awq": Layout("qweight", ("I32",), "words", "scales", F, zero="qzeros", transposed=True, twos=False),
    "gptq": Layout("qweight", ("I32",), "words down", "scales", F, zero="qzeros", transposed=True,
                   twos=False),
    "quark words": Layout("weight", ("I32",), "words", "weight_scale", F, "weight_scale_2",
                          zero="weight_zero_point"),
    "int4 by rows": Layout("weight", ("U8",), "nibbles down", "weight_scale", F, "weight_scale_2"),
}


def modules_of(tensors):
    """prefix -> {role: Stored} of all tensors; those of no role under "" by their names."""
    found = {}
    for name, stored in tensors.items():
        match = ROLE.match(name) or (FUSED.match(name) if stored.kind == "U8" else None)
        prefix, role = match.groups() if match else ("", name)
        found.setdefault(prefix, {})[role] = stored
    return found


def layout_of(roles):
    """The name of the layout that a module's tensors have, by their roles, types and shapes; "" for plain
    numbers, None for what is
    not understood."""
    kind = {role: stored.kind for role, stored in roles.items()}
    if "qweight" in roles and "scales" in roles:
        same = len(roles["scales"].shape) == 2 and roles["scales"].shape[-1] == roles["qweight"].shape[-1]
        return "gptq" if same else "awq"
    if "weight_packed" in roles:
        if kind["weight_packed"] == "I32":
            return "words"
        return "nvfp4 divided" if "weight_global_scale" in roles or kind.get("weight_scale") == "F8_E4M3" else "mxfp4 packed"
    if "blocks" in roles:
        return "mxfp4 blocks"
    of = kind.get("weight", "")
    if of.startswith("F8_"):
        return "fp8 inverse" if "weight_scale_inv" in roles else "fp8"
    if of == "I8":
        return "int8"
    if of == "I32":
        return "quark words"
    if of == "U8" and "weight_scale" in roles:
        if "F8_E4M3" in (kind["weight_scale"], kind.get("weight_scale_2")):
            return "nvfp4 multiplied"
        return "int4 by rows" if kind["weight_scale"] in F else "mxfp4"
    if of in ("F64", *F) or not {"weight", "blocks", "qweight"} & set(roles):
        return ""
    return None


def unpacked(words, bits, order):
    """Codes along the last axis of an array of words, from the lowest bits on; in AWQ's order where `order`
    says so."""
    per = words.dtype.itemsize * 8 // bits
    places = AWQ_ORDER if order == "awq" and per == 8 else range(per)
    shifts = np.array([bits * place for place in places], words.dtype)
    return (
        ((words[..., None] >> shifts) & words.dtype.type((1 << bits) - 1))
        .reshape(*words.shape[:-1], -1)
        .astype(np.uint8)
    )


def _down(words, bits, order):
    """The same along the last axis but one."""
    return np.swapaxes(unpacked(np.ascontiguousarray(np.swapaxes(words, -1, -2)), bits, order), -1, -2)


def _words(words):
    return words.view("<u4") if words.dtype.itemsize == 4 else words.view(np.uint8)


def table_of(element, bits, twos):
    """The number of each code, by assay's codecs. Whole numbers without two's complement are stored with
    2^(bits-1) added."""
    if element.startswith("e"):
        count = 1 << bits
        codes = np.arange(count, dtype=np.uint8)
        return numbers_of(element, (count,), codes if bits == 8 else codes[0::2] | codes[1::2] << 4)
    half, codes = 1 << bits - 1, np.arange(1 << bits, dtype=np.uint8)
    if bits == 2:
        return ((codes ^ (0 if twos else half)).astype(np.int64) + half) % 4 - half + 0.0
    ordered = codes if twos else codes ^ half
    return numbers_of(f"int{bits}", (len(codes),),
                      ordered if bits == 8 else ordered[0::2] | ordered[1::2] << 4)


@dataclass(frozen=True)
class Parts:
    """A module's weights, not yet multiplied. scales: [groups of rows, groups of columns]; rows_per: rows of
    one; column: the group of
    each column. zeros: as scales, in steps. second: [1] or one per expert. order: of the codes in a word."""
    module: str
    layout: str
    codes: object
    shape: tuple
    element: str
    bits: int
    table: np.ndarray
    scales: np.ndarray
    scale_form: str
    rows_per: int
    column: np.ndarray
    strategy: str
    zeros: np.ndarray = None
    second: np.ndarray = None
    divides: bool = False
    order: str = ""
    scale_codes: object = None

    def codes_of(self, first, last):
        """Codes [rows, columns] of rows [first, last)."""
        layout, words = LAYOUTS[self.layout], self.codes
        if layout.transposed:
            if layout.pack == "words down":
                return _down(_words(words[:, first:last]), self.bits, self.order).T
            per = 32 // self.bits
            low = first // per
            found = unpacked(_words(np.ascontiguousarray(words[:, low:-(-last // per)])), self.bits,
                             self.order)
            return found[:, first - low * per:last - low * per].T
        if layout.pack == "words down" or layout.pack == "nibbles down":
            found = _down(_words(words[first // 2:-(-last // 2)]), self.bits, "")
            return found[first % 2:first % 2 + last - first]
        rows = _words(np.ascontiguousarray(words[first:last]))
        if layout.pack == "bytes":
            return rows
        return unpacked(rows, self.bits, self.order)[:, :self.shape[1]]

    def factor(self, first, last):
        """What a step of each group is worth: [rows, groups of columns]."""
        factor, second = self.scales[np.arange(first, last) // self.rows_per], self._second(first, last)
        with np.errstate(all="ignore"):
            return factor / second if self.divides else factor * second

    def _second(self, first, last):
        """The second scale of each row."""
        return (
            1.0
            if self.second is None
            else self.second[np.arange(first, last) * self.second.size // self.shape[0]][:, None]
        )

    def steps(self, first, last):
        """The numbers in front of the scale: of codes, less zero points."""
        numbers = self.table[self.codes_of(first, last)]
        return (
            numbers
            if self.zeros is None
            else numbers - self.zeros[np.arange(first, last) // self.rows_per][:, self.column]
        )

    def values(self, first, last):
        second = self._second(first, last)
        with np.errstate(all="ignore"):
            values = self.steps(first,
                                last) * self.scales[np.arange(first, last) // self.rows_per][:, self.column]
            return values / second if self.divides else values * second

    def chunks(self, rows=None, most=1 << 21):
        """(first, last) of a few million elements each, whole groups where these are small; of `rows` (None:
        all) spread over the
        tensor."""
        count, width = self.shape
        whole = self.rows_per if self.rows_per <= 512 else 1
        each = -(-max(16, most // max(1, width)) // whole) * whole
        if rows is None or rows >= count:
            return [(at, min(at + each, count)) for at in range(0, count, each)]
        each = -(-max(rows // 16, 16) // whole) * whole
        parts = max(1, rows // each)
        starts = np.unique(np.linspace(0, max(0, count - each), parts).astype(np.int64) // whole * whole)
        return [(int(at), int(min(at + each, count))) for at in starts]

    def spans(self, rows=None, most=1 << 19):
        """Lists of chunks that share no scale; where a few rows are asked for, what they do not share of
        one."""
        if rows is not None or self.rows_per <= 512:
            return [[chunk] for chunk in self.chunks(rows, most)]
        each = max(16, most // self.shape[1])
        ends = range(0, self.shape[0], self.rows_per)
        return [[(at, min(at + each, end + self.rows_per, self.shape[0]))
                 for at in range(end, min(end + self.rows_per, self.shape[0]), each)]
                for end in ends]

    def having(self, **changes):
        return replace(self, **changes)


def _matrix(array):
    return (
        array.reshape(-1, array.shape[-1])
        if array.ndim > 2
        else array.reshape(1, -1)
        if array.ndim < 2
        else array
    )


def fits(name, scheme):
    """Whether a Scheme's loader reads this layout; FP8's two names of the scale are told apart when the
    tensors are read."""
    return scheme is not None and (name in scheme.layouts
                                   or {name, *scheme.layouts} == {"fp8", "fp8 inverse"})


class Refused(Exception):
    """A module that cannot be decoded; the finding says why."""

    def __init__(self, kind, where, what):
        super().__init__(what)
        self.finding = Finding(kind, where, what)


def _scale_numbers(stored):
    """The numbers of a plane of scales, in its shape. A byte is an exponent."""
    if not stored.elements:
        return np.zeros(stored.shape)
    if stored.kind == "U8":
        return numbers_of("e8m0", (stored.elements,), stored.bytes).reshape(stored.shape)
    return stored.numbers().reshape(stored.shape)


def strategy_of(shape, count, width, block):
    """(strategy, rows of a group, columns of a group) that scales of this shape have for weights [count,
    width]; None: none fits."""
    elements = int(np.prod(shape, dtype=np.int64))
    if elements == 1:
        return "tensor", count, width
    rows, columns = (elements, 1) if len(shape) == 1 else (elements // shape[-1], shape[-1])
    if rows == count and columns == 1:
        return "channel", 1, width
    if rows == count and width % columns == 0:
        return "group", 1, width // columns
    by, along = block
    if rows == -(-count // by) and columns == -(-width // along) and by and along:
        return "block", by, along
    if len(shape) <= 2 and columns == 1 and rows and count % rows == 0:  # one per expert
        return "tensor", count // rows, width
    return None


def read(module, roles, name, scheme):
    """(Parts, findings) of a module whose tensors have the layout `name`; what the bytes leave open is taken
    from the Scheme that is
    declared, or None. Raises Refused for what cannot be decoded."""
    layout, found = LAYOUTS[name], []
    if not fits(name, scheme):
        scheme = None

    def says(kind, role, what):
        found.append(Finding(kind, f"{module}.{role}" if role else module, what))

    codes, scale = roles[layout.codes], roles.get(layout.inner)
    if codes.kind not in layout.kinds:
        raise Refused("dtype", f"{module}.{layout.codes}",
                      f"it is {codes.kind}; allowed: {', '.join(layout.kinds)}")
    if len(codes.shape) < 2:
        raise Refused("shape", f"{module}.{layout.codes}", f"it is {codes}, and a matrix is expected")
    other = {"weight_scale": "weight_scale_inv", "weight_scale_inv": "weight_scale"}.get(layout.inner)
    if scale is None:
        near = f"; there is {', '.join(sorted(set(roles) - {layout.codes, 'bias'}))}" if len(roles) > 1 else ""
        inner = LAYOUTS[scheme.layouts[0]].inner if scheme else layout.inner
        raise Refused("missing", f"{module}.{inner}", f"there are {codes} codes and no scales of them{near}")
    if scheme is not None and len(scheme.layouts) == 1 and other and LAYOUTS[scheme.layouts[0]].inner == other:
        says("missing", other, f"its loader looks for {other}, and the scales are called {layout.inner}")
    if scale.kind not in layout.scale_kinds:
        if layout.outer and roles.get(layout.outer) is not None and roles[layout.outer].kind in layout.scale_kinds:
            says("swapped", layout.inner,
                 f"it is {scale}, and {layout.outer} is {roles[layout.outer]}: the names are the wrong way round")
            roles = dict(roles, **{layout.inner: roles[layout.outer], layout.outer: scale})
            scale = roles[layout.inner]
        else:
            raise Refused("dtype", f"{module}.{layout.inner}",
                          f"it is {scale.kind}; allowed: {', '.join(layout.scale_kinds)}")
    second = roles.get(layout.outer) if layout.outer else None
    if name.startswith("nvfp4") and second is None:
        raise Refused("missing", f"{module}.{layout.outer}", "the scale of the whole tensor is not there")
    bits = {"bytes": 8, "nibbles": 4, "nibbles down": 4}.get(layout.pack) or (scheme.bits if scheme else 4)
    if name == "words" and "weight_shape" in roles:
        bits = _bits_of(module, codes, [int(n) for n in roles["weight_shape"].words().reshape(-1)], bits,
                        says)
    by_group = name == "quark words" and scheme is not None and scheme.strategy == "group"
    if by_group:  # Quark turns weights with groups round
        layout = replace(layout, transposed=True)
    if name == "quark words" and scheme is not None and scheme.element == "uint4":
        layout = replace(layout, twos=False)
    per = 32 // bits
    if layout.transposed:
        width, count = codes.shape[-2:]
        width, count = (width * per, count) if layout.pack == "words down" else (width, count * per)
    else:
        *lead, width = codes.shape
        count = int(np.prod(lead, dtype=np.int64))
        if layout.pack.startswith("words"):
            width *= per
        elif layout.pack == "nibbles":
            width *= 2
        elif layout.pack == "nibbles down":
            count *= 2
        if name == "mxfp4 blocks":
            count, width = count // codes.shape[-2], width * codes.shape[-2]
    if name == "words" and "weight_shape" in roles:
        real = tuple(int(n) for n in roles["weight_shape"].words().reshape(-1))
        if len(real) == 2 and real[0] == count and width - per < real[1] <= width:
            width = real[1]
        else:
            says("shape", "weight_shape", f"it says {list(real)}, and the codes are of [{count},{width}]")
    scales = _scale_numbers(scale)
    if name == "quark words" and second is not None:
        fine = _scale_numbers(second)  # Quark: weight_scale is the tensor's, weight_scale_2 that of the channels
        if scales.size > fine.size:
            says("swapped", layout.inner,
                 f"it is {scale}, and {layout.outer} is {second}: Quark's loaders take weight_scale for the "
                 "tensor's and weight_scale_2 for the channels'")
        else:
            scales, second, scale = fine, scale, second
    elif name == "int4 by rows" and second is not None and second.elements > scale.elements:
        says("swapped", layout.inner,
             f"it is {scale}, and {layout.outer} is {second}: weight_scale is the groups', weight_scale_2 the "
             "tensor's")
        scales, second, scale = _scale_numbers(second), scale, second
    if layout.transposed:
        scales = scales.T if scales.ndim == 2 else scales
    block = scheme.group if scheme and scheme.strategy == "block" else (128, 128)
    if name == "mxfp4 blocks":
        scales = scales.reshape(count, -1)
    how = strategy_of(scales.shape, count, width, block)
    if how is None:
        axis = (
            " (one per input channel: the wrong axis)"
            if scales.size == width and scales.ndim == 1 or scales.shape in ((1, width), (width, 1))
            else " (transposed)"
            if strategy_of(scales.T.shape, count, width, block)
            else ""
        )
        raise Refused("axis" if axis else "shape", f"{module}.{layout.inner}",
                      f"scales are {scale} for weights [{count},{width}]{axis}")
    strategy, rows_per, columns_per = how
    grid = scales.reshape(-(-count // rows_per), -1)
    column = np.arange(width) // columns_per
    for role in ("g_idx", "weight_g_idx"):
        if role in roles:
            column = _groups(roles[role], module, role, width, grid.shape[1], says)
    zeros = _zeros(roles, layout, name, module, scheme, bits, grid, rows_per, count, says)
    form = {"U8": "e8m0"}.get(scale.kind, scale.form)
    element = codes.form if layout.pack == "bytes" else "e2m1" if "fp4" in name else f"int{bits}"
    view = codes.words()
    view = view.reshape(count, -1) if name == "mxfp4 blocks" else _matrix(view)
    parts = Parts(module, name, view, (count, width), element, bits, table_of(element, bits, layout.twos),
                  grid, form, rows_per,
                  column, strategy, zeros, None if second is None else _scale_numbers(second).reshape(-1),
                  layout.divides,
                  scheme.order if scheme and name in scheme.layouts else "awq" if name == "awq" else "")
    if second is not None and (parts.second.size == 0 or count % parts.second.size):
        raise Refused("shape", f"{module}.{layout.outer}", f"it is {second} for weights [{count},{width}]")
    if by_group:
        parts = parts.having(codes=_turned(parts))
    return parts, found


def _turned(parts):
    """Quark's words by group are [inputs, outputs / 8]: the same codes with outputs in front, as bytes of
    nibbles."""
    codes = unpacked(_words(np.ascontiguousarray(parts.codes)), 4, parts.order).T
    words = np.zeros((codes.shape[0], codes.shape[1] // 8), np.uint32)
    for place, at in enumerate(AWQ_ORDER if parts.order == "awq" else range(8)):
        words |= codes[:, place::8].astype(np.uint32) << np.uint32(4 * at)
    return words


def _bits_of(module, codes, real, bits, says):
    """The bits of packed words, which weight_shape tells."""
    width = codes.shape[-1]
    fitting = [b for b in (2, 4, 8) if len(real) == 2 and -(-real[1] * b // 32) == width]
    if fitting and bits not in fitting:
        says("dtype", "weight_packed",
             f"{width} words for rows of {real[1]} hold {fitting[0]} bits each, and {bits} are declared")
        return fitting[0]
    return bits


def _groups(stored, module, role, width, groups, says):
    """The group of each column that g_idx tells."""
    given = stored.words().reshape(-1).astype(np.int64)
    if given.size != width or given.min(initial=0) < 0 or given.max(initial=0) >= groups:
        says("shape", role,
             f"it is {stored} from {given.min(initial=0)} to {given.max(initial=0)}, for {width} inputs in {groups} groups")
        return np.arange(width) * groups // width
    return given


def _zeros(roles, layout, name, module, scheme, bits, grid, rows_per, count, says):
    """Zero points in steps, as the table counts, in the shape of the scales; None where there are none."""
    stored, half = roles.get(layout.zero) if layout.zero else None, 1 << bits - 1
    if stored is None:
        if scheme is not None and scheme.symmetric is False and scheme.layouts == (name,):
            says("missing", layout.zero or "zero points",
                 "the metadata says asymmetric, and no zero points are stored")
        return None
    words = stored.words()
    if name == "quark words":
        zeros = unpacked(_words(_matrix(np.ascontiguousarray(words))), bits,
                         scheme.order if scheme else "").astype(np.float64)
        zeros = (zeros.T if layout.transposed else zeros[..., :grid.size]) - (0 if layout.twos else half)
    elif layout.transposed:
        order = "awq" if name == "awq" else ""
        zeros = unpacked(_words(np.ascontiguousarray(words)), bits, order).T.astype(np.float64) - half
        if name == "gptq" and (scheme is None or scheme.v1):
            zeros = zeros + 1
    elif name == "words" and stored.kind == "I32":
        zeros = _down(_words(np.ascontiguousarray(words)), bits, "")[:count].astype(np.float64) - half
    else:
        zeros = stored.numbers().reshape(stored.shape)
    if zeros.size != grid.size:
        says("shape", layout.zero, f"it is {stored}: {zeros.size} zero points for {grid.size} scales")
        return None
    zeros = zeros.reshape(grid.shape)
    if scheme is not None and scheme.symmetric and zeros.any():
        says("zero_point", layout.zero,
             f"the metadata says symmetric, and {np.count_nonzero(zeros)} of {zeros.size} stored zero points "
             f"are another than {half if not layout.twos else 0}: a kernel for symmetric weights leaves them out")
    return zeros if zeros.any() else None
