#include "cases/studies/mutants/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "reports/page_text.hpp"

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
  write(d / "kill_table.html", drawn_page(kMutantsScript, json_of(t)));
}

}  // namespace assay
