#include "cases/studies/identify/row_calls.hpp"

#include "reference/mix.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {
namespace {

// The rows of another call behind those of `to`.
void append(RowAnswer& to, const RowAnswer& more) {
  to.in.rows += more.in.rows;
  to.in.x.insert(to.in.x.end(), more.in.x.begin(), more.in.x.end());
  to.in.visible.insert(to.in.visible.end(), more.in.visible.begin(), more.in.visible.end());
  to.in.sinks.insert(to.in.sinks.end(), more.in.sinks.begin(), more.in.sinks.end());
  to.got.insert(to.got.end(), more.got.begin(), more.got.end());
}

// x in calls of `rows`, as one answer.
std::optional<RowAnswer> ask(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                             const std::vector<float>& x, const std::string& what) {
  std::optional<RowAnswer> whole;
  const std::int64_t size = rows * cols;
  for (auto at = x.begin(); at < x.end(); at += size) {
    std::optional<RowAnswer> one = subject.crafted(rows, cols, std::vector<float>(at, at + size), what);
    if (!one) return std::nullopt;
    if (whole)
      append(*whole, *one);
    else
      whole = std::move(one);
  }
  return whole;
}

// About Gaussian: the sum of four uniform numbers, as the format rounds it.
std::vector<float> bell(std::int64_t count, const std::string& format) {
  std::vector<float> x;
  std::uint64_t state = 61;
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = -2;
    for (int k = 0; k < 4; ++k) sum += static_cast<double>(mix(next_mixed(state)) >> 11) * 0x1p-53;
    x.push_back(static_cast<float>(round_to_width(2 * sum, width_of(format))));
  }
  return x;
}

}  // namespace

std::optional<RowAnswer> first_rows(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                                    std::int64_t few, std::int64_t& last_seed) {
  std::optional<RowAnswer> whole = subject.drawn(rows, cols, 1);
  last_seed = 1;
  if (!whole || subject.op() == "wht") return whole;
  const bool is_norm = !whole->in.gamma.empty();
  const std::int64_t wanted = (subject.op() == "logsumexp" ? 8
                               : is_norm                   ? 2
                                                           : 1) *
                              few,
                     calls = (wanted - 1) / rows;
  if (is_norm) {
    const std::vector<float> x = bell(rows * calls * cols, whole->in.stored_as);
    if (const std::optional<RowAnswer> more = ask(subject, rows, cols, x, "more rows")) append(*whole, *more);
    return whole;
  }
  for (; last_seed <= calls; ++last_seed) {
    const std::optional<RowAnswer> more =
        subject.drawn(rows, cols, static_cast<std::uint64_t>(last_seed) + 1);
    if (!more) break;
    append(*whole, *more);
  }
  return whole;
}

std::optional<RowAnswer> ask_balanced(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                                      const std::string& format, std::int64_t least) {
  const std::int64_t calls = (least + rows - 1) / rows;
  return ask(subject, rows, cols, balanced_rows(rows * calls, cols, format), "balanced rows");
}

std::optional<RowAnswer> ask_swamped(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                                     const RowInputs& like) {
  if (like.gamma.empty() || cols < 4 || like.stored_as != "f32") return std::nullopt;
  constexpr std::int64_t kLeast = 4, kLarge = 3;
  constexpr float kSize = 4096;  // its square has units of 2 in f32
  const std::int64_t calls = (kLeast + rows - 1) / rows;
  std::uint64_t state = 83;
  std::vector<float> x;
  for (std::int64_t i = 0; i < rows * calls * cols; ++i) {
    const double u = 1 + static_cast<double>(mix(next_mixed(state)) >> 11) * 0x1p-53;
    x.push_back(static_cast<float>(round_to_width(u, width_of(like.stored_as))));
  }
  for (std::int64_t r = 0; r < rows * calls; ++r)
    for (std::int64_t k = 0; k < kLarge; ++k)
      x[static_cast<std::size_t>(r * cols) + mix(next_mixed(state)) % static_cast<std::uint64_t>(cols)] =
          kSize;
  return ask(subject, rows, cols, x, "swamped rows");
}

}  // namespace assay
