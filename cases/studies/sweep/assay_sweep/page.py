"""The page of a run: a static template and its data as embedded JSON, in one file that needs nothing else."""
import json
import os
import shlex

from assay_sweep import line, stats

HERE = os.path.dirname(os.path.realpath(__file__))
SCRIPT = os.path.join(HERE, "sweep.js")
# Shared with the page of a run: beside this file in an installation, in reports/page of the sources.
TEMPLATE = next((path for path in (os.path.join(HERE, "page.html"),) if os.path.exists(path)),
                os.path.join(HERE, *[os.pardir] * 4, "reports", "page", "page.html"))


def repro(row):
    return f"assay sweep {row.get('kind', 'kernel')} {shlex.quote(row['cell'])}"


def grouped(rows, *keys):
    groups = {}
    for row in rows:
        groups.setdefault(line.without(row["cell"], *keys), []).append(row)
    return groups


def heat_maps(rows):
    """Depth against length, for each series that has counts by depth."""
    maps = []
    for name, group in grouped([row for row in rows if row.get("depth")], "seed", "len", "depth").items():
        by_length = {}
        for row in group:
            by_length.setdefault(int(line.words(row["cell"])[1]["len"]), []).append(row)
        columns = []
        for length in sorted(by_length):
            cells = by_length[length]
            columns.append({"len": length, "parts": stats.pooled(cells, "depth"),
                            "repro": [repro(row) for row in cells][:4]})
        maps.append({"name": name, "columns": columns})
    return maps


def ladders(rows):
    curves = []
    for name, group in grouped([row for row in rows if row.get("rungs")], "seed").items():
        rungs = stats.pooled(group, "rungs")
        gap, low, high = stats.gap75_interval(rungs)
        points = [{"rung": r, "right": right, "needles": n, "low": stats.interval(right, n)[0],
                   "high": stats.interval(right, n)[1]}
                  for r, (right, n) in sorted(rungs.items())]
        curves.append({"name": name, "points": points, "gap": gap, "gap_low": low, "gap_high": high,
                       "repro": [repro(row) for row in group][:4]})
    return curves


def cell_rows(rows):
    table = []
    for row in rows:
        low, high = stats.interval(row["right"], row["needles"]) if "right" in row else (None, None)
        table.append({"cell": row["cell"], "verdict": row["verdict"], "summary": row.get("summary", ""),
                      "right": row.get("right"),
                      "exact": row.get("right_exact"), "needles": row.get("needles"), "low": low,
                      "high": high,
                      "gain": row.get("gain"), "error": row.get("relative_error"), "limit": row.get("limit"),
                      "seconds": row.get("kernel_seconds", row.get("prefill_seconds")),
                      "rate": row.get("bytes_per_second"),
                      "repro": repro(row)})
    return table


def differences(rows, other):
    """Series of both runs, seeds pooled: share right then and now."""
    table = []
    before = grouped([row for row in other if "right" in row], "seed")
    for name, group in grouped([row for row in rows if "right" in row], "seed").items():
        if name not in before:
            continue
        counts = [[sum(row["right"] for row in g), sum(row["needles"] for row in g)]
                  for g in (before[name], group)]
        common = {row["cell"]: row for row in before[name]}
        lost = gained = 0
        for row in group:
            old = common.get(row["cell"])
            if old and old.get("bits") and row.get("bits") and len(old["bits"]) == len(row["bits"]):
                then, now = int(old["bits"], 16), int(row["bits"], 16)
                lost += (then & ~now).bit_count()
                gained += (now & ~then).bit_count()
        table.append({"name": name, "then": counts[0], "now": counts[1], "lost": lost, "gained": gained,
                      "then_range": stats.interval(*counts[0]), "now_range": stats.interval(*counts[1]),
                      "repro": [repro(row) for row in group][:4]})
    return table


def trends(store, rows):
    """Share right of each series, run by run."""
    names = set(grouped([row for row in rows if "right" in row], "seed"))
    lines = {name: [] for name in sorted(names)}
    for header in store.runs():
        found = grouped([row for row in store.cells(header["run"]).values() if "right" in row], "seed")
        for name in names & set(found):
            right, needles = (sum(row[key] for row in found[name]) for key in ("right", "needles"))
            lines[name].append({"run": header["run"], "started": header["started"], "right": right,
                                "needles": needles})
    return [{"name": name, "points": points} for name, points in lines.items() if len(points) > 1]


def data(store, name, against=None):
    run = store.run(name)
    rows = list(store.cells(run["run"]).values())
    header = {key: value for key, value in run.items() if key != "cells"}
    page = {"run": header, "asked": len(run.get("cells", ())), "heat": heat_maps(rows),
            "ladders": ladders(rows),
            "cells": cell_rows(rows), "trends": trends(store, rows), "differences": [], "against": None}
    if against is not None:
        other = store.run(against)
        page["against"] = {key: value for key, value in other.items() if key != "cells"}
        page["differences"] = differences(rows, list(store.cells(other["run"]).values()))
    return page


def write(path, store, name, against=None):
    with open(TEMPLATE, encoding="utf-8") as file, open(SCRIPT, encoding="utf-8") as script:
        template = file.read().replace("/*SCRIPT*/", script.read(), 1)
    text = json.dumps(data(store, name, against),
                      ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace(
        "\u2029", "\\u2029")
    part = f"{path}.part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(template.replace("/*DATA*/null", text, 1))
    os.replace(part, path)
