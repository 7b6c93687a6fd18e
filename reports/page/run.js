// The page of a run: what is drawn of DATA, which reports/html.cpp writes.
document.title = document.querySelector("h1").textContent = "assay run";
const FIELDS = ["line", "op", "formats", "backend", "verdict", "green", "blind", "suspect", "ratio", "seen", "elements", "bad",
  "contract", "path", "kernels", "summary", "reason", "detail", "errors", "where", "repro"];
const INTERNED = ["op", "formats", "backend", "verdict", "contract", "path", "kernels", "summary", "reason"];
const cases = DATA.cases.map((row, i) => {
  const c = {i};
  FIELDS.forEach((name, f) => { c[name] = INTERNED.includes(name) ? DATA.texts[row[f]] : row[f]; });
  c.repro = "assay run '" + (c.repro || c.line).replaceAll("'", "'\\''") + "'";
  c.kind = c.verdict === "pass" ? (c.blind || c.suspect ? "odd" : "good") : !c.green ? "bad" : c.verdict === "unsupported" ? "gap" : "known";
  return c;
});
const CALLED = {good: "pass", odd: "pass worth little (blind or suspect)", known: "known finding", gap: "gap", bad: "finding"};
const PAGE = 100;  // cases drawn at once
const percent = x => x === "inf" ? "no size" : `${short(100 * x)} %`;
const times = x => x === "inf" ? "no limit would do" : `${short(x)} x limit`;
const number = x => x.toLocaleString("en");
const filter = {kind: "", op: "", formats: "", backend: "", cause: "", text: ""};
const named = backend => backend.split("/").pop();  // a plug-in's path is told in full above
const GROUPS = 100;  // causes that are told
const causeOf = c => `${c.verdict}|${c.op}|${c.backend}|${c.summary.replace(/[-+]?[\d][\d.e+-]*/g, "N")}`;

function choose(changes) {
  Object.assign(filter, {formats: "", cause: ""}, changes);
  draw();
}
function go(changes) {
  choose(Object.assign({kind: "", op: "", backend: "", text: ""}, changes));
  const heading = document.getElementById("cases");
  heading.scrollIntoView();
  heading.focus({preventScroll: true});
}

// Head: what ran, and how it ended.
const facts = make("dl", {});
for (const [name, value] of DATA.facts) facts.append(make("dt", {}, ...path(name)), make("dd", {class: "mono"}, ...path(value)));
page.append(make("p", {class: DATA.green ? "good" : "bad", id: "outcome"}, DATA.outcome), facts);
for (const note of DATA.notes) page.append(make("p", {class: "bad"}, note));

// Findings by what they have in common.
const groups = new Map();
for (const c of cases.filter(c => c.kind === "bad")) groups.set(causeOf(c), (groups.get(causeOf(c)) || []).concat([c]));
if (groups.size) {
  const s = section("Findings by cause", "A button lists the cases of a group below.");
  for (const text of DATA.digest) s.append(make("p", {}, text));
  s.append(table(["cases", "verdict", "of", "what"], [...groups].sort((a, b) => b[1].length - a[1].length).slice(0, GROUPS).map(([cause, list]) =>
    make("tr", {}, make("td", {}, make("button", {class: "chip cause", onclick: () => go({cause}), "aria-label": `list ${list.length} cases`}, String(list.length))),
      make("td", {class: "bad"}, list[0].verdict), make("td", {class: "of"}, `${list[0].op} on ${named(list[0].backend)}`), make("td", {class: "wide"}, list[0].summary)))));
  if (groups.size > GROUPS) s.append(make("p", {class: "soft"}, `and ${groups.size - GROUPS} causes more, among the cases below`));
}

// The matrix: op and backend by format, a colour for the gravest verdict, a shade for the number of the view.
const cells = new Map();
for (const c of cases) {
  const row = `${c.op} on ${c.backend}`;
  if (!cells.has(row)) cells.set(row, new Map());
  cells.get(row).set(c.formats, (cells.get(row).get(c.formats) || []).concat([c]));
}
const RANK = ["gap", "good", "odd", "known", "bad"];
const HUE = {good: 145, odd: 42, known: 268, bad: 6};
const largest = list => list.reduce((most, x) => x === "inf" || most === "inf" ? "inf" : Math.max(most, x), 0);
function look(list, view) {
  const kind = list.reduce((k, c) => RANK.indexOf(c.kind) > RANK.indexOf(k) ? c.kind : k, "gap");
  const judged = list.filter(c => c.elements > 0), passed = judged.filter(c => c.verdict === "pass");
  const used = largest(passed.map(c => c.ratio)), seen = largest(judged.map(c => c.seen));
  const label = `${list.length} case${list.length > 1 ? "s" : ""}, ${CALLED[kind]}` + (passed.length ? `; at most ${percent(used)} of the limit used` : "") +
    (judged.length ? `; an error of ${percent(seen)} is seen in half of the elements` : "");
  if (kind === "gap" || (view === "seen" && !judged.length)) return {label, style: "color: var(--soft)"};
  if (view === "seen") {  // from 1e-7, faint, to 10 %, full
    const depth = seen === "inf" ? 1 : Math.min(1, Math.max(0, (Math.log10(Math.max(seen, 1e-12)) + 7) / 6));
    return {label, style: `background: hsl(${depth === 1 ? 42 : 215} 60% 50% / ${(.1 + .6 * depth).toFixed(2)})`};
  }
  const depth = kind === "bad" || kind === "known" ? 1 : used === "inf" ? 1 : Math.min(1, used);
  return {label, style: `background: hsl(${HUE[kind]} 60% 48% / ${(.15 + .55 * depth).toFixed(2)})`};
}
// How many cases, and where some are findings, how many of them.
function count(list) {
  const bad = list.filter(c => c.kind === "bad").length;
  return bad ? `${bad} of ${list.length}` : String(list.length);
}
const matrix = section("Matrix", "A cell is the cases of an op, a backend and its formats, with their number (findings of all); it lists them below.");
const legend = make("p", {class: "soft"});
const grid = make("div", {id: "matrix"});
const views = make("div", {class: "row controls", role: "radiogroup", "aria-label": "what the shade shows"});
function shade(view) {
  legend.textContent = view === "seen" ? "Shade: the smallest error that would have been seen in half of the elements of the bluntest case, from 1e-7 to 10 %; amber: 10 % and more would not be."
    : "Colour: green pass, amber a pass worth little, violet known, red a finding, uncoloured a gap. Shade: the largest share of the limit that a pass used.";
  grid.replaceChildren();
  let op = "";
  for (const [name, byFormat] of [...cells].sort((a, b) => a[0] < b[0] ? -1 : 1)) {
    const first = byFormat.values().next().value[0];
    if (first.op !== op) grid.append(make("h3", {style: "margin-top: .7rem"}, op = first.op));
    const row = make("div", {class: "row"}, make("span", {class: "soft", style: "min-width: 4.5rem; overflow-wrap: anywhere"}, named(first.backend)));
    for (const [formats, list] of byFormat) {
      const {label, style} = look(list, view);
      row.append(make("button", {class: "chip mono cell", style, title: label, "aria-label": `${name}, ${formats}: ${label}`,
        onclick: () => go({op: first.op, backend: first.backend, formats})}, `${formats || "-"} ${count(list)}`));
    }
    grid.append(row);
  }
}
for (const [view, text] of [["used", "verdict and share of the limit"], ["seen", "smallest error that is seen"]]) {
  const radio = make("input", {type: "radio", name: "view", id: `view-${view}`});
  radio.checked = view === "used";
  radio.addEventListener("change", () => shade(view));
  views.append(make("label", {}, radio, " ", text));
}
matrix.append(views, legend, grid);
shade("used");

// Cases: filters, and a line for each that opens.
const heading = section("Cases");
heading.firstChild.id = "cases";
heading.firstChild.tabIndex = -1;
const search = make("input", {type: "search", class: "wide", placeholder: "words that the line, the path or the finding has", "aria-label": "search"});
const selects = {};
function select(key, all, values) {
  const box = make("select", {"aria-label": key}, make("option", {value: ""}, all), ...values.map(([value, text]) => make("option", {value}, text)));
  box.addEventListener("change", () => choose({[key]: box.value}));
  return selects[key] = box;
}
const distinct = key => [...new Set(cases.map(c => c[key]))].sort().map(v => [v, key === "backend" ? named(v) : v]);
const counted = Object.keys(CALLED).map(k => [k, cases.filter(c => c.kind === k).length]).filter(([, n]) => n);
search.addEventListener("input", () => choose({text: search.value}));
heading.append(make("div", {class: "row controls"}, select("kind", "every verdict", counted.map(([k, n]) => [k, `${CALLED[k]} (${number(n)})`])),
  select("op", "every op", distinct("op")), select("backend", "every backend", distinct("backend")), search,
  make("button", {class: "chip", onclick: () => go({})}, "all")));
const shown = make("p", {class: "soft", "aria-live": "polite", id: "shown"}), list = make("div", {id: "list"});
const more = make("button", {class: "chip controls"}, "more");
heading.append(shown, list, more);

function octave(n) {  // the largest error / limit of a column of the histogram
  return n === 0 ? "exact" : n === 24 ? "beyond 2^10" : `up to 2^${n - 13}`;
}
function histogram([start, ...counts]) {
  const w = 22, h = 90, most = Math.max(...counts), columns = Math.max(15, start + counts.length);
  const svg = make("svg", {viewBox: `0 0 ${Math.max(330, w * columns)} ${h + 20}`, role: "img", "aria-label": "elements by error over limit"});
  counts.forEach((count, at) => {
    const n = start + at, height = count ? Math.max(2, h * Math.log1p(count) / Math.log1p(most)) : 0;
    const bar = make("rect", {x: w * n + 2, y: h - height, width: w - 4, height, fill: `var(--${n > 13 ? "bad" : "good"})`});
    bar.append(make("title", {}, `${octave(n)}: ${number(count)}`));
    svg.append(bar);
  });
  svg.append(make("line", {x1: w * 14, x2: w * 14, y1: 0, y2: h, stroke: "var(--ink)", "stroke-dasharray": "3 3"}),
    make("text", {x: 2, y: h + 14, "text-anchor": "start"}, "exact"), make("text", {x: w * 7, y: h + 14, "text-anchor": "middle"}, "2^-6"),
    make("text", {x: w * 14, y: h + 14, "text-anchor": "middle"}, "limit"));
  return make("div", {class: "panel"}, make("h3", {}, "Elements by error / limit (height: log of the count)"), svg);
}
function positions(where) {
  const across = Math.ceil(where.columns / where.tile_columns), down = Math.ceil(where.rows / where.tile_rows);
  const svg = make("svg", {viewBox: `0 0 ${across} ${down}`, preserveAspectRatio: "none", role: "img", "aria-label": "where elements are bad",
    style: `height: ${Math.min(160, Math.max(24, 12 * down))}px; background: var(--paper); border: 1px solid var(--line)`});
  [...where.map].forEach((digit, t) => {
    if (digit === "0") return;
    const tile = make("rect", {x: t % across, y: Math.floor(t / across), width: 1, height: 1, fill: "var(--bad)", opacity: .2 + .8 * digit / 9});
    tile.append(make("title", {}, `row ${Math.floor(t / across) * where.tile_rows}, column ${t % across * where.tile_columns}: ${digit} of 9`));
    svg.append(tile);
  });
  return make("div", {class: "panel"}, make("h3", {}, `Where: ${where.shape}, the last axis across`), svg,
    make("p", {class: "soft"}, `a tile is ${where.tile_rows} x ${where.tile_columns}`));
}
function details(c) {
  const box = make("div", {}), facts = make("dl", {});
  const fact = (name, value) => { if (value) facts.append(make("dt", {}, name), make("dd", {class: "mono"}, value)); };
  fact("what", c.summary);
  fact("why it is green", c.reason);
  if (c.elements) fact("judged", `${number(c.elements)} elements, ${number(c.bad)} beyond the limit, worst ${times(c.ratio)}; an error of ${percent(c.seen)} is seen in half of them`);
  fact("contract", c.contract);
  fact("declared path", c.path);
  fact("witness saw", c.kernels || "nobody watched, or nothing was launched");
  const button = make("button", {class: "chip controls", onclick: () => show([c.repro])}, "copy");
  facts.append(make("dt", {}, "repro"), make("dd", {class: "mono"}, c.repro, " ", button));
  box.append(facts);
  const pictures = make("div", {class: "pair"});
  if (c.errors) pictures.append(histogram(c.errors));
  if (c.where) pictures.append(positions(c.where));
  box.append(pictures);
  if (c.where) box.append(make("h3", {style: "margin-top: .6rem"}, "First bad elements"), table(["element", "got", "want", "limit", "error / limit"],
    c.where.first.map(row => make("tr", {}, ...row.map(v => make("td", {class: "mono"}, typeof v === "number" ? v.toPrecision(6) : v))))));
  if (c.detail) box.append(make("pre", {class: "panel mono"}, c.detail));
  return box;
}
function entry(c) {
  const e = make("details", {}, make("summary", {}, make("b", {class: c.kind === "gap" ? "soft" : c.kind}, c.verdict), " ", make("code", {}, c.line),
    make("span", {class: "soft"}, c.elements ? ` ${c.verdict === "wrong" ? times(c.ratio) : percent(c.ratio) + " of the limit"}` : "")));
  e.addEventListener("toggle", () => { if (e.open && e.children.length === 1) e.append(details(c)); });
  return e;
}
let found = [];
function add() {
  const at = list.children.length;
  list.append(...found.slice(at, at + PAGE).map(entry));
  more.hidden = list.children.length >= found.length;
}
more.addEventListener("click", add);
function draw() {
  const words = filter.text.toLowerCase().split(/\s+/).filter(w => w);
  found = cases.filter(c => (!filter.kind || c.kind === filter.kind) && (!filter.op || c.op === filter.op) && (!filter.backend || c.backend === filter.backend) &&
    (!filter.formats || c.formats === filter.formats) && (!filter.cause || (c.kind === "bad" && causeOf(c) === filter.cause)) &&
    words.every(w => `${c.line} ${c.verdict} ${c.path} ${c.kernels} ${c.summary} ${c.reason}`.toLowerCase().includes(w)));
  for (const [key, box] of Object.entries(selects)) box.value = filter[key];
  if (search.value !== filter.text) search.value = filter.text;
  shown.textContent = `${number(found.length)} of ${number(cases.length)} cases` + (filter.formats ? ` with ${filter.formats}` : "") + (filter.cause ? " of one cause" : "");
  list.replaceChildren();
  add();
}
choose({kind: cases.some(c => c.kind === "bad") ? "bad" : ""});
