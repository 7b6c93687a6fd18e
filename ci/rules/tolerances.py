"""No tolerance is typed. A typed tolerance is a decimal number that decides how far a result may be off: the
slack of EXPECT_NEAR and its like, a small number beside <, <=, > or >=, FLOAT_EQ (four units that nobody
derived), allclose and isclose, atol= and rtol=. Where a bound follows from an operation count or from
somebody else's definition it gets a name, and the derivation stands beside the name: in a comment on the line
of the definition or right above. A power of two that is the unit of rounding of a format, or its smallest
number, may be written (0x1p-24); any other in a test needs such a comment."""
import re

from rules.tree import CPP

SMALL = 0.1  # below it, a number in a comparison is a slack and no size
NUMBER = re.compile(r"(?<![\w.])(\d+\.\d*|\.\d+|\d+)(?![xX])(?:[eE]([-+]?\d+))?[fFlL]?(?![\w.])")
POWER = re.compile(r"0[xX]1(?:\.0*)?[pP]-(\d+)[fFlL]?(?![\w.])")
# Units of f64, f32, f16, bf16, binary128 and the FP8 formats, halves and doubles of them; smallest numbers.
UNITS = {3, 4, 7, 8, 9, 10, 11, 12, 23, 24, 25, 51, 52, 53, 54, 112, 113, 14, 126, 133, 149, 1022, 1074}
NEAR = re.compile(r"\b\w*(?:NEAR|[nN]ear|[cC]lose)$")
COMPARES = re.compile(r"\b(?:EXPECT|ASSERT|RC_ASSERT)_?(?:LT|LE|GT|GE)$")
LOOKS_THROUGH = re.compile(r"(?:^|\W)(?:f?abs|fabsf|max|min|sqrt|Real|double|float|EXPECT_TRUE|EXPECT_FALSE|ASSERT_TRUE|"
                           r"ASSERT_FALSE|RC_ASSERT|if|while|return|and|or|not|any|all)$")
ALWAYS = re.compile(r"\b(?:EXPECT|ASSERT)_(?:FLOAT|DOUBLE)_EQ\b|\b(?:allclose|isclose|assert_close|assertAlmostEqual)\s*\(|"
                    r"\bpytest\.approx\b|\b(?:Float|Double)Near\b|\b(?:atol|rtol|abs_tol|rel_tol|tol|tolerance)\s*=[^=]")
NAMED = re.compile(r"\b(?:constexpr|const)\s[^=;(]*?\bk[A-Z]\w*\s*(?:=|\{)|^[A-Z][A-Z0-9_]*\s*=")
VARIABLE = re.compile(r"(?:\b(?:double|float|auto|Real)\s+|^\s*)(\w+)\s*(?:=|\{)[^=;{]*$")
TEMPLATE = re.compile(r"\b(\w+)<[\w:\s,*&]*(?:<[\w:\s,*&]*>)?[\w:\s,*&]*>(?=\s*[({>])")


def _blank(text, python):
    """Comments and strings as spaces, so that places stay."""
    comment = r"#[^\n]*" if python else r"//[^\n]*|/\*.*?\*/"
    string = r'""".*?"""|"(?:[^"\\\n]|\\.)*"|' + (r"'(?:[^'\\\n]|\\.)*'" if python
                                                  else r"(?<!\w)'(?:[^'\\\n]|\\.)*'")
    return re.sub(f"{string}|{comment}", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def _slack(text, at, end):
    """Whether the number at text[at:end] stands beside a comparison, or is the last argument of NEAR or the
    like."""
    depth, i, floor = 0, at - 1, max(0, at - 600)
    arguments = 0
    while i >= floor:  # leftwards, out of the parentheses that arithmetic makes
        c = text[i]
        if c in ")]":
            depth += 1
        elif c in "([" and depth:
            depth -= 1
        elif depth == 0:
            if c == "(":
                name = text[max(0, i - 40):i].rstrip()
                if COMPARES.search(name) or (NEAR.search(name) and arguments):
                    return True
                if re.search(r"[\w>]$", name) and not LOOKS_THROUGH.search(name):
                    return False
                arguments = 0
            elif c == ",":
                arguments += 1
            elif c in "<>" and not arguments and text[i - 1:i] not in "<>-" and text[i + 1:i + 2] not in "<>":
                return True
            elif c in ";{}[?" or (c in ":=" and text[i - 1:i] not in "<>=:!" and text[i:i + 2] != "::"):
                return _right(text, end) if not arguments and c != "[" else False
            elif text[i - 1:i + 1] in ("&&", "||"):
                return _right(text, end) if not arguments else False
        i -= 1
    return False


def _right(text, at):
    depth = 0
    for i in range(at, min(len(text), at + 200)):
        c = text[i]
        if c in "([":
            depth += 1
        elif c in ")]":
            if not depth:
                return False
            depth -= 1
        elif depth == 0 and c in "<>" and text[i + 1:i + 2] not in "<>":
            return True
        elif depth == 0 and c in ";,?:{}&|":
            return False
    return False


def _bounds(text, m, line):
    """Whether the number defines a variable that stands beside a comparison further down."""
    name = VARIABLE.search(line[:m.start() - text.rfind("\n", 0, m.start()) - 1])
    return name is not None and any(
        _slack(text, use.start(), use.end())
        for use in re.compile(rf"(?<![\w.]){name[1]}(?![\w(])").finditer(text, m.end())
    )


def _explained(lines, number, python):
    mark = "#" if python else "//"
    before = number - 2
    while (
        not python
        and before > 0
        and lines[before].rstrip()[-1:] not in (";", "{", "}", ":")
        and mark not in lines[before]
    ):
        before -= 1  # the statement began on an earlier line
    return mark in lines[number - 1] or (number > 1 and lines[before].strip().startswith(mark))


def judged(tree, file):
    """Judges everywhere, and tests of what is judged; a kernel's own thresholds are its own."""
    if not (file.endswith(CPP) or tree.is_python(file)) or file.endswith(".inc"):
        return False
    return file.startswith("ci/consumer/") or (file in tree.sources
                                               and (not file.startswith("backends/") or tree.is_test(file)))


def check(tree):
    for file in tree.files:
        if not judged(tree, file):
            continue
        python = tree.is_python(file)
        lines = tree.text(file).splitlines()
        text = TEMPLATE.sub(lambda m: m[1] + " " * (len(m[0]) - len(m[1])), _blank(tree.text(file), python))
        places = {}
        for m in POWER.finditer(text):
            number = text.count("\n", 0, m.start()) + 1
            if (
                tree.is_test(file)
                and int(m[1]) not in UNITS
                and not _explained(lines, number, python)
                and _slack(text, m.start(), m.end())
            ):
                places[number] = "a power of two that is no format's unit, and no comment beside it: "
        text = POWER.sub(lambda m: " " * len(m[0]), text)
        places |= {text.count("\n", 0, m.start()) + 1: "" for m in ALWAYS.finditer(text)}
        for m in NUMBER.finditer(text):
            value = float(m[0].rstrip("fFlL"))
            number = text.count("\n", 0, m.start()) + 1
            line = text.splitlines()[number - 1] if value < SMALL or "." in m[0] else ""
            if 0 < value < SMALL and (NAMED.search(line) or _bounds(text, m, line)):
                if not _explained(lines, number, python):
                    places[number] = "the derivation stands in no comment beside it: "
            elif 0 < value < SMALL and _slack(text, m.start(), m.end()):
                places[number] = ""
            elif value and _last_of_near(text, m):
                places[number] = ""
        for number in sorted(places):
            yield f"{file}:{number}: a typed tolerance: {places[number]}limits are derived, or have a name and a derivation"


def _last_of_near(text, m):
    """A decimal number of any size, integers apart from 0 too, as the slack of NEAR."""
    before = text[max(0, m.start() - 400):m.start()]
    call = re.search(r"\b(?:EXPECT|ASSERT)_NEAR\(((?:[^;])*)$", before)
    if not call:
        return False
    depth = commas = 0
    for c in call[1]:
        depth += (c in "([{") - (c in ")]}")
        commas += c == "," and depth == 0
        if depth < 0:
            return False
    return commas == 2 and depth == 0
