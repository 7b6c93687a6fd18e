// A run as Markdown: for an issue, or the summary of a job.
#include <fmt/format.h>

#include "harness/worker/printable.hpp"
#include "reports/file.hpp"
#include "reports/matrix.hpp"
#include "reports/reporter.hpp"

namespace assay {
namespace {

constexpr std::size_t kShown = 20;  // findings in full; the JSON has all

class Markdown : public Reporter {
 public:
  explicit Markdown(const std::string& path) : file_(path) {}

  void begin(const RunHeader& header) override { header_ = header; }

  void result(const CaseResult& r) override {
    matrix_.add(r);
    if (r.verdict.green()) return;
    if (++findings_ > kShown) return;
    text_ += fmt::format(
        "\n<details><summary><b>{}</b> <code>{}</code></summary>\n\n```\n{}\n{}\nunder "
        "{}\n{}\n```\n</details>\n",
        to_string(r.verdict.status), escaped(r.c.line()), fenced(printable(r.verdict.summary)),
        fenced(r.verdict.detail), r.contract, repro_command(r));
  }

  void end(const Summary& s) override {
    std::ostream& out = file_.stream();
    out << fmt::format("### {}: {} cases: {}; {} outputs judged\n\n", s.headline(), with_commas(s.cases),
                       s.coverage(), with_commas(s.outputs));
    if (!s.ended_by.empty())
      out << fmt::format("Ended by {}: {} of {} cases were judged.\n\n", s.ended_by, s.cases, header_.cases);
    out << "`" << header_.command << "`\n\n";
    for (const auto& [name, description] : header_.backends)
      out << fmt::format("- {}: {}\n", name, escaped(printable(description)));
    out << "\n```\n" << matrix_.folded().text() << "```\n";
    for (const auto& what : s.disturbed)
      out << "- disturbed by an earlier call: " << escaped(printable(what)) << "\n";
    for (const auto& expectation : s.stale) out << "- stale expectation: `" << expectation << "`\n";
    for (const auto& of : s.unshown()) out << "- nothing was judged of " << escaped(printable(of)) << "\n";
    out << text_;
    if (findings_ > kShown) out << fmt::format("\n... and {} more findings\n", findings_ - kShown);
    file_.finish();
  }

 private:
  // A plug-in's text ends no fence and opens no tag.
  static std::string fenced(std::string text) {
    for (std::size_t at = 0; (at = text.find("```", at)) != std::string::npos;) text.replace(at, 3, "'''");
    return text;
  }
  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text)
      out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
    return out;
  }

  ReportFile file_;
  RunHeader header_;
  Matrix matrix_;
  std::string text_;
  std::size_t findings_ = 0;
};

}  // namespace

std::unique_ptr<Reporter> markdown_reporter(const std::string& path) {
  return std::make_unique<Markdown>(path);
}

}  // namespace assay
