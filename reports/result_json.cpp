#include "reports/result_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "reference/error.hpp"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

template <typename Names>
std::size_t index_in(const Names& names, const std::string& word, std::string_view what) {
  const auto at = std::ranges::find(names, word);
  if (at == std::ranges::end(names))
    throw InputError(InputErrorKind::unknown_name, fmt::format("no {} '{}'", what, word));
  return static_cast<std::size_t>(at - std::ranges::begin(names));
}

double number_of(const Json& json) {
  return json.is_string() ? std::numeric_limits<double>::infinity() : json.get<double>();
}

// A number of any kind, which JSON has no NaN and no infinity for.
Json any_number(double x) { return std::isfinite(x) ? Json(x) : Json(fmt::format("{}", x)); }
double any_number_of(const Json& json) {
  return json.is_string() ? std::strtod(json.get<std::string>().c_str(), nullptr) : json.get<double>();
}

BadElements where_of(const Json& json) {
  BadElements b{json.at("shape"),     {},
                json.at("rows"),      json.at("columns"),
                json.at("tile_rows"), json.at("tile_columns"),
                json.at("map")};
  for (const Json& e : json.at("first"))
    b.first.push_back({e.at(0), any_number_of(e.at(1)), any_number_of(e.at(2)), any_number_of(e.at(3)),
                       any_number_of(e.at(4))});
  return b;
}

constexpr std::string_view kRepeats[] = {to_string(Repeat::untried), to_string(Repeat::alone),
                                         to_string(Repeat::after_calls), to_string(Repeat::never)};

}  // namespace

Json json_number(double x) { return std::isfinite(x) ? Json(x) : Json("inf"); }

Json where_json(const BadElements& b) {
  Json first = Json::array();
  for (const BadElement& e : b.first)
    first.push_back({e.at, any_number(e.got), any_number(e.want), any_number(e.limit), any_number(e.ratio)});
  return {{"shape", b.shape},     {"first", std::move(first)}, {"rows", b.rows},
          {"columns", b.columns}, {"tile_rows", b.tile_rows},  {"tile_columns", b.tile_columns},
          {"map", b.map}};
}

Json to_json(const CaseResult& r) {
  const Verdict& v = r.verdict;
  std::vector<std::string> seen;
  if (r.witness)
    for (const SeenKernel& kernel : r.witness->kernels) seen.push_back(kernel.name);
  Json row = {{"case", r.c.line()},
              {"op", r.c.op->name},
              {"formats", format_label(r.c)},
              {"backend", r.c.backend},
              {"verdict", to_string(v.status)},
              {"green", v.green()},
              {"summary", v.summary},
              {"reason", v.reason},
              {"contract", r.contract},
              {"expected_path", r.expected_path},
              {"announced", r.kernels},
              {"kernels", seen},
              {"elements", v.elements},
              {"bad", v.bad},
              {"worst_ratio", json_number(v.worst_ratio)},
              {"repro", repro_command(r)},
              {"kernel_seconds", r.kernel_seconds},
              {"reference_seconds", r.reference_seconds},
              {"input_seconds", r.input_seconds},
              {"worker_seconds", r.worker_seconds},
              {"total_seconds", r.total_seconds}};
  if (v.elements > 0) {
    row["blind"] = v.blind();
    row["suspect"] = v.suspect();
    row["likely_ratio"] = json_number(v.likely_ratio);
    row["seen"] = {{"some", json_number(v.seen.some)},
                   {"half", json_number(v.seen.half)},
                   {"loosest", json_number(v.seen.loosest)}};
  }
  if (!v.unwitnessed.empty()) row["unwitnessed"] = v.unwitnessed;
  if (v.elements > 0 && v.errors != ErrorHistogram{}) row["errors"] = v.errors;
  if (!v.where.map.empty()) row["where"] = where_json(v.where);
  if (!v.detail.empty()) row["detail"] = v.detail;
  // Only what sets the finding apart: which of many alike were made again depends on the jobs.
  if (r.repeat == Repeat::after_calls || r.repeat == Repeat::never) row["repeat"] = to_string(r.repeat);
  if (!r.after.empty()) row["after"] = r.after;
  if (!r.disturbed.empty()) row["disturbed"] = r.disturbed;
  if (!r.notes.empty()) row["notes"] = r.notes;
  if (r.witness) row["witness"] = Json::parse(witness_text(*r.witness));
  return row;
}

CaseResult result_of(const Json& row, const Case& c) {
  if (row.at("case") != c.line())
    throw InputError(InputErrorKind::bad_value, fmt::format("a result of '{}' where '{}' belongs",
                                                            row.at("case").get<std::string>(), c.line()));
  CaseResult r;
  r.c = c;
  Verdict& v = r.verdict;
  v.status = static_cast<Status>(index_in(kStatusNames, row.at("verdict"), "verdict"));
  v.expected = v.status != Status::pass && row.at("green").get<bool>();
  if (const bool green = row.at("green"); v.status == Status::pass ? !green : green && row.at("reason") == "")
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("'{}': verdict {} and green {} contradict each other", c.line(),
                                 to_string(v.status), green));
  v.summary = row.at("summary");
  v.reason = row.at("reason");
  v.detail = row.value("detail", "");
  v.unwitnessed = row.value("unwitnessed", "");
  v.elements = row.at("elements");
  v.bad = row.at("bad");
  v.worst_ratio = number_of(row.at("worst_ratio"));
  if (row.contains("seen")) {
    const Json& seen = row.at("seen");
    v.likely_ratio = number_of(row.at("likely_ratio"));
    v.seen = {v.elements, number_of(seen.at("some")), number_of(seen.at("half")),
              number_of(seen.at("loosest"))};
  }
  if (row.contains("errors")) v.errors = row.at("errors").get<ErrorHistogram>();
  if (row.contains("where")) v.where = where_of(row.at("where"));
  r.contract = row.at("contract");
  r.expected_path = row.at("expected_path");
  r.kernels = row.at("announced").get<std::vector<std::string>>();
  r.repeat = static_cast<Repeat>(index_in(kRepeats, row.value("repeat", "untried"), "repeat"));
  r.after = row.value("after", std::vector<std::string>{});
  r.disturbed = row.value("disturbed", "");
  r.notes = row.value("notes", std::vector<std::pair<std::string, std::string>>{});
  if (row.contains("witness")) r.witness = parse_witness(row.at("witness").dump());
  r.kernel_seconds = row.at("kernel_seconds");
  r.reference_seconds = row.at("reference_seconds");
  r.input_seconds = row.at("input_seconds");
  r.worker_seconds = row.at("worker_seconds");
  r.total_seconds = row.at("total_seconds");
  return r;
}

}  // namespace assay
