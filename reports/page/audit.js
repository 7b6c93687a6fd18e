// The page of an audit of a test suite: what is drawn of DATA, which report.py of assay.audit makes.
document.title = document.querySelector("h1").textContent = DATA.title;
const NAMES = Object.keys(DATA.names);
const GRADES = ["blind", "partly blind", "dull", "uneven", "sharp", "exact", "zeros", "not asked"];
const COLOURS = {blind: "bad", "partly blind": "odd", dull: "known", uneven: "known", sharp: "good"};
page.append(make("p", {id: "outcome", class: DATA.summary.grades.blind ? "bad" : ""}, DATA.lines[0]),
  ...DATA.lines.slice(1).map(l => make("p", {class: "soft"}, l)));
const facts = make("dl", {});
for (const [name, value] of DATA.facts)
  facts.append(make("dt", {}, name), make("dd", {class: "mono"}, value));
page.append(facts);
if (DATA.gate.length)
  section("Against the earlier report").append(...DATA.gate.map(l =>
    make("p", {class: "mono " + (l.startsWith("BLINDER") ? "bad" : "")}, l)));

function changed(name) {
  const c = DATA.summary.changes[name], width = (100 * c.all / c.sites).toFixed(1);
  const bar = `background: linear-gradient(90deg, hsl(4 60% 50% / .3) ${width}%, transparent 0)`;
  return make("tr", {class: "change"}, make("td", {}, DATA.names[name]), make("td", {}, String(c.sites)),
    make("td", {style: bar}, `${c.all} (${width} %)`), make("td", {}, String(c.any)));
}
section("What passes", "Of the places that compare with a tolerance and were asked with this change where " +
  "it shows something: those where it passed at every hit asked, and at one at least.")
  .append(table(["change", "places", "passed at all", "at some"],
    NAMES.filter(n => DATA.summary.changes[n].sites).map(changed)));

const list = section("Places",
  "The blindest first. A cell: how often the changed result passed of how often it was asked.");
const find = make("input", {type: "search", placeholder: "file, function, words of the call",
  "aria-label": "search", class: "wide"});
const shown = make("p", {class: "soft", id: "shown", "aria-live": "polite"}), box = make("div", {});
const chosen = new Set(GRADES.slice(0, 4)), MOST = 400;
const chips = GRADES.map(g => {
  const count = DATA.sites.filter(s => s.grade === g).length;
  const press = () => {
    chosen.has(g) ? chosen.delete(g) : chosen.add(g);
    chip.setAttribute("aria-pressed", String(chosen.has(g)));
    draw();
  };
  const chip = make("button", {class: "chip", "aria-pressed": String(chosen.has(g)), onclick: press},
    `${g} ${count}`);
  return chip;
});
list.append(make("div", {class: "row controls"}, ...chips, find), shown, box);

function strip(site) {
  const asked = NAMES.filter(n => site.changes[n] && site.changes[n][0]);
  const label = asked.map(n => `${DATA.names[n]}: ${site.changes[n][1]} of ${site.changes[n][0]}`).join(", ");
  const svg = make("svg", {viewBox: `0 0 ${NAMES.length * 16} 16`, role: "img",
    style: "width: 12rem; max-width: 100%", "aria-label": label || "not asked"});
  NAMES.forEach((n, i) => {
    const c = site.changes[n], share = c && c[0] ? c[1] / c[0] : null;
    const colour = share === null ? ["none", 1] : share === 0 ? ["var(--good)", .6] :
      ["var(--bad)", .35 + .65 * share];
    const cell = make("rect", {x: 16 * i + 1, y: 1, width: 14, height: 14, rx: 2, class: "cell",
      stroke: "var(--line)", fill: colour[0], "fill-opacity": colour[1]});
    const told = c && c[0] ? `passed at ${c[1]} of ${c[0]}` : c && c[2] ? "shows nothing" : "not asked";
    cell.append(make("title", {}, `${DATA.names[n]}: ${told}`));
    svg.append(cell);
  });
  return svg;
}
function details(site) {
  const dl = make("dl", {});
  const put = (name, ...value) => dl.append(make("dt", {}, name), make("dd", {}, ...value));
  put("call", make("code", {}, site.code || "?"));
  if (site.helper)
    put("by", make("code", {},
      `${site.helper.file}:${site.helper.line} ${site.helper.function}: ${site.helper.code}`));
  put("comparison", site.kind + (site.types.length ? `, of ${site.types.join("; ")}` : ""));
  put("hits", `${site.hits}, of which ${site.asked} asked`);
  if (site.passes) put("passes", site.passes);
  for (const [what, cure] of site.why)
    put("why", make("div", {class: "bad"}, what), make("div", {}, `cure: ${cure}`));
  const w = site.worst, r = site.reference;
  if (w)
    put("figures", `median |expected| ${short(w.median)}, largest ${short(w.most)}, ` +
      `shape [${w.shape.join(", ")}], largest error seen ${short(site.error)}` +
      (w.atol === null ? "" : `, atol ${short(w.atol)}, rtol ${short(w.rtol)}`) + `, in ${w.test}`);
  put("reference", site.side ? `the ${site.side}, by its words` :
    "its words do not say which side; the first was changed");
  if (r)
    put("against its formula in f64", `judged at ${r.judged} hits, further off than what it judges at ` +
      `${r.further}` + (r.further ? `, up to ${short(r.worst)} x` : ""));
  for (const [why, count] of Object.entries(site.left)) put("left", `${why} (${count})`);
  return dl;
}
function draw() {
  const words = find.value.toLowerCase().split(/\s+/).filter(w => w);
  const text = s => `${s.place} ${s.function} ${s.code}`.toLowerCase();
  const found = DATA.sites.filter(s => chosen.has(s.grade) && words.every(w => text(s).includes(w)));
  shown.textContent = `${found.length} of ${DATA.sites.length} places` +
    (found.length > MOST ? `, the first ${MOST} drawn` : "");
  box.replaceChildren(...found.slice(0, MOST).map(s => {
    const e = make("details", {class: "site"}, make("summary", {},
      make("span", {class: COLOURS[s.grade] || "soft"}, s.grade), " ",
      make("span", {class: "mono"}, s.place), strip(s)));
    e.addEventListener("toggle", () => { if (e.open && e.children.length === 1) e.append(details(s)); });
    return e;
  }));
}
find.addEventListener("input", draw);
draw();
