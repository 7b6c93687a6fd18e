"""Where a comparison stands, what is written there, and which of its two sides is the reference."""
import ast
import linecache
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Words of a side that is the reference. Alone or joined by _ to others: ref_out, y_torch, expected2.
REFERENCE = re.compile(
    r"(?:^|_)(?:ref(?:s|erence|er)?|expect(?:ed|s)?|gold(?:en)?|naive|torch|eager|true|truth|baseline|base|"
    r"hf|want(?:ed)?|desired|np|numpy|orig(?:inal)?|oracle|correct|jax|cpu|target|gt)\d*(?:$|_)", re.I)
# Of these libraries every frame is passed over; the call is where somebody else calls them.
PASSED = re.compile(
    r"[/\\](?:numpy[/\\](?:testing|_core|core|lib|ma)[/\\]"
    r"|torch[/\\](?:testing[/\\]|utils[/\\]|_|nn[/\\]functional\.py)|jax[/\\]_src[/\\]"
    r"|unittest[/\\]|pluggy[/\\]|contextlib\.py|functools\.py|parameterized[/\\]"
    r"|hypothesis[/\\])|^<")
TESTS = re.compile(r"[/\\]tests?[/\\]|[/\\]test_[^/\\]*$|_test\.py$")
ENDS = re.compile(r"[/\\]_pytest[/\\]")
NEUTRAL = {
    "to", "astype", "type", "reshape", "view", "cast", "numpy", "cpu", "float", "double", "half", "detach",
    "item"
}
MODULES = {"torch", "np", "numpy", "jax", "jnp"}  # torch.stack(outputs) is no reference; y_torch is
OPEN, PASS, END = 0, 1, 2
_kinds, _texts = {}, {}


def _kind(name):
    kind = _kinds.get(name)
    if kind is None:
        if name.startswith(HERE) or (PASSED.search(name) and not TESTS.search(name)):
            kind = PASS
        elif ENDS.search(name):
            kind = END
        else:
            kind = OPEN
        _kinds[name] = kind
    return kind


def frames(path=None, name=None, depth=1):
    """(frame of the test's call, innermost frame outside of libraries): the outermost frame of the test's own
    file, of a function named as the test or test* first. Both None where there is none."""
    inner = test = file = frame = None
    frame = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        kind = _kind(code.co_filename)
        if kind == END and inner is not None:
            break
        if kind == OPEN:
            inner = inner or frame
            if code.co_filename == path:
                file = frame
                if code.co_name == name or code.co_name.startswith("test"):
                    test = frame
        frame = frame.f_back
    return test or file or inner, inner


def called_from_test():
    """Whether the nearest frame outside of libraries is a test's: its file is named so, or stands in a folder
    of tests."""
    frame = sys._getframe(1)
    while frame is not None:
        kind = _kind(frame.f_code.co_filename)
        if kind != PASS:
            return kind == OPEN and TESTS.search(frame.f_code.co_filename) is not None
        frame = frame.f_back
    return False


def text_of(frame, function=None):
    """The source of the call that a frame is in, on one line; '' where it is not known."""
    code = frame.f_code
    key = (code, frame.f_lasti)
    if key not in _texts:
        try:
            _texts[key] = " ".join(_source(code, frame, function).split())
        except Exception:  # noqa: BLE001  sources that are not there, or are something else
            _texts[key] = ""
    return _texts[key]


def _source(code, frame, function):
    if hasattr(code, "co_positions"):
        first, last, begin, end = next(
            p for i, p in enumerate(code.co_positions()) if i == frame.f_lasti // 2)
    else:
        first, last, begin, end = _call_at(code.co_filename, frame.f_lineno, function)
    if first is None or begin is None:
        return linecache.getline(code.co_filename, frame.f_lineno)
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    return b"".join(lines).decode(errors="replace")


def _call_at(name, line, function):
    """Where Python keeps no columns (before 3.11): the call over this line, one of this function first."""
    tree = ast.parse("".join(linecache.getlines(name)))
    over = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno <= line <= n.end_lineno]
    named = [
        n for n in over
        if function and (getattr(n.func, "attr", None) or getattr(n.func, "id", None)) == function
    ]
    found = min(named or [n for n in over if len(n.args) + len(n.keywords) >= 2],
                key=lambda n: n.end_lineno - n.lineno)
    return found.lineno, found.end_lineno, found.col_offset, found.end_col_offset


def _words(node):
    """The names in an expression that say what it is: no types, no devices, no modules, no conversions."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in NEUTRAL:
            yield from _words(node.func.value)
            return
        yield from _words(node.func)
        for argument in node.args:
            yield from _words(argument)
    elif isinstance(node, ast.Attribute):
        yield node.attr
        yield from _words(node.value)
    elif isinstance(node, ast.Name):
        if node.id not in MODULES:
            yield node.id
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for inside in ast.iter_child_nodes(node):
            yield from _words(inside)


def sides(text):
    """Which side a call's words name as the reference: 'first', 'second', or '' where they do not say."""
    try:
        call = next(n for n in ast.walk(ast.parse(text.strip(), mode="eval")) if isinstance(n, ast.Call))
    except (SyntaxError, ValueError, StopIteration, RecursionError, MemoryError):
        return ""
    named = {k.arg: k.value for k in call.keywords}
    values = list(call.args[:2]) + [
        named[k]
        for k in ("actual", "input", "x", "a", "expected", "desired", "other", "y", "b") if k in named
    ]
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("allclose", "isclose", "equal") and len(
            call.args) == 1:
        values = [call.func.value, *values]  # a.allclose(b)
    if len(values) < 2:
        return ""
    marked = [any(REFERENCE.search(word) for word in _words(value)) for value in values[:2]]
    return "" if marked[0] == marked[1] else "first" if marked[0] else "second"
