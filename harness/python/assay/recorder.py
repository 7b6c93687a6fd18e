"""assay.record: what functions and modules of a running model are given and give, as case files for `assay
judge` and `assay run`."""
import collections
import importlib
import os
import random
import sys
import threading

from assay.known_calls import KNOWN, Skip
from assay.pages import flat, line_of
from assay.tensors import plane_of, write_planes

ROW_AXES = ("rows", "m")  # of what is computed row by row


def planes_of_case(op, attributes, inputs, given, copy=True):
    """(name -> Plane as the op has it, table): `inputs` by name, and `given`, the output, or a dict of them
    by name."""
    table = line_of(op, {}, attributes)[1]
    if not isinstance(given, dict):
        given = {next(n for n, row in table.items() if row[2]): given}
    for name in (*inputs, *given):
        if name not in table:
            raise ValueError(f"{op} has no tensor {name}; allowed: {', '.join(table)}")
    planes = {n: plane_of(array, copy).widened(table[n][1]) for n, array in {**inputs, **given}.items()}
    return {n: plane.reshaped(flat(plane.shape, table[n][0])) for n, plane in planes.items()}, table


def write_case(path, line, table, planes, name, contract):
    """A file that `assay judge` and `assay run` take: inputs, and outputs as they were got by what is called
    `name`."""
    about = {"assay": "case 1", "case": line, "recorded": name,
             **({"contract": contract} if contract else {})}
    write_planes(path, {("got/" if table[n][2] else "") + n: plane for n, plane in planes.items()}, about)


class Tap:
    """A function or module of one's own, and how its calls are read. See tap()."""

    def __init__(self, target, op, inputs, outputs, contract, attributes):
        self.target, self.op, self.inputs, self.outputs, self.contract, self.attributes = target, op, inputs, outputs, contract, attributes

    @staticmethod
    def find(where, arguments, keywords, module):
        for place in where if isinstance(where, tuple) else (where,):
            if callable(place):
                return place(*arguments, **keywords)
            if isinstance(place, int) and place < len(arguments):
                return arguments[place]
            if isinstance(place, str) and place in keywords:
                return keywords[place]
            if isinstance(place, str) and module is not None and hasattr(module, place):
                return getattr(module, place)
        raise Skip(f"nothing was given as {where}")

    def read(self, arguments, keywords, module):
        found = {name: self.find(where, arguments, keywords, module) for name, where in self.inputs.items()}
        return found, {name: value(*arguments, **keywords) if callable(value) else value
                       for name, value in self.attributes.items()}

    def written(self, result, arguments, keywords, module):
        if self.outputs is None:
            return result
        return {name: self.find(where, arguments, keywords, module) for name, where in self.outputs.items()}


def tap(target, *, op, inputs, outputs=None, contract="", **attributes):
    """A function by its dotted name ("engine.ops.rms_norm") or a module, whose calls are cases of `op`.
    `inputs` says for each tensor
    where it is: a position, a keyword, an attribute of the module, a function of the arguments, or a tuple of
    these, tried in turn;
    `outputs` the same for kernels that write into an argument. Attributes are given by name, as values or
    functions of the arguments."""
    return Tap(target, op, inputs, outputs, contract, attributes)


class Recorder:
    """What a record has come to: .files, .seen and .skipped (reason -> calls)."""

    def __init__(self, folder, taps, every, max_bytes, rows, seed, contracts):
        self.folder, self.taps, self.every, self.max_bytes, self.rows, self.seed = folder, taps, every, max_bytes, rows, seed
        self.contracts = contracts
        self.files, self.seen, self.skipped, self.bytes = [], collections.Counter(), collections.Counter(), 0
        self._undo, self._lock, self._inside = [], threading.Lock(), threading.local()

    def __str__(self):
        text = f"{len(self.files)} calls recorded in {self.folder}, {self.bytes} bytes, of {sum(self.seen.values())} seen"
        return text + "".join(f"\n  {count} left out: {why}" for why, count in self.skipped.most_common())

    def __enter__(self):
        os.makedirs(self.folder, exist_ok=True)
        names = [t for t in self.taps if isinstance(t, str)]
        modules = [t for t in self.taps if not isinstance(t, (str, Tap))]
        for name in names:
            if name not in KNOWN:
                raise ValueError(f"'{name}' is no function whose calls are known; allowed: {', '.join(KNOWN)}; others by assay.tap")
        try:
            for module in modules:
                self._enter_module(module)
            for name in KNOWN if modules or not self.taps else names:
                op, read, out = KNOWN[name]
                self._patch(name, op, lambda a, k, read=read: read(*a, **k),
                            out and (lambda r, a, k, out=out: out(r)), "",
                            bool(modules) and name not in names)
            for own in self.taps:
                if isinstance(own, Tap):
                    self._own(own)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        while self._undo:
            self._undo.pop()()

    # Inside of such a module, known functions are recorded.
    def _enter_module(self, module):
        def before(*_):
            self._inside.depth = getattr(self._inside, "depth", 0) + 1

        def after(*_):
            self._inside.depth -= 1
        self._undo.append(module.register_forward_pre_hook(before).remove)
        self._undo.append(module.register_forward_hook(after, always_call=True).remove)

    def _own(self, own):
        if isinstance(own.target, str):
            self._patch(own.target, own.op, lambda a, k: own.read(a, k, None), lambda r, a,
                        k: own.written(r, a, k, None), own.contract, False)
            return
        label, begun = type(own.target).__name__, {}

        def before(module, arguments, keywords):
            begun[threading.get_ident()] = self._begin(label, own.op, lambda a, k: own.read(a, k, module),
                                                       arguments, keywords)

        def after(module, arguments, keywords, result):
            self._end(begun.pop(threading.get_ident(), None), label, own.contract,
                      lambda: own.written(result, arguments, keywords, module))
        self._undo.append(own.target.register_forward_pre_hook(before, with_kwargs=True).remove)
        self._undo.append(own.target.register_forward_hook(after, with_kwargs=True).remove)

    def _patch(self, name, op, read, written, contract, inside_only):
        owner, attribute = _owner(name)
        original = getattr(owner, attribute)

        def recorded(*arguments, **keywords):
            here = self._inside
            if (inside_only and not getattr(here, "depth",
                                            0)) or getattr(here, "calls", None) or _is_traced():
                return original(*arguments, **keywords)
            begun = self._begin(name, op, read, arguments, keywords)
            here.calls = name  # what it calls in its turn is part of it
            try:
                result = original(*arguments, **keywords)
            finally:
                here.calls = None
            self._end(begun, name, contract, lambda: written(result, arguments, keywords) if written
                      else result)
            return result
        setattr(owner, attribute, recorded)
        self._undo.append(lambda: setattr(owner, attribute, original))

    # The inputs as they are before the call; None where it is not recorded. Nothing in here may end the
    # model.
    def _begin(self, name, op, read, arguments, keywords):
        with self._lock:
            self.seen[name] += 1
            count = self.seen[name]
        if (count - 1) % self.every:
            return None
        try:
            inputs, attributes = read(arguments, keywords)
            planes = {tensor: plane_of(array) for tensor, array in inputs.items()}
            return op, attributes, planes
        except Exception as why:  # noqa: BLE001
            self.skipped[f"{name}: {why}"] += 1
            return None

    def _end(self, begun, name, contract, output):
        if begun is None:
            return
        op, attributes, inputs = begun
        try:
            planes, table = planes_of_case(op, attributes, inputs, output())
            self._write(name, op, attributes, self._sampled(planes, table),
                        contract or self.contracts.get(op, ""))
        except Exception as why:  # noqa: BLE001
            self.skipped[f"{name}: {why}"] += 1

    def _sampled(self, planes, table):
        counts = {plane.shape[0] for n, plane in planes.items() if table[n][0][0] in ROW_AXES}
        if self.rows is None or len(counts) != 1 or max(counts) <= self.rows:
            return planes
        chosen = sorted(
            random.Random(f"{self.seed} {len(self.files)}").sample(range(counts.pop()), self.rows)
        )
        return {n: plane.rows(chosen) if table[n][0][0] in ROW_AXES else plane for n, plane in planes.items()}

    def _write(self, name, op, attributes, planes, contract):
        line, table = line_of(op, planes, attributes)
        size = sum(len(plane.data) for plane in planes.values())
        with self._lock:
            if self.bytes + size > self.max_bytes:
                raise Skip(f"beyond max_bytes={self.max_bytes}")
            self.bytes += size
            path = os.path.join(self.folder, f"{len(self.files):06d}_{op}.safetensors")
            self.files.append(path)
        write_case(path, line, table, planes, name, contract)


def _is_traced():
    torch = sys.modules.get("torch")
    return torch is not None and (torch.compiler.is_compiling()
                                  or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()))


def _owner(name):
    """The object of which the last word of a dotted name is an attribute."""
    words = name.split(".")
    for end in range(len(words) - 1, 0, -1):
        try:
            owner = importlib.import_module(".".join(words[:end]))
        except ModuleNotFoundError:
            continue
        for word in words[end:-1]:
            owner = getattr(owner, word)
        if not hasattr(owner, words[-1]):
            break
        return owner, words[-1]
    raise ValueError(f"'{name}' is no function of a module that can be imported")


def record(folder, *taps, every=1, max_bytes=1 << 28, rows=None, seed=0, contracts=None):
    """In a with statement: calls of the functions and modules named become case files in `folder`, which
    `assay judge` judges, and
    on which `assay run FILE -b X` runs another kernel. `taps` are names of PyTorch functions (those of
    assay.known_calls.KNOWN), which
    are recorded everywhere, modules, inside of which all of these are, or assay.tap(...); none: all of them
    everywhere. Of the calls of a function
    every `every`-th is recorded, of row-wise ops `rows` drawn rows, until the files have `max_bytes`.
    `contracts` says for an op
    under which arithmetic it is judged. What is traced by torch.compile or captured into a CUDA graph is not
    recorded."""
    return Recorder(os.fspath(folder), taps, every, max_bytes, rows, seed, contracts or {})
