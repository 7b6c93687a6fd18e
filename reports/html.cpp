// A run as one page that needs nothing else: the template of reports/page, its script, and the results as
// embedded JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/worker/printable.hpp"
#include "reports/digest.hpp"
#include "reports/file.hpp"
#include "reports/page_text.hpp"
#include "reports/reporter.hpp"
#include "reports/result_json.hpp"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

// Three digits are what a page shows; ten thousand cases are to stay below 3 MB.
// By from_chars, which leaves x as it is where three digits are beyond all numbers: 1.80e308.
Json rounded(double x) {
  if (!std::isfinite(x)) return "inf";
  const std::string text = fmt::format("{:.3g}", x);
  std::from_chars(text.data(), text.data() + text.size(), x);
  return x;
}

// [first octave that has elements, its count, ... up to the last that has]; nothing for no element at all.
Json trimmed(const ErrorHistogram& errors) {
  std::size_t first = 0, end = errors.size();
  while (first < end && errors[first] == 0) ++first;
  while (end > first && errors[end - 1] == 0) --end;
  if (first == end) return nullptr;
  Json list = {first};
  for (std::size_t i = first; i < end; ++i) list.push_back(errors[i]);
  return list;
}

class Page : public Reporter {
 public:
  explicit Page(const std::string& path) : file_(path) {}

  void begin(const RunHeader& header) override { header_ = header; }

  // The fields stand in the order of FIELDS in page/run.js.
  void result(const CaseResult& r) override {
    digest_.add(r);
    const Verdict& v = r.verdict;
    std::vector<std::string> seen;
    if (r.witness)
      for (const SeenKernel& kernel : r.witness->kernels) seen.push_back(kernel.name);
    const std::string line = r.c.line(), repro = repro_line(r);
    cases_.push_back({line,
                      text(std::string(r.c.op->name)),
                      text(format_label(r.c)),
                      text(r.c.backend),
                      text(std::string(to_string(v.status))),
                      v.green() ? 1 : 0,
                      v.blind() ? 1 : 0,
                      v.suspect() ? 1 : 0,
                      rounded(v.worst_ratio),
                      rounded(v.elements > 0 ? v.seen.half : 0),
                      v.elements,
                      v.bad,
                      text(r.contract),
                      text(r.expected_path),
                      text(fmt::format("{}", fmt::join(seen, ", "))),
                      text(printable(v.summary)),
                      text(v.reason),
                      v.green() ? "" : v.detail,
                      trimmed(v.errors),
                      v.where.map.empty() ? Json(nullptr) : where_json(v.where),
                      repro == line ? "" : repro});
  }

  void end(const Summary& s) override {
    Json facts = Json::array({Json::array({"command", header_.command}),
                              Json::array({"commit", header_.commit}), Json::array({"machine", machine()})});
    for (const auto& [name, description] : header_.backends)
      facts.push_back(Json::array({name, printable(description)}));
    Json notes = Json::array();
    if (!s.ended_by.empty())
      notes.push_back(
          fmt::format("Ended by {}: {} of {} cases were judged.", s.ended_by, s.cases, header_.cases));
    for (const auto& what : s.disturbed) notes.push_back("disturbed by an earlier call: " + what);
    for (const auto& of : s.unshown()) notes.push_back("nothing was judged of " + of);
    for (const auto& stale : s.stale) notes.push_back("stale expectation, remove it: " + stale);
    Json digest = Json::array();
    for (const DigestLine& line : digest_.lines()) digest.push_back(line.text());
    const Json data = {
        {"green", s.green()},
        {"outcome", fmt::format("{}: {} cases, {} with a finding: {}; {} outputs judged in {:.1f} s",
                                s.headline(), with_commas(s.cases), with_commas(s.red), s.coverage(),
                                with_commas(s.outputs), s.wall_seconds)},
        {"facts", facts},
        {"notes", notes},
        {"digest", digest},
        {"texts", texts_},
        {"cases", cases_}};
    file_.stream() << drawn_page(kRunScript, data);
    file_.finish();
  }

 private:
  // The place of a text among those that many cases share.
  std::size_t text(const std::string& value) {
    const auto [at, added] = places_.try_emplace(value, texts_.size());
    if (added) texts_.push_back(value);
    return at->second;
  }

  ReportFile file_;
  RunHeader header_;
  Digest digest_;
  std::map<std::string, std::size_t> places_;
  Json texts_ = Json::array(), cases_ = Json::array();
};

}  // namespace

std::unique_ptr<Reporter> html_reporter(const std::string& path) { return std::make_unique<Page>(path); }

}  // namespace assay
