#include "cases/studies/attribution/labels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "harness/json_list.hpp"
#include "harness/suite_text.hpp"
#include "reference/error.hpp"
#include "reference/fingerprint.hpp"

namespace assay::attribution {
namespace {

using Key = std::tuple<std::string, std::string, std::string, std::string, int>;

std::string trimmed(std::string_view line) {
  const auto first = line.find_first_not_of(" \t\r"), last = line.find_last_not_of(" \t\r");
  return first == std::string_view::npos ? "" : std::string(line.substr(first, last - first + 1));
}

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw InputError(InputErrorKind::bad_value, fmt::format("{}: {}", where, why));
}

bool contains(const std::string& words, std::string_view word) {
  std::istringstream text(words);
  for (std::string each; std::getline(text, each, ',');)
    if (each == word) return true;
  return false;
}

// "attention:qk matmul,moe:dot" says dot of a matmul; words without a colon are of every op.
std::string of_op(const std::string& stages, std::string_view op) {
  std::istringstream words(stages);
  for (std::string word; words >> word;) {
    const auto colon = word.find(':');
    if (colon == std::string::npos) return word;
    if (contains(word.substr(0, colon), op)) return word.substr(colon + 1);
  }
  return "";
}

// Which of the mutants that change the same text alike each is, by its number.
std::map<int, int> counted(const std::vector<mutants::Manifest>& manifest) {
  std::map<Key, int> seen;
  std::map<int, int> which;
  for (const auto& m : manifest) which[m.id] = ++seen[{m.file, m.text, m.before, m.after, 0}];
  return which;
}

std::string op_of(const std::string& case_line) { return case_line.substr(0, case_line.find(' ')); }

std::vector<JsonRow> rows_of(const std::vector<std::string>& kill_tables) {
  std::vector<JsonRow> rows;
  for (const std::string& path : kill_tables) {
    const auto table = nlohmann::json::parse(read_text(path, "kill table"), nullptr, false);
    if (!table.is_object() || !table.contains("rows"))
      refuse(path, "no kill table; allowed: kill_table.json of assay kill-table --out");
    for (JsonRow& row : parse_json_list(table["rows"].dump(), path)) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::vector<LabelRow> parse_labels(std::string_view text, const std::string& where) {
  std::vector<LabelRow> rows;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = trimmed(line);
    if (line.empty() || line[0] == '#') continue;
    const std::string at = fmt::format("{}:{}", where, number), bar = " @ ";
    const auto first = line.find(bar), last = line.rfind(bar);
    if (first == std::string::npos || first == last)
      refuse(at, fmt::format("'{}'; allowed: FILE @ BEGINNING OF A LINE @ STAGES", line));
    rows.push_back({line.substr(0, first), line.substr(first + bar.size(), last - first - bar.size()),
                    line.substr(last + bar.size()), at});
  }
  return rows;
}

std::string label(const std::vector<LabelRow>& rows, const std::string& file, std::string_view text, int line,
                  std::string_view op) {
  std::vector<std::string> lines;
  std::istringstream stream{std::string(text)};
  for (std::string each; std::getline(stream, each);) lines.push_back(trimmed(each));
  std::string stages;
  std::size_t from = 0;
  for (const LabelRow& row : rows) {
    if (row.file != file) continue;
    const auto found = std::find_if(lines.begin() + static_cast<std::ptrdiff_t>(from), lines.end(),
                                    [&](const std::string& each) { return each.starts_with(row.beginning); });
    if (found == lines.end())
      refuse(row.where, fmt::format("no line of {} begins with '{}' here", file, row.beginning));
    from = static_cast<std::size_t>(found - lines.begin());
    if (std::cmp_less(from, line)) stages = of_op(row.stages, op);
  }
  return stages;
}

std::string label(const std::vector<LabelRow>& rows, const mutants::Manifest& m, std::string_view text,
                  std::string_view op) {
  if (m.kind == "path") return "dispatch";
  if (m.kind == "race") return "race";
  return label(rows, m.file, text, m.line, op);
}

std::string half_of(const mutants::Manifest& m, int which, std::string_view op) {
  constexpr std::string_view kLookedAt[] = {"matmul",    "softmax", "logsumexp", "rmsnorm",
                                            "layernorm", "moe",     "argmax"};
  if (std::ranges::find(kLookedAt, op) != std::end(kLookedAt)) return "looked_at";
  const Fingerprint drawn =
      Fingerprint().add(fmt::format("{}|{}|{}|{}|{}", m.file, m.text, m.before, m.after, which));
  return (drawn.value() >> 32) % 2 == 0 ? "looked_at" : "held_out";
}

std::vector<Labelled> beyond(const std::vector<std::string>& kill_tables, const std::string& corpus,
                             const std::vector<mutants::Manifest>& manifest,
                             const std::vector<LabelRow>& labels, const std::string& root) {
  std::set<Key> known;
  for (const JsonRow& row : parse_json_list(read_text(corpus, "corpus"), corpus))
    if (row.optional_text("exhibit").empty())
      known.insert({row.text("file"), row.text("text"), row.text("before"), row.text("after"),
                    static_cast<int>(row.integer("which", 1, 1000))});
  const std::map<int, int> which = counted(manifest);
  std::map<std::string, std::string> texts;
  std::set<std::pair<int, std::string>> listed;  // mutant and op
  std::vector<Labelled> rows;
  for (const JsonRow& row : rows_of(kill_tables)) {
    const std::string id = row.text("id"), case_line = row.text("case");
    int number = 0;
    const auto [end, wrong] = std::from_chars(id.data(), id.data() + id.size(), number);
    // A planted defect or an exhibit, or a survivor.
    if (wrong != std::errc() || end != id.data() + id.size() || case_line.empty()) continue;
    const auto m = std::ranges::find(manifest, number, &mutants::Manifest::id);
    if (m == manifest.end() || row.text("before") != m->before || row.text("after") != m->after)
      row.refuse(fmt::format("mutant {} of this build is another", number));
    if (known.contains({m->file, m->text, m->before, m->after, which.at(number)})) continue;
    auto& text = texts[m->file];
    if (text.empty()) text = read_text(root + "/" + m->file, "source");
    const std::string op = op_of(case_line);
    if (!listed.insert({number, op}).second) continue;
    const std::string stages = label(labels, *m, text, op);
    if (stages.empty()) {
      fmt::print(stderr, "no label: {}:{} in {}\n", m->file, m->line, op);
      continue;
    }
    rows.push_back({*m, which.at(number), stages, case_line, half_of(*m, which.at(number), op)});
  }
  return rows;
}

std::string to_json(const std::vector<Labelled>& rows) {
  std::string text = "[\n";
  for (const Labelled& row : rows) {
    const nlohmann::ordered_json object{{"file", row.mutant.file},     {"text", row.mutant.text},
                                        {"before", row.mutant.before}, {"after", row.mutant.after},
                                        {"which", row.which},          {"stages", row.stages},
                                        {"case", row.case_line},       {"half", row.half}};
    text += object.dump() + (&row == &rows.back() ? "\n" : ",\n");
  }
  return text + "]\n";
}

}  // namespace assay::attribution
