"""Judges tensors that a test already has: `assay.check` against truth and limit, `@assay.cases` over cases
with inputs of their own, `assay.record` what a running model computes, `assay.watch` the same judged. Judged
in this process (assay.library), or by a program of its own (`assay judge`); torch, JAX and numpy arrays are
taken. See README.md."""
import os
import subprocess
import tempfile

from assay import library, program
from assay.pages import asked, line_of, op_of, tensors_of
from assay.recorder import record, tap
from assay.tensors import Plane, plane_of, write_planes
from assay.watching.session import watch

__all__ = ["Case", "Finding", "Plane", "cases", "check", "get_include", "record", "tap", "truth", "watch"]


def get_include():
    """The folder for a compiler's -I in which `assay/assay_backend.h` stands, the header of plug-ins.
    FileNotFoundError where this
    package came without it."""
    here = os.path.dirname(os.path.realpath(__file__))
    for folder in (os.path.join(here, "include"), os.path.join(here, *[os.pardir] * 4, "include")):
        if os.path.exists(os.path.join(folder, "assay", "assay_backend.h")):
            return os.path.normpath(folder)
    raise FileNotFoundError("no assay/assay_backend.h beside this package")


class Finding(AssertionError):
    """A red verdict; its text is what `assay judge` says."""


def _judged_apart(line, planes, contract, strict):
    """(code, text) by a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tensors.safetensors")
        write_planes(path, planes)
        more = (["--contract", contract] if contract else []) + (["--strict"] if strict else [])
        done = subprocess.run([program.path(), "judge", path, "--case", line, *more], capture_output=True,
                              text=True)
    text = done.stdout if done.returncode in (library.GREEN, library.FINDING) else done.stderr or done.stdout
    return done.returncode, text.replace(path, "these tensors")


def _judge(line, planes, contract, strict, process):
    __tracebackhide__ = True
    if process not in ("", "own"):
        raise ValueError(f"process={process!r}; allowed: 'own', a process for this call; '', this one")
    if not isinstance(contract, str) or "\0" in contract:
        raise ValueError(f"contract={contract!r}: a text, as in 'acc=f32 order=any'")
    judged = _judged_apart if process else library.judge
    code, text = judged(line, planes, contract or None, strict)
    if code == library.FINDING:
        raise Finding("\n" + text)
    if code != library.GREEN:
        raise ValueError(text.strip())
    return text


def _op(op, formula):
    if bool(op) == bool(formula) or not isinstance(op, str) or not isinstance(formula, str):
        raise ValueError("one of op and formula is given, as a text")
    return op or op_of(formula)


def _first_output(op, attributes):
    name = next((name for name, row in tensors_of(op, attributes).items() if row[2]), None)
    if name is None:
        raise ValueError(f"op={op} is none: assay list ops")
    return name


def _planes(table, arrays):
    """name -> Plane; whole numbers of Python where the op has whole numbers, 16 bits widened where it has
    f32."""
    if not isinstance(arrays, dict):
        raise ValueError(f"inputs and outputs are a dict of arrays by name, not {type(arrays).__name__}")
    planes = {}
    for name, array in arrays.items():
        form = table[name][1] if name in table else ""
        if form == "int32" and isinstance(array, (list, tuple)):
            import numpy
            array = numpy.asarray(array, numpy.int32)
        planes[name] = plane_of(array, copy=False).widened(form)
    return planes


def _line_and_planes(op, arrays, attributes):
    planes = _planes(tensors_of(op, attributes), arrays)
    return line_of(op, planes, attributes)[0], planes


def check(output, *, op="", formula="", inputs, contract="", strict=False, process="", **attributes):
    """Judges `output` (one array, or a dict by name where the op has several) of `inputs` (a dict by the
    names on the page of the
    op, `assay manual OP`) under the arithmetic that the kernel declares. Attributes that shapes and types do
    not decide are
    given by name (eps=1e-5). `formula`: the text of an op that assay does not have (docs/formulas.md), in
    place of `op`.
    process="own": judged by a process of its own, where this one's memory is not to be trusted. Returns what
    the judge says of a
    pass, raises Finding with its text otherwise, and ValueError for what cannot be judged."""
    __tracebackhide__ = True
    op = _op(op, formula)
    if not isinstance(inputs, dict):
        raise ValueError(f"inputs are a dict of arrays by name, not {type(inputs).__name__}")
    outputs = output if isinstance(output, dict) else {_first_output(op, attributes): output}
    line, planes = _line_and_planes(op, dict(inputs, **outputs), attributes)
    return _judge(line, planes, contract, strict, process)


def truth(*, op="", formula="", inputs, contract="", **attributes):
    """What a kernel's outputs have to be, as check() judges them: name -> (values, limits), numpy arrays of
    f64. A value is the exact
    result, or the middle of what declared roundings in between admit. An element y of value v is right where
    |y - v| <= limit; a NaN where v is one, that infinity where v is one; a limit of inf claims nothing."""
    line, planes = _line_and_planes(_op(op, formula), inputs, attributes)
    return {name: (values.numpy(), limits.numpy())
            for name, (values, limits) in library.truths(line, planes, contract or None).items()}


class Case:
    """A case with its inputs, for a test that runs a kernel of its own on them."""

    def __init__(self, line):
        self.line = line
        self.op, *words = line.split() or [""]
        odd = [word for word in words if "=" not in word]
        if odd:
            raise ValueError(f"{line!r}: {odd[0]!r} is no key=value")
        self.attributes = dict(word.split("=", 1) for word in words)
        self._planes = None

    def __repr__(self):
        return self.line

    @property
    def planes(self):
        """name -> Plane of each input, as the reference reads it."""
        if self._planes is None:
            self._planes = library.inputs(self.line)
        return self._planes

    @property
    def inputs(self):
        """name -> numpy array of each input."""
        return {name: plane.numpy() for name, plane in self.planes.items()}

    def torch(self):
        """name -> PyTorch tensor of each input."""
        return {name: plane.torch() for name, plane in self.planes.items()}

    def check(self, output, contract="", strict=False, process=""):
        """As check(): the kernel's output, or a dict of them by name."""
        __tracebackhide__ = True
        outputs = output if isinstance(output, dict) else {_first_output(self.op, self.attributes): output}
        outputs = _planes(tensors_of(self.op, self.attributes), outputs)
        return _judge(self.line, dict(self.planes, **outputs), contract, strict, process)


def cases(*lines):
    """A decorator that runs a pytest test once per case of these lines, in which a comma is a set: its
    argument `case` is a
    Case."""
    import pytest

    listed = [line.replace(" backend=cpu", "") for line in asked("run", "--list", "-b", "cpu",
                                                                 *lines).splitlines()]
    return pytest.mark.parametrize("case", [Case(line) for line in listed], ids=listed)
