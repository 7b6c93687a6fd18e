// The chain report as one self-contained page: the links, and the spread of NaN through tokens, layers and
// requests as a picture.
#include <fmt/format.h>

#include <algorithm>

#include "cases/studies/cascade/report.hpp"

namespace assay {
namespace {

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '<'   ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '&' ? "&amp;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  return out;
}

constexpr const char* kHead =
    R"(<!doctype html><html lang="en"><head><meta charset="utf-8"><title>assay cascade</title><style>
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.6rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .6rem}p.sub{color:#57606a;margin:.2rem 0 1rem}
.big{font-size:2.2rem;font-weight:700}.bad{color:#b42318}.good{color:#18794e}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #e3e6ea;vertical-align:top}
th{color:#57606a;font-weight:600}.n{width:2rem;text-align:right;font-variant-numeric:tabular-nums}
.dot{display:inline-block;width:.8rem;height:.8rem;border-radius:50%;border:1px solid #8c959f}.on{background:#b42318;border-color:#b42318}
code,.mono{font-family:ui-monospace,monospace;font-size:.87em}.off td{color:#8c959f}
.pics{display:flex;flex-wrap:wrap;gap:1.4rem}figure{margin:0}figcaption{font-size:.85rem;color:#57606a;margin-bottom:.2rem}
td:nth-child(4){white-space:nowrap}.key span{display:inline-block;width:.9rem;height:.9rem;margin:0 .3rem 0 1rem;vertical-align:-.1rem}
</style></head><body>
)";

const char* colour(char cell) {
  return cell == 'N' ? "#b42318" : cell == 'c' ? "#f0a92e" : cell == '.' ? "#bfe3cf" : "#f3f4f6";
}

std::string picture(const CascadePicture& p) {
  std::size_t tokens = 0;
  for (const auto& l : p.layers) tokens = std::max(tokens, l.size());
  constexpr int kCell = 20, kLeft = 52, kBottom = 18;
  const int width = kLeft + static_cast<int>(tokens) * kCell + 4,
            height = static_cast<int>(p.layers.size()) * kCell + kBottom;
  std::string svg = fmt::format(
      "<figure><figcaption>request {}</figcaption><svg width=\"{}\" height=\"{}\" font-size=\"10\" "
      "fill=\"#57606a\">",
      escape(p.request), width, height);
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    const int y = static_cast<int>(p.layers.size() - 1 - l) * kCell;  // the last layer on top
    svg += fmt::format("<text x=\"0\" y=\"{}\">layer {}</text>", y + 14, l);
    for (std::size_t t = 0; t < tokens; ++t)
      svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"{}\"/>",
                         kLeft + static_cast<int>(t) * kCell, y, kCell - 2, kCell - 2,
                         colour(t < p.layers[l].size() ? p.layers[l][t] : ' '));
  }
  for (std::size_t t = 0; t < tokens; ++t)
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                       kLeft + static_cast<int>(t) * kCell + kCell / 2 - 1, height - 4, t);
  return svg + "</svg></figure>\n";
}

std::string place(int layer, int token, int request) {
  std::string text = request >= 0 ? fmt::format("request {}", request) : "";
  if (layer >= 0) text += fmt::format("{}layer {}", text.empty() ? "" : ", ", layer);
  if (token >= 0) text += fmt::format("{}token {}", text.empty() ? "" : ", ", token);
  return text;
}

}  // namespace

std::string cascade_html(const CascadeReport& r) {
  std::string out = kHead;
  out += fmt::format(
      "<h1>From a KV scale to &ldquo;!!!!&rdquo;</h1><p class=\"sub mono\">policy={} variance={} norm={} "
      "traffic={} seed={} backend={}</p>",
      r.policy, r.variance, r.norm, r.traffic, r.seed, escape(r.backend));
  out += fmt::format(
      "<div class=\"big {}\">{}</div><p>First cause: <b>{}</b>{}</p>", r.fired() > 2 ? "bad" : "good",
      r.last_line(), escape(r.first_cause.empty() ? "none, no monitor fired" : r.first_cause),
      r.fired() > 1 ? (r.in_order ? ". The links fired in order." : ". The links did not fire in order.")
                    : "");
  out += "<h2>The spread: tokens across, layers upwards, one picture per request</h2><p class=\"key sub\">";
  for (const auto& [cell, name] : {std::pair{'.', "clean"}, std::pair{'c', "K or V clipped"},
                                   std::pair{'N', "NaN"}, std::pair{' ', "taken from the prefix cache"}})
    out += fmt::format("<span style=\"background:{}\"></span>{}", colour(cell), name);
  out += "</p><div class=\"pics\">\n";
  for (const auto& p : r.pictures) out += picture(p);
  out +=
      "</div><h2>The links</h2><table><tr><th "
      "class=\"n\"></th><th></th><th>link</th><th>where</th><th>evidence</th></tr>\n";
  for (const auto& l : r.links)
    out += fmt::format(
        "<tr{}><td class=\"n\">{}</td><td><span class=\"dot{}\"></span></td><td>{}</td><td>{}</td><td "
        "class=\"mono\">{}</td></tr>\n",
        l.fired ? "" : " class=\"off\"", l.number, l.fired ? " on" : "", escape(l.name),
        l.fired ? place(l.layer, l.token, l.request) : "", escape(l.evidence));
  out += "</table>";
  if (!r.remedies.empty()) {
    out +=
        "<h2>What would have stopped it (each one run)</h2><table><tr><th>change</th><th>links "
        "left</th><th>stops at</th><th>answers</th></tr>\n";
    for (const auto& m : r.remedies)
      out += fmt::format("<tr><td class=\"mono\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                         escape(m.name), m.links.size(),
                         m.stopped_at == 0 ? "nothing" : fmt::format("link {}", m.stopped_at),
                         escape(m.answers));
    out += "</table>";
  }
  if (!r.divergences.empty()) {
    out +=
        "<h2>First divergence from the "
        "reference</h2><table><tr><th>against</th><th>stage</th><th>where</th><th>what</th></tr>\n";
    for (const auto& d : r.divergences)
      out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", escape(d.against),
                         d.stage.empty() ? "none" : escape(d.stage), place(d.layer, d.token, d.request),
                         escape(d.what));
    out += "</table>";
  }
  out += "<h2>Answers</h2><table>";
  for (const auto& [name, tokens] : r.answers)
    out += fmt::format("<tr><td>{}</td><td class=\"mono\">{}</td></tr>\n", escape(name), escape(tokens));
  out += "</table><h2>NaN by stage</h2><table>";
  for (const auto& [stage, fraction] : r.nan_fraction)
    out += fmt::format(
        "<tr><td>{}</td><td>{:.1f} %</td><td style=\"width:60%\"><div "
        "style=\"height:.7rem;width:{:.1f}%;background:#b42318\"></div></td></tr>\n",
        escape(stage), 100 * fraction, 100 * fraction);
  out += fmt::format(
      "</table><p class=\"sub\">{} Engine steps: {}; prefix pages reused: {}; pages given out again: {}; "
      "evictions: {}. The monitors took {:.2f} % of {:.3f} s.</p>",
      escape(r.arithmetic) + ".", r.steps, r.prefix_hits, r.reused_pages, r.evictions,
      r.seconds > 0 ? 100 * r.monitor_seconds / r.seconds : 0.0, r.seconds);
  return out + "</body></html>\n";
}

}  // namespace assay
