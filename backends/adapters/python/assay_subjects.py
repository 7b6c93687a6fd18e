"""Functions as subjects of assay: one decorator.

    from assay_subjects import subject

    @subject(op="softmax", contract="acc=f32 exp_ulp=2", path="my_softmax_kernel")
    def my_softmax(call, x):              # inputs by name, as PyTorch tensors on the device of this run
        return torch.softmax(x, dim=-1)   # the output; a dict by name when an op has several

`assay explain OP` lists the tensors, attributes and contract keys of an op. A function that takes `call` alone needs no
PyTorch: it reads `call.floats(name)` or `call.rows(name)`, and returns a flat list of numbers or writes the rows itself.
"""

import inspect
import struct

# Formats of which one stored element is one element of this PyTorch type. Packed ones (two codes to a byte) and index
# planes come as bytes and integers.
TORCH_TYPES = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "tf32": "float32",
    "e4m3fn": "float8_e4m3fn", "e4m3fnuz": "float8_e4m3fnuz", "e5m2": "float8_e5m2", "e5m2fnuz": "float8_e5m2fnuz",
    "int8": "int8", "int32": "int32", "uint8": "uint8", "e8m0": "uint8",
}
ITEM_BYTES = {"f32": 4, "tf32": 4, "int32": 4, "f16": 2, "bf16": 2}  # all others here: 1
PACKED = ("e2m1", "int4")


class Unsupported(Exception):
    """This op, these formats, these shapes: the text says what is missing."""


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
    def row_bytes(self):
        """Of the innermost axis."""
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
        self.memory, self.device = memory, device
        self.kernels, self.notes = [], []

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
        return [memoryview(self.memory)[start:start + t.row_bytes] for start in t.row_offsets()]

    def floats(self, name):
        """An f32 tensor as a flat list."""
        t = self.tensor(name)
        need(t.format == "f32", f"{name} is {t.format}: floats() reads f32")
        return [x for row in self.rows(name) for x in struct.unpack(f"<{t.shape[-1]}f", row)]

    def torch(self, name):
        """A tensor as PyTorch sees it: a view of the shared memory on the CPU, a copy on a device."""
        view = self._view(self.tensor(name))
        return view if self.device == "cpu" else view.to(self.device)

    def store(self, result):
        """Writes what a function returned."""
        if result is None:
            return
        if not isinstance(result, dict):
            need(len(self.outputs) == 1, f"{self.op} has several outputs: return a dict by name")
            result = {next(iter(self.outputs)): result}
        for name, value in result.items():
            if isinstance(value, (list, tuple)):
                cols = self.outputs[name].shape[-1]
                for r, row in enumerate(self.rows(name)):
                    struct.pack_into(f"<{cols}f", row, 0, *value[r * cols:(r + 1) * cols])
            else:
                self._store_torch(self.outputs[name], value)

    def _view(self, t):
        import torch

        kind = getattr(torch, TORCH_TYPES.get(t.format, "uint8"))
        item = ITEM_BYTES.get(t.format, 1)
        shape = (*t.shape[:-1], t.row_bytes // item)
        stride = (*(s // item for s in t.stride[:-1]), 1)
        # By way of an integer type of that width: not every type can be made of a buffer.
        integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[item]
        whole = torch.frombuffer(self.memory, dtype=integer)
        return whole.as_strided(shape, stride, t.offset // item).view(kind)

    def _store_torch(self, t, value):
        target = self._view(t)
        if value.dtype != target.dtype or tuple(value.shape) != tuple(target.shape):
            raise TypeError(f"{t.name} must be {target.dtype} {tuple(target.shape)}, "
                            f"not {value.dtype} {tuple(value.shape)}")
        target.copy_(value)


class Subject:
    def __init__(self, function, op, variant, contract, path, promises, device):
        self.function, self.op, self.variant, self.device = function, op, variant, device
        self._contract, self._path, self._promises = contract, path, promises
        self.tensors = list(inspect.signature(function).parameters)[1:]

    def declaration(self, call):
        """What `contract`, `path` and `promises` are for this call: texts, or functions of it."""
        resolve = lambda part: part(call) if callable(part) else part
        return {"contract": resolve(self._contract), "path": resolve(self._path),
                "promises": resolve(self._promises)}

    def arguments(self, call):
        """`k_scale` is the tensor k.scale."""
        known = {name.replace(".", "_"): name for name in call.inputs}
        return {p: call.torch(known[p]) for p in self.tensors if p in known}


SUBJECTS = []
DEVICE = "cpu"  # of the run; set before a plug-in is loaded
PLUGIN = "assay_plugin"  # the module that a plug-in's file becomes: its subjects come before those that it imports


def subject(op, contract, path="", variant="", promises="deterministic=yes", device=""):
    """contract, path, promises: as in assay_backend.h; texts, or functions of the call, which may raise Unsupported.
    path: the device function that must be seen to run, "" for no claim; a `*` at its end leaves its rest open.
    variant: the word that selects this function among several of an op; the first of an op is its own choice.
    device: "cpu" for a function that never uses a device; "" follows the run."""

    def register(function):
        SUBJECTS.append(Subject(function, op, variant, contract, path, promises, device))
        return function

    return register


def select(call):
    of_op = [s for s in SUBJECTS if s.op == call.op]
    of_op.sort(key=lambda s: s.function.__module__ != PLUGIN)
    need(of_op, f"op {call.op}: here are {' '.join(sorted({s.op for s in SUBJECTS})) or 'none'}")
    for s in of_op:
        if call.variant in ("", s.variant):
            return s
    raise Unsupported(f"op {call.op} has no variant {call.variant}: {' '.join(s.variant for s in of_op)}")


def variants():
    return [f"{s.op}:{s.variant}" for s in SUBJECTS if s.variant]
