"""The arrows in the build: a target links only what its folder may use, and libraries do not link each other
in a circle (CMake allows static ones to)."""
import os

from rules.arrows import allowed, row_of
from rules.cmake import Build
from rules.tree import LAYERS, circle


def check(tree):
    build = Build(tree)
    for target, library, file, line in build.links:
        where, _, _ = build.targets[library]
        folder = os.path.dirname(where) + "/"
        if target not in build.targets or file.split("/")[0] not in LAYERS or folder.split("/")[0] not in LAYERS:
            continue
        home, _, test = build.targets[target]
        if not allowed(file, folder, test) and not os.path.dirname(home) + "/" == folder:
            yield f"{file}:{line}: {row_of(file)} must not link {library}, a target of {folder[:-1]}"
    found = circle(build.graph())
    if found:
        file, line = next((file, line)
                          for a, b, file, line in build.links if (a, b) == (found[-2], found[-1]))
        yield f"{file}:{line}: libraries in a circle: {' -> '.join(found)}"
