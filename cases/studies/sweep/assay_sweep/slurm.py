"""Sweeps beyond one machine, by the schedulers that are there: shards as files, an sbatch script, and a
merge.

    assay sweep plan kernel --suite nightly -b cpu --slurm DIR     writes DIR/shard-N.cells and DIR/job.sbatch
    sbatch DIR/job.sbatch                                          each task measures its shard into
    DIR/shard-N.jsonl
    assay sweep merge --store sweep.jsonl DIR/shard-*.jsonl        one run of them all

A task that is submitted again goes on where it was. A merge that is made again changes nothing.
"""
import hashlib
import os
import re
import shlex
import subprocess

from assay_sweep import store
from assay_sweep.line import LineError

TEMPLATE = """#!/bin/sh
#SBATCH --job-name=assay-sweep
#SBATCH --array={array}
#SBATCH --time={minutes}
#SBATCH --cpus-per-task={threads}
#SBATCH --output={folder}/slurm-%A_%a.out
# {count} shards of about {seconds:.0f} s each, written by: {command}
# MaxArraySize is {limit}: a task takes the shards N, N + {tasks}, N + {twice} and so on.
set -u
shard="${{SLURM_ARRAY_TASK_ID:-${{1:?the number of a shard}}}}"
worst=0
while [ "$shard" -lt {count} ]; do
  {run} --cells-from "{folder}/shard-$shard.cells" --store "{folder}/shard-$shard.jsonl" --part-of {plan} -q
  code=$?
  [ "$code" -gt "$worst" ] && worst=$code
  shard=$((shard + {tasks}))
done
# A finding (1) is no failure of the job: the merge reports it.
[ "$worst" -le 1 ]
"""


def array_limit():
    """The scheduler's MaxArraySize; its default, 1001, where there is none to be asked."""
    try:
        text = subprocess.run(["scontrol", "show", "config"], capture_output=True, text=True,
                              timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        text = ""
    found = re.search(r"MaxArraySize\s*=\s*(\d+)", text)
    return int(found[1]) if found else 1001


def shards_of(cells, seconds):
    """Groups dealt to as few shards as make each about `seconds` long, the longest first, each to the
    shortest shard."""
    groups = {}
    for planned in cells:
        groups.setdefault(planned.group, []).append(planned)
    count = max(1, min(len(groups), round(sum(p.seconds for p in cells) / seconds)))
    shards = [[] for _ in range(count)]
    cost = [0.0] * count
    for group in sorted(groups.values(), key=lambda g: -sum(p.seconds for p in g)):
        at = cost.index(min(cost))
        shards[at] += group
        cost[at] += sum(p.seconds for p in group)
    return shards, cost


def write(folder, cells, run, minutes, throttle, threads, command):
    """Writes the shards and the script. Returns what a person reads."""
    folder = os.path.abspath(folder)
    os.makedirs(folder, exist_ok=True)
    shards, cost = shards_of(cells, 60 * minutes)
    limit = array_limit()
    tasks = min(len(shards), limit)  # array indices go to MaxArraySize - 1
    plan = hashlib.sha256("\n".join(sorted(p.cell for p in cells)).encode()).hexdigest()[:12]
    for i, shard in enumerate(shards):
        with open(f"{folder}/shard-{i}.cells", "w", encoding="utf-8") as file:
            file.write("".join(p.cell + "\n" for p in shard))
    text = TEMPLATE.format(array=f"0-{tasks - 1}" + (f"%{throttle}" if throttle else ""),
                           minutes=max(5, int(4 * max(cost) / 60) + 1),
                           threads=threads, folder=folder, count=len(shards), seconds=sum(cost) / len(cost),
                           limit=limit, tasks=tasks,
                           twice=2 * tasks, run=" ".join(shlex.quote(word) for word in run), plan=plan,
                           command=command)
    with open(f"{folder}/job.sbatch", "w", encoding="utf-8") as file:
        file.write(text)
    return (f"{len(cells)} cells in {len(shards)} shards of {min(cost):.0f} to {max(cost):.0f} s\n"
            f"sbatch {folder}/job.sbatch\nassay sweep merge --store sweep.jsonl {folder}/shard-*.jsonl")


def merge(target, paths):
    """Rows of shards into one run of `target`. Everything is read and compared before anything is written."""
    rows, headers, abouts = {}, [], {}
    for path in paths:
        shard = store.Store(path)
        for _, line in shard.lines():
            if "run" in line:
                headers.append(line)
            elif "about" in line:
                abouts[str(line["about"])] = line["about"]
            elif "cell" in line:
                known = rows.get(line["cell"])
                if known is not None and store.measured(known) != store.measured(line):
                    raise LineError(f"two different results of one cell: {line['cell']}\n  {difference(known, line)}\n  in {path} and before")
                rows.setdefault(line["cell"], line)
    plans = {h.get("part_of") for h in headers}
    if len(plans) != 1 or None in plans:
        raise LineError(f"these stores are not the shards of one plan: {', '.join(sorted(str(p) for p in plans))}")
    plan = plans.pop()
    there = target.cells(plan) if os.path.exists(target.path) else {}
    for cell, row in rows.items():
        if cell in there and store.measured(there[cell]) != store.measured(row):
            raise LineError(f"two different results of one cell: {cell}\n  {difference(there[cell], row)}\n  in {target.path} and the shards")
    new = [row for cell, row in rows.items() if cell not in there]
    if not there:
        first = headers[0]
        target.append({"run": plan, "started": min(h["started"] for h in headers), "kind": first["kind"],
                       "command": first["command"],
                       "commit": ",".join(sorted({h.get("commit", "") for h in headers})),
                       "machine": ",".join(sorted({h.get("machine", "") for h in headers})),
                       "shards": len(paths),
                       "cells": sorted({c for h in headers for c in h["cells"]})})
        for about in abouts.values():
            target.append({"about": about, "of": plan})
    for row in new:
        target.append({**row, "of": plan})
    asked = {c for h in headers for c in h["cells"]}
    missing = len(asked - set(rows) - set(there))
    state = "complete" if not missing else f"{missing} cells are missing"
    if new or not there:
        target.append({"end": state, "of": plan})
    return plan, len(new), missing


def difference(a, b):
    a, b = store.measured(a), store.measured(b)
    return "; ".join(f"{k}: {str(a.get(k))[:60]} and {str(b.get(k))[:60]}" for k in sorted(set(a) | set(b))
                     if a.get(k) != b.get(k))
