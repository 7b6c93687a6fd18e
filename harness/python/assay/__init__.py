"""Judges tensors that a test already has: `assay.check` against truth and limit, `@assay.cases` over cases with inputs of their
own, `assay.record` what a running model computes. All go through the program (`assay judge`, `assay export`); torch, JAX and numpy
arrays are taken. See README.md."""
import os
import subprocess
import tempfile

from assay import program
from assay.pages import asked, line_of, op_of, tensors_of
from assay.recorder import record, tap
from assay.tensors import Plane, plane_of, read_planes, write_planes

__all__ = ["Case", "Finding", "Plane", "cases", "check", "get_include", "record", "tap"]


def get_include():
    """The folder for a compiler's -I in which `assay/assay_backend.h` stands, the header of plug-ins. FileNotFoundError where this
    package came without it."""
    here = os.path.dirname(os.path.realpath(__file__))
    for folder in (os.path.join(here, "include"), os.path.join(here, *[os.pardir] * 4, "include")):
        if os.path.exists(os.path.join(folder, "assay", "assay_backend.h")):
            return os.path.normpath(folder)
    raise FileNotFoundError("no assay/assay_backend.h beside this package")


class Finding(AssertionError):
    """A red verdict; its text is what `assay judge` says."""


def _run(*arguments):
    return subprocess.run([program.path(), *arguments], capture_output=True, text=True)


def _judge(line, planes, contract, strict):
    __tracebackhide__ = True
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tensors.safetensors")
        write_planes(path, planes)
        more = (["--contract", contract] if contract else []) + (["--strict"] if strict else [])
        done = _run("judge", path, "--case", line, *more)
    if done.returncode == 1:
        raise Finding("\n" + done.stdout.replace(path, "these tensors"))
    if done.returncode != 0:
        raise ValueError((done.stderr or done.stdout).strip())
    return done.stdout


def check(output, *, op="", formula="", inputs, contract="", strict=False, **attributes):
    """Judges `output` (one array, or a dict by name where the op has several) of `inputs` (a dict by the names on the page of the
    op, `assay manual OP`) under the arithmetic that the kernel declares. Attributes that shapes and types do not decide are
    given by name (eps=1e-5). `formula`: the text of an op that assay does not have (docs/formulas.md), in place of `op`. Returns what the judge says of a pass, raises Finding with its text otherwise, and ValueError for
    what cannot be judged."""
    __tracebackhide__ = True
    if bool(op) == bool(formula):
        raise ValueError("one of op and formula is given")
    op = op or op_of(formula)
    table = tensors_of(op, attributes)
    outputs = [name for name, row in table.items() if row[2]]
    given = dict(inputs, **(output if isinstance(output, dict) else {outputs[0]: output}))
    planes = {name: plane_of(array).widened(table[name][1] if name in table else "") for name, array in given.items()}
    return _judge(line_of(op, planes, attributes)[0], planes, contract, strict)


class Case:
    """A case with its inputs, for a test that runs a kernel of its own on them."""

    def __init__(self, line):
        self.line = line
        self.op, *words = line.split()
        self.attributes = dict(word.split("=", 1) for word in words)
        self._planes = None

    def __repr__(self):
        return self.line

    @property
    def planes(self):
        """name -> Plane of each input, as the reference reads it."""
        if self._planes is None:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "case.safetensors")
                asked("export", self.line, "-b", "cpu", "-o", path)
                self._planes = {name: plane for name, plane in read_planes(path).items() if "/" not in name}
        return self._planes

    @property
    def inputs(self):
        """name -> numpy array of each input."""
        return {name: plane.numpy() for name, plane in self.planes.items()}

    def torch(self):
        """name -> PyTorch tensor of each input."""
        return {name: plane.torch() for name, plane in self.planes.items()}

    def check(self, output, contract="", strict=False):
        """As check(): the kernel's output, or a dict of them by name."""
        __tracebackhide__ = True
        table = tensors_of(self.op, self.attributes)
        first = next(name for name, row in table.items() if row[2])
        outputs = {name: plane_of(array) for name, array in (output if isinstance(output, dict) else {first: output}).items()}
        return _judge(self.line, dict(self.planes, **outputs), contract, strict)


def cases(*lines):
    """A decorator that runs a pytest test once per case of these lines, in which a comma is a set: its argument `case` is a
    Case."""
    import pytest

    listed = [line.replace(" backend=cpu", "") for line in asked("run", "--list", "-b", "cpu", *lines).splitlines()]
    return pytest.mark.parametrize("case", [Case(line) for line in listed], ids=listed)
