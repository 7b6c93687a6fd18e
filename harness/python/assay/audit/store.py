"""What an audit has found: an entry per site, as JSON on the disk, several of them added up, two of them
compared."""
import difflib
import json
import math
import os
import re

from assay.audit.changes import CHANGES

FORMAT = "audit 1"
MOST_TESTS, MOST_NOTES = 24, 6  # names of tests and notes that are kept of a site
NUMBERS = re.compile(r"(?<![\w.])\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\b\w*tol\w*\s*=\s*")


def number(value):
    """A float that JSON can say, or None: whatever the value is, reading it costs nothing but itself."""
    try:
        value = float(value)
    except Exception:  # noqa: BLE001  a tensor of several elements, an object of somebody's
        return None
    return value if math.isfinite(value) else None


def text(value, most=200):
    try:
        return str(value)[:most]
    except Exception:  # noqa: BLE001
        return f"a {type(value).__name__}"


class Site:
    """One place where a suite compares. `kind` is the comparison that was called; `helper` is where it
    stands, when that is not the test's own line. `changes` has for each change [asked, passed, asked where it
    showed nothing]; `tests` the same by test."""
    def __init__(self, kind, file, line, function, code, helper=None):
        self.kind, self.file, self.line, self.helper = kind, file, line, helper
        self.function, self.code = function, code
        self.hits = self.asked = self.exact = self.zeros = self.held_back = 0
        self.measure = False  # whether it compares one number of all elements
        self.changes, self.tests, self.left = {}, {}, {}
        self.side, self.tolerances, self.types = "", [], []
        self.worst = self.error = self.reference = None
        self.in_test = ("", 0)

    def begin(self, test):
        """One more hit; the hits of this test so far."""
        self.hits += 1
        self.in_test = (test, self.in_test[1] + 1 if self.in_test[0] == test else 1)
        return self.in_test[1]

    def note(self, change, passed, test):
        """passed: whether the comparison held for the changed result; None where the change showed
        nothing."""
        row = self.changes.setdefault(change, [0, 0, 0])
        if passed is None:
            row[2] += 1
            return
        row[0] += 1
        row[1] += bool(passed)
        if test in self.tests or len(self.tests) < MOST_TESTS:
            one = self.tests.setdefault(test, {}).setdefault(change, [0, 0])
            one[0] += 1
            one[1] += bool(passed)

    def leave(self, why):
        why = text(why, 120)
        if why in self.left or len(self.left) < MOST_NOTES:
            self.left[why] = self.left.get(why, 0) + 1

    def remember(self, name, value):
        kept = getattr(self, name)
        if value and value not in kept and len(kept) < MOST_NOTES:
            kept.append(value)

    def as_json(self):
        return {
            "kind": self.kind, "file": self.file, "line": self.line, "function": self.function,
            "code": self.code, "helper": self.helper, "hits": self.hits, "asked": self.asked,
            "exact": self.exact, "zeros": self.zeros, "held_back": self.held_back, "measure": self.measure,
            "side": self.side, "tolerances": list(self.tolerances), "types": list(self.types),
            "worst": self.worst, "error": self.error, "reference": self.reference, "left": dict(
                self.left), "changes": {k: list(v) for k, v in list(self.changes.items())}, "tests": {
                    t: {k: list(v) for k, v in list(found.items())} for t, found in list(self.tests.items())
                }
        }


def write(path, data):
    """As JSON, whole or not at all."""
    beside = f"{path}.{os.getpid()}.part"
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=0, allow_nan=False, default=text)
    os.replace(beside, path)


def read(path):
    """Raises ValueError for what is no file of an audit."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as why:
        raise ValueError(f"'{path}': {why}") from None
    if not isinstance(data, dict) or data.get("assay") != FORMAT or not isinstance(data.get("sites"), list):
        raise ValueError(
            f"'{path}' is no file of an audit: allowed is what --assay-audit wrote, \"assay\": \"{FORMAT}\"")
    return data


def _place(site):
    helper = site["helper"] or {}
    return site["file"], site["line"], site["kind"], helper.get("file"), helper.get("line")


def merged(audits):
    """One audit of several: those of the processes of one session, or of sessions over parts of a suite."""
    first, sites = audits[0], {}
    total = dict(first, sites=[], errors={}, seconds=0.0, audit_seconds=0.0, processes=0, unseen=0)
    for audit in audits:
        for name in ("seconds", "audit_seconds", "processes", "unseen"):
            total[name] += audit.get(name) or 0
        for name, count in audit.get("errors", {}).items():
            total["errors"][name] = total["errors"].get(name, 0) + count
        # What was seen in one process was seen.
        total["candidates"] = [c for c in total.get("candidates", []) if c in audit.get("candidates", [])]
        for site in audit["sites"]:
            kept = sites.get(_place(site))
            if kept is None:
                sites[_place(site)] = json.loads(json.dumps(site))
            else:
                _add(kept, site)
    total["sites"] = sorted(sites.values(), key=lambda s: (s["file"], s["line"], s["kind"]))
    return total


def _add(kept, site):
    for name in ("hits", "asked", "exact", "zeros", "held_back"):
        kept[name] += site[name]
    for change, row in site["changes"].items():
        mine = kept["changes"].setdefault(change, [0, 0, 0])
        kept["changes"][change] = [a + b for a, b in zip(mine, row)]
    for test, found in site["tests"].items():
        if test in kept["tests"] or len(kept["tests"]) < MOST_TESTS:
            mine = kept["tests"].setdefault(test, {})
            for change, row in found.items():
                mine[change] = [a + b for a, b in zip(mine.get(change, [0, 0]), row)]
    for why, count in site["left"].items():
        kept["left"][why] = kept["left"].get(why, 0) + count
    for name in ("tolerances", "types"):
        kept[name] = (kept[name] + [x for x in site[name] if x not in kept[name]])[:MOST_NOTES]
    kept["side"], kept["measure"] = kept["side"] or site["side"], kept["measure"] or site["measure"]
    kept["error"] = max((e for e in (kept["error"], site["error"]) if e is not None), default=None)
    if site["worst"] and (not kept["worst"] or (site["worst"]["ratio"] or 0) > (kept["worst"]["ratio"] or 0)):
        kept["worst"] = site["worst"]
    if site.get("reference"):
        mine = kept.get("reference")
        if not mine:
            kept["reference"] = site["reference"]
        else:
            kept["reference"] = {
                "judged": mine["judged"] + site["reference"]["judged"],
                "further": mine["further"] + site["reference"]["further"], "worst": max(
                    mine["worst"], site["reference"]["worst"])
            }


def state(site):
    """Of a site: 'not asked', 'exact', 'zeros' (held against zeros alone), or 'tolerant'."""
    if any(row[0] for row in site["changes"].values()):
        return "tolerant"
    if site["exact"]:
        return "exact"
    return "zeros" if site["zeros"] else "not asked"


def passes(site):
    """The changes that passed wherever they were asked and could be seen."""
    return [
        c for c in CHANGES
        if site["changes"].get(c, [0, 0])[0] and site["changes"][c][0] == site["changes"][c][1]
    ]


# How much a change that passes says of a site: none of the result is looked at, a part of it, how large it
# is.
WEIGHT = {
    "all_zero": 100, "row_nan": 50, "rows_shifted": 40, "tile_rows": 30, "tile_cols": 30, "row_sign": 20,
    "rows_swapped": 20, "heads_swapped": 20, "last_row": 15, "last_element": 4, "element": 4, "scale": 4
}
DULL = ("last_element", "element", "scale")


def blindness(site):
    """What a report is ordered by: the weights of what passes, by its share of the hits asked."""
    rows = site["changes"]
    return sum(WEIGHT[c] * row[1] / row[0] for c, row in rows.items() if c in WEIGHT and row[0])


GRADES = {
    "blind": "all zero passes", "partly blind": "a row or more may be wrong",
    "dull": "an element, or 2 % of scale, may be", "uneven": "something passes at some hits",
    "sharp": "nothing passes"
}


def grade(site):
    """The first of GRADES that holds of a site wherever it was asked, but for what is uneven."""
    found = passes(site)
    if "all_zero" in found:
        return "blind"
    if any(c not in DULL for c in found):
        return "partly blind"
    return "dull" if found else "uneven" if blindness(site) > 0 else "sharp"


def _bare(site):
    return NUMBERS.sub("#", site["code"])


def pairs(before, after):
    """(earlier, later) of each site that two audits share, then those of one alone (the other None). Sites of
    one function and helper are matched by their text, by their text without numbers and tolerances, and at
    last in their order."""
    def groups(audit):
        found = {}
        for site in audit["sites"]:
            helper = site["helper"] or {}
            found.setdefault((site["file"], site["function"], helper.get("function")), []).append(site)
        return {
            k: sorted(v, key=lambda s: (s["line"], (s["helper"] or {}).get("line", 0)))
            for k, v in found.items()
        }

    old, new = groups(before), groups(after)
    for key in list(dict.fromkeys([*old, *new])):
        mine, theirs = list(old.get(key, [])), list(new.get(key, []))
        for words in (lambda s: (s["kind"], s["code"]), lambda s: (s["kind"], _bare(s)), lambda s: s["kind"]):
            blocks = difflib.SequenceMatcher(None, [words(s) for s in mine], [words(s) for s in theirs],
                                             autojunk=False).get_matching_blocks()
            found = [(b.a + i, b.b + i) for b in blocks for i in range(b.size)]
            for a, b in found:
                yield mine[a], theirs[b]
            mine = [s for i, s in enumerate(mine) if i not in {a for a, _ in found}]
            theirs = [s for i, s in enumerate(theirs) if i not in {b for _, b in found}]
        for a, b in zip(mine, theirs):  # another comparison in the place of the first
            yield a, b
        yield from ((a, None) for a in mine[len(theirs):])
        yield from ((None, b) for b in theirs[len(mine):])


def _moved(before, after):
    """Changes that passed less often in `before` than in `after`: in the tests that both were asked in, else,
    where they share none, those that never passed and now always do. The latter too for what one element
    decides, which inputs drawn anew can."""
    shared = [t for t in before["tests"] if t in after["tests"]]
    for change in CHANGES:
        rows = [(before["tests"][t][change], after["tests"][t][change]) for t in shared
                if change in before["tests"][t] and change in after["tests"][t]]
        if rows and change not in DULL:
            if any(a[1] * b[0] < b[1] * a[0] for a, b in rows):
                yield change
            continue
        a, b = before["changes"].get(change, [0, 0]), after["changes"].get(change, [0, 0])
        exact = state(before) == "exact" and not a[0]
        if b[0] and b[1] == b[0] and (exact or (a[0] and a[1] == 0)):
            yield change


def compared(before, after):
    """{'blinder': [(earlier, later, changes)], 'sharper': [...], 'new': [...], 'gone': [...]}"""
    result = {"blinder": [], "sharper": [], "new": [], "gone": []}
    for a, b in pairs(before, after):
        if a is None or b is None:
            result["new" if a is None else "gone"].append(b or a)
            continue
        blinder, sharper = list(_moved(a, b)), list(_moved(b, a))
        if blinder:
            result["blinder"].append((a, b, blinder))
        if sharper:
            result["sharper"].append((a, b, sharper))
    return result
