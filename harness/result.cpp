#include "harness/result.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/shell.hpp"

namespace assay {

std::string format_label(const Case& c) {
  std::vector<std::string> seen;
  for (const auto& a : c.op->attributes) {
    if (a.kind != KeyKind::format) continue;
    const std::string& value = c.attributes.text(a.name);
    if (std::ranges::find(seen, value) == seen.end()) seen.push_back(value);
  }
  std::string label;
  for (const auto& s : seen) label += (label.empty() ? "" : " ") + s;
  return label;
}

std::string repro_line(const CaseResult& r) {
  Case c = r.c;
  if (!r.after.empty()) c.after = r.after;
  return c.line();
}

std::string repro_command(const CaseResult& r) {
  return r.command.empty() ? "assay run " + shell_quoted(repro_line(r)) : r.command;
}

std::string with_commas(std::size_t n) {
  const std::string digits = fmt::format("{}", n);
  std::string text;
  for (std::size_t at = 0; at < digits.size(); ++at) {
    if (at > 0 && (digits.size() - at) % 3 == 0) text += ',';
    text += digits[at];
  }
  return text;
}

void Summary::add(const CaseResult& r) {
  ++cases;
  ++counts[r.verdict.status];
  if (!r.verdict.green()) ++red;
  if (r.verdict.expected) ++expected, ++explained[r.verdict.status];
  const Status status = r.verdict.status;
  Shown& shown = shown_[{r.c.op != nullptr ? std::string(r.c.op->name) : "", r.c.backend}];
  if (status == Status::distrust)
    ++shows_nothing, ++shown.nothing;
  else if (r.verdict.elements > 0 || status == Status::pass)  // some faults ask for a relation of two calls
    ++judged, ++shown.judged, outputs += r.verdict.elements;
  if (status == Status::unsupported || status == Status::too_big || status == Status::impossible) ++not_run;
  if (!r.verdict.unwitnessed.empty()) ++unwitnessed;
  if (!r.disturbed.empty()) disturbed.push_back(r.disturbed);
  if (r.verdict.status == Status::suspect || (r.verdict.status == Status::pass && r.verdict.suspect()))
    ++suspect;
  if (r.verdict.status == Status::blind || (r.verdict.status == Status::pass && r.verdict.blind())) ++blind;
  kernel_seconds += r.kernel_seconds;
  reference_seconds += r.reference_seconds;
  input_seconds += r.input_seconds;
  worker_seconds += r.worker_seconds;
  busy_seconds += r.total_seconds;
}

void Summary::leave_out(const CaseResult& r) {
  ++left_out;
  if (r.verdict.status == Status::distrust) ++shown_[{std::string(r.c.op->name), r.c.backend}].nothing;
}

std::vector<std::string> Summary::unshown() const {
  std::vector<std::string> texts;
  for (const auto& [of, shown] : shown_)
    if (shown.judged == 0 && shown.nothing > 0)
      texts.push_back(
          fmt::format("{} of {}: none of {} case{} shows anything under the contract that it declares",
                      of.first, of.second, with_commas(shown.nothing), shown.nothing == 1 ? "" : "s"));
  return texts;
}

bool Summary::green() const { return headline() == kAllGreen; }

std::string_view Summary::headline() const {
  if (red > 0 || !disturbed.empty() || !stale.empty() || !ended_by.empty()) return kNotGreen;
  if (judged == 0) return kNothingWasJudged;
  return unshown().empty() ? kAllGreen : kNotGreen;
}

std::string Summary::coverage() const {
  std::string text = fmt::format("{} judged", with_commas(judged));
  if (shows_nothing > 0)
    text += fmt::format(", {} show{} nothing", with_commas(shows_nothing), shows_nothing == 1 ? "s" : "");
  if (not_run > 0) text += fmt::format(", {} not run", with_commas(not_run));
  if (unwitnessed > 0) text += fmt::format(", {} unwitnessed", with_commas(unwitnessed));
  return text;
}

}  // namespace assay
