#!/usr/bin/env python3
"""Each row of SECURITY.md's tables names tests, and each of them is there. A planted name and an empty row
are found.

    security_test.py SOURCE_FOLDER
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
rows = set(re.findall(r'^\{"([^"]+)"', (root / "harness/worker/hostile/rows.inc").read_text(), re.M))
tests = set()
for folder in ("harness", "reports", "reference"):
    for file in (root / folder).rglob("*_test.cpp"):
        for suite, name in re.findall(r"TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", file.read_text()):
            tests.add(f"{suite}.{name}")
            if file.name.startswith("sandbox"):
                tests.add(name)


def problems(text):
    found, count = [], 0
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or cells[0] == "prevented" or set(line) <= set("|-"):
            continue
        count += 1
        names = re.findall(r"`([^`]+)`", cells[-1])
        if not names:
            found.append(f"SECURITY.md:{number}: '{cells[0]}' names no test")
        found += [f"SECURITY.md:{number}: there is no test {name}"
                  for name in names if name not in rows | tests]
    return found, count


page = (root / "SECURITY.md").read_text()
found, count = problems(page)
planted, _ = problems("| x | by | `never_written` |\n| y | by | hope |\n| z | by | `write_null` |\n")
if len(planted) != 2:
    found.append(f"of two planted rows these were found: {planted}")
if count < 20:
    found.append(f"SECURITY.md: {count} rows of tables: is this the page?")
print("\n".join(found) or f"{count} rows, each with tests that are there")
sys.exit(1 if found else 0)
