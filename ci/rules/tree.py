"""A tree of sources, and what the rules of ci/layers share: which files there are, and where a violation
stands."""
import os
import re

LAYERS = ("reference", "backends", "harness", "cases", "reports")
CPP = (".cpp", ".hpp", ".h", ".c", ".cu", ".cuh", ".inc")
GLSL = (".glsl", ".comp")
# What is no folder's: tests, benchmarks, and files that hold a main(). Nothing includes them, so that they
# stand above all.
TEST = re.compile(r"(_test\.|/test_|_testing\.|/bench_|_test_|/conformance|/testing/)")
MAIN = re.compile(r"^int main\(", re.M)


class Tree:
    def __init__(self, root):
        self.root = os.path.abspath(root)
        self._text = {}
        self.files = sorted(self._walk(LAYERS + ("ci", "cmake")))
        self.files += [f for f in sorted(os.listdir(self.root)) if os.path.isfile(os.path.join(self.root, f))]
        self.sources = [f for f in self.files if f.split("/")[0] in LAYERS]

    def _walk(self, tops):
        for top in tops:
            for folder, folders, names in os.walk(os.path.join(self.root, top)):
                folders[:] = [f for f in folders if f not in ("__pycache__", "build")]
                for name in names:
                    yield os.path.relpath(os.path.join(folder, name), self.root)

    def text(self, file):
        if file not in self._text:
            with open(os.path.join(self.root, file), encoding="utf-8", errors="replace") as f:
                self._text[file] = f.read()
        return self._text[file]

    def lines(self, file):
        return enumerate(self.text(file).splitlines(), 1)

    def has(self, path):
        return os.path.exists(os.path.join(self.root, path))

    def is_python(self, file):
        if file.endswith(".py"):
            return True
        return "." not in os.path.basename(file) and self.text(file).startswith("#!/usr/bin/env python3")

    def is_cmake(self, file):
        return os.path.basename(file) == "CMakeLists.txt" or file.endswith(".cmake")

    def is_test(self, file):
        return TEST.search("/" + file) is not None

    def is_program(self, file):
        return self.is_test(file) or MAIN.search(self.text(file)) is not None


def circle(graph):
    """The nodes of one circle of a graph {node: nodes}, the first again at its end; [] when there is none."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return []
        path.append(node)
        for other in sorted(graph.get(node, ())):
            found = visit(other)
            if found:
                return found
        done.add(path.pop())
        return []

    for node in sorted(graph):
        found = visit(node)
        if found:
            return found
    return []
