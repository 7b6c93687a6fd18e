#include "cases/studies/cascade/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace assay {

int CascadeReport::fired() const {
  return static_cast<int>(std::ranges::count_if(links, [](const CascadeLink& l) { return l.fired; }));
}
std::string CascadeReport::last_line() const { return fmt::format("{} of {} links", fired(), links.size()); }

namespace {
std::string place(int layer, int token, int request) {
  std::string text;
  if (request >= 0) text += fmt::format(" request {}", request);
  if (layer >= 0) text += fmt::format(" layer {}", layer);
  if (token >= 0) text += fmt::format(" token {}", token);
  return text.empty() ? text : " at" + text;
}
}  // namespace

std::string cascade_text(const CascadeReport& r) {
  std::string out = fmt::format("cascade policy={} variance={} norm={} traffic={} seed={}\n  {}\n\n",
                                r.policy, r.variance, r.norm, r.traffic, r.seed, r.arithmetic);
  for (const auto& l : r.links)
    out += l.fired ? fmt::format("{:>4}  {:<52}{}\n      {}\n", l.number, l.name,
                                 place(l.layer, l.token, l.request), l.evidence)
                   : fmt::format("{:>4}  {:<52} -\n", l.number, l.name);
  if (r.fired() > 1)
    out += r.in_order ? "\nThe links fired in this order.\n" : "\nThe links did not fire in this order.\n";
  if (!r.note.empty()) out += "\n" + r.note + "\n";
  if (!r.variances.empty()) {
    out +=
        "\nvariance of equal elements 11.2, as the norm's own kernel has it (an eps above its size ends the "
        "NaN):\n ";
    for (const auto& v : r.variances)
      out += v.variance < 0 ? fmt::format(" {}: {:.3g}", v.width, v.variance)
                            : fmt::format(" {}: none", v.width);
    out += "\n";
  }
  out += fmt::format("\nfirst cause: {}\n", r.first_cause.empty() ? "none, no monitor fired" : r.first_cause);
  if (!r.observations.empty()) {
    out += "\nwhat the monitors saw (first of each kind):\n";
    std::vector<std::string> shown;
    for (const auto& o : r.observations) {
      if (std::ranges::find(shown, o.watch) != shown.end()) continue;
      shown.push_back(o.watch);
      const auto times = std::ranges::count(r.observations, o.watch, &CascadeObservation::watch);
      out += fmt::format("  {:<24} x{:<4}{}: {}\n", o.watch, times, place(o.layer, o.token, o.request),
                         o.detail);
    }
  }
  for (const auto& d : r.divergences)
    out += d.stage.empty() ? fmt::format("\nagainst {}: no divergence\n", d.against)
                           : fmt::format("\nfirst divergence from {}: {}{}: {}\n", d.against, d.stage,
                                         place(d.layer, d.token, d.request), d.what);
  if (!r.remedies.empty()) {
    out += "\nwhat would have stopped it (each one run):\n";
    for (const auto& m : r.remedies)
      out += fmt::format("  {:<28} {:>2} links, {}\n", m.name, m.links.size(),
                         m.stopped_at == 0 ? "stops nothing"
                                           : fmt::format("stops at link {:<2}  {}", m.stopped_at, m.answers));
  }
  out += "\nanswers:\n";
  for (const auto& [name, tokens] : r.answers) out += fmt::format("  {:<26} {}\n", name, tokens);
  out += fmt::format(
      "\n{} steps, {} prefix pages reused, {} pages given out again, {} evicted; monitors took {:.2f} % of "
      "{:.3f} s\n",
      r.steps, r.prefix_hits, r.reused_pages, r.evictions,
      r.seconds > 0 ? 100 * r.monitor_seconds / r.seconds : 0.0, r.seconds);
  return out;
}

}  // namespace assay
