"""The path matrix as Markdown, as a page and as JSON: what ci/path_matrix's model() gathered, in one
order."""
import html as escaping
import json

from arithmetic_cards import rows_of, share

COMMAND = ["ci/path_matrix record build/assay BACKEND ARCHITECTURE, ci/engine_witness ENGINE SOURCE OUT FILE...,",
           "ci/path_matrix cards NAME LIBRARY ARCHITECTURE WHAT FILE..., then ci/path_matrix write"]
INTRODUCTION = "Regenerated, with [a page](path_matrix.html) and [JSON](path_matrix.json) of the same, by `ci/path_matrix write` from the evidence in [paths/](paths) and [cards/](cards); a cell is filled only from it, and leads to it."
OF_CELLS = "Each cell shows the best that there is evidence for; in words, with the number of further kernels that do the same job, below."
OF_CARDS = ("Each line is a card of `assay identify`: the schedule was found from outputs alone and its replay has every stored bit, under two seeds at "
            "least. unknown: none of the hypotheses has them. Kernels are named by a witness, which is no part of the search.")
EMPTY = "no evidence of any kind"


def as_json(model):
    return json.dumps(model, indent=1, ensure_ascii=False) + "\n"


def in_words(row, column):
    cell = row["cells"][column]
    return f"{row['family']}, {row['storage']}, {column}: {cell['kind']}: {cell['how']}" + (f" (+{cell['more']})" if cell["more"] else "")


def about(name, file):
    """One line on a file of cards."""
    found = [c for c in file["cards"] if c["schedule"] != "unknown"]
    return (f"{file['describes']}; commit {file['commit']}; {len(found)} of {len(file['cards'])} identified, {sum(c['equal'] for c in found):,} outputs "
            f"with no differing bit; [cards/{name}.json](cards/{name}.json)")


def markdown(model):
    lines = ["# Where each kernel runs, and how", "",
             f"    commit:  {', '.join(model['commits'])}",
             "    machine: of each, what its line under Evidence says",
             f"    command: {COMMAND[0]}", f"             {COMMAND[1]}", "", INTRODUCTION, ""]
    lines += [f"- {k['symbol']} **{kind}**: {k['meaning']}." for kind, k in model["kinds"].items()]
    lines += [f"- · {EMPTY}.", "", OF_CELLS, ""]
    for table in model["maps"]:
        lines += [f"## {table['title']}", "", "| family | storage | " + " | ".join(table["columns"]) + " |",
                  "|---|---|" + ":-:|" * len(table["columns"])]
        for row in table["rows"]:
            symbols = [f"[{model['kinds'][row['cells'][c]['kind']]['symbol']}]({row['cells'][c]['link']})"
                       if c in row["cells"] else "·"
                       for c in table["columns"]]
            lines.append(f"| {row['family']} | {row['storage']} | " + " | ".join(symbols) + " |")
        lines.append("")
    lines += ["## Arithmetic of third-party kernels, from their bits", "", OF_CARDS, ""]
    for name, file in model["cards"].items():
        lines += [f"### {file['library']}, {file['architecture']}", "", about(name, file), "",
                  "| op | cases | schedule | outputs equal | kernel |", "|---|---|---|--:|---|"]
        for op, cases, variant, schedule, equal, of, kernel in rows_of(file):
            shown = schedule if schedule == "unknown" else f"`{schedule}`"
            lines.append(f"| {op} {variant} | {'; '.join(cases)} | {shown} | {share(equal, of)} | {f'`{kernel}`' if kernel else ''} |")
        lines.append("")
    lines += ["## Not had", "", "| engine | on | why |", "|---|---|---|",
              *(f"| {n['engine']} | {n['on']} | {n['why']} |" for n in model["not_had"]), "",
              "## In words", ""]
    for table in model["maps"]:
        lines += [f"### {table['title']}", "",
                  *(f"- {in_words(r, c)}" for r in table["rows"] for c in table["columns"] if c
                    in r["cells"]), ""]
    lines += ["## Evidence", ""] + [f"- {s}" for s in model["evidence"]]
    return "\n".join(lines) + "\n"


STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 1500px; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: .2rem .5rem; text-align: left; vertical-align: top; }
th { position: sticky; top: 0; background: Canvas; }
td.cell { text-align: center; } td.number { text-align: right; white-space: nowrap; }
td.cell a { text-decoration: none; display: block; }
code { font-size: 12px; overflow-wrap: anywhere; }
.finding { background: #d33; color: #fff; } .native { background: #2a7d4f55; } .storage { background: #c8a02c55; }
.converted { background: #c86b2c55; } .compiled, .modelled { background: var(--soft); } .unknown { background: #c86b2c33; }
ul { padding-left: 1.2rem; } nav a { margin-right: 1rem; }
"""


def text(value):
    return escaping.escape(str(value))


def marked(line):
    """`code` and [text](link) of a line of Markdown."""
    out, rest = "", text(line)
    while "`" in rest:
        before, code, rest = (rest.split("`", 2) + ["", ""])[:3]
        out, rest = out + before + f"<code>{code}</code>", rest
    out += rest
    while "](" in out:
        before, after = out.split("](", 1)
        start = before.rindex("[")
        link, after = after.split(")", 1)
        out = f'{before[:start]}<a href="{link}">{before[start + 1:]}</a>{after}'
    return out


def html(model):
    sections = [m["title"] for m in model["maps"]] + ["Arithmetic of third-party kernels, from their bits",
                                                      "Not had", "Evidence"]
    anchor = {title: f"s{i}" for i, title in enumerate(sections)}
    out = ["<!doctype html>",
           '<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
           "<title>Where each kernel runs, and how</title>", f"<style>{STYLE}</style>",
           "<h1>Where each kernel runs, and how</h1>",
           f"<p>{marked(INTRODUCTION)} {OF_CELLS.replace(', below', ', where the pointer rests')}</p>",
           "<ul>"]
    out += [f"<li>{k['symbol']} <b>{kind}</b>: {text(k['meaning'])}" for kind, k in model["kinds"].items()]
    out += [f"<li>· {EMPTY}", "</ul>",
            "<nav>" + " ".join(f'<a href="#{anchor[s]}">{text(s)}</a>' for s in sections) + "</nav>"]
    for table in model["maps"]:
        out += [f'<h2 id="{anchor[table["title"]]}">{text(table["title"])}</h2>',
                "<table><tr><th>family<th>storage" +
                "".join(f"<th>{c}" for c in table["columns"])]
        for row in table["rows"]:
            line = f"<tr><td>{text(row['family'])}<td>{text(row['storage'])}"
            for c in table["columns"]:
                cell = row["cells"].get(c)
                line += "<td class=cell>·" if cell is None else (
                    f'<td class="cell {cell["kind"].split()[0].rstrip(",")}" title="{text(in_words(row, c))}">'
                    f'<a href="{cell["link"]}">{model["kinds"][cell["kind"]]["symbol"]}</a>')
            out.append(line)
        out.append("</table>")
    out += [f'<h2 id="{anchor[sections[-3]]}">{sections[-3]}</h2>', f"<p>{marked(OF_CARDS)}</p>"]
    for name, file in model["cards"].items():
        out += [f"<h3>{text(file['library'])}, {text(file['architecture'])}</h3>",
                f"<p>{marked(about(name, file))}</p>",
                "<table><tr><th>op<th>cases<th>schedule<th>outputs equal<th>kernel"]
        for op, cases, variant, schedule, equal, of, kernel in rows_of(file):
            found = schedule != "unknown"
            out.append(f"<tr{'' if found else ' class=unknown'}><td>{text(op)} {text(variant)}<td>{'<br>'.join(map(text, cases))}"
                       f"<td><code>{text(schedule)}</code><td class=number>{share(equal, of)}<td><code>{text(kernel)}</code>")
        out.append("</table>")
    out += [f'<h2 id="{anchor["Not had"]}">Not had</h2>', "<table><tr><th>engine<th>on<th>why"]
    out += [f"<tr><td>{text(n['engine'])}<td>{text(n['on'])}<td>{text(n['why'])}" for n in model["not_had"]]
    out += ["</table>", f'<h2 id="{anchor["Evidence"]}">Evidence</h2>', "<ul>",
            *(f"<li>{marked(s)}" for s in model["evidence"]), "</ul>", "</html>"]
    return "\n".join(out) + "\n"
