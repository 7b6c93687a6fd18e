// The page of a kill table: what is drawn of DATA, which is kill_table.json (cases/studies/mutants/report.cpp).
document.title = document.querySelector("h1").textContent = DATA.title;
const JUDGES = ["assay", ...DATA.rules.map(r => r.name)];
const percent = (part, whole) => whole ? (100 * part / whole).toFixed(1) : "0.0";
const noticed = (row, judge) => judge === 0 ? row.assay : row.rules[judge - 1];
const kept = DATA.rows.filter(r => !r.equivalent);
page.append(make("p", {id: "outcome", class: DATA.correct.assay || DATA.list_faults.length ? "bad" : ""},
  `killed ${DATA.killed} of ${DATA.generated} (${percent(DATA.killed, DATA.generated)} %); less ${DATA.equivalent} excused: ${DATA.killed} of ${DATA.total} ` +
  `(${percent(DATA.killed, DATA.total)} %); false alarms ${DATA.correct.assay} of ${DATA.correct.outputs.toLocaleString("en")} outputs`));
const facts = make("dl", {});
for (const name of ["command", "machine", "commit"]) facts.append(make("dt", {}, name), make("dd", {class: "mono"}, DATA[name] || "unknown"));
page.append(facts);
for (const fault of [...DATA.list_faults, ...DATA.correct.assay_cases]) page.append(make("p", {class: "bad"}, fault));

const missed = DATA.missed_by_all_rules;
const judged = section("Who notices which", `Wrong kernels that each judge notices, on the same outputs of ${DATA.cases} cases: on gaussian inputs alone / on all fills. ` +
  "A rule is used on a case only where it accepts the correct kernel. Raw: killed of all mutants; adjusted: of those that the list of equivalent mutants does not excuse. " +
  `Missed by all rules: ${missed.all} of ${DATA.total} on all fills, ${missed.gaussian} on gaussian inputs.`);
function tally(name, rows) {
  const counted = rows.filter(r => !r.equivalent), number = (judge, fills) => counted.filter(r => fills.includes(noticed(r, judge))).length;
  const killed = number(0, ["gaussian", "all"]), alone = counted.filter(r => r.assay !== "no" && r.rules.every(x => x === "no")).length;
  const cells = JUDGES.map((_, j) => {
    const all = number(j, ["gaussian", "all"]), width = percent(all, counted.length);
    return make("td", {style: `white-space: nowrap; background: linear-gradient(90deg, hsl(145 45% 50% / .3) ${width}%, transparent 0)`}, `${number(j, ["gaussian"])} / ${all}`);
  });
  return make("tr", {class: "class"}, make("td", {style: "white-space: nowrap"}, name), make("td", {}, String(rows.length)), make("td", {}, String(rows.length - counted.length)),
    make("td", {}, percent(killed, rows.length)), make("td", {}, percent(killed, counted.length)), ...cells, make("td", {}, String(alone)));
}
const classes = [...new Set(DATA.rows.map(r => r.class))].sort();
judged.append(table(["class", "mutants", "excused", "raw %", "adjusted %", ...JUDGES, "alone"],
  [...classes.map(name => tally(name, DATA.rows.filter(r => r.class === name))), tally("all", DATA.rows)]));

section("Correct kernels", `${DATA.correct.runs.toLocaleString("en")} runs, ${DATA.correct.outputs.toLocaleString("en")} outputs. assay calls ${DATA.correct.assay} of them wrong.`)
  .append(table(["rule", "runs rejected", "what it is"], DATA.rules.map((rule, i) =>
    make("tr", {}, make("td", {}, rule.name), make("td", {}, String(DATA.correct.rules[i])), make("td", {class: "wide"}, rule.source)))));

// A list is drawn when it is opened: there are thousands of rows.
function list(title, rows, last, open) {
  const e = make("details", {class: "list"}, make("summary", {}, `${title}: ${rows.length}`));
  const fill = () => e.children.length === 1 && e.append(table(["", "class", "place", "change", "by"], rows.map(r => make("tr", {class: "mutant"},
    make("td", {}, r.id), make("td", {}, r.class), make("td", {class: "mono"}, r.place), make("td", {class: "wide mono"}, `${r.before}  ->  ${r.after}`),
    make("td", {class: "wide"}, last(r))))));
  e.addEventListener("toggle", () => { if (e.open) fill(); });
  if (open) { fill(); e.open = true; }
  return e;
}
section("Mutants").append(
  list("Survivors", kept.filter(r => r.assay === "no"), r => r.reached ? "" : "no case reaches it", true),
  list("Excused", DATA.rows.filter(r => r.equivalent), r => r.equivalent),
  list("Killed", kept.filter(r => r.assay !== "no"), r => `${r.verdict} in ${r.case}`));
