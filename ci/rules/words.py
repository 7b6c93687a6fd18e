"""What a file is not: unfinished, full of assertions, bound to one machine, or compiled with unsafe
arithmetic."""
import re

from rules.tree import CPP, GLSL

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
ASSERTS = re.compile(r"(?:^|[^_\w])assert\(|using namespace std;")
MACHINE = re.compile(r'"/(?:home|root|work|tmp)/')
SHARED = re.compile(r"\bTempDir\(\)|\btemp_directory_path\(\)")  # CTest runs every test in a process, several at once
OWN = re.compile(r"getpid|XXXXXX")
FAST = re.compile(r"-ffast-math|-Ofast")


def check(tree):
    for file in tree.sources + [f for f in tree.files if f.startswith(("ci/", "cmake/"))
                                or f == "CMakeLists.txt"]:
        code = file.endswith(CPP + GLSL)
        script = tree.is_python(file) or tree.text(file).startswith("#!")
        if not (code or script or tree.is_cmake(file) or file.endswith(".cases")):
            continue
        if file in ("ci/rules/words.py", "ci/layers_test"):
            continue  # they name what they forbid
        for number, line in tree.lines(file):
            if UNFINISHED.search(line):
                yield f"{file}:{number}: unfinished business: finish it, or file it"
            if MACHINE.search(line):
                yield f"{file}:{number}: a path of one machine"
            if code and ASSERTS.search(line):
                yield f"{file}:{number}: nothing asserts (InputError), and no name of std comes in wholesale"
            if code and SHARED.search(line) and not OWN.search("".join(tree.text(file).splitlines()[number - 1:number + 3])):
                yield f"{file}:{number}: a temporary file whose name another process shares: getpid() or mkdtemp"
            if tree.is_cmake(file) and FAST.search(line.split("#")[0]) and "self_test_fast_math_test.cpp" not in line:
                yield f"{file}:{number}: -ffast-math: NaN compares would vanish"
