#!/usr/bin/env python3
"""ptx_check.py FILE.ptx KERNEL REGEX [--absent]: whether the code of KERNEL in a file of PTX, or in an object
that holds its PTX as text (nvcc --compress-mode=none), contains an instruction.

KERNEL is the device function's name without namespaces; of a template, every instance is looked at. Ends with
1, and says why, when the instruction is not there (or, with --absent, is there), or when there is no such
kernel."""
import re
import sys


def kernel_bodies(text, name):
    """The bodies of the .entry functions whose mangled name holds `name` as a whole identifier."""
    mangled = f"{len(name)}{name}[EI]"  # last of a nested name, or a template; its length tells it from longer names
    for found in re.finditer(r"\.entry\s+(\w+)", text):
        if not re.search(mangled, found.group(1)):
            continue
        depth, begin = 0, text.index("{", found.end())
        for at in range(begin, len(text)):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            if depth == 0:
                yield text[begin : at + 1]
                break


def main(arguments):
    absent = "--absent" in arguments
    path, name, pattern = [a for a in arguments if a != "--absent"]
    with open(path, encoding="utf-8", errors="replace") as file:
        bodies = list(kernel_bodies(file.read(), name))
    if not bodies:
        print(f"{path}: no kernel is called {name}")
        return 1
    for body in bodies:
        hits = re.findall(pattern, re.sub(r"//.*", "", body))
        print(f"{name}: {len(hits)} times {pattern}" + (f", first {hits[0]}" if hits else ""))
        if bool(hits) == absent:
            print(f"{name} {'contains' if absent else 'does not contain'} {pattern}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
