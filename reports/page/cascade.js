// The page of the cascade: what is drawn of DATA, which is its JSON report (cases/studies/cascade/report_json.cpp).
document.title = "assay cascade";
document.querySelector("h1").textContent = "From a KV scale to “!!!!”";
const fired = DATA.links.filter(l => l.fired).length;
const place = x => [x.request >= 0 ? `request ${x.request}` : "", x.layer >= 0 ? `layer ${x.layer}` : "", x.token >= 0 ? `token ${x.token}` : ""].filter(s => s).join(", ");
const texts = (...all) => make("tr", {}, ...all.map(([text, kind]) => make("td", kind ? {class: kind} : {}, text)));
page.append(make("p", {id: "outcome", class: fired > 2 ? "bad" : "good"}, `${fired} of ${DATA.links.length} links`),
  make("p", {}, `First cause: ${DATA.first_cause || "none, no monitor fired"}` +
    (fired > 1 ? DATA.in_order ? ". The links fired in order." : ". The links did not fire in order." : "")));
if (DATA.note) page.append(make("p", {class: "soft"}, DATA.note));
const facts = make("dl", {});
for (const name of ["policy", "variance", "norm", "traffic", "seed", "backend", "arithmetic", "machine"]) facts.append(make("dt", {}, name), make("dd", {class: "mono"}, String(DATA[name])));
page.append(facts);

// A colour and a sign for each state, so that it is read without colour.
const STATES = {".": ["clean", "hsl(145 45% 50% / .35)", ""], c: ["K or V clipped", "hsl(38 85% 55% / .9)", "c"], N: ["NaN", "var(--bad)", "N"],
  " ": ["taken from the prefix cache", "transparent", ""]};
function picture(p) {
  const tokens = Math.max(...p.layers.map(l => l.length)), size = 20, left = 52, n = p.layers.length;
  const svg = make("svg", {viewBox: `0 0 ${Math.max(300, left + tokens * size + 4)} ${n * size + 18}`, role: "img", "aria-label": `request ${p.request}`});
  p.layers.forEach((layer, l) => {  // the last layer on top
    const y = (n - 1 - l) * size;
    svg.append(make("text", {x: 0, y: y + 14, "text-anchor": "start"}, `layer ${l}`));
    for (let t = 0; t < tokens; t += 1) {
      const [name, fill, sign] = STATES[layer[t] || " "];
      const cell = make("rect", {class: "token", x: left + t * size, y, width: size - 2, height: size - 2, rx: 3, fill, stroke: "var(--line)"});
      cell.append(make("title", {}, `layer ${l}, token ${t}: ${name}`));
      svg.append(cell);
      if (sign) svg.append(make("text", {x: left + t * size + 9, y: y + 13, "text-anchor": "middle", style: "fill: var(--paper)"}, sign));
    }
  });
  for (let t = 0; t < tokens; t += 1) svg.append(make("text", {x: left + t * size + size / 2 - 1, y: n * size + 14, "text-anchor": "middle"}, String(t)));
  return make("div", {class: "panel"}, make("h3", {}, `request ${p.request}`), svg);
}
const spread = section("The spread", "Tokens across, layers upwards, one picture per request.");
spread.append(make("p", {class: "row soft"}, ...Object.values(STATES).map(([name, fill, sign]) =>
  make("span", {}, make("span", {style: `display: inline-block; width: 1.1em; text-align: center; color: var(--paper); border: 1px solid var(--line); background: ${fill}`}, sign || "\u00a0"), ` ${name}`))));
spread.append(make("div", {class: "grid"}, ...DATA.pictures.map(picture)));

section("The links").append(table(["", "", "link", "where", "evidence"], DATA.links.map(l => make("tr", {class: l.fired ? "link" : "link soft"},
  make("td", {}, String(l.number)), make("td", {class: l.fired ? "bad" : ""}, l.fired ? "fired" : "-"), make("td", {}, l.name),
  make("td", {}, l.fired ? place(l) : ""), make("td", {class: "wide mono"}, l.evidence || "")))));
if (DATA.remedies.length) section("What would have stopped it", "Each one run.").append(table(["change", "links left", "stops at", "answers"],
  DATA.remedies.map(m => texts([m.name, "mono"], [String(m.links.length)], [m.stopped_at ? `link ${m.stopped_at}` : "nothing"], [m.answers, "wide"]))));
if (DATA.divergences.length) section("First divergence from the reference").append(table(["against", "stage", "where", "what"],
  DATA.divergences.map(d => texts([d.against], [d.stage || "none"], [place(d)], [d.what, "wide"]))));
section("Answers").append(table(["request", "tokens"], DATA.answers.map(a => texts([a.request], [a.tokens, "wide mono"]))));
section("NaN by stage").append(table(["stage", "share", ""], Object.entries(DATA.nan_fraction).map(([stage, f]) => make("tr", {}, make("td", {}, stage),
  make("td", {}, `${(100 * f).toFixed(1)} %`), make("td", {style: "width: 60%"}, make("div", {style: `height: .7rem; width: ${(100 * f).toFixed(1)}%; background: var(--bad)`}))))));
const e = DATA.engine;
page.append(make("p", {class: "soft"}, `Engine steps: ${e.steps}; prefix pages reused: ${e.prefix_pages}; pages given out again: ${e.reused_pages}; evictions: ${e.evictions}. ` +
  `The monitors took ${(e.seconds > 0 ? 100 * e.monitor_seconds / e.seconds : 0).toFixed(2)} % of ${e.seconds.toFixed(3)} s.`));
