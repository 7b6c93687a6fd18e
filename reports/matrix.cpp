#include "reports/matrix.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace assay {
namespace {

std::string cell_text(const Cell& cell) {
  if (cell.cases == 0) return "";
  if (cell.gaps == cell.cases) return "-";
  std::string text = fmt::format("{}", cell.passed);
  if (cell.blind > 0) text += fmt::format(" [{} blind]", cell.blind);
  for (const auto& [status, count] : cell.red) text += fmt::format(" {}:{}", to_string(status), count);
  for (const auto& [status, count] : cell.known) text += fmt::format(" ({}:{})", to_string(status), count);
  return text;
}

}  // namespace

void Cell::add(const Cell& other) {
  cases += other.cases, passed += other.passed, gaps += other.gaps, blind += other.blind;
  for (const auto& [status, count] : other.known) known[status] += count;
  for (const auto& [status, count] : other.red) red[status] += count;
  if (reason.empty()) reason = other.reason;
}

std::string format_family(std::string_view name) {
  const Format& f = format(name);
  std::string payload(f.element);
  if (f.kind == FormatKind::block) payload = planes(f, {1, f.block_elements}).front().format;
  const ScalarFormat* codes = find_scalar_format(payload);
  if (codes == nullptr) return "ggml";  // scale and codes inline in one block
  if (codes->kind == ScalarKind::integer) return "int";
  return codes->bits > 8 ? "float" : codes->bits > 6 ? "fp8" : fmt::format("fp{}", codes->bits);
}

std::string family_label(const std::string& formats) {
  std::vector<std::string> families;
  std::istringstream words(formats);
  for (std::string word; words >> word;) {
    std::string family = format_family(word);
    if (std::ranges::find(families, family) == families.end()) families.push_back(std::move(family));
  }
  std::ranges::sort(families);
  if (families.size() > 1) std::erase(families, "float");
  return fmt::format("{}", fmt::join(families, " "));
}

Matrix Matrix::folded() const {
  Matrix m;
  m.backends_ = backends_;
  for (const auto& [row, cells] : rows_)
    for (const auto& [backend, cell] : cells)
      m.rows_[{row.first, family_label(row.second)}][backend].add(cell);
  return m;
}

void Matrix::add(const CaseResult& r) {
  if (std::ranges::find(backends_, r.c.backend) == backends_.end()) backends_.push_back(r.c.backend);
  Cell& cell = rows_[{std::string(r.c.op->name), format_label(r.c)}][r.c.backend];
  ++cell.cases;
  const Verdict& v = r.verdict;
  if (v.status == Status::pass) {
    ++cell.passed;
    if (v.blind()) ++cell.blind;
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
