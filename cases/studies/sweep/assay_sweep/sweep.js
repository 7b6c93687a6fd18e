// The page of a sweep: what the template in reports/page draws of a run in the store.
document.title = document.querySelector("h1").textContent = "Retrieval sweep";
const keys = n => n % 1024 ? String(n) : n >= 1048576 && n % 1048576 === 0 ? n / 1048576 + "M" : n / 1024 + "k";
// Red to green by lightness as well as hue, so that it is read without colour; the number stands in the cell.
const heat = p => p === null ? "transparent" : `hsl(${Math.round(8 + 130 * p)} 55% ${Math.round(72 - 26 * p)}%)`;
function heatMap(map) {
  const w = 46, h = 22, left = 44, n = Math.max(...map.columns.map(c => c.parts.length));
  const svg = make("svg", {viewBox: `0 0 ${Math.max(300, left + w * map.columns.length + 4)} ${h * n + 34}`, role: "img", "aria-label": map.name});
  for (let d = 0; d < n; d += 1)
    svg.append(make("text", {x: left - 6, y: h * d + 15, "text-anchor": "end"}, `${Math.round(100 * d / n)} %`));
  map.columns.forEach((column, i) => {
    svg.append(make("text", {x: left + w * i + w / 2, y: h * n + 14, "text-anchor": "middle"}, keys(column.len)));
    column.parts.forEach(([right, needles], d) => {
      const p = needles ? right / needles : null;
      const cell = make("rect", {x: left + w * i + 1, y: h * d + 1, width: w - 2, height: h - 2, rx: 2, fill: heat(p), tabindex: 0,
        style: "cursor:pointer", onclick: () => show(column.repro)});
      cell.addEventListener("keydown", e => { if (e.key === "Enter") show(column.repro); });
      cell.append(make("title", {}, needles ? `${keys(column.len)} keys, from ${Math.round(100 * d / n)} % of them: ${right} of ${needles} right` : "nothing was asked here"));
      svg.append(cell);
      if (p !== null) svg.append(make("text", {x: left + w * i + w / 2, y: h * d + 15, "text-anchor": "middle",
        style: "fill:#10151b;pointer-events:none"}, p === 1 ? "1" : p.toFixed(2).slice(1)));
    });
  });
  svg.append(make("text", {x: left, y: h * n + 30, "text-anchor": "start"}, "keys; depth downwards"));
  return make("div", {class: "panel"}, make("h3", {class: "mono"}, map.name), svg);
}
function curve(ladder) {
  const W = 320, H = 150, left = 30, bottom = 24, top = 6;
  const most = Math.max(...ladder.points.map(p => p.rung)), least = Math.min(...ladder.points.map(p => p.rung));
  const x = r => left + (W - left - 8) * (r - least) / Math.max(1, most - least), y = p => top + (H - bottom - top) * (1 - p);
  const svg = make("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": ladder.name});
  for (const p of [0, .5, .75, 1]) {
    svg.append(make("line", {x1: left, x2: W - 8, y1: y(p), y2: y(p), stroke: "var(--line)", "stroke-dasharray": p === .75 ? "4 3" : "none"}));
    svg.append(make("text", {x: left - 5, y: y(p) + 4, "text-anchor": "end"}, String(p)));
  }
  const middle = ladder.points.map(p => [x(p.rung), y(p.right / p.needles)]);
  for (const p of ladder.points) {
    svg.append(make("line", {x1: x(p.rung), x2: x(p.rung), y1: y(p.low), y2: y(p.high), stroke: "var(--mark)", "stroke-width": 1.5, opacity: .6}));
    const dot = make("circle", {cx: x(p.rung), cy: y(p.right / p.needles), r: 3, fill: "var(--mark)"});
    dot.append(make("title", {}, `rung ${p.rung}: ${p.right} of ${p.needles} right, 95 % in ${share(p.low)} to ${share(p.high)}`));
    svg.append(dot);
    if ((p.rung - least) % 3 === 0) svg.append(make("text", {x: x(p.rung), y: H - 8, "text-anchor": "middle"}, `2^-${p.rung}`));
  }
  svg.append(make("path", {d: "M" + middle.map(m => m.join(" ")).join("L"), fill: "none", stroke: "var(--mark)", "stroke-width": 1.5}));
  const gap = ladder.gap === null ? "75 % are not crossed" : `gap at 75 %: ${short(ladder.gap)}` +
    (ladder.gap_low === null ? "" : ` (${short(ladder.gap_low)} to ${short(ladder.gap_high)})`);
  return make("div", {class: "panel"}, make("h3", {class: "mono"}, ladder.name), svg,
    make("button", {onclick: () => show(ladder.repro)}, make("span", {class: "soft"}, gap + " · repeat")));
}
function trend(line) {
  const W = 320, H = 70, n = line.points.length, x = i => 8 + (W - 16) * i / (n - 1), y = p => 8 + (H - 16) * (1 - p);
  const svg = make("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": line.name});
  svg.append(make("line", {x1: 8, x2: W - 8, y1: y(1), y2: y(1), stroke: "var(--line)"}), make("line", {x1: 8, x2: W - 8, y1: y(0), y2: y(0), stroke: "var(--line)"}));
  svg.append(make("path", {d: "M" + line.points.map((p, i) => `${x(i)} ${y(p.right / p.needles)}`).join("L"), fill: "none", stroke: "var(--mark)", "stroke-width": 1.5}));
  line.points.forEach((p, i) => {
    const dot = make("circle", {cx: x(i), cy: y(p.right / p.needles), r: 3, fill: "var(--mark)"});
    dot.append(make("title", {}, `${p.started} run ${p.run}: ${p.right} of ${p.needles}`));
    svg.append(dot);
  });
  return make("div", {class: "panel"}, make("h3", {class: "mono"}, line.name), svg);
}
function facts(run) {
  const list = make("dl", {});
  for (const key of ["run", "started", "ended", "command", "commit", "machine", "engine", "versions"])
    if (run[key]) list.append(make("dt", {}, key), make("dd", {class: "mono"}, typeof run[key] === "string" ? run[key] : JSON.stringify(run[key])));
  return list;
}
page.append(facts(DATA.run));
const bad = DATA.cells.filter(c => !["pass", "distrust", "unsupported", "blind", "suspect"].includes(c.verdict));
page.append(make("p", {class: bad.length ? "bad" : "good"}, `${DATA.cells.length} of ${DATA.asked} cells measured, ${bad.length} with a finding`));
page.append(make("p", {class: "soft"}, "A click on a cell, a curve or a row shows and copies the line that repeats it."));
if (DATA.against) {
  const s = section("Against an earlier night", `run ${DATA.against.run}, ${DATA.against.started}, commit ${DATA.against.commit || "unknown"}`);
  s.append(table(["cells", "right then", "right now", "lost / gained of the same needles"], DATA.differences.map(d => {
    const apart = d.now_range[1] < d.then_range[0] ? "bad" : d.now_range[0] > d.then_range[1] ? "good" : "";
    return make("tr", {}, make("td", {class: "wide mono"}, make("button", {onclick: () => show(d.repro)}, d.name)),
      make("td", {}, `${share(d.then[0] / d.then[1])} of ${d.then[1]}`), make("td", {class: apart}, `${share(d.now[0] / d.now[1])} of ${d.now[1]}`),
      make("td", {class: d.lost > d.gained ? "bad" : ""}, `${d.lost} / ${d.gained}`));
  })));
}
if (DATA.heat.length) section("Length and depth", "Share of needles that are found, by where they lie.").append(make("div", {class: "grid"}, ...DATA.heat.map(heatMap)));
if (DATA.ladders.length) section("Ladders", "Share of right answers against the gap between needle and near-duplicates, with 95 % intervals.").append(make("div", {class: "grid"}, ...DATA.ladders.map(curve)));
if (DATA.trends.length) section("From run to run", "Share of right answers, seeds pooled.").append(make("div", {class: "grid"}, ...DATA.trends.map(trend)));
section("Cells").append(table(["cell", "verdict", "right", "95 %", "exact", "gain", "error", "limit", "seconds", "GB/s"], DATA.cells.map(c =>
  make("tr", {}, make("td", {class: "wide mono"}, make("button", {onclick: () => show([c.repro])}, c.cell)),
    make("td", {class: c.verdict === "pass" ? "good" : bad.includes(c) ? "bad" : "soft", title: c.summary}, c.verdict),
    make("td", {}, c.right === null ? "" : `${c.right} / ${c.needles}`), make("td", {}, c.low === null ? "" : `${c.low.toFixed(2)}–${c.high.toFixed(2)}`),
    make("td", {}, c.exact === null ? "" : String(c.exact)), make("td", {}, short(c.gain)), make("td", {}, short(c.error)), make("td", {}, short(c.limit)),
    make("td", {}, short(c.seconds)), make("td", {}, c.rate ? short(c.rate / 1e9) : "")))));
