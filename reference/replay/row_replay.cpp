#include "reference/replay/row_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/error.hpp"
#include "reference/replay/butterflies.hpp"
#include "reference/replay/replay.hpp"
#include "reference/replay/special_functions.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {
namespace {

float as_float(double x) { return static_cast<float>(x); }

// A sum in f64 is divided as it is; of one in f32 the quotient in f64, rounded, is that in f32 (53 >= 2 * 24
// + 2 bits).
float mean_of(const RowSchedule& s, double sum, std::int64_t n) {
  const auto count = static_cast<float>(n);
  if (s.word("mean") == "division") return as_float(sum / static_cast<double>(n));
  if (s.word("mean").starts_with("approx")) return div_full(as_float(sum), count);
  return as_float(sum) * (1.0F / count);
}

float factor_of(std::string_view word, float v) {
  if (word == "quotient") return std::sqrt(v);
  if (word == "nearest") return as_float(1 / std::sqrt(static_cast<double>(v)));
  if (word == "rsqrt") return rsqrt_approx_ftz(v);
  if (word == "approx") return rcp_approx_ftz(sqrt_approx_ftz(v));
  return 1.0F / std::sqrt(v);
}

void transform(const RowSchedule& s, const RowInputs& in, float* group) {
  const std::int64_t n = in.points;
  const auto flip = [&] {
    for (std::size_t j = 0; j < in.signs.size(); ++j) group[j] *= in.signs[j];
  };
  const auto scale = [&](double factor) {
    for (std::int64_t j = 0; j < n; ++j) group[j] *= as_float(factor);
  };
  if (!in.inverse) flip();
  const std::string_view where = s.word("scale");
  const double whole = 1 / std::sqrt(static_cast<double>(n));
  if (where == "first") scale(whole);
  const bool ascending = s.word("stages") == "ascending";
  for (std::int64_t step = 1; step < n; step *= 2) {
    const std::int64_t half = ascending ? step : n / (2 * step);
    butterflies(group, n, half);
    if (where == "each") scale(std::sqrt(0.5));
  }
  if (where == "last") scale(whole);
  if (in.inverse) flip();
}

}  // namespace

const RowExponentials& RowReplay::exponentials(const RowSchedule& s) {
  std::string words;
  for (const RowScheduleKey* key : row_keys(s.op))
    if (key->name != "quotient" && key->name != "log") words += std::string(s.word(key->name)) + " ";
  if (const auto found = exp_.find(words); found != exp_.end()) return found->second;
  return exp_.emplace(words, RowExponentials(s, in_)).first->second;
}

const SummedRows& RowReplay::rows() {
  if (!x_) x_.emplace(in_.x, in_.rows, in_.cols);
  return *x_;
}

SumsOfRows RowReplay::sums(const RowSchedule& s) {
  SumsOfRows sums;
  if (s.op == "softmax" || s.op == "logsumexp") {
    sums.sum = exponentials(s).sums(s.sum);
    return sums;
  }
  if (s.has_moments()) {
    for (std::int64_t r = 0; r < in_.rows; ++r) {
      const RunningMoments m = moments_of(s.moments, row(r));
      sums.sum.push_back(static_cast<double>(m.mean));
      sums.squares.push_back(static_cast<double>(m.squares));
    }
    return sums;
  }
  if (s.has_sum()) {
    if (summed_.empty() || s.sum != summed_by_) summed_ = rows().sums(s.sum), summed_by_ = s.sum;
    sums.sum = summed_;
  }
  if (!s.has_squares()) return sums;
  std::vector<float> means;
  for (const double sum : sums.sum) means.push_back(mean(s, sum));
  sums.squares = squares_about(s, std::move(means));
  return sums;
}

SumsOfRows RowReplay::sums_about(const RowSchedule& s, std::vector<float> means) {
  SumsOfRows sums;
  sums.squares = squares_about(s, means);
  sums.mean = std::move(means);
  return sums;
}

std::vector<double> RowReplay::squares_about(const RowSchedule& s, std::vector<float> means) {
  if (s.op == "rmsnorm" || s.word("variance") == "one_pass") return rows().squares(s.squares);
  if (!apart_ || means != means_) {
    std::vector<float> apart(in_.x);
    for (std::size_t r = 0, i = 0; r < means.size(); ++r)
      for (const std::size_t end = i + static_cast<std::size_t>(in_.cols); i < end; ++i) apart[i] -= means[r];
    apart_.emplace(std::move(apart), in_.rows, in_.cols);
    means_ = std::move(means);
  }
  return apart_->squares(s.squares);
}

float RowReplay::mean(const RowSchedule& s, double sum) const {
  return s.has_moments() ? as_float(sum) : mean_of(s, sum, in_.cols);
}

float RowReplay::factor(const RowSchedule& s, double squares, float mean) const {
  if (s.word("mean") == "approx_fma" && (s.op == "rmsnorm" || s.word("variance") != "one_pass"))
    return factor_of(s.word("root"),
                     std::fma(as_float(squares), rcp_approx_ftz(static_cast<float>(in_.cols)), in_.eps));
  float variance = mean_of(s, squares, in_.cols);
  const float square = mean * mean;
  if (s.op == "layernorm" && s.word("variance") == "one_pass") variance = std::max(variance - square, 0.0F);
  return factor_of(s.word("root"), variance + in_.eps);
}

template <typename Each>
bool RowReplay::stored_row(const RowSchedule& s, const SumsOfRows& sums, std::int64_t r, const Each& each) {
  const auto at = static_cast<std::size_t>(r);
  const std::span<const float> x = row(r);
  const Width width = width_of(in_.stored_as);
  const auto store = [&](std::size_t i, float y) {
    return each(i, round_to_width(static_cast<double>(y), width));
  };
  if (s.op == "logsumexp") {
    const double log = s.word("log") == "libm" ? static_cast<double>(std::log(as_float(sums.sum[at])))
                                               : std::log(sums.sum[at]);
    return each(std::size_t{0}, static_cast<double>(exponentials(s).top(at) + as_float(log)));
  }
  if (s.op == "softmax") {
    const std::span<const float> e = std::span(exponentials(s).values()).subspan(at * x.size(), x.size());
    const bool divides = s.word("quotient") == "division";
    const float sum = as_float(sums.sum[at]),
                inverse = s.word("quotient") == "approx" ? rcp_approx_ftz(sum) : as_float(1.0 / sums.sum[at]);
    for (std::size_t i = 0; i < e.size(); ++i) {
      // Of a row whose sum is no number nothing is said, of what is hidden neither.
      const bool hidden = in_.is_hidden(at * x.size() + i) && std::isfinite(sum);
      if (!store(i, hidden ? 0.0F : divides ? e[i] / sum : e[i] * inverse)) return false;
    }
    return true;
  }
  if (s.op == "wht") {
    std::vector<float> y(x.begin(), x.end());
    for (std::size_t g = 0; g < y.size(); g += static_cast<std::size_t>(in_.points))
      transform(s, in_, y.data() + g);
    for (std::size_t i = 0; i < y.size(); ++i)
      if (!store(i, y[i])) return false;
    return true;
  }
  const float mean = s.op != "layernorm" ? 0
                     : sums.mean.empty() ? this->mean(s, sums.sum[at])
                                         : sums.mean[at];
  const std::string_view product = s.word("product");
  const float f = sums.factor.empty() ? factor(s, sums.squares[at], mean) : sums.factor[at];
  const bool divides = s.word("root") == "quotient";
  const std::string_view centre = s.op == "layernorm" ? s.word("centre") : "difference";
  const float mean_product = mean * f;
  const bool fused = s.op == "layernorm" && s.word("shift") == "fma";
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float d = x[i] - mean, g = in_.gamma[i];
    const auto times = [&](float z) { return divides ? z / f : z * f; };
    // The two factors of the last product; a division has no such product, and its quotient is one factor.
    float left = d, right = divides ? g / f : f * g;
    if (product == "x_inv_gamma") left = times(d), right = g;
    if (centre == "product_fma") left = std::fma(x[i], f, -mean_product);
    if (centre == "product") {
      const float scaled = x[i] * f;
      left = scaled - mean_product;
    }
    if (product == "x_gamma_inv") left = divides ? times(d * g) : d * g, right = divides ? 1.0F : f;
    const float plain = left * right;
    const float b = s.op == "layernorm" ? in_.beta[i] : 0.0F;
    if (!store(i, fused ? std::fma(left, right, b) : s.op == "layernorm" ? plain + b : plain)) return false;
  }
  return true;
}

std::vector<double> RowReplay::outputs(const RowSchedule& s) {
  if (const std::string_view key = step_at_odds(s, in_); !key.empty())
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("schedule of {}: {}={}, and the call has {} step; wanted: a word for each step of "
                    "the call, none without one",
                    s.op, key, s.word(key), s.word(key) == "none" ? "such a" : "no such"));
  const SumsOfRows all = sums(s);
  std::vector<double> out;
  for (std::int64_t r = 0; r < in_.rows; ++r)
    stored_row(s, all, r, [&](std::size_t, double y) {
      out.push_back(y);
      return true;
    });
  return out;
}

std::int64_t RowReplay::unequal(const RowSchedule& s, const SumsOfRows& sums, std::span<const double> got,
                                std::int64_t most) {
  const auto each_row = static_cast<std::size_t>(s.op == "logsumexp" ? 1 : in_.cols);
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < in_.rows; ++r) {
    const auto first = static_cast<std::size_t>(r) * each_row;
    const bool on = stored_row(s, sums, r, [&](std::size_t i, double y) {
      const double z = got[first + i];
      return (y == z || (std::isnan(y) && std::isnan(z))) || ++count < most;
    });
    if (!on) break;
  }
  return count;
}

}  // namespace assay
