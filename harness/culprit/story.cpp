#include "harness/culprit/story.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace assay::culprit {
namespace {

std::string escaped(const std::string& text) {
  std::string html;
  for (const char c : text)
    html += c == '&'   ? std::string("&amp;")
            : c == '<' ? std::string("&lt;")
            : c == '>' ? std::string("&gt;")
                       : std::string(1, c);
  return html;
}

// `code` in a line of prose.
std::string with_code(const std::string& line) {
  std::string html;
  bool code = false;
  for (std::size_t at = 0, end = 0; at <= line.size(); at = end + 1) {
    end = std::min(line.find('`', at), line.size());
    html += escaped(line.substr(at, end - at));
    if (end < line.size()) html += (code = !code) ? "<code>" : "</code>";
  }
  return html + (code ? "</code>" : "");
}

// Of the Markdown that issue_text() writes: a heading, paragraphs, fenced blocks. Any other text is one
// block.
std::string rendered(const std::string& text) {
  if (!text.starts_with("### ")) return "<pre>" + escaped(text) + "</pre>\n";
  std::string html, paragraph;
  bool block = false;
  const auto close = [&] {
    if (!paragraph.empty()) html += "<p>" + paragraph + "</p>\n";
    paragraph.clear();
  };
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (line == "```") {
      close();
      html += block ? "</pre>\n" : "<pre>";
      block = !block;
    } else if (block) {
      html += escaped(line) + "\n";
    } else if (line.starts_with("### ")) {
      html += "<h3>" + with_code(line.substr(4)) + "</h3>\n";
    } else if (line.empty()) {
      close();
    } else {
      paragraph += (paragraph.empty() ? "" : "<br>\n") + with_code(line);
    }
  }
  close();
  return html + (block ? "</pre>\n" : "");
}

std::vector<std::pair<std::string, std::string>> sections(const Story& s) {
  std::vector<std::pair<std::string, std::string>> list = {{"What was found", s.found},
                                                           {"The smallest that still fails", s.shrunk},
                                                           {"Which stage", s.attribution}};
  if (!s.bisection.empty()) list.emplace_back("Since when", s.bisection);
  list.emplace_back("How to repeat it", s.repeat);
  return list;
}

}  // namespace

std::string text_of(const Story& s) {
  std::string text = fmt::format("# {}\n", s.title);
  for (const auto& [title, content] : sections(s))
    text += fmt::format("\n## {}\n\n{}{}", title, content, content.ends_with('\n') ? "" : "\n");
  return text;
}

std::string page_of(const Story& s) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{0}</title>\n"
      "<style>:root{{color-scheme:light dark}}"
      "body{{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 "
      "auto;padding:1rem;color:#1b1f24;background:#fff}}"
      "h1{{font-size:1.4rem;margin:.2rem 0}}h2{{font-size:1.1rem;margin:2rem 0 .5rem}}h3{{font-size:1rem}}"
      "pre,code{{font:.85em/1.5 ui-monospace,monospace;overflow-wrap:anywhere}}"
      "pre{{background:#f5f6f8;border:1px solid "
      "#d9dde3;border-radius:6px;padding:.7rem;white-space:pre-wrap}}"
      "@media (prefers-color-scheme: dark){{body{{background:#14171b;color:#e7eaee}}"
      "pre{{background:#1d2127;border-color:#343b45}}}}@media print{{pre{{break-inside:avoid}}}}"
      "</style></head><body>\n<h1>{0}</h1>\n",
      escaped(s.title));
  for (const auto& [title, content] : sections(s))
    html += fmt::format("<h2>{}</h2>\n{}", escaped(title), rendered(content));
  return html + "</body></html>\n";
}

}  // namespace assay::culprit
