#!/usr/bin/env python3
"""How often `assay attribute` names the place of a fault: places_test.py ASSAY PLUGIN [--seed N] [--each N]
[--kinds KIND ...] [--least-precision PERCENT] [--least-recall PERCENT] [-v]. misplaced.cpp has faults whose
place is known; kinds, cases and numbers are drawn, the label of each follows from the draw alone. A place is
one axis with its range: "keys 37..37", "heads 2..2". precision = right / named, recall = right / labelled.
Query rows, heads and sequences are scored where the case shows every key to every row."""
import argparse
import random
import re
import subprocess
import sys

TILE, PAGE = 32, 16
OUTER = ("batch entries", "query rows", "heads", "v columns")


def span(first, last, of_each=0):
    return f"{first}..{last}" + (f" of each {of_each}" if of_each else "")


def keys(first, last, page, length):
    """The label of a run of keys: whole tiles and pages are named besides."""
    label = {"keys": span(first, last)}
    for name, size in (("tiles", TILE), ("pages", page)):
        if size and first % size == 0 and ((last + 1) % size == 0 or last + 1 == length):
            label[name] = span(first // size, last // size)
    return label


def tile(n, page, length):
    return keys(TILE * n, min(TILE * n + TILE, length) - 1, page, length)


# kind -> (what the case must have, the numbers behind the kind, the label); d: draw, c: the case's numbers.
KINDS = {
    "drop_key": ((), lambda d, c: (d.randrange(c["len"]),), lambda c, n: keys(n, n, c["page"], c["len"])),
    "drop_tile": ((), lambda d, c: (d.randrange(c["tiles"]),), lambda c, n: tile(n, c["page"], c["len"])),
    "tile_twice": ((), lambda d, c: (d.randrange(c["tiles"]),), lambda c, n: tile(n, c["page"], c["len"])),
    "rescale": ((), lambda d, c: (d.randrange(1, c["tiles"]),), lambda c, n: tile(n, c["page"], c["len"])),
    "rescale_both": ((), lambda d, c: (d.randrange(1, c["tiles"]),), lambda c,
                     n: tile(n, c["page"], c["len"])),
    "last_of_tile": ((), lambda d, c: (), lambda c: {"keys": span(TILE - 1, TILE - 1, TILE)}),
    "drop_tail": (("full",), lambda d, c: (d.randrange(2, 20),),
                  lambda c, n: keys(c["len"] - n, c["len"] - 1, c["page"], c["len"])),
    "drop_head": (("full",), lambda d, c: (d.randrange(2, 20),), lambda c,
                  n: keys(0, n - 1, c["page"], c["len"])),
    "v_of_next": ((), lambda d, c: (d.randrange(c["len"]),), lambda c, n: keys(n, n, c["page"], c["len"])),
    "k_page": (("pages",), lambda d, c: (d.randrange(c["len"] // PAGE),),
               lambda c, n: keys(PAGE * n, PAGE * n + PAGE - 1, PAGE, c["len"])),
    "v_page": (("pages",), lambda d, c: (d.randrange(c["len"] // PAGE),),
               lambda c, n: keys(PAGE * n, PAGE * n + PAGE - 1, PAGE, c["len"])),
    "slot": (("pages",), lambda d, c: (d.randrange(PAGE),), lambda c, n: {"keys": span(n, n, PAGE)}),
    "sequence": (("plain",), lambda d, c: (d.randrange(c["batch"]), d.randrange(c["len"])),
                 lambda c, n, m: keys(m, m, c["page"], c["len"]) | {"batch entries": span(n, n)}),
    "row": (("plain",), lambda d, c: (d.randrange(c["q"]), d.randrange(c["len"])),
            lambda c, n, m: keys(m, m, c["page"], c["len"]) | {"query rows": span(n, n)}),
    "head": (("plain",), lambda d, c: (d.randrange(c["heads"]), d.randrange(c["len"])),
             lambda c, n, m: keys(m, m, c["page"], c["len"]) | {"heads": span(n, n)}),
    "kv_head": (("plain",), lambda d, c: (d.randrange(c["heads"]),), lambda c, n: {"heads": span(n, n)}),
    "column": (("plain",), lambda d, c: (d.randrange(c["dv"]),), lambda c, n: {"v columns": span(n, n)}),
    "dimension": ((), lambda d, c: (d.randrange(c["d"]),), lambda c, n: {"dimensions": span(n, n)}),
    "dimensions_from": ((), lambda d, c: (d.randrange(c["d"] // 2, c["d"]),), lambda c,
                        n: {"dimensions": span(n, c["d"] - 1)}),
    "bit_v": (("v_codes",), lambda d, c: (d.randrange(2, 8),), lambda c, n: {"v bits": span(n, n)}),
    "bit_k": (("k_codes",), lambda d, c: (d.randrange(2, 8),), lambda c, n: {"k bits": span(n, n)}),
    "drop_k": (("matmul",), lambda d, c: (d.randrange(c["k"]),), lambda c, n: {"k": span(n, n)}),
    "k_from": (("matmul",), lambda d, c: (d.randrange(c["k"] // 2, c["k"]),), lambda c,
               n: {"k": span(n, c["k"] - 1)}),
    "last_of_block": (("matmul",), lambda d, c: (), lambda c: {"k": span(TILE - 1, TILE - 1, TILE)}),
    "block_twice": (("matmul",), lambda d, c: (d.randrange(c["k"] // TILE),), lambda c,
                    n: {"k": span(TILE * n, TILE * n + TILE - 1)}),
    "b_of_next": (("matmul",), lambda d, c: (d.randrange(c["k"]),), lambda c, n: {"k": span(n, n)}),
    "y_row": (("matmul",), lambda d, c: (d.randrange(c["m"]),), lambda c, n: {"rows": span(n, n)}),
    # Of a row of softmax or rmsnorm, whose columns enter a sum; of a quantiser, in groups of 32.
    "lost_column": (("rows",), lambda d, c: (d.randrange(c["cols"]),), lambda c, n: {"columns": span(n, n)}),
    "columns_from": (("rows",), lambda d, c: (d.randrange(c["cols"] // 2, c["cols"]),), lambda c,
                     n: {"columns": span(n, c["cols"] - 1)}),
    "lane": (("rows",), lambda d, c: (d.randrange(8),), lambda c, n: {"columns": span(n, n, 8)}),
    "group": (("rows",), lambda d, c: (d.randrange(c["cols"] // TILE),), lambda c,
              n: {"columns": span(TILE * n, TILE * n + TILE - 1)}),
    "column_twice": (("rows",), lambda d, c: (d.randrange(c["cols"]),), lambda c, n: {"columns": span(n, n)}),
    "read_of_next": (("rows",), lambda d, c: (d.randrange(c["cols"]),), lambda c, n: {"columns": span(n, n)}),
    "gamma_of_next": (("rmsnorm",), lambda d, c: (d.randrange(c["cols"]),), lambda c,
                      n: {"columns": span(n, n)}),
    "y_column": (("rows",), lambda d, c: (d.randrange(c["cols"]),), lambda c, n: {"columns": span(n, n)}),
    "row_zero": (("rows", "quantize", "dequantize"), lambda d, c: (d.randrange(c["rows"]),), lambda c,
                 n: {"rows": span(n, n)}),
    "lost_in_row": (("rows",), lambda d, c: (d.randrange(c["rows"]), d.randrange(c["cols"])),
                    lambda c, n, m: {"rows": span(n, n), "columns": span(m, m)}),
    "max_without": (("quantize",), lambda d, c: (d.randrange(TILE),), lambda c,
                    n: {"columns": span(n, n, TILE)}),
    "max_without_tail": (("quantize",), lambda d, c: (d.randrange(8, TILE),), lambda c,
                         n: {"columns": span(n, TILE - 1, TILE)}),
    "scale_of_group": (("quantize",), lambda d, c: (d.randrange(c["cols"] // TILE),),
                       lambda c, n: {"columns": span(TILE * n, TILE * n + TILE - 1)}),
    "scale_of_next": (("dequantize",), lambda d, c: (d.randrange(c["cols"] // TILE),),
                      lambda c, n: {"columns": span(TILE * n, TILE * n + TILE - 1)}),
    "code_at": (("quantize", "dequantize"), lambda d, c: (d.randrange(TILE),), lambda c,
                n: {"columns": span(n, n, TILE)}),
    "code_of": (("quantize", "dequantize"), lambda d, c: (d.randrange(c["cols"]),), lambda c,
                n: {"columns": span(n, n)}),
    "code_lane": (("quantize", "dequantize"), lambda d, c: (d.randrange(8),), lambda c,
                  n: {"columns": span(n, n, 8)}),
    "factor_of_row": (("rows",), lambda d, c: (), lambda c: {}),  # every element of the output: no place
    "factor": ((), lambda d, c: (), lambda c: {}),  # every element of the output: no place
}


def case_for(draw, needs):
    if "matmul" in needs:
        c = {"plain": True, "m": draw.randrange(6, 40), "n": draw.randrange(9, 64),
             "k": draw.randrange(97, 500)}
        words = " ".join(f"{name}={c[name]}" for name in "mnk")
        return c, f"matmul {words} a=f32 b=f32 dtype=f32 path=f32 fill={draw.choice(['gaussian', 'uniform'])} seed={draw.randrange(1, 99)}"
    ops = [op for need in needs for op in {"rows": ["softmax", "rmsnorm"], "rmsnorm": ["rmsnorm"],
                                           "quantize": ["quantize"],
                                           "dequantize": ["dequantize"]}.get(need, [])]
    if ops:
        op = draw.choice(ops)
        quantiser = {"quantize": " to=int4_g32", "dequantize": " from=int4_g32"}.get(op, "")
        c = {"plain": True, "rows": draw.randrange(4, 40), "cols": TILE * draw.randrange(3, 20) if quantiser
             else draw.randrange(97, 700)}
        return c, (f"{op} rows={c['rows']} cols={c['cols']}{quantiser} dtype=f32 fill={draw.choice(['gaussian', 'uniform'])} "
                   f"seed={draw.randrange(1, 99)}")
    heads = draw.choice([4, 6, 8])
    c = {"batch": draw.choice([2, 3]), "heads": heads, "kv_heads": draw.choice([2, heads // 2, heads]),
         "q": draw.choice([2, 3, 5]),
         "d": draw.choice([16, 24, 64, 80, 128]), "dv": draw.choice([32, 64, 96, 128]),
         "len": draw.randrange(97, 400),
         "page": PAGE if "pages" in needs or draw.random() < 0.3 else 0}
    c["tiles"] = (c["len"] + TILE - 1) // TILE
    words = [f"{name}={c[name]}" for name in ("batch", "heads", "kv_heads", "q", "d", "dv", "len", "page")]
    c["plain"] = "plain" in needs or draw.random() < 0.6
    if not c["plain"]:
        words += draw.choice([["mask=causal"], ["mask=window", f"window={c['len'] - 3}"], ["lengths=ragged"],
                              ["mask=causal"]]
                             if "full" not in needs else [["mask=causal"]])
    words += [f"k={'int8_tensor' if 'k_codes' in needs else 'f32'}",
              f"v={'int8_tensor' if 'v_codes' in needs else 'f32'}"]
    return c, " ".join(["attention", *words, "dtype=f32", f"fill={draw.choice(['gaussian', 'uniform'])}",
                        f"seed={draw.randrange(1, 99)}"])


def places(text):
    """{axis: range} of what `assay attribute` says."""
    found = re.search(r"^  where     (.*)$", text, re.M)
    return {m[1]: m[2] for m in (re.fullmatch(r"(.+?) (\d+\.\.\d+(?: of each \d+)?)(?: of \d+)?", part)
                                 for part in (found[1].split(", ") if found else [])) if m}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("assay")
    p.add_argument("plugin")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--each", type=int, default=10, help="draws of each kind")
    p.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    p.add_argument("--least-precision", type=float, default=0)
    p.add_argument("--least-recall", type=float, default=0)
    p.add_argument("-v", action="store_true")
    a = p.parse_args()
    total, runs, cases, by_kind, by_axis = [0, 0, 0], 0, 0, {}, {}
    for kind in a.kinds:
        needs, numbers, label_of = KINDS[kind]
        for i in range(a.each):
            draw = random.Random(f"{a.seed} {kind} {i}")
            c, line = case_for(draw, needs)
            chosen = numbers(draw, c)
            label = label_of(c, *chosen)
            command = [a.assay, "attribute", line, "-b",
                       ":".join([a.plugin, "-".join([kind, *map(str, chosen)])])]
            if i == 0 and subprocess.run([a.assay, "run", "-q", line, "-b", a.plugin],
                                         capture_output=True).returncode:
                sys.exit(f"{line}: without a fault {a.plugin} is red")
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{' '.join(command)}: {done.stderr}")
            if "verdict   pass" in done.stdout:  # the case does not show it
                continue
            cases += 1
            runs += int(re.search(r"runs      (\d+)", done.stdout)[1])
            said = {axis: where for axis, where in places(done.stdout).items() if axis not in OUTER
                    or c["plain"] or axis in label}
            right = sum(said.get(axis) == where for axis, where in label.items())
            for count in (total, by_kind.setdefault(kind, [0, 0, 0])):
                for n, add in enumerate((len(label), len(said), right)):
                    count[n] += add
            for axis in label.keys() | said.keys():
                count = by_axis.setdefault(axis, [0, 0, 0])
                for n, add in enumerate((axis in label, axis in said,
                                         axis in label and said.get(axis) == label[axis])):
                    count[n] += add
            if a.v and said != label:
                stage = re.search(r"stage     (\w+)", done.stdout)[1]
                print(f"{kind} {chosen} {stage}: said {said}, is {label} | {line}", flush=True)

    def row(name, count):
        share = [100 * count[2] / n if n else 100.0 for n in (count[1], count[0])]
        print(f"{name:<18}{count[0]:>6}{count[1]:>8}{count[2]:>8}{share[0]:>12.1f}{share[1]:>10.1f}")
        return share

    print(f"{'':<18}places   named   right  precision    recall")
    for table in (by_kind, by_axis):
        for name, count in table.items():
            row(name, count)
        print()
    precision, recall = row("together", total)
    print(f"{cases} faults, {runs / max(1, cases):.1f} runs of the kernel each")
    return 0 if cases and precision >= a.least_precision and recall >= a.least_recall else 1


if __name__ == "__main__":
    sys.exit(main())
