// The page of cases over several runs: what is drawn of DATA, which reports/history.cpp writes.
document.title = document.querySelector("h1").textContent = "assay history";
const facts = make("dl", {});
for (const [name, value] of DATA.facts) facts.append(make("dt", {}, name), make("dd", {class: "mono"}, value));
page.append(make("p", {id: "outcome"}, DATA.outcome), facts);

// A cell per run, coloured by its verdict; the worst error / limit as a line above, on a logarithmic scale from 2^-20 to 2^20.
const W = 16, H = 40, OCTAVES = 20;
const height = ratio => 1 + (H / 2 - 1) * (1 - Math.max(-OCTAVES, Math.min(OCTAVES, Math.log2(Math.max(ratio, 1e-300)))) / OCTAVES);
const times = x => x === null ? "beyond all" : short(x);
// The last run, and between which numbers all of them lie.
function numbers(c) {
  const [, verdict, green, ratio, seconds] = c.steps.at(-1), ratios = c.steps.map(s => s[3]).filter(r => r !== null).sort((a, b) => a - b);
  return verdict + (green || ratio !== 0 ? `, ${times(ratio)} x limit` : "") + ` in the last run, ${short(seconds)} s` + (ratios.length ? `; ${short(ratios[0])} to ${short(ratios.at(-1))} x over ${c.steps.length} runs` : "");
}
function strip(c) {
  const svg = make("svg", {viewBox: `0 0 ${W * DATA.runs} ${H + W}`, role: "img", "aria-label": c.steps.map(s => `run ${s[0] + 1}: ${s[1]}`).join(", "),
    preserveAspectRatio: "none", style: "height: 4.5rem"});
  svg.append(make("line", {x1: 0, x2: W * DATA.runs, y1: H / 2, y2: H / 2, stroke: "var(--soft)", "stroke-dasharray": "2 3", "vector-effect": "non-scaling-stroke"}));
  const points = c.steps.filter(s => s[3] !== null).map(s => [W * (s[0] + .5), height(s[3])]);
  svg.append(make("path", {d: points.map((p, i) => `${i ? "L" : "M"}${p[0]} ${p[1].toFixed(1)}`).join(""), fill: "none", stroke: "var(--mark)", "stroke-width": 1.5, "vector-effect": "non-scaling-stroke"}));
  for (const [run, verdict, green, ratio, seconds, path, changed] of c.steps) {
    const cell = make("rect", {x: W * run + 1, y: H + 1, width: W - 2, height: W - 2, class: "step", fill: `var(--${green ? "good" : "bad"})`,
      stroke: changed ? "var(--ink)" : "none", "stroke-width": 2, "vector-effect": "non-scaling-stroke"});
    cell.append(make("title", {}, `run ${run + 1}: ${verdict}, worst ${ratio === null ? "beyond all" : short(ratio)} x limit, ${short(seconds)} s, ${path || "no path declared"}` +
      (changed ? `; another ${changed}` : "")));
    svg.append(cell);
  }
  return svg;
}
const s = section("Cases", "The line: worst error / limit, which is the dashed middle; a bar a run; a frame: another verdict, contract or path than the run before.");
const only = make("input", {type: "checkbox", id: "only"}), find = make("input", {type: "search", placeholder: "words of the case", "aria-label": "search", class: "wide"});
const shown = make("p", {class: "soft", id: "shown", "aria-live": "polite"}), list = make("div", {class: "grid"}), MOST = 300;
s.append(make("div", {class: "row controls"}, make("label", {}, only, " changed only"), find), shown, list);
function draw() {
  const words = find.value.split(/\s+/).filter(w => w);
  const found = DATA.cases.filter(c => (c.changed || !only.checked) && words.every(w => c.line.includes(w)));
  shown.textContent = `${found.length} of ${DATA.cases.length} cases` + (found.length > MOST ? `, the first ${MOST} drawn` : "");
  list.replaceChildren(...found.slice(0, MOST).map(c => make("div", {class: "panel"}, make("h3", {class: "mono"}, ...path(c.line)), make("p", {class: "soft"}, numbers(c)), strip(c),
    make("button", {class: "chip controls", onclick: () => show([c.repro]), "aria-label": `copy the command for ${c.line}`}, "copy"))));
}
only.checked = DATA.cases.some(c => c.changed);
only.addEventListener("change", draw);
find.addEventListener("input", draw);
draw();
