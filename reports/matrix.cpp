#include "reports/matrix.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace assay {
namespace {

std::string cell_text(const Cell& cell) {
  if (cell.cases == 0) return "";
  if (cell.gaps == cell.cases) return "-";
  std::string text = fmt::format("{}", cell.passed);
  for (const auto& [status, count] : cell.red) text += fmt::format(" {}:{}", to_string(status), count);
  for (const auto& [status, count] : cell.known) text += fmt::format(" ({}:{})", to_string(status), count);
  return text;
}

}  // namespace

void Matrix::add(const CaseResult& r) {
  if (std::ranges::find(backends_, r.c.backend) == backends_.end()) backends_.push_back(r.c.backend);
  Cell& cell = rows_[{std::string(r.c.op->name), format_label(r.c)}][r.c.backend];
  ++cell.cases;
  const Verdict& v = r.verdict;
  if (v.status == Status::pass) {
    ++cell.passed;
  } else if (v.expected && v.status == Status::unsupported) {
    ++cell.gaps;
  } else {
    ++(v.expected ? cell.known : cell.red)[v.status];
    if (cell.reason.empty()) cell.reason = v.expected ? v.reason : v.summary;
  }
}

std::string Matrix::text() const {
  std::size_t op_width = 2, format_width = 7;
  std::vector<std::size_t> widths;
  for (const auto& b : backends_) widths.push_back(b.size());
  for (const auto& [row, cells] : rows_) {
    op_width = std::max(op_width, row.first.size());
    format_width = std::max(format_width, row.second.size());
    for (std::size_t i = 0; i < backends_.size(); ++i)
      if (const auto at = cells.find(backends_[i]); at != cells.end())
        widths[i] = std::max(widths[i], cell_text(at->second).size());
  }
  std::string text = fmt::format("{:<{}}  {:<{}}", "op", op_width, "formats", format_width);
  for (std::size_t i = 0; i < backends_.size(); ++i) text += fmt::format("  {:>{}}", backends_[i], widths[i]);
  text += "\n";
  std::string last;
  for (const auto& [row, cells] : rows_) {
    text +=
        fmt::format("{:<{}}  {:<{}}", row.first == last ? "" : row.first, op_width, row.second, format_width);
    last = row.first;
    for (std::size_t i = 0; i < backends_.size(); ++i) {
      const auto at = cells.find(backends_[i]);
      text += fmt::format("  {:>{}}", at == cells.end() ? "" : cell_text(at->second), widths[i]);
    }
    while (text.back() == ' ') text.pop_back();
    text += "\n";
  }
  return text;
}

}  // namespace assay
