"""assay pairs: which pairs there are, what is missing to make them, and what is found of them."""
import argparse
import dataclasses
import json
import os
import sys
import tempfile

from . import corpus, measure

OK, FINDING, USAGE, CANNOT = 0, 1, 2, 125


def arguments(words):
    parser = argparse.ArgumentParser(prog="assay pairs",
                                     description="Real defects: judged before their fix, and after it.")
    parser.add_argument("names", nargs="*", metavar="PAIR",
                        help="those pairs alone (default: all that have an adapter, of --half)")
    parser.add_argument("--mirror", metavar="DIR",
                        help="where the repositories are: DIR/OWNER+NAME or DIR/OWNER/NAME, bare")
    parser.add_argument("--half", choices=("looked", "untouched", "all"), default="looked",
                        help="which half; of the untouched one nothing is run until it is measured once (default: looked)")
    parser.add_argument("--trigger", action="store_true",
                        help="the triggers alone: is the parent wrong, and the child right?")
    parser.add_argument("--share", action="append", choices=measure.SHARES,
                        help="only this share (default: all three)")
    parser.add_argument("--seeds", default="1,2,3", help="of the suites (default: 1,2,3)")
    parser.add_argument("--budget", type=float, default=60,
                        help="seconds for each suite, on each side (default: 60)")
    parser.add_argument("--python", metavar="FILE",
                        help="the interpreter for Python's adapters: one with torch, triton, numpy")
    parser.add_argument("--corpus", metavar="DIR", help="another folder with pairs.list, adapters and ops")
    parser.add_argument("--json", metavar="FILE", help="write all results there")
    parser.add_argument("--list", action="store_true",
                        help="name the pairs, and what of them is there; run nothing")
    parser.add_argument("--sums", action="store_true",
                        help="print the checksums of the pairs' files, for the list")
    return parser.parse_args(words)


def shares_of(options):
    return ("trigger",) if options.trigger else tuple(options.share or measure.SHARES)


def print_table(results, shares, out=sys.stdout):
    """A line a pair; a share is found where any seed finds it."""
    print(f"\n{'pair':24} " + " ".join(f"{s:10}" for s in shares)
          + f"{'s to first':>10}  child  first finding", file=out)
    for name in dict.fromkeys(r.id for r in results):
        mine = [r for r in results if r.id == name]
        cells = []
        for share in shares:
            of = [r for r in mine if r.share == share]
            found = sum(r.verdict == "found" for r in of)
            word = of[0].verdict if of else "-"
            cells.append(f"{f'found {found}/{len(of)}' if found else word:10}")
        first = next((r for r in mine if r.first), None)
        reds = {case for r in mine for case, _ in r.red_child}
        print(f"{name:24} {' '.join(cells)} {f'{first.seconds:.2f}' if first else '-':>10}  {f'{len(reds)} red' if reds else 'green'}  "
              f"{first.says[:100] if first else ''}", file=out)
    for share in shares:
        names = {r.id for r in results if r.share == share}
        found = len({r.id for r in results if r.share == share and r.verdict == "found"})
        low, high = measure.wilson(found, len(names))
        print(f"{share}: {found} of {len(names)} found by at least one seed (95 %: {100 * low:.0f}..{100 * high:.0f})", file=out)


def list_pairs(pairs, mirror):
    for pair in pairs:
        there = "no mirror given"
        if mirror:
            try:
                there = corpus.repository(mirror, pair)
            except corpus.Missing:
                there = "not in the mirror"
        print(f"{pair.id:24} {pair.half:10} {pair['class']:2} {pair['family']:12} {pair['adapter'] or 'no adapter yet':22} {there}")
    made = sum(p.made for p in pairs)
    print(f"{len(pairs)} pairs, {made} with an adapter; looked at {sum(p.half == 'looked' for p in pairs)}, "
          f"untouched {sum(p.half == 'untouched' for p in pairs)}")


def print_sums(pair, mirror):
    sums = []
    for side in ("parent", "child"):
        with tempfile.TemporaryDirectory() as where:
            try:
                corpus.extract(mirror, pair, side, where)
            except corpus.Wrong:
                pass  # the checksum is what is asked for
            sums.append(corpus.checksum(where))
    print(f"{pair.id} sums={','.join(sums)}")


def run(options, folder, include):
    if options.budget <= 0 or not all(s.isdigit() for s in options.seeds.split(",")):
        raise corpus.Wrong("--budget: seconds above 0 are allowed; --seeds: whole numbers with commas between")
    pairs = corpus.read(os.path.join(folder, "pairs.list"))
    unknown = [n for n in options.names if n not in {p.id for p in pairs}]
    if unknown:
        raise corpus.Wrong(f"no pair {' '.join(unknown)}: assay pairs --list names them")
    chosen = [p for p in pairs if p.id in options.names or not options.names and options.half
              in ("all", p.half)]
    if options.list:
        list_pairs(chosen, options.mirror)
        return OK
    if not options.mirror:
        repositories = sorted({p["repo"] for p in chosen if p.made})
        raise corpus.Missing(f"--mirror DIR is missing: bare git directories of {', '.join(repositories)}")
    results, shares, absent = [], shares_of(options), []
    for pair in (p for p in chosen if p.made):
        def tell(r, took):
            print(f"{r.id} {r.share} seed={r.seed}: {r.verdict}, {r.cases} cases, {len(r.red_child)} of {r.child_cases} red on the child, {took:.0f} s"
                  + (f"\n  {r.first}\n  {r.says}" if r.first else ""), flush=True)
        try:
            if options.sums:
                print_sums(pair, options.mirror)
            else:
                results += measure.measure_pair(pair, options.mirror, folder, include, options.python, shares,
                                                [int(s) for s in options.seeds.split(",")], options.budget,
                                                tell)
        except corpus.Missing as error:
            absent.append(str(error))
            print(f"assay pairs: {error}", file=sys.stderr)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump({"results": [dataclasses.asdict(r) for r in results], "missing": absent}, file,
                          indent=1)
    if results:
        print_table(results, shares)
        for r in results:
            for case, says in r.red_child[:3]:
                print(f"red on the child: {r.id} {r.share} seed={r.seed}: {case}\n  {says}")
            if r.red_child[3:]:
                print(f"  and {len(r.red_child) - 3} more: --json has all")
    found = {r.id for r in results if r.verdict == "found"}
    return CANNOT if absent else FINDING if {r.id
                                             for r in results} - found or any(r.red_child for r in results) else OK


def main(words, folder, include):
    options = arguments(words)
    try:
        return run(options, options.corpus or folder, include)
    except corpus.Wrong as error:
        print(f"assay pairs: {error}", file=sys.stderr)
        return USAGE
    except corpus.Missing as error:
        print(f"assay pairs: {error}", file=sys.stderr)
        return CANNOT
