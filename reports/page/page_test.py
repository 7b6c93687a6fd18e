#!/usr/bin/env python3
"""page_test.py BUILD: the pages in a browser. Of a run: what it shows of each kind of verdict, that nothing
is wider than the window at three widths, that it is drawn within its time at 12,000 cases, and that a
stranger's text stays text. Ends with 77 where there is no Chromium. --screenshots FOLDER keeps a picture of
each width in each colour scheme."""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

WIDTHS = (420, 900, 1600)
MOST_BYTES, MOST_SECONDS = 3e6, 2.0  # of a page of more than 10,000 cases
STRANGE = "</script><script>strangers()</script>"  # told as the name of no variant: a script that ran would leave its mark
# What the browser is asked once the page is drawn. A case is opened from the keyboard's side: its summary is
# focused and clicked.
PROBE = """
const open = [...document.querySelectorAll("details")].find(d => d.textContent.startsWith("wrong"));
if (open) { open.querySelector("summary").focus(); open.querySelector("summary").click(); }
setTimeout(() => {
  const result = {cells: document.querySelectorAll(".cell").length, listed: document.querySelectorAll("details").length,
    shown: document.getElementById("shown").textContent, causes: document.querySelectorAll(".cause").length,
    wide: document.documentElement.scrollWidth, window: window.innerWidth, seconds: drawn / 1000, text: open ? open.innerText : "",
    pictures: open ? open.querySelectorAll("svg rect").length : 0, strangers: document.body.innerHTML.includes("&lt;script&gt;strangers") && document.scripts.length === 1,
    columns: [...document.querySelectorAll("td.of")].every(e => e.clientWidth >= 70), counted: document.querySelector(".cell").textContent,
    focusable: [...document.querySelectorAll(".cell, summary, .cause, input, select")].every(e => e.tabIndex >= 0)};
  const find = document.querySelector("input[type=search]");
  find.value = "variant=fallback"; find.dispatchEvent(new Event("input"));
  result.found = document.getElementById("shown").textContent;
  document.getElementById("view-seen").click();
  result.second = document.querySelector(".cell").getAttribute("style");
  document.getElementById("result").textContent = JSON.stringify(result);
}, 50);
"""


def browser(page, width, *more):
    """The page in a frame of the given width: a window of a browser has a least width of its own."""
    frame = f"{page}.{width}.html"
    with open(frame, "w", encoding="utf-8") as file:
        file.write(f'<body style="margin:0"><iframe src="{os.path.basename(page)}" style="border:0;width:{width}px;height:1000px"></iframe>')
    return subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                           f"--window-size={width},1000",
                           "--allow-file-access-from-files", *more, f"file://{frame}"], capture_output=True,
                           text=True, timeout=120)


def asked(page):
    """What PROBE says of the page at each width, by one start of the browser."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    at = text.rindex("</script>")
    probe = f"{page}.probe.html"
    with open(probe, "w", encoding="utf-8") as file:
        file.write(text[:at] + "const drawn = performance.now();\n" + PROBE
                   + text[at:].replace("</script>", '</script><pre id="result"></pre>', 1))
    frames = f"{page}.frames.html"
    with open(frames, "w", encoding="utf-8") as file:
        file.write("".join(f'<iframe src="{os.path.basename(probe)}" style="width:{width}px;height:1000px;border:0"></iframe>' for width in WIDTHS))
        file.write('<script>onload = () => setTimeout(() => { document.body.innerHTML = "<pre id=all></pre>" && '
                   '`<pre id="all">${[...document.querySelectorAll("iframe")].map(f => f.contentDocument.getElementById("result")'
                   '.innerHTML).join("\\n")}</pre>`; }, 500);</script>')
    done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
                           "--allow-file-access-from-files", "--virtual-time-budget=20000",
                           "--dump-dom", f"file://{frames}"], capture_output=True, text=True, timeout=240)
    found = re.search(r'<pre id="all">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-500:] + done.stderr[-500:]
    return [json.loads(html.unescape(line)) for line in found[1].split("\n")]


def check(holds, what):
    if not holds:
        sys.exit(f"page_test: {what}")


def repeated(page, count):
    """The same page with each case `count` times, under other seeds: for size and time."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    start = text.index("const DATA = ") + len("const DATA = ")
    data, length = json.JSONDecoder().raw_decode(text[start:])
    data["cases"] = [[f"{case[0]} seed={n}"] + case[1:] for case in data["cases"] for n in range(count)]
    big = f"{page}.big.html"
    with open(big, "w", encoding="utf-8") as file:
        file.write(text[:start] + json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
                   + text[start + length:])
    return big, len(data["cases"])


def pages_of_several(build, folder):
    """The pages of a comparison and of a history: a change of verdict, told and drawn."""
    run = [os.path.join(build, "assay"), "run", "-q",
           "softmax rows=3 cols=8,9 variant=wrong,correct backend=./faulty_softmax.so", "--json",
           "after.json"]
    subprocess.run(run, capture_output=True, cwd=folder)
    with open(os.path.join(folder, "after.json"), encoding="utf-8") as file:
        report = json.load(file)
    for row in report["results"]:
        row.update(verdict="pass", green=True)
    with open(os.path.join(folder, "before.json"), "w", encoding="utf-8") as file:
        json.dump(report, file)
    for words, page, probe, holds in (
            (["compare"], "compare.html", 'document.querySelectorAll("tr.change").length', 2),
            (["history", "rows=3"], "history.html",
             'document.querySelector(".panel svg").clientWidth > 0.8 * document.querySelector(".panel").clientWidth && '
             'document.querySelector(".panel").textContent.includes("x limit in the last run") ? '
             'document.querySelectorAll("rect.step").length : "no numbers, or not as wide as its card"', 4)):
        subprocess.run([os.path.join(build, "assay"), *words, "before.json", "after.json", "--html", page],
                       capture_output=True, cwd=folder)
        with open(os.path.join(folder, page), encoding="utf-8") as file:
            text = file.read()
        at = text.rindex("</script>")
        page = os.path.join(folder, page)
        with open(page, "w", encoding="utf-8") as file:
            file.write(text[:at]
                       + f'document.title = [{probe}, document.documentElement.scrollWidth <= window.innerWidth].join();\n' + text[at:])
        done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
                               "--window-size=500,1000", "--virtual-time-budget=2000",
                               "--dump-dom", f"file://{page}"], capture_output=True, text=True, timeout=120)
        check(f"<title>{holds},true</title>" in done.stdout,
              f"{words[0]}: {re.findall('<title>.*?</title>', done.stdout)}")


def composed(script, data):
    """What drawn_page makes of a script of this folder and a report that is there already."""
    here = os.path.dirname(os.path.realpath(__file__))
    with open(os.path.join(here, "page.html"),
              encoding="utf-8") as file, open(os.path.join(here, script), encoding="utf-8") as drawing:
        return file.read().replace("/*SCRIPT*/",
                                   drawing.read()).replace("/*DATA*/null",
                                                           json.dumps(data).replace("<", "\\u003c"))


def pages_of_studies(build, folder, target=None):
    """The kill table, of the stored results with a stranger's text in them, and a cascade: drawn whole, and
    at no width wider than the window."""
    with open(os.path.join(os.path.dirname(os.path.realpath(__file__)), os.pardir, "results",
                           "kill_table.json"), encoding="utf-8") as file:
        kills = json.load(file)
    survivors = [row for row in kills["rows"] if row["assay"] == "no" and not row["equivalent"]]
    survivors[0]["before"] = STRANGE
    classes = len({row["class"] for row in kills["rows"]})
    pages = [("mutants", composed("mutants.js", kills), f"killed {kills['killed']} of {kills['generated']}",
              [len(survivors), classes + 1,
               "document.querySelectorAll('tr.mutant').length, document.querySelectorAll('tr.class').length"])]
    if os.path.exists(os.path.join(build, "assay-cascade")):
        ran = subprocess.run([os.path.join(build, "assay"), "cascade", "--quick", "--html", "cascade.html"],
                             capture_output=True, text=True, cwd=folder)
        check(ran.returncode == 0, ran.stdout + ran.stderr)
        with open(os.path.join(folder, "cascade.html"), encoding="utf-8") as file:
            pages.append(("cascade", file.read(), "14 of 14 links",
                          [14, 1, "document.querySelectorAll('tr.link').length, Number(document.querySelectorAll('rect.token').length > 100)"]))
    for name, text, outcome, (first, second, counts) in pages:
        page, at = os.path.join(folder, f"{name}.html"), text.rindex("</script>")
        with open(page, "w", encoding="utf-8") as file:
            file.write(text[:at] + f"""parent.postMessage([window.innerWidth, document.documentElement.scrollWidth <= window.innerWidth, {counts},
                document.getElementById("outcome").textContent.startsWith({json.dumps(outcome)}), document.scripts.length].join(), "*");""" + text[at:])
        frames = os.path.join(folder, f"{name}.frames.html")
        with open(frames, "w", encoding="utf-8") as file:
            file.write("<script>const told = []; onmessage = e => { told.push(e.data); document.title = told.join(';'); };</script>" + "".join(
                f'<iframe src="{name}.html" style="width:{width}px;height:1000px;border:0"></iframe>'
                for width in WIDTHS))
        done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
                               "--allow-file-access-from-files", "--virtual-time-budget=20000",
                               "--dump-dom", f"file://{frames}"], capture_output=True, text=True, timeout=120)
        want = {f"{width},true,{first},{second},true,1" for width in WIDTHS}
        told = re.search("<title>(.*?)</title>", done.stdout)
        check(told and set(told[1].split(";")) == want, f"{name}: {told and told[1]}, not {want}")
        if target:
            pictures(page, os.path.join(target, name))


def pictures(page, path):
    for width in WIDTHS:
        for scheme, number in (("light", 1), ("dark", 0)):
            browser(page, width, f"--blink-settings=preferredColorScheme={number}",
                    "--virtual-time-budget=3000", f"--screenshot={path}_{width}_{scheme}.png")


def main():
    target = os.path.abspath(sys.argv[sys.argv.index("--screenshots")
                                      + 1]) if "--screenshots" in sys.argv else None
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        page = os.path.join(folder, "run.html")
        faulty = "./faulty_softmax.so"
        shutil.copy(os.path.join(build, "harness", "cli", "assay_faulty_softmax.so"),
                    os.path.join(folder, faulty))
        ran = subprocess.run([os.path.join(build, "assay"), "run", "-q",
                              "softmax rows=3,40 cols=8,100 variant=correct,wrong,fallback,read_past,paints "
                              f"backend={faulty}",
                              "softmax rows=3 cols=8,33 dtype=f32,bf16,f16 fill=gaussian,peaked,deep,ramp backend=cpu",
                              f"softmax rows=3 cols=8 backend=cpu variant={STRANGE}", "--html", "run.html"],
                             capture_output=True, text=True, cwd=folder)
        check(ran.returncode == 1, ran.stdout + ran.stderr)
        for at in asked(page):
            check(at["wide"] <= at["window"], f"{at['wide']} pixels in a window of {at['window']}")
            check(at["cells"] == 4 and at["causes"] >= 4, f"{at['cells']} cells, {at['causes']} causes")
            check(at["columns"] and at["counted"] in ("f32 16 of 20", "f32 1 of 9"), f"columns, or {at['counted']}")
            check(at["shown"] == "17 of 45 cases" and at["listed"] == 17, f"shown: {at['shown']}")
            for word in ("softmax_fast", "acc=f32", "assay run 'softmax rows=3 cols=8", "First bad elements",
                         "y[2,7]", "1 of 24"):
                check(word in at["text"], f"an opened case does not say {word}: {at['text']}")
            check(at["pictures"] >= 3, "no histogram, or no map")
            check(at["found"] == "4 of 45 cases", f"found: {at['found']}")
            check("hsl(" in at["second"] and at["focusable"] and at["strangers"],
                  "the second view, the keyboard, or a stranger's text")
        pages_of_several(build, folder)
        pages_of_studies(build, folder, target)
        big, cases = repeated(page, 267)
        size = os.path.getsize(big)
        seconds = max(at["seconds"] for at in asked(big)[:1])
        print(f"{cases} cases: {size / 1e6:.2f} MB, drawn after {seconds:.2f} s")
        check(cases > 10_000 and size <= MOST_BYTES, f"{size} bytes")
        if "--time" in sys.argv:
            check(seconds <= MOST_SECONDS, f"{seconds} s")
        if target:
            pictures(page, os.path.join(target, "page"))


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    print("no Chromium here: skipped")
    sys.exit(77)
main()
