"""What is said of a watch: a dictionary, lines of it, and a file."""
import json
import os

from assay.watching.judge import against

FORMAT = "watch 1"
GREEN, FINDING, NOTHING = 0, 1, 3
MOST = 8  # rows of each list that a terminal is shown
NAME = "watch.json"


def of(watch):
    """The report of a watch that is over."""
    judge = watch.judge
    result = {
        "assay": FORMAT, "models": dict(watch.models), "steps": watch.steps.as_json(), "judged": judge.count,
        "ops": judge.ops,
        "first": judge.first, "findings": judge.findings, "births": judge.births, "stale": judge.stale,
        "casts": judge.casts,
        "not_judged": dict(judge.unjudged), "operator_by_operator": dict(watch.left),
        "unseen": dict(watch.unseen),
        "errors": dict(watch.errors + judge.errors), "judging_seconds": watch.judging,
        "pauses_seconds": watch.pauses,
        "told": {str(step): rows for step, rows in judge.steps.items()}
    }
    if watch.before is not None:
        result["against"] = against(result, watch.before)
    return result


def code(report):
    """As an exit code: 0, 1 a finding, 3 nothing was judged."""
    if report["findings"]:
        return FINDING
    return GREEN if report["judged"] else NOTHING


def where(row):
    return f"step {row['step']}, {row['place'] or 'model'}: {row['name']}"


def short(value):
    return "?" if value is None else f"{value:.3g}"


def lines(report):
    """What a terminal is told."""
    steps, first = report["steps"], report["first"]
    yield (f"{steps['steps']} steps of {', '.join(report['models']) or 'no model'}, {steps['watched']} watched; "
           f"{report['judged']} calls judged, {len(report['findings'])} wrong")
    for kind in steps["kinds"]:
        if kind["seconds"] and kind["seconds_watched"]:
            more = kind["seconds_watched"] / kind["seconds"] - 1
            n = f"every {kind['every']}. step is watched: {100 * more / kind['every']:.1f} % more" if kind["every"] else "too few steps for a rate"
            yield (f"  steps of size {kind['size']}: {1e3 * kind['seconds']:.2f} ms, watched {1e3 * kind['seconds_watched']:.2f} ms; {n}")
    if first is not None:
        yield f"FIRST WRONG {where(first)}"
        for line in first["text"].strip().splitlines()[1:6]:
            yield f"  {line}"
        if first["equals"]:
            yield f"    the same output came in step {first['equals']['step']}, {first['equals']['place']}, of other inputs: a stale buffer?"
        if first["file"]:
            yield f"    assay judge {first['file']}"
    for row in report["findings"][1:MOST]:
        yield f"also wrong {where(row)}: {row['what']}"
    if len(report["findings"]) > MOST:
        yield f"and {len(report['findings']) - MOST} more, in the report"
    if report["ops"]:
        yield f"  {'op':<16}{'cases':>7}{'wrong':>7}{'outputs':>12}  worst share of its limit"
    for op, row in sorted(report["ops"].items()):
        part = "" if row["part"] == 1 else f"; of some {100 * row['part']:.0f} % of the columns"
        yield f"  {op:<16}{row['calls']:>7}{row['wrong']:>7}{row['outputs']:>12,}  {short(row['worst'])} at {row['at']}{part}"
    yield from _noted(report)
    if "against" in report:
        yield from _against(report["against"])
    yield ("nothing was judged" if not report["judged"] else "not green" if report["findings"]
           else "all green of what was judged")


def _noted(report):
    created = [b for b in report["births"] if b["created"]]
    for born in created[:MOST]:
        since = "" if born["step"] == 0 else "; since the last watched step, at the latest in this one"
        yield f"{born['kind'].replace('nan', 'NaN').replace('inf', 'Inf')} created: {where(born)}, {born['count']} elements{since}"
    if len(report["births"]) > len(created):
        yield f"NaN or Inf passed on by {len(report['births']) - len(created)} calls"
    for place, row in sorted(report["casts"].items()):
        if row["saturated"] or row["overflowed"]:
            yield (f"casts of {place or 'the model'}: {100 * row['saturated']:.3g} % at the largest number, "
                   f"{100 * row['overflowed']:.3g} % made infinite")
    for row in report["stale"][:MOST]:
        yield (f"suspect {where(row)}: not judged, and its output is that of step {row['equals']['step']}, "
               f"{row['equals']['place']}, whose inputs were others")
    for title, rows in (("not judged", report["not_judged"]),
                        ("judged operator by operator", report["operator_by_operator"]),
                        ("not seen", report["unseen"]), ("an error of assay's own", report["errors"])):
        for why, count in sorted(rows.items(), key=lambda row: -row[1])[:MOST]:
            yield f"{title}, {count} times: {why}"
        if len(rows) > MOST:
            yield f"{title}: {len(rows) - MOST} more reasons, in the report"
    others = report["steps"]["steps"] - report["steps"]["watched"]
    if others:
        yield f"not watched: {others} steps"


def _against(found):
    if not found["compared"]:
        yield "against the other run: no step was watched in both"
    elif found["parts"] is None:
        yield f"against the other run: {found['compared']} calls, all equal in their bits"
    else:
        yield f"against the other run: the first {found['compared']} calls compared part at {where(found['now'] or found['before'])}: {found['parts']}"
        for title, row in (("this run", found["now"]), ("the other", found["before"])):
            if row is not None:
                yield f"    {title}: {where(row)}, {row['verdict']}, {short(row['worst'])} of its limit"
        yield "    bits were not promised: a contract of limits admits both where both are within them"


def write(folder, report):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, NAME)
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)
    return path


def read(path):
    """Of a file, or of a watch's folder. ValueError says what is wrong with it."""
    path = os.path.join(path, NAME) if os.path.isdir(path) else path
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as why:
        raise ValueError(f"'{path}': {why}") from why
    if not isinstance(found, dict) or found.get("assay") != FORMAT or not isinstance(found.get("told"), dict):
        raise ValueError(f"'{path}' is no report of assay watch")
    return found
