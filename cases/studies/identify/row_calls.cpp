#include "cases/studies/identify/row_calls.hpp"

#include <array>
#include <cmath>
#include <span>

#include "reference/formats/scalar.hpp"
#include "reference/mix.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {
namespace {

constexpr std::uint64_t kMoreRows = 61;  // seed of rows behind the drawn ones

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
                             const std::vector<float>& x, const std::string& what,
                             const std::vector<float>& gamma = {}) {
  std::optional<RowAnswer> whole;
  const std::int64_t size = rows * cols;
  for (auto at = x.begin(); at < x.end(); at += size) {
    std::optional<RowAnswer> one =
        subject.crafted(rows, cols, std::vector<float>(at, at + size), what, gamma);
    if (!one) return std::nullopt;
    if (whole)
      append(*whole, *one);
    else
      whole = std::move(one);
  }
  return whole;
}

// About Gaussian: the sum of four uniform numbers, as the format rounds it.
std::vector<float> bell(std::int64_t count, const std::string& format, std::uint64_t seed) {
  std::vector<float> x;
  std::uint64_t state = mix(seed);
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = -2;
    for (int k = 0; k < 4; ++k) sum += static_cast<double>(mix(next_mixed(state)) >> 11) * 0x1p-53;
    x.push_back(static_cast<float>(round_to_width(2 * sum, width_of(format))));
  }
  return x;
}

bool is_narrow_norm(const RowInputs& in) { return !in.gamma.empty() && in.stored_as != "f32"; }

// (x - mean) / sqrt(variance + eps) of one row; the mean is 0 of rmsnorm.
std::vector<double> normalised(const RowInputs& like, bool centred, std::span<const float> x) {
  double mean = 0, variance = 0;
  const auto n = static_cast<double>(x.size());
  for (const float each : x) mean += centred ? static_cast<double>(each) / n : 0;
  std::vector<double> z;
  for (const float each : x) {
    z.push_back(static_cast<double>(each) - mean);
    variance += z.back() * z.back() / n;
  }
  for (double& each : z) each /= std::sqrt(variance + static_cast<double>(like.eps));
  return z;
}

std::vector<float> gamma_at_midpoints(const RowInputs& like, bool centred, std::span<const float> x,
                                      std::int64_t few, std::uint64_t seed) {
  // Places of f32 about a midpoint, for columns in turn: nearly exact sums are off by the first, long ones by
  // the second.
  constexpr std::array kPlaces = {2.0, 8.0};
  constexpr double kLeast = 0x1p-12;  // of what gamma multiplies, and of an output
  const auto cols = static_cast<std::size_t>(like.cols);
  const int bits = scalar_format(like.stored_as).fraction_bits + 1;
  std::vector<std::vector<double>> rows;
  for (std::size_t r = 0; r < static_cast<std::size_t>(few); ++r)
    rows.push_back(normalised(like, centred, x.subspan(r * cols, cols)));
  std::vector<float> gamma = like.gamma;
  std::uint64_t state = mix(seed);
  for (std::size_t c = 0; c < cols; ++c) {
    const double z = rows[c % rows.size()][c],
                 beta = like.beta.empty() ? 0 : static_cast<double>(like.beta[c]);
    const double size = std::copysign(1 + std::abs(static_cast<double>(like.gamma[c])), z) + beta;
    if (std::abs(z) < kLeast || std::abs(size) < kLeast) continue;
    const double unit = std::ldexp(1.0, std::ilogb(size) + 1 - bits);
    const double apart = (static_cast<double>(next_mixed(state) >> 11) * 0x1p-52 - 1) *
                         kPlaces[c / rows.size() % kPlaces.size()] * 0x1p-24;
    gamma[c] = static_cast<float>(((std::floor(size / unit) + 0.5) * unit * (1 + apart) - beta) / z);
  }
  return gamma;
}

}  // namespace

std::optional<RowAnswer> ask_midpoints(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                                       const RowInputs& like, std::int64_t few, std::uint64_t seed) {
  if (!is_narrow_norm(like)) return std::nullopt;
  const std::int64_t calls = (2 * few + rows - 1) / rows;
  std::vector<float> x = bell(rows * calls * cols, like.stored_as, seed);
  // Squares of 16-bit numbers of one size are added without rounding.
  constexpr std::uint64_t kSizes = 8;
  std::uint64_t state = mix(seed + 1);
  for (float& each : x) {
    const double smaller =
        std::ldexp(static_cast<double>(each), -static_cast<int>(next_mixed(state) % kSizes));
    each = static_cast<float>(round_to_width(smaller, width_of(like.stored_as)));
  }
  return ask(subject, rows, cols, x, "rows at midpoints",
             gamma_at_midpoints(like, subject.op() == "layernorm", x, few, seed));
}

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
    const std::vector<float> x = bell(rows * calls * cols, whole->in.stored_as, kMoreRows);
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
                                      const RowInputs& like, std::int64_t few, std::int64_t least,
                                      std::uint64_t seed) {
  const std::int64_t calls = (least + rows - 1) / rows;
  const std::vector<float> x = balanced_rows(rows * calls, cols, like.stored_as, seed);
  return ask(subject, rows, cols, x, "balanced rows",
             is_narrow_norm(like) ? gamma_at_midpoints(like, true, x, few, seed) : std::vector<float>{});
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
