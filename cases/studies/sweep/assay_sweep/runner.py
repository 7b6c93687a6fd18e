"""One run of a sweep: which cells, in which order, under which budget; results to the store as they end;
progress by cost."""
import datetime
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
import uuid

from assay_sweep import line
from assay_sweep.store import UNMEASURED, StoreError, timed


class Planned:
    """A cell to be measured. `work` is what its time goes with (multiply-adds, tokens); cells of one `group`
    share what is
    made for them and are measured one after another; cells of one `rate` have the same seconds per work."""

    def __init__(self, cell, work, group, rate, needles, first_guess):
        self.cell, self.work, self.group, self.rate = cell, work, group, rate
        self.needles, self.first_guess, self.seconds, self.guessed = needles, first_guess, None, False


class Rates:
    """Seconds per work of the kinds that were measured. A kind that was not takes its first guess times how
    the guesses of the
    others fared on this machine: sum of seconds / sum of guessed seconds, 1 where nothing was measured."""

    def __init__(self):
        self.known, self.took, self.declared = {}, 0.0, 0.0

    def add(self, rate, seconds, work, guess=None):
        known = self.known.setdefault(rate, [0.0, 0.0])
        known[0] += seconds
        known[1] += work
        if guess:
            self.took += seconds
            self.declared += work * guess

    def seconds(self, planned):
        known = self.known.get(planned.rate)
        scale = self.took / self.declared if self.declared else 1.0
        return max(0.02, planned.work * (known[0] / known[1] if known else planned.first_guess * scale))


def predict(cells, store):
    """Seconds of each cell: the median of its own measurements; else the recorded seconds per work of its
    kind; else a guess, scaled."""
    rates = Rates()
    for planned in cells:
        own = [timed(row) for row in store.history(planned.cell) if timed(row)] if store else []
        if own:
            planned.seconds = statistics.median(own)
            rates.add(planned.rate, planned.seconds, planned.work)
    if store:
        for row in store.index().execute("SELECT row FROM cells WHERE seconds > 0 ORDER BY rowid DESC LIMIT 2000"):
            row = json.loads(row["row"])
            if row.get("rate") and row.get("work") and timed(row):
                rates.add(row["rate"], row["total_seconds"], row["work"], row.get("guess"))
    for planned in cells:
        if planned.seconds is None:
            planned.guessed = planned.rate not in rates.known
            planned.seconds = rates.seconds(planned)
    return sum(planned.seconds for planned in cells)


def information(planned, store):
    """Expected squared uncertainty that measuring a cell removes, per second: p (1 - p) of what is known of
    it, and 1/4 where
    nothing is. A cell that has always been all right or all wrong waits behind those on a ladder's slope."""
    right = needles = 0
    series = line.without(planned.cell, "seed")
    for row in store.index().execute("SELECT right, needles FROM cells WHERE cell LIKE ? AND needles > 0",
                                     (series.replace("%", "") + " seed=%",)) if store else ():
        right, needles = right + row["right"], needles + row["needles"]
    p = (right + 1) / (needles + 2)
    return (p * (1 - p) + 1 / (needles + 4)) / planned.seconds


def by_worth(cells, store):
    """Groups of cells, those that tell most per second first."""
    groups = {}
    for planned in cells:
        groups.setdefault(planned.group, []).append(planned)
    return sorted(groups.values(),
                  key=lambda g: -sum(information(p, store) * p.seconds
                                     for p in g) / sum(p.seconds for p in g))


def first_that_fits(groups, seconds_of, left):
    return next((group for group in groups if sum(seconds_of(planned) for planned in group) <= left), None)


def choose(groups, budget):
    """The cells that fit a budget of seconds if every prediction holds."""
    chosen, left, groups = [], budget, list(groups)
    while group := first_that_fits(groups, lambda planned: planned.seconds, left):
        groups.remove(group)
        chosen += group
        left -= sum(planned.seconds for planned in group)
    return chosen


def seconds_of(text):
    """"90m", "30s", "2h" or a number of seconds."""
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], units[text[-1]]) if text and text[-1] in units else (text, 1)
    try:
        value = float(number) * unit
    except ValueError:
        value = -1
    if not 0 < value < 1e8:
        raise line.LineError(f"budget {text}: allowed: a time such as 30s, 90m or 2h")
    return value


def machine():
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            model = next((text.split(":", 1)[1].strip() for text in file if text.startswith("model name")),
                         model)
    except OSError:
        pass
    return f"{model}, {len(os.sched_getaffinity(0))} cores"


def commit():
    """Of the tree that this file stands in; "" for an installation."""
    here = os.path.dirname(os.path.realpath(__file__))
    try:
        found = subprocess.run(["git", "-C", here, "describe", "--always", "--dirty", "--abbrev=12"],
                               capture_output=True,
                               text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


class Progress:
    """Of a run: what is left is predicted anew as each cell ends. Cells whose kind was recorded go by how the
    recorded ones of this
    run fared against their prediction; guessed ones by their kind's own seconds in this run, else by how the
    guesses fared."""

    def __init__(self, cells, quiet, clock=time.monotonic, budget=math.inf):
        self.left, self.all, self.quiet, self.clock = dict.fromkeys(cells), len(cells), quiet, clock
        self.rates, self.recorded = Rates(), [0.0, 0.0]
        self.start, self.budget = clock(), budget
        self.before = self.start
        self.early = None  # the total that was known after the first cell

    def seconds(self, planned):
        """Of one cell, by what is known now."""
        if planned.guessed:
            return self.rates.seconds(planned) if self.rates.known else planned.seconds
        return planned.seconds * (self.recorded[0] / self.recorded[1] if self.recorded[1] else 1.0)

    def seconds_left(self):
        return min(sum(map(self.seconds, self.left)), self.budget - (self.before - self.start))

    def total(self):
        """Seconds of the whole run, as far as is known now."""
        return self.before - self.start + self.seconds_left()

    def learn(self, planned, took):
        if planned.guessed:
            self.rates.add(planned.rate, took, planned.work, planned.first_guess)
        else:
            self.recorded = [self.recorded[0] + took, self.recorded[1] + planned.seconds]

    def finished(self, planned, row):
        now = self.clock()
        took, self.before = now - self.before, now
        del self.left[planned]
        if row.get("verdict") not in UNMEASURED:
            self.learn(planned, took)
        self.early = self.early or self.total()
        if self.quiet:
            return
        left, total = self.seconds_left(), self.total()
        verdict = row["verdict"] + (f" {row['right']}/{row['needles']}" if "right" in row else "")
        sys.stderr.write(f"[{self.all - len(self.left)}/{self.all}, {100 * (total - left) / max(total, 1e-9):.0f} % of the cost, {left:.0f} s left "
                         f"of {total:.0f}] {planned.cell}: {verdict}\n")
        sys.stderr.flush()


def batches(cells, progress, budget):
    """What is measured together: all cells; under a budget group after group, in the order given, each that
    by now seems to fit: what
    was thought too dear before anything was measured gets its turn, and what turns out too dear loses it."""
    groups = {}
    for planned in cells:
        groups.setdefault(planned.group if budget < math.inf else "", []).append(planned)
    groups = list(groups.values())
    while group := first_that_fits(groups, progress.seconds, budget - (progress.clock() - progress.start)):
        groups.remove(group)
        yield group


def run(store, header, cells, measure, quiet=False, resumed=None, budget=math.inf):
    """Measures `cells` by measure(cells), which yields (planned, row) as each ends. Returns the run's id and
    whether it is complete:
    every cell measured, or left out for the budget (seconds), of which what a resumed run has measured
    already is taken."""
    name = resumed["run"] if resumed else uuid.uuid4().hex[:12]
    done = store.cells(name) if resumed else {}
    if not resumed:
        store.append({"run": name, "started": now(), "host": platform.node(), "machine": machine(),
                      "commit": commit(),
                      "python": platform.python_version(), **header,
                      "cells": [planned.cell for planned in cells]})
    left = [planned for planned in cells if planned.cell not in done]
    predicted, start = min(budget, sum(planned.seconds for planned in left)), time.monotonic()
    budget -= sum(row.get("total_seconds") or 0 for row in done.values())
    progress = Progress(left, quiet, budget=budget)
    ended, described = "complete", []
    try:
        for planned, row in (found for batch in batches(left, progress, budget) for found in measure(batch)):
            if planned is None:  # what an engine or a backend is: part of the record, no cell
                if row not in described:
                    described.append(row)
                    store.append({"about": row, "of": name})
                continue
            store.append({**row, "of": name, "finished": now(), "rate": planned.rate, "work": planned.work,
                          "guess": planned.first_guess})
            progress.finished(planned, row)
    except KeyboardInterrupt:
        ended = "SIGINT"
    except BrokenPipeError:
        ended = "SIGPIPE"
    left_out = [planned.cell
                for planned in progress.left] if ended == "complete" and budget < math.inf else []
    if ended == "complete" and len(store.cells(name)) + len(left_out) < len(cells):
        ended = "cells are missing"
    store.append({"end": ended, "of": name, **({"left_out": left_out} if left_out else {})})
    took = time.monotonic() - start
    if not quiet and progress.early:
        said = [f"{seconds:.1f} s were predicted {when} (factor {max(took, seconds) / max(0.001, min(took, seconds)):.2f})"
                for seconds, when in ((predicted, "before"), (progress.early, "after the first"))]
        sys.stderr.write(f"{len(left) - len(progress.left)} cells in {took:.1f} s; {', '.join(said)}\n")
    return name, ended == "complete"


def unfinished(store, kind, name=None):
    """The run that --resume takes up: the last of this kind that did not end complete."""
    for header in reversed(store.runs(kind)):
        if name in (None, "last", header["run"]) and header["ended"] != "complete":
            return header
    raise StoreError(f"{store.path}: no unfinished run of this kind is there to be resumed")
