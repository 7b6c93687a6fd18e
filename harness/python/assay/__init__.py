"""Judges tensors that a test already has: `assay.check` against truth and limit, `@assay.cases` over cases with inputs of their
own. Both go through the program (`assay judge`, `assay export`); torch, JAX and numpy arrays are taken. See README.md."""
import os
import re
import subprocess
import tempfile

from assay import program
from assay.tensors import Plane, plane_of, read_planes, write_planes

__all__ = ["Case", "Finding", "cases", "check"]


class Finding(AssertionError):
    """A red verdict; its text is what `assay judge` says."""


def _run(*arguments):
    return subprocess.run([program.path(), *arguments], capture_output=True, text=True)


def _asked(*arguments):
    done = _run(*arguments)
    if done.returncode != 0:
        raise ValueError((done.stderr or done.stdout).strip())
    return done.stdout


def _tensors_of(op):
    """name -> (axes, format, is an output), from the page of the op; axes and formats in terms of its attributes."""
    rows = re.findall(r"^  (\S+) +\[([^\]]*)\] +(\S+) +(input|output)", _asked("manual", op), re.M)
    return {name: (axes.split(","), form, role == "output") for name, axes, form, role in rows}


def _inferred(table, planes):
    """The attributes that shapes and types of the tensors decide. A tensor of more axes than the op has is a batch of rows."""
    found = {}
    for name, plane in planes.items():
        axes, form, _ = table[name]
        shape = list(plane.shape)
        while len(shape) > len(axes):
            shape[:2] = [shape[0] * shape[1]]
        pairs = [(axis, str(extent)) for axis, extent in zip(axes, shape) if axis.isidentifier()]
        if form.isidentifier() and form not in ("f32", "int8", "int32"):
            pairs.append((form, plane.format))
        for attribute, value in pairs:
            if found.setdefault(attribute, value) != value:
                raise ValueError(f"{name}: {attribute} is {value} by its shape or type, and {found[attribute]} by another tensor's")
    return found


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


def check(output, *, op, inputs, contract="", strict=False, **attributes):
    """Judges `output` (one array, or a dict by name where the op has several) of `inputs` (a dict by the names on the page of the
    op, `assay manual OP`) under the arithmetic that the kernel declares. Attributes that shapes and types do not decide are
    given by name (eps=1e-5). Returns what the judge says of a pass, raises Finding with its text otherwise, and ValueError for
    what cannot be judged."""
    __tracebackhide__ = True
    table = _tensors_of(op)
    outputs = [name for name, row in table.items() if row[2]]
    given = dict(inputs, **(output if isinstance(output, dict) else {outputs[0]: output}))
    for name in given:
        if name not in table:
            raise ValueError(f"{op} has no tensor {name}; allowed: {', '.join(table)}")
    planes = {name: plane_of(array).widened(table[name][1]) for name, array in given.items()}
    values = dict(_inferred(table, planes), **{key: str(value) for key, value in attributes.items()})
    return _judge(" ".join([op] + [f"{key}={value}" for key, value in values.items()]), planes, contract, strict)


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
                _asked("export", self.line, "-b", "cpu", "-o", path)
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
        table = _tensors_of(self.op)
        first = next(name for name, row in table.items() if row[2])
        outputs = {name: plane_of(array) for name, array in (output if isinstance(output, dict) else {first: output}).items()}
        return _judge(self.line, dict(self.planes, **outputs), contract, strict)


def cases(*lines):
    """A decorator that runs a pytest test once per case of these lines, in which a comma is a set: its argument `case` is a
    Case."""
    import pytest

    listed = [line.replace(" backend=cpu", "") for line in _asked("run", "--list", "-b", "cpu", *lines).splitlines()]
    return pytest.mark.parametrize("case", [Case(line) for line in listed], ids=listed)
