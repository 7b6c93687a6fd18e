// The page of a comparison: what is drawn of DATA, which reports/compare_text.cpp writes.
document.title = document.querySelector("h1").textContent = "assay compare";
const facts = make("dl", {});
for (const [name, value] of DATA.facts) facts.append(make("dt", {}, name), make("dd", {class: "mono"}, value));
const GRAVE = ["red", "other", "worse", "lost", "path"];
page.append(make("p", {class: DATA.changes.some(c => GRAVE.includes(c[0])) ? "bad" : "good", id: "outcome"}, DATA.outcome), facts);
for (const [kind, title] of DATA.kinds) {
  const list = DATA.changes.filter(c => c[0] === kind);
  if (!list.length) continue;
  const s = section(`${title}: ${list.length}`);
  s.append(table(["case", "before -> after", ""], list.map(([, line, note, repro]) => make("tr", {class: "change"},
    make("td", {class: "wide mono"}, ...path(line)), make("td", {class: `wide ${GRAVE.includes(kind) ? "bad" : kind === "fixed" ? "good" : ""}`}, note),
    make("td", {}, ...(repro ? [make("button", {class: "chip controls", onclick: () => show([repro]), "aria-label": `copy the command for ${line}`}, "copy")] : []))))));
}
