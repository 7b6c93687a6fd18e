"""Functions as subjects of assay: one decorator.

    from assay_subjects import subject

    @subject(op="softmax", contract="acc=f32 exp_ulp=2", path="softmax_warp_forward")
    def my_softmax(call, x):              # inputs by name, as PyTorch tensors on the device of this run
        return torch.softmax(x, dim=-1)   # the output; a dict by name when an op has several

`assay explain OP` lists the tensors, attributes and contract keys of an op. With arrays="numpy" the inputs
are numpy arrays, and so may the output be. A function that takes `call` alone needs neither: it reads
`call.floats(name)`, `call.numpy(name)` or `call.rows(name)`, and returns a flat list of numbers or writes the
rows itself."""

import inspect
import math
import struct
import sys

import cuda_graph

# Formats of which one stored element is one element of this type of PyTorch, and of numpy or ml_dtypes.
# Packed ones (two codes to a byte) and index planes come as bytes and integers.
TORCH_TYPES = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "tf32": "float32",
    "e4m3fn": "float8_e4m3fn", "e4m3fnuz": "float8_e4m3fnuz", "e5m2": "float8_e5m2",
    "e5m2fnuz": "float8_e5m2fnuz",
    "int8": "int8", "int32": "int32", "uint8": "uint8", "e8m0": "uint8",
}
LARGEST_F32 = (2 - 2.0 ** -23) * 2.0 ** 127
INTEGERS = {"int8": "b", "uint8": "B", "int32": "i"}  # of which a list of whole numbers makes rows
ITEM_BYTES = {"f32": 4, "tf32": 4, "int32": 4, "f16": 2, "bf16": 2}  # all others here: 1
PACKED = ("e2m1", "int4")
# Inline blocks: elements and bytes.
BLOCKS = {
    "q8_0": (32, 34), "q8_1": (32, 36), "q4_0": (32, 18), "q4_1": (32, 20), "q5_0": (32, 22),
    "q5_1": (32, 24),
    "iq4_nl": (32, 18), "mxfp4_ggml": (32, 17), "tq3_0_c2s1": (32, 14), "tq3_0_c2": (32, 14),
    "q2_K": (256, 84),
    "q3_K": (256, 110), "q4_K": (256, 144), "q5_K": (256, 176), "q6_K": (256, 210), "iq4_xs": (256, 136),
}


def bf16_values(row):
    return struct.unpack(f"<{len(row) // 2}f", b"".join(b"\0\0" + row[i:i + 2] for i in range(0, len(row), 2)))


def bf16_bytes(values):
    """To nearest, ties to even, of the numbers themselves: what an f32 in between rounds is odd where it is
    not exact."""
    rows = bytearray()
    for v in values:
        wide = struct.pack("<f", math.copysign(math.inf, v) if abs(v) > LARGEST_F32 else v)
        bits = int.from_bytes(wide, "little")
        near = struct.unpack("<f", wide)[0]
        if v == v and abs(near) != math.inf:
            low = bits - (abs(near) > abs(v))  # towards zero
            odd = low | (struct.unpack("<f", struct.pack("<I", low))[0] != v)
            bits = odd + 0x7fff + (odd >> 16 & 1)
        rows += struct.pack("<H", bits >> 16 if v == v else 0x7fc0)
    return bytes(rows)


def f32_bytes(values):
    return struct.pack(f"<{len(values)}f", *values)


def f16_bytes(values):
    """To nearest, ties to even; infinity from 65520 on, as the format has it (struct refuses those)."""
    inf = math.inf
    return struct.pack(f"<{len(values)}e", *(math.copysign(inf, v) if abs(v) >= 65520 else v for v in values))


# How a row of them is read, and made of numbers.
FLOATS = {
    "f32": (lambda row: struct.unpack(f"<{len(row) // 4}f", row), f32_bytes),
    "f16": (lambda row: struct.unpack(f"<{len(row) // 2}e", row), f16_bytes),
    "bf16": (bf16_values, bf16_bytes),
}


class Unsupported(Exception):
    """This op, these formats, these shapes: the text says what is missing."""


class Mistake(ValueError):
    """A plug-in's file, or an option, is wrong: the text says what is allowed. Nothing is missing on this
    machine."""


def need(condition, reason):
    if not condition:
        raise Unsupported(reason)


class Tensor:
    """A plane of the call: shape in elements, stride in bytes, offset of its first element in the memory."""

    def __init__(self, message):
        self.name, self.format = message["name"], message["format"]
        self.shape, self.stride = tuple(message["shape"]), tuple(message["stride"])
        self.offset = message.get("offset", -1)

    @property
    def elements(self):
        return math.prod(self.shape)

    @property
    def item_bytes(self):
        """Of one element; 0 where several share bytes."""
        return 0 if self.format in PACKED or self.format in BLOCKS else ITEM_BYTES.get(self.format, 1)

    @property
    def natural_alignment(self):
        """Of what is stored as a whole: an element, a block."""
        unit = BLOCKS[self.format][1] if self.format in BLOCKS else self.item_bytes or 1
        return min(unit & -unit, 64)

    @property
    def extent(self):
        """From the first byte of the first element to the last of the last; 0 without elements."""
        if self.elements == 0:
            return 0
        return sum((n - 1) * stride for n, stride in zip(self.shape[:-1], self.stride[:-1])) + self.row_bytes

    @property
    def row_bytes(self):
        """Of the innermost axis."""
        if self.format in BLOCKS:
            elements, size = BLOCKS[self.format]
            return self.shape[-1] // elements * size
        if self.format in PACKED:
            need(self.shape[-1] % 2 == 0, f"{self.name}: an odd number of {self.format} codes in a row")
            return self.shape[-1] // 2
        return self.shape[-1] * ITEM_BYTES.get(self.format, 1)

    def row_offsets(self):
        """Where each row of the innermost axis begins, row-major."""
        offsets = [self.offset]
        for extent, stride in zip(self.shape[:-1], self.stride[:-1]):
            offsets = [start + i * stride for start in offsets for i in range(extent)]
        return offsets


class Call:
    """One call: what is asked, the tensors, and what the function says it did."""

    def __init__(self, message, memory=None, device="cpu"):
        self.op, self.variant = message["op"], message["variant"]
        self.attributes = dict(message["attributes"])
        self.inputs = {t["name"]: Tensor(t) for t in message["inputs"]}
        self.outputs = {t["name"]: Tensor(t) for t in message["outputs"]}
        self.memory, self.device, self.guarded, self.graph = memory, device, None, False
        self.kernels, self.notes, self._views = [], [], {}

    def text(self, name):
        return self.attributes[name]

    def integer(self, name):
        return int(self.attributes[name])

    def real(self, name):
        return float(self.attributes[name])

    def note(self, key, value):
        self.notes.append([key, str(value)])

    def tensor(self, name):
        return self.inputs[name] if name in self.inputs else self.outputs[name]

    def rows(self, name):
        """The rows of a tensor's innermost axis as writable memory, row-major."""
        t = self.tensor(name)
        if name in self.outputs and name in self._placed():
            raise TypeError(f"{name} is on the device: write to call.torch({name!r}), or return what it is to be")
        return [memoryview(self.memory)[start:start + t.row_bytes] for start in t.row_offsets()]

    def floats(self, name):
        """A tensor in f32, f16 or bf16 as a flat list."""
        t = self.tensor(name)
        need(t.format in FLOATS, f"{name} is {t.format}: floats() reads {', '.join(FLOATS)}")
        return [x for row in self.rows(name) for x in FLOATS[t.format][0](bytes(row))]

    def storage(self, name):
        """The shared memory from a tensor's first byte to its last, gaps between rows included: what a
        library that takes the
        storage of a tensor (to copy it, as Triton's interpreter does) may take."""
        t = self.tensor(name)
        return memoryview(self.memory)[t.offset:t.offset + t.extent]

    def torch(self, name):
        """A tensor as PyTorch sees it: a view of the shared memory on the CPU, of guarded memory on a device.
        Strides and the
        place of its first element are those of the case, and its storage is its own: it begins and ends with
        it."""
        t = self.tensor(name)
        view = self._view(t)
        return view if self.device == "cpu" or t.name in self._placed() else view.to(self.device)

    def numpy(self, name):
        """A tensor as numpy sees it: a view of the shared memory, with the strides of the case. Packed codes
        and blocks come as
        bytes; bf16 and FP8 need ml_dtypes."""
        t = self.tensor(name)
        need(self.device == "cpu", f"{name} is on the device: call.torch({name!r})")
        return self._numpy(t)

    def _numpy(self, t):
        import numpy

        name, types = TORCH_TYPES.get(t.format, "uint8"), numpy
        if not hasattr(numpy, name):
            try:
                import ml_dtypes as types
            except ImportError:
                raise Unsupported(f"{t.name} is {t.format}: numpy has it with ml_dtypes (pip install ml_dtypes)") from None
        kind = numpy.dtype(getattr(types, name))
        shape = (*t.shape[:-1], t.row_bytes // kind.itemsize)
        return numpy.ndarray(shape, kind, self.storage(t.name), strides=(*t.stride[:-1], kind.itemsize))

    def _placed(self):
        return self.guarded.planes if self.guarded is not None else {}

    def store(self, result):
        """Writes what a function returned."""
        if result is None:
            return
        if not isinstance(result, dict):
            need(len(self.outputs) == 1, f"{self.op} has several outputs: return a dict by name")
            result = {next(iter(self.outputs)): result}
        for name, value in result.items():
            if name not in self.outputs:
                raise ValueError(f"{name} is no output of {self.op}: {' '.join(self.outputs)}")
            if isinstance(value, (list, tuple)):
                self._refuse_no_numbers(self.outputs[name], value)
                self._store_numbers(self.outputs[name], value)
            elif type(value).__module__.partition(".")[0] == "numpy":
                self._store_numpy(self.outputs[name], value)
            elif not hasattr(value, "data_ptr"):
                raise TypeError(f"{name}: a flat list of numbers, a numpy array or a PyTorch tensor is returned, not "
                                f"{type(value).__name__}")
            else:
                self._store_torch(self.outputs[name], value)

    def _refuse_no_numbers(self, t, value):
        """Several outputs for one, or rows in place of a flat list."""
        odd = next((v for v in value if hasattr(v, "shape") and v.shape or isinstance(v, (list, tuple))), None)
        if odd is None:
            return
        if isinstance(value, tuple):
            raise TypeError(f"{self.op} has {len(self.outputs)} output{'s' * (len(self.outputs) > 1)}, "
                            f"{', '.join(self.outputs)}, and {len(value)} values were returned for {t.name}")
        raise TypeError(f"{t.name}: a flat list of {t.elements} numbers is returned, not a list of {len(value)} "
                        f"{type(odd).__name__}s")

    def _store_numpy(self, t, value):
        need(t.name not in self._placed(), f"{t.name} is on the device: a PyTorch tensor is returned")
        target = self._numpy(t)
        if value.dtype != target.dtype or value.shape != target.shape:
            raise TypeError(f"{t.name} must be {target.dtype} {target.shape}, not {value.dtype} {value.shape}")
        target[...] = value

    def _store_numbers(self, t, value):
        kind = INTEGERS.get(t.format, "")
        need(kind or t.format in FLOATS,
             f"{t.name} is {t.format}: a list of numbers becomes {', '.join((*FLOATS, *INTEGERS))}")
        cols, placed = t.shape[-1] if t.shape else 1, self._placed().get(t.name)
        if len(value) != math.prod(t.shape):
            raise ValueError(f"{t.name} has {math.prod(t.shape)} elements, and {len(value)} were returned")
        for r, start in enumerate(t.row_offsets()):
            numbers = value[r * cols:(r + 1) * cols]
            row = struct.pack(f"<{cols}{kind}", *numbers) if kind else FLOATS[t.format][1](numbers)
            if placed is not None:
                placed.driver.write_bytes(placed.address(start), row)
            else:
                self.memory[start:start + len(row)] = row

    def _view(self, t):
        """The same one each time: two storages of the same bytes would be copied onto each other by whoever
        copies storages."""
        if t.name not in self._views:
            self._views[t.name] = self._new_view(t)
        return self._views[t.name]

    def _new_view(self, t):
        import torch

        kind = getattr(torch, TORCH_TYPES.get(t.format, "uint8"))
        item = ITEM_BYTES.get(t.format, 1)
        shape = (*t.shape[:-1], t.row_bytes // item)
        stride = (*(s // item for s in t.stride[:-1]), 1)
        if t.name in self._placed():
            from torch_memory import array_of
            return array_of(self.guarded.planes[t.name], item).as_strided(shape, stride, 0).view(kind)
        # By way of an integer type of that width: not every type can be made of a buffer.
        integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[item]
        storage = self.storage(t.name)
        flat = torch.frombuffer(storage, dtype=integer) if len(storage) else torch.empty(0, dtype=integer)
        return flat.as_strided(shape, stride).view(kind)

    def _store_torch(self, t, value):
        target = self._view(t)
        if value.dtype != target.dtype or tuple(value.shape) != tuple(target.shape):
            raise TypeError(f"{t.name} must be {target.dtype} {tuple(target.shape)}, "
                            f"not {value.dtype} {tuple(value.shape)}")
        if value.data_ptr() != target.data_ptr() or value.stride() != target.stride():  # written in place already
            target.copy_(value)


def resolved(part, call):
    return part(call) if callable(part) else part


class Subject:
    def __init__(self, function, op, variant, contract, path, promises, device, alignment=1, arrays="torch",
                 takes=""):
        if arrays not in ("torch", "numpy"):
            raise Mistake(f"arrays={arrays!r}: torch or numpy is allowed")
        self.function, self.op, self.variant, self.device = (
            function,
            op,
            variant,
            device or ("cpu" if arrays == "numpy" else ""),
        )
        self.arrays = arrays
        self._contract, self._path, self._promises, self._alignment = contract, path, promises, alignment
        self.takes = {}
        for word in takes.split():
            key, equals, values = word.partition("=")
            if not (key and equals and values):
                raise Mistake(f"takes={takes!r}: {word!r} is not key=value; allowed: attributes of the op, as in a case")
            self.takes[key] = values.split(",")
        parameters = list(inspect.signature(function).parameters.values())[1:]
        self.tensors = [p.name for p in parameters]
        self.demanded = [p.name for p in parameters if p.default is p.empty and p.kind not
                         in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]

    def declaration(self, call):
        """What `contract`, `path` and `promises` are for this call: texts, or functions of it."""
        for key, allowed in self.takes.items():
            if key not in call.attributes:
                raise ValueError(f"takes={key}=...: {call.op} has no such attribute: {' '.join(call.attributes)}")
            need(call.attributes[key] in allowed, f"{key}={call.attributes[key]}: {self.function.__name__} takes "
                                                  f"{key}={','.join(allowed)}")
        return {"contract": resolved(self._contract, call), "path": resolved(self._path, call),
                "promises": resolved(self._promises, call)}

    def alignment(self, call):
        alignment = resolved(self._alignment, call)
        if alignment < 1 or alignment & (alignment - 1):
            raise ValueError(f"alignment={alignment}: a power of two is allowed")
        for t in (*call.inputs.values(), *call.outputs.values()):
            if t.elements > t.shape[-1]:
                need(not 0 < t.stride[-2] - t.row_bytes < alignment,
                     f"{t.name}: rows {t.stride[-2]} bytes apart, "
                     f"and an alignment of {alignment} is demanded")
        return alignment

    def arguments(self, call):
        """`k_scale` is the tensor k.scale. A function that names an output is given it, to write there."""
        known = {name.replace(".", "_"): name for name in (*call.inputs, *call.outputs)}
        for p in self.demanded:
            if p not in known:
                raise TypeError(f"{self.function.__name__}({p}): {call.op} has {', '.join(known)}")
        seen = call.numpy if self.arrays == "numpy" else call.torch
        return {p: seen(known[p]) for p in self.tensors if p in known}


def let_torch_compute(began=[]):
    """PyTorch learns what the processor can do when it first computes on it; until then torch._scaled_mm
    takes another kernel than
    afterwards (reports/findings.md). Who made tensors with PyTorch has computed; here they are views of
    memory."""
    torch = sys.modules.get("torch")
    if torch is not None and not began:
        began.append(torch.zeros(2).add_(1))


SUBJECTS = []
DEVICE = "cpu"  # of the run; set before a plug-in is loaded
PLUGIN = "assay_plugin"  # the module that a plug-in's file becomes: its subjects come before those that it imports


def subject(op, contract, path="", variant="", promises="deterministic=yes", device="", alignment=1,
            arrays="torch", takes=""):
    """contract, path, promises: as in assay_backend.h; texts, or functions of the call, which may raise
    Unsupported.
    path: the device function that must be seen to run, "" for no claim; a `*` at its end leaves its rest
    open. On a CPU: a
    Python function that is entered (its name, or FILE.NAME), or an operator of PyTorch (aten::softmax).
    variant: the word that selects this function among several of an op; the first of an op is its own choice.
    device: "cpu" for a function that never uses a device; "" follows the run.
    alignment: of the first byte of every tensor, in bytes, a power of two or a function of the call, where
    the function demands
    more than an element has. What lies behind a tensor up to there is poison, and no guard.
    takes: the attributes that the function is for, as in a case: "dtype=f32,f16 mask=none"; other calls are
    unsupported.
    arrays: "torch" or "numpy": what a function that names its inputs is given; numpy's are of the CPU."""

    def register(function):
        for other in SUBJECTS:
            if (other.op, other.variant, other.function.__module__) == (op, variant, function.__module__):
                raise Mistake(f"op={op} variant={variant!r} is registered twice, as {other.function.__name__} and "
                                 f"{function.__name__}: the second would never be called")
        SUBJECTS.append(Subject(function, op, variant, contract, path, promises, device, alignment, arrays,
                                takes))
        return function

    return register


def select(call):
    of_op = [s for s in SUBJECTS if s.op == call.op]
    of_op.sort(key=lambda s: s.function.__module__ != PLUGIN)
    need(of_op, f"no subject of op {call.op}; here: {' '.join(sorted({s.op for s in SUBJECTS})) or 'none'}")
    wanted, graph = call.variant, False
    if wanted not in [s.variant for s in of_op]:
        wanted, graph = cuda_graph.of_variant(wanted)
    for s in of_op:
        if wanted in ("", s.variant):
            call.graph = graph
            return s
    raise Unsupported(f"op {call.op} has no variant {call.variant}: {' '.join(s.variant for s in of_op)}")


def variants(device="cpu"):
    named = [(s.op, s.variant) for s in SUBJECTS if s.variant]
    if device == "cuda":
        named += [(s.op, cuda_graph.variant_of(s.variant)) for s in SUBJECTS if s.device != "cpu"]
    return list(dict.fromkeys(f"{op}:{variant}" for op, variant in named))
