#include "cases/studies/mutants/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace assay {
namespace {

double percent(std::size_t part, std::size_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

// Per group of rows: how many each judge kills.
struct Tally {
  std::size_t generated = 0, total = 0, equivalent = 0, assay = 0, assay_gaussian = 0, only_assay = 0;
  std::vector<std::size_t> rules, rules_gaussian;
};

Tally tally(const KillTable& t, const std::string& group) {
  Tally sum;
  sum.rules.assign(t.rules.size(), 0);
  sum.rules_gaussian = sum.rules;
  for (const auto& row : t.rows) {
    if (!group.empty() && row.group != group) continue;
    ++sum.generated;
    if (!row.equivalent.empty()) {
      ++sum.equivalent;
      continue;
    }
    ++sum.total;
    sum.assay += row.assay.all;
    sum.assay_gaussian += row.assay.gaussian;
    bool any = false;
    for (std::size_t r = 0; r < row.rules.size(); ++r) {
      sum.rules[r] += row.rules[r].all;
      sum.rules_gaussian[r] += row.rules[r].gaussian;
      any = any || row.rules[r].all;
    }
    sum.only_assay += row.assay.all && !any;
  }
  return sum;
}

std::vector<std::string> groups_of(const KillTable& t) {
  std::vector<std::string> groups;
  for (const auto& row : t.rows)
    if (std::ranges::find(groups, row.group) == groups.end()) groups.push_back(row.group);
  std::ranges::sort(groups);
  return groups;
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string provenance(const KillTable& t) {
  return fmt::format("{}; {}; commit {}", t.command.empty() ? "no command" : t.command,
                     t.machine.empty() ? "machine unknown" : t.machine,
                     t.commit.empty() ? "unknown" : t.commit);
}

nlohmann::json json_of(const KillTable& t) {
  nlohmann::json out;
  out["title"] = t.title;
  out["cases"] = t.cases;
  out["seconds"] = t.seconds;
  out["command"] = t.command;
  out["machine"] = t.machine;
  out["commit"] = t.commit;
  out["killed"] = t.killed();
  out["generated"] = t.generated();
  out["equivalent"] = t.equivalents();
  out["total"] = t.total();
  out["raw_percent"] = percent(t.killed(), t.generated());
  out["adjusted_percent"] = percent(t.killed(), t.total());
  out["list_faults"] = t.list_faults;
  out["missed_by_all_rules"] = {{"gaussian", t.missed_by_all_rules(true)},
                                {"all", t.missed_by_all_rules(false)}};
  for (const auto& r : t.rules) out["rules"].push_back({{"name", r.name}, {"source", r.source}});
  out["correct"] = {{"runs", t.correct.runs},
                    {"outputs", t.correct.outputs},
                    {"assay", t.correct.assay},
                    {"rules", t.correct.rules},
                    {"assay_cases", t.correct.assay_cases}};
  for (const auto& row : t.rows) {
    const auto noticed = [](const Judged2& j) { return j.gaussian ? "gaussian" : j.all ? "all" : "no"; };
    nlohmann::json rules = nlohmann::json::array();
    for (const auto& r : row.rules) rules.push_back(noticed(r));
    out["rows"].push_back({{"id", row.id},
                           {"class", row.group},
                           {"place", row.place},
                           {"before", row.before},
                           {"after", row.after},
                           {"assay", noticed(row.assay)},
                           {"rules", rules},
                           {"verdict", row.verdict},
                           {"case", row.case_line},
                           {"equivalent", row.equivalent},
                           {"reached", row.reached}});
  }
  return out;
}

// One row of the table a line.
std::string json_text(const KillTable& t) {
  nlohmann::json head = json_of(t);
  std::string rows;
  for (const auto& row : head["rows"]) rows += (rows.empty() ? "" : ",\n") + row.dump();
  head.erase("rows");
  std::string text = head.dump(1);
  text.resize(text.rfind('\n'));
  return text + ",\n \"rows\": [\n" + rows + "\n]}\n";
}

std::string html_row(const std::string& head, const Tally& sum, const KillTable& t) {
  std::string out = fmt::format("<tr><th>{}</th><td>{}</td><td>{}</td><td>{:.1f}</td><td>{:.1f}</td>",
                                escape(head), sum.generated, sum.equivalent,
                                percent(sum.assay, sum.generated), percent(sum.assay, sum.total));
  const auto cell = [&](std::size_t gaussian, std::size_t all) {
    out += fmt::format("<td>{}</td><td style=\"--p:{:.0f}%\" class=bar>{}</td>", gaussian,
                       percent(all, sum.total), all);
  };
  cell(sum.assay_gaussian, sum.assay);
  for (std::size_t r = 0; r < t.rules.size(); ++r) cell(sum.rules_gaussian[r], sum.rules[r]);
  return out + fmt::format("<td>{}</td></tr>\n", sum.only_assay);
}

std::string html_of(const KillTable& t) {
  std::string out =
      "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">"
      "<title>Kill table</title><style>"
      "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 "
      "1rem;color:#1c2024}"
      "table{border-collapse:collapse;margin:1rem 0;width:100%;font-variant-numeric:tabular-nums}"
      "th,td{padding:.25rem .55rem;border-bottom:1px solid #d8dde3;text-align:right}"
      "tr>th:first-child,.list td{text-align:left}thead th{vertical-align:bottom;background:#f3f5f7}"
      ".bar{background:linear-gradient(90deg,#cfe6d4 var(--p),transparent 0)}"
      "code{font:13px ui-monospace,monospace}.list td{vertical-align:top}.big{font-size:1.2rem}"
      "details{margin:1rem 0}summary{cursor:pointer;font-weight:600}"
      "@media(prefers-color-scheme:dark){body{background:#14171a;color:#e4e7ea}thead th{background:#20252a}"
      "th,td{border-color:#343a40}.bar{background:linear-gradient(90deg,#24553a var(--p),transparent "
      "0)}}</style>\n";
  out += fmt::format("<h1>{}</h1><p class=big>{}</p><p>{}</p>", escape(t.title), t.last_line(),
                     escape(provenance(t)));
  out += fmt::format(
      "<p>Wrong kernels that each judge notices, on the same outputs of {} cases. Of each pair of columns "
      "the first "
      "counts gaussian inputs alone, the second all fills. A rule is used on a case only where it accepts "
      "the correct "
      "kernel. Raw: killed of all mutants. Adjusted: killed of those that the list of equivalent mutants "
      "does "
      "not excuse. Missed by all rules: {} of {} on all fills, {} on gaussian inputs.</p>\n",
      t.cases, t.missed_by_all_rules(false), t.total(), t.missed_by_all_rules(true));
  out +=
      "<table><thead><tr><th rowspan=2>class</th><th rowspan=2>mutants</th><th rowspan=2>excused</th>"
      "<th rowspan=2>raw %</th><th rowspan=2>adjusted %</th><th colspan=2>assay</th>";
  for (const auto& r : t.rules)
    out += fmt::format("<th colspan=2 title=\"{}\">{}</th>", escape(r.source), escape(r.name));
  out += "<th rowspan=2>assay<br>alone</th></tr><tr>";
  for (std::size_t i = 0; i <= t.rules.size(); ++i) out += "<th>gaussian</th><th>all</th>";
  out += "</tr></thead><tbody>\n";
  for (const auto& g : groups_of(t)) out += html_row(g, tally(t, g), t);
  out += html_row("all", tally(t, ""), t) + "</tbody></table>\n";
  out += fmt::format(
      "<h2>Correct kernels</h2><p>{} runs, {} outputs. assay calls {} of them wrong.</p><table><thead>"
      "<tr><th>rule</th><th>runs rejected</th><th>source</th></tr></thead><tbody>",
      t.correct.runs, t.correct.outputs, t.correct.assay);
  for (std::size_t r = 0; r < t.rules.size(); ++r)
    out += fmt::format("<tr><th>{}</th><td>{}</td><td>{}</td></tr>", escape(t.rules[r].name),
                       t.correct.rules[r], escape(t.rules[r].source));
  out += "</tbody></table>\n";
  const auto list = [&](const char* title, bool open, auto chosen, auto last) {
    std::size_t n = 0;
    std::string body;
    for (const auto& row : t.rows)
      if (chosen(row)) {
        ++n;
        body += fmt::format(
            "<tr><td>{}</td><td>{}</td><td><code>{}</code></td><td><code>{}</code></td><td><code>{}"
            "</code></td><td>{}</td></tr>\n",
            escape(row.id), row.group, escape(row.place), escape(row.before), escape(row.after),
            escape(last(row)));
      }
    out += fmt::format(
        "<details{}><summary>{}: {}</summary><table class=list><tbody>{}</tbody></table></details>\n",
        open ? " open" : "", title, n, body);
  };
  list(
      "Survivors", true, [](const KillRow& r) { return r.equivalent.empty() && !r.assay.all; },
      [](const KillRow& r) { return std::string(r.reached ? "" : "no case reaches it"); });
  list(
      "Excused", false, [](const KillRow& r) { return !r.equivalent.empty(); },
      [](const KillRow& r) { return r.equivalent; });
  list(
      "Killed", false, [](const KillRow& r) { return r.equivalent.empty() && r.assay.all; },
      [](const KillRow& r) { return r.verdict + " in " + r.case_line; });
  return out + "</html>\n";
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

std::size_t KillTable::differing(bool killed) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(rows, [&](const KillRow& r) { return r.differs && (!killed || r.assay.all); }));
}
std::size_t KillTable::total() const { return rows.size() - equivalents(); }
std::size_t KillTable::killed() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(rows, [](const KillRow& r) { return r.equivalent.empty() && r.assay.all; }));
}
std::size_t KillTable::equivalents() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(rows, [](const KillRow& r) { return !r.equivalent.empty(); }));
}
std::size_t KillTable::missed_by_all_rules(bool gaussian_only) const {
  return static_cast<std::size_t>(std::ranges::count_if(rows, [&](const KillRow& row) {
    return row.equivalent.empty() && row.assay.all && std::ranges::none_of(row.rules, [&](const Judged2& j) {
             return gaussian_only ? j.gaussian : j.all;
           });
  }));
}
std::string KillTable::last_line() const {
  return fmt::format(
      "killed {} of {} ({:.1f} %); less {} excused: {} of {} ({:.1f} %); false alarms {} of {} outputs",
      killed(), generated(), percent(killed(), generated()), equivalents(), killed(), total(),
      percent(killed(), total()), correct.assay, correct.outputs);
}

std::string kill_table_text(const KillTable& t) {
  std::string out = fmt::format(
      "{}\n{}\n{} cases, {:.0f} s; of each pair: gaussian inputs alone / all fills; "
      "raw: killed of all, adjusted: of those not excused\n\n",
      t.title, provenance(t), t.cases, t.seconds);
  out += fmt::format("{:<16}{:>8}{:>8}{:>7}{:>10}{:>14}", "class", "mutants", "excused", "raw %",
                     "adjusted %", "assay");
  for (const auto& r : t.rules) out += fmt::format("{:>14}", r.name);
  out += fmt::format("{:>12}\n", "assay alone");
  auto groups = groups_of(t);
  groups.push_back("");
  for (const auto& g : groups) {
    const Tally sum = tally(t, g);
    out += fmt::format("{:<16}{:>8}{:>8}{:>7.1f}{:>10.1f}{:>14}", g.empty() ? "all" : g, sum.generated,
                       sum.equivalent, percent(sum.assay, sum.generated), percent(sum.assay, sum.total),
                       fmt::format("{}/{}", sum.assay_gaussian, sum.assay));
    for (std::size_t r = 0; r < t.rules.size(); ++r)
      out += fmt::format("{:>14}", fmt::format("{}/{}", sum.rules_gaussian[r], sum.rules[r]));
    out += fmt::format("{:>12}\n", sum.only_assay);
  }
  out += fmt::format(
      "\nmissed by every usual rule: {} of {} ({:.1f} %) on gaussian inputs, {} ({:.1f} %) on all fills\n",
      t.missed_by_all_rules(true), t.total(), percent(t.missed_by_all_rules(true), t.total()),
      t.missed_by_all_rules(false), percent(t.missed_by_all_rules(false), t.total()));
  out += fmt::format(
      "of {} generated mutants that differ from the correct kernel in a number or more, {} are killed\n",
      t.differing(false), t.differing(true));
  out += fmt::format("correct kernels: {} runs, {} outputs; rejected by assay: {} outputs", t.correct.runs,
                     t.correct.outputs, t.correct.assay);
  for (std::size_t r = 0; r < t.rules.size(); ++r)
    out += fmt::format("; by {}: {} runs", t.rules[r].name, t.correct.rules[r]);
  out += "\n";
  for (const auto& c : t.correct.assay_cases) out += "  false alarm: " + c + "\n";
  for (const auto& c : t.distrusted) out += "  can show nothing, left out: " + c + "\n";
  for (const auto& f : t.list_faults) out += "  list of equivalent mutants: " + f + "\n";
  out += "\nsurvivors\n";
  for (const auto& row : t.rows)
    if (row.equivalent.empty() && !row.assay.all)
      out += fmt::format("  {:>5} {} {}\n        {}  ->  {}{}\n", row.id, row.group, row.place, row.before,
                         row.after, row.reached ? "" : "   (no case reaches it)");
  return out + "\n";
}

void write_kill_table(const KillTable& t, const std::string& directory) {
  const std::filesystem::path d = directory;
  std::filesystem::create_directories(d);
  write(d / "kill_table.txt", kill_table_text(t) + t.last_line() + "\n");
  write(d / "kill_table.json", json_text(t));
  write(d / "kill_table.html", html_of(t));
}

}  // namespace assay
