"""Cards of third-party kernels (`assay identify --json`), distilled for the path matrix: which arithmetic
each kernel computed, by its bits.

A distilled file has one line for each card: the case, the schedule whose replay has every stored bit of it
(or "unknown", with the nearest and its share), how many stored outputs were compared, and the kernels that
were seen."""
import glob, json, os, re

FOLDER = os.path.join("reports", "results", "cards")
# Parts of a case line that say nothing of a kernel's arithmetic.
NOT_SHOWN = re.compile(r" (?:seed|fill|eps|backend|variant|path)=\S+")


def cards_of(text):
    """The cards of one list, or of several behind each other."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        cards, at = decoder.raw_decode(text, at)
        at += len(text[at:]) - len(text[at:].lstrip())
        for card in cards:
            if "shapes" in card:
                yield from card["shapes"]
            elif "schedule" in card:  # and no verdict on invariance
                yield card


def short(kernel):
    """A kernel's name without what a template says of its parameters."""
    kernel = re.sub(r"^void ", "", kernel)
    cutlass = re.match(r"cutlass::\w+<(\w+)>", kernel)
    return cutlass.group(1) if cutlass else re.split(r"[<(]", kernel, maxsplit=1)[0][:120]


def distilled(shape):
    """None of a case that no kernel took."""
    if "not_run" in shape:
        return None
    pieces = shape.get("pieces")
    if pieces:
        found = shape["identified"]
        whose = [(f"columns {p['columns']}: " if "columns" in p else f"rows {p['rows']}: ")
                 if len(pieces) > 1 else "" for p in pieces]
        schedule = " | ".join(of + p.get("schedule", "unknown") for of, p in zip(whose, pieces))
        compared, unequal = sum(p["compared"] for p in pieces), sum(p["unequal"] for p in pieces)
    else:
        schedule, compared, unequal = shape["schedule"], shape["compared"], shape["unequal"]
        found = schedule != "unknown"
    if shape.get("operands_rounded"):
        schedule = f"{shape['operands_rounded']} {schedule}"
    # A subject's file without the folder in which it lay.
    card = {"case": re.sub(r"(python:)\S*/", r"\1", shape["line"]),
            "schedule": schedule if found else "unknown", "equal": compared - unequal, "of": compared,
            "kernels": list(dict.fromkeys(short(k) for k in shape["kernels"] if "elementwise" not in k))[:3]}
    if not found:
        card["nearest"] = shape.get("nearest") or (pieces[0].get("nearest") if pieces else "")
    return card


def write_cards(root, name, head, files):
    """reports/results/cards/NAME.json of the cards in `files`. Returns its path and how many there are."""
    cards = [d for file in files for d in map(distilled, cards_of(open(file).read())) if d]
    path = os.path.join(root, FOLDER, f"{name}.json")
    text = json.dumps(head | {"cards": []}, indent=1).removesuffix("[]\n}")
    with open(path, "w") as out:
        out.write(text + "[\n" + ",\n".join("  " + json.dumps(c) for c in cards) + "\n]}\n")
    return path, len(cards)


def read_cards(root):
    """{name: file}, of the files that `write_cards` wrote."""
    files = {}
    for path in sorted(glob.glob(os.path.join(root, FOLDER, "*.json"))):
        files[os.path.basename(path)[:-5]] = json.load(open(path))
    return files


def words_of(case):
    return dict(w.split("=", 1) for w in case.split()[1:] if "=" in w)


def shown_case(case):
    return NOT_SHOWN.sub("", case)


def rows_of(file):
    """The table's rows: cards of one schedule and kernel stand together. (op, cases, variant, schedule,
    equal, of, kernel)"""
    rows = {}
    for c in file["cards"]:
        key = (c["case"].split()[0], words_of(c["case"]).get("variant", ""), c["schedule"],
               "; ".join(c["kernels"]))
        cases, sums = rows.setdefault(key, ([], [0, 0]))
        cases.append(shown_case(c["case"]).split(" ", 1)[-1])
        sums[0] += c["equal"]
        sums[1] += c["of"]
    return [(op, cases, variant, schedule, *sums, kernel) for (op, variant, schedule, kernel),
            (cases, sums) in rows.items()]


def share(equal, of):
    return "-" if of == 0 else f"{equal:,}" if equal == of else f"{equal:,} of {of:,}"
