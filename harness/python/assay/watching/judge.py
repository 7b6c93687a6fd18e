"""Judges the calls of watched steps, in their order, and keeps what is to be said of them. Nothing in here
knows PyTorch."""
import collections
import os
import re

from assay import library
from assay.known_calls import CONTRACTS
from assay.pages import line_of
from assay.recorder import planes_of_case, write_case
from assay.watching import calls as kept

MOST_WORK = 1 << 22  # products, of one call, that are judged: of more, drawn columns of the output
MOST_FINDINGS = 20  # case files that are written
MOST_STEPS = 8  # watched steps of which each call is told in the report, for --against
WORST = re.compile(r"^  worst +(\S+) of the limit", re.M)
ERROR = re.compile(r"^  error .*? = (\S+) x limit", re.M)
WHAT = re.compile(r"^  what +(.*)", re.M)


def drawn(planes, table, seed):
    """The case with so many columns of a product that at most MOST_WORK products are judged, and the share of
    them; which, the
    seed decides."""
    import numpy
    sizes = {axis: extent for name, plane in planes.items()
             for axis, extent in zip(table[name][0], plane.shape)}
    if not {"m", "n", "k"} <= sizes.keys():
        return planes, 1.0
    most = max(1, MOST_WORK // max(1, sizes["m"] * sizes["k"]))
    if most >= sizes["n"]:
        return planes, 1.0
    chosen = numpy.sort(numpy.random.default_rng(seed).choice(sizes["n"], most, replace=False))
    some = {name: plane.taken(table[name][0].index("n"), chosen) if "n" in table[name][0] else plane
            for name, plane in planes.items()}
    return some, most / sizes["n"]


class Judge:
    """folder: where findings are written, or None. contracts: op -> words that stand in the place of those of
    PyTorch on a CPU.
    keep: every judged call is written."""

    def __init__(self, folder=None, contracts=None, keep=False):
        self.folder, self.contracts, self.keep = folder, {**CONTRACTS, **(contracts or {})}, keep
        self.ops, self.unjudged, self.errors = {}, collections.Counter(), collections.Counter()
        self.findings, self.births, self.stale, self.casts = [], [], [], {}
        self.first, self.count, self.files, self.steps = None, 0, 0, {}
        self._seen, self._number, self._where = {}, 0, None

    def judge(self, call):
        """Nothing is raised: what goes wrong is counted."""
        try:
            self._number = self._number + 1 if call.step == self._where else 0
            self._where = call.step
            self._judge(call)
        except Exception as why:  # noqa: BLE001
            self.errors[f"{call.name}: {type(why).__name__}: {str(why).splitlines()[0] if str(why) else ''}"] += 1
            self.unjudged[f"{call.name}: an error of assay's own"] += 1

    def _judge(self, call):
        inputs, outputs = [kept.Held(x) for x in call.inputs], [kept.Held(x) for x in call.outputs]
        where = {"step": call.step, "at": self._number, "place": call.place, "name": call.name}
        self._births(where, inputs, outputs)
        self._casts(call)
        same = self._same(where, inputs, outputs)
        verdict, worst, op = "not judged", None, call.cases[0][0] if call.cases else ""
        if not call.cases:
            self.unjudged[f"{call.name}: {call.why or 'not mapped'}"] += 1
        elif call.changed is not None and call.changed():
            self.unjudged[f"{call.name}: its weight was written before it was judged"] += 1
        else:
            verdict, worst = self._cases(call, where, same)
        if same and verdict == "not judged":
            self.stale.append({**where, "equals": same})
        told = self.steps.setdefault(call.step,
                                     []) if call.step in self.steps or len(self.steps) < MOST_STEPS else []
        told.append({**where, "op": op, "verdict": verdict, "worst": worst,
                     "in": "".join(x.digest for x in inputs), "out": "".join(x.digest for x in outputs)})

    def _cases(self, call, where, same):
        verdict, worst = "not judged", None
        for number, (op, attributes, inputs, outputs, more) in enumerate(call.cases):
            row = self.ops.setdefault(op, {"calls": 0, "pass": 0, "wrong": 0, "outputs": 0, "worst": 0.0,
                                           "part": 1.0, "at": ""})
            try:
                planes, table = planes_of_case(op, attributes, inputs, outputs, copy=False)
                planes, share = drawn(planes, table, [call.step, self._number, number])
                line = line_of(op, planes, attributes)[0]
                dtype = dict(word.split("=", 1) for word in line.split()[1:]).get("dtype", "f32")
                contract = f"{self.contracts.get(op, '')} {more}".strip().replace("{dtype}", dtype)
                code, text = library.judge(line, planes, contract or None)
            except ValueError as why:
                self.unjudged[f"{call.name}: {str(why).splitlines()[0]}"] += 1
                continue
            if code not in (library.GREEN, library.FINDING):
                self.unjudged[f"{call.name}: {(text.strip().splitlines() or [''])[0]}"] += 1
                continue
            self.count += 1
            found = (WORST if code == library.GREEN else ERROR).search(text)
            share_of_limit = float(found[1]) if found else None
            row["calls"] += 1
            row["outputs"] += sum(len(p.data) // _bytes(p) for n, p in planes.items() if table[n][2])
            row["part"] = min(row["part"], share)
            if share_of_limit is not None and not share_of_limit <= row["worst"]:
                row["worst"], row["at"] = share_of_limit, f"step {call.step} {call.place}"
            if worst is None or (share_of_limit is not None and not share_of_limit <= worst):
                worst = share_of_limit
            path = None
            if code == library.FINDING or self.keep:
                path = self._written(op, line, table, planes, call, contract)
            if code == library.GREEN:
                row["pass"] += 1
                verdict = "wrong" if verdict == "wrong" else "pass"
                continue
            row["wrong"] += 1
            verdict = "wrong"
            what = WHAT.search(text)
            finding = {**where, "op": op, "what": what[1] if what else text.strip().splitlines()[0],
                       "worst": share_of_limit,
                       "file": path, "case": line, "contract": contract, "text": text, "equals": same}
            self.findings.append(finding)
            if self.first is None:
                self.first = finding
        return verdict, worst

    def _written(self, op, line, table, planes, call, contract):
        if self.folder is None or (not self.keep and len(self.findings) >= MOST_FINDINGS):
            return None
        os.makedirs(self.folder, exist_ok=True)
        path = os.path.join(self.folder, f"{self.files:06d}_{op}.safetensors")
        write_case(path, line, table, planes, f"{call.place or 'model'} {call.name}, step {call.step}",
                   contract)
        self.files += 1
        return path

    def _births(self, where, inputs, outputs):
        for kind in ("nan", "inf"):
            born = sum(getattr(x, kind) for x in outputs)
            if born:
                before = sum(getattr(x, kind) for x in inputs)
                # An Inf or a NaN that goes in may come out as either: of a masked score, of Inf - Inf.
                passed = before or (kind == "nan" and any(x.inf for x in inputs))
                self.births.append({**where, "kind": kind, "count": born, "created": not passed})

    def _casts(self, call):
        if len(call.inputs) == 1 and len(call.outputs) == 1 and any(op == "cast" for op, *_ in call.cases):
            full, over = kept.saturated(call.inputs[0], call.outputs[0])
            row = self.casts.setdefault(call.place, {"casts": 0, "saturated": 0.0, "overflowed": 0.0})
            row["casts"] += 1
            row["saturated"], row["overflowed"] = max(row["saturated"], full), max(row["overflowed"], over)

    def _same(self, where, inputs, outputs):
        """Where the same output came from another input before: of the same name, in this run. Constant
        outputs say nothing, nor
        do calls without an input."""
        if not inputs or not outputs or all(x.even for x in outputs):
            return None
        given, key = tuple(x.digest for x in inputs), (where["name"],
                                                       tuple((x.digest, x.count) for x in outputs))
        found = self._seen.get(key)
        if found is None:
            self._seen[key] = given, {n: where[n] for n in ("step", "place")}
            return None
        return found[1] if found[0] != given else None


def _bytes(plane):
    return {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2,
            "bfloat16": 2}.get(plane.type, 1)


def against(now, before):
    """What two reports differ in: the first call where they part, or None. Steps that both watched, call by
    call in the order of
    the model."""
    earlier, compared = before.get("told", {}), 0
    for step, mine in sorted(now.get("told", {}).items(), key=lambda row: int(row[0])):
        theirs = earlier.get(step)
        if theirs is None:
            continue
        for a, b in zip(mine, theirs):
            compared += 1
            if (a["place"], a["name"]) != (b["place"], b["name"]):
                return {"compared": compared, "parts": "another call", "now": a, "before": b}
            if a["out"] != b["out"]:
                how = "the same inputs, other outputs" if a["in"] == b["in"] else "other inputs"
                return {"compared": compared, "parts": how, "now": a, "before": b}
        if len(mine) != len(theirs):
            longer = mine if len(mine) > len(theirs) else theirs
            row = longer[min(len(mine), len(theirs))]
            return {"compared": compared, "parts": "a call that the other run has not",
                    "now": row if longer is mine else None,
                    "before": row if longer is theirs else None}
    return {"compared": compared, "parts": None, "now": None, "before": None}
