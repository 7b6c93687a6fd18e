#include "harness/culprit/story.hpp"

#include <fmt/format.h>

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
      "<style>body{{font:16px/1.5 sans-serif;max-width:60em;margin:1em auto;padding:0 1em}}"
      "pre{{background:#f4f4f4;padding:1em;white-space:pre-wrap;overflow-wrap:anywhere;font-size:14px}}"
      "@media (prefers-color-scheme: dark){{body{{background:#181818;color:#ddd}}pre{{background:#262626}}}}"
      "</style></head><body>\n<h1>{0}</h1>\n",
      escaped(s.title));
  for (const auto& [title, content] : sections(s))
    html += fmt::format("<h2>{}</h2>\n<pre>{}</pre>\n", escaped(title), escaped(content));
  return html + "</body></html>\n";
}

}  // namespace assay::culprit
