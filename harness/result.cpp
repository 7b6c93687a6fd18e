#include "harness/result.hpp"

#include <algorithm>

#include "harness/shell.hpp"

namespace assay {

std::string format_label(const Case& c) {
  std::vector<std::string> seen;
  for (const auto& a : c.op->attributes) {
    if (a.kind != AttributeKind::format) continue;
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

void Summary::add(const CaseResult& r) {
  ++cases;
  ++counts[r.verdict.status];
  if (!r.verdict.green()) ++red;
  if (r.verdict.expected) ++expected, ++explained[r.verdict.status];
  if (r.verdict.status != Status::unsupported) ++executed;
  if (r.verdict.status == Status::suspect || (r.verdict.status == Status::pass && r.verdict.suspect()))
    ++suspect;
  if (r.verdict.status == Status::blind || (r.verdict.status == Status::pass && r.verdict.blind())) ++blind;
  outputs += r.verdict.elements;
  kernel_seconds += r.kernel_seconds;
  reference_seconds += r.reference_seconds;
  input_seconds += r.input_seconds;
  worker_seconds += r.worker_seconds;
  busy_seconds += r.total_seconds;
}

bool Summary::green() const { return cases > 0 && red == 0 && stale.empty() && ended_by.empty(); }

}  // namespace assay
