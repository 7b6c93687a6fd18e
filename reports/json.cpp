// The machine-readable report: schema "assay-run" version 2, described in schema.md and
// assay-run.schema.json.
#include <nlohmann/json.hpp>

#include "reports/digest.hpp"
#include "reports/file.hpp"
#include "reports/matrix.hpp"
#include "reports/reporter.hpp"
#include "reports/result_json.hpp"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

Json counts_of(const std::map<Status, std::size_t>& counts) {
  Json json = Json::object();
  for (const auto& [status, count] : counts) json[std::string(to_string(status))] = count;
  return json;
}

class JsonReport : public Reporter {
 public:
  explicit JsonReport(const std::string& path) : file_(path) {}

  void begin(const RunHeader& h) override {
    document_ = {{"schema", "assay-run"},
                 {"version", 2},
                 {"command", h.command},
                 {"commit", h.commit},
                 {"backends", Json(h.backends)},
                 {"jobs", h.jobs},
                 {"shard", h.shard},
                 {"shards", h.shards},
                 {"planned", h.cases},
                 {"complete", false},
                 {"ended_by", ""},
                 {"elsewhere", Json(h.elsewhere)}};
    document_["results"] = Json::array();
    document_["failures"] = Json::array();
  }

  void result(const CaseResult& r) override {
    matrix_.add(r);
    digest_.add(r);
    document_["results"].push_back(to_json(r));
    if (!r.verdict.green()) add_failure(r.c.line(), to_string(r.verdict.status), r.verdict.summary);
  }

  void end(const Summary& s) override {
    Json matrix = Json::array();
    for (const auto& [row, cells] : matrix_.rows())
      for (const auto& [backend, cell] : cells)
        matrix.push_back({{"op", row.first},
                          {"formats", row.second},
                          {"backend", backend},
                          {"cases", cell.cases},
                          {"passed", cell.passed},
                          {"blind", cell.blind},
                          {"gaps", cell.gaps},
                          {"known", counts_of(cell.known)},
                          {"red", counts_of(cell.red)},
                          {"reason", cell.reason}});
    document_["matrix"] = std::move(matrix);
    for (const auto& what : s.disturbed) add_failure(what.substr(0, what.find(": ")), "disturbed", what);
    for (const auto& expectation : s.stale)
      add_failure(expectation, "stale", "no case of this run confirms it: remove the line");
    for (const auto& of : s.unshown()) add_failure(of.substr(0, of.find(": ")), "unshown", of);
    Json digest = Json::array();
    for (const DigestLine& line : digest_.lines())
      digest.push_back({{"op", line.op},
                        {"backend", line.backend},
                        {"red", line.red},
                        {"shared", line.shared},
                        {"passes", line.passes},
                        {"passes_too", line.passes_too}});
    document_["digest"] = std::move(digest);
    document_["complete"] = s.ended_by.empty();
    document_["ended_by"] = s.ended_by;
    document_["summary"] = {{"cases", s.cases},
                            {"green", s.green()},
                            {"expected", s.expected},
                            {"disturbed", s.disturbed},
                            {"stale", s.stale},
                            {"verdicts", counts_of(s.counts)},
                            {"outcome", s.headline()},
                            {"judged", s.judged},
                            {"shows_nothing", s.shows_nothing},
                            {"not_run", s.not_run},
                            {"suspect", s.suspect},
                            {"blind", s.blind},
                            {"unwitnessed", s.unwitnessed},
                            {"left", s.left},
                            {"laws_left", s.laws_left},
                            {"left_out", s.left_out},
                            {"outputs", s.outputs},
                            {"wall_seconds", s.wall_seconds},
                            {"busy_seconds", s.busy_seconds},
                            {"kernel_seconds", s.kernel_seconds},
                            {"reference_seconds", s.reference_seconds},
                            {"input_seconds", s.input_seconds},
                            {"worker_seconds", s.worker_seconds}};
    file_.stream() << document_.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
    file_.finish();
  }

 private:
  void add_failure(const std::string& name, std::string_view kind, const std::string& summary) {
    document_["failures"].push_back({{"name", name}, {"kind", kind}, {"summary", summary}});
  }

  ReportFile file_;
  Json document_;
  Matrix matrix_;
  Digest digest_;
};

}  // namespace

std::unique_ptr<Reporter> json_reporter(const std::string& path) {
  return std::make_unique<JsonReport>(path);
}

}  // namespace assay
