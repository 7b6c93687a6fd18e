"""What the page of an op says of its tensors (`assay manual OP`), and the attributes that shapes and types
decide."""
import atexit
import functools
import os
import re
import shutil
import subprocess
import tempfile
import threading

from assay import library, program

# words of a case that are no attributes of its op
OF_CASES = ("after", "backend", "fault", "fill", "layout", "seed", "variant")
FILES = "ASSAY_OPS"  # files of formulas, which every program of assay takes up
_formulas, _lock = {}, threading.Lock()


def op_of(formula):
    """The name of the op that a formula's text defines; from now on it is one of this process."""
    named = re.search(r"^op[ \t]+(\w+)", formula, re.M)
    if named is None:
        raise ValueError("a formula has a line `op NAME`: docs/formulas.md")
    name = named[1]
    with _lock:
        if name in _formulas and _formulas[name] != formula:
            raise ValueError(f"another formula of the name {name} was given before: a process has one of each")
        if name not in _formulas:
            library.add_formula(formula)  # before the programs' list has it: a library that starts later takes up that list
            folder = tempfile.mkdtemp(prefix="assay_formula_")
            atexit.register(shutil.rmtree, folder, True)
            path = os.path.join(folder, name + ".op")
            with open(path, "w") as file:
                file.write(formula)
            before = os.environ.get(FILES)
            os.environ[FILES] = before + ":" + path if before else path
            _formulas[name] = formula
    return name


def asked(*arguments):
    done = subprocess.run([program.path(), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError((done.stderr or done.stdout).strip())
    return done.stdout


@functools.cache
def _page(op):
    text = asked("manual", op)
    rows = re.findall(r"^  (\S+) +\[([^\]]*)\] +(\S+) +(input|output)(?: +if (\S+)=(!?)(\S+))?", text, re.M)
    words = dict(re.findall(r"^  (\w+) +(?:default (\S+)|default: that of \S+|required)", text, re.M))
    return rows, words


def tensors_of(op, attributes):
    """name -> (axes, format, is an output) of the tensors that a case with these attributes has, axes and
    formats in terms of its
    attributes."""
    rows, defaults = _page(op)
    table = {}
    for name, axes, form, role, attribute, negated, value in rows:
        if attribute and (str(attributes.get(attribute, defaults.get(attribute))) == value) == bool(negated):
            continue
        table[name] = (axes.split(","), form, role == "output")
    return table


def flat(shape, axes):
    """The shape with as many axes as the op's tensor has: leading ones become one."""
    shape = list(shape)
    while len(shape) > len(axes):
        shape[:2] = [shape[0] * shape[1]]
    return shape


def inferred(op, table, planes):
    """The attributes that shapes and types of the tensors decide. A tensor of more axes than the op has is a
    batch of rows."""
    found = {}
    for name, plane in planes.items():
        axes, form, _ = table[name]
        pairs = [(axis, str(extent)) for axis, extent in zip(axes, flat(plane.shape, axes))
                 if axis.isidentifier()]
        if form in _page(op)[1]:  # an attribute, not a format
            pairs.append((form, plane.format))
        for attribute, value in pairs:
            if found.setdefault(attribute, value) != value:
                raise ValueError(f"{name}: {attribute} is {value} by its shape or type, and {found[attribute]} by another tensor's")
    return found


def line_of(op, planes, attributes):
    """The case of these tensors: (line, table), with the attributes that are given by name."""
    table = tensors_of(op, attributes)
    for name in planes:
        if name not in table:
            raise ValueError(f"{op} has no tensor {name}; allowed: {', '.join(table)}")
    for key in attributes:
        if key in OF_CASES:
            raise ValueError(f"{key}={attributes[key]}: how inputs are made and by whom is no question of tensors that are there already")
    values = dict(inferred(op, table, planes), **{key: str(value) for key, value in attributes.items()})
    return " ".join([op] + [f"{key}={value}" for key, value in values.items()]), table
