"""What is asked of a store when nothing is measured: nights, comparisons, pages, merges."""
import json
import os

from assay_sweep import page, regression, slurm, text
from assay_sweep.line import LineError
from assay_sweep.store import Store

GREEN, FINDING, NOTHING_EXECUTED = 0, 1, 3


def compare(options):
    store = Store(options.store)
    run = store.run(options.run)
    found = regression.judge(store, run)
    if found is None:
        print(f"no good night of this kind to compare with; assay sweep good {run['run']} --store {store.path} makes this one")
        return NOTHING_EXECUTED
    rows = []
    for name, row in sorted(found.items(), key=lambda x: -x[1]["state"]):
        what = "REGRESSION" if row["reported"] and not row["accepted"] else "accepted" if row["reported"] else ""
        rows.append((what, name, f"{row['right'] / row['needles']:.3f}",
                     f"{row['lost']} / {row['gained']} in {row['pairs']}",
                     f"{row['fresh']} / {row['before']}", f"{row['state']:.2g} of {row['threshold']:.2g}"))
    print(text.table(("", "cells", "right", "lost / gained", "other seeds", "evidence"), rows))
    bad = [name for name, row in found.items() if row["reported"] and not row["accepted"]]
    for name, row in found.items():
        if bad and row["where"]:
            first, last, lost, needles = row["where"]
            print(f"{name}: {lost} of the {needles} needles between {first:.4f} and {last:.4f} of the length are lost")
    for name, row in found.items():
        if row["reported"] and row["accepted"]:
            print(f"accepted: {name}: {row['accepted']['reason']}")
    print(f"{len(bad)} of {len(found)} series are worse; over {regression.NIGHTS} unchanged nights the probability of any report is at "
          f"most {regression.ERROR}")
    return FINDING if bad else GREEN


def good(options):
    store = Store(options.store)
    run = store.run(options.run)
    if run["ended"] != "complete" and not options.no:
        raise LineError(f"run {run['run']} is not complete ({run['ended'] or 'it was cut off'})")
    store.append({"good": not options.no, "of": run["run"]})
    print(f"run {run['run']} of {run['started']} is {'no longer ' if options.no else ''}a good night")
    return GREEN


def accept(options):
    store = Store(options.store)
    run = store.run(options.run)
    if not options.reason.strip():
        raise LineError("--reason: an accepted change has a reason")
    store.append({"accept": options.cells, "reason": options.reason, "of": run["run"]})
    print(f"accepted: {options.cells}: {options.reason}")
    return GREEN


def html(options):
    store = Store(options.store)
    page.write(options.out, store, options.run, options.against)
    print(f"page: {options.out}")
    return GREEN


def runs(options):
    store = Store(options.store)
    rows = []
    for run in store.runs():
        cells = store.cells(run["run"])
        rows.append((run["run"], run["started"][:19], run.get("kind", ""),
                     f"{len(cells)} of {len(run.get('cells', ()))}",
                     run["ended"] or "cut off", "good" if run["good"] else "", run.get("command", "")[:80]))
    print(text.table(("run", "started", "kind", "cells", "ended", "", "command"), rows))
    return GREEN


def index(options):
    store = Store(options.store)
    if os.path.exists(store.path + ".sqlite"):
        os.unlink(store.path + ".sqlite")
    counts = {table: store.index().execute(f"SELECT count(*) FROM {table}").fetchone()[0]
              for table in ("runs", "cells", "accepted")}
    print(f"{store.path}.sqlite: {json.dumps(counts)}")
    return GREEN


def merge(options):
    run, new, missing = slurm.merge(Store(options.store), options.shards)
    print(f"run {run} in {options.store}: {new} cells added"
          + (f", {missing} are missing" if missing else ""))
    return GREEN if not missing else FINDING


def add(commands):
    def command(name, act, what, run=True):
        parser = commands.add_parser(name, help=what)
        parser.add_argument("--store", default="sweep.jsonl", help="default: %(default)s")
        if run:
            parser.add_argument("run", nargs="?", default="last",
                                help="a run of the store (default: the last)")
        parser.set_defaults(act=act)
        return parser
    command("compare", compare, "a run against the good nights before it; 1 when a series has got worse")
    command("good", good, "makes a run one that later ones are compared with").add_argument(
        "--no", action="store_true", help="not any more"
    )
    parser = command("accept", accept, "an expected change, from a run on")
    parser.add_argument("--cells", required=True,
                        help="words that the series' names have in common: 'ladder k=q4_0'")
    parser.add_argument("--reason", required=True)
    parser = command("html", html, "the page of a run")
    parser.add_argument("--out", required=True)
    parser.add_argument("--against", help="an earlier run")
    command("runs", runs, "the runs of a store", run=False)
    command("index", index, "makes the SQLite index anew from the record", run=False)
    parser = command("merge", merge, "the shards of a plan into one run", run=False)
    parser.add_argument("shards", nargs="+")
