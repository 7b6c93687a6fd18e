#include <algorithm>
#include <cmath>

#include "cases/attribution/attention_questions.hpp"

namespace assay::attribution {
namespace {

// Of log(weight): rows whose weights are nearly alike show no slope.
constexpr double kSpread = 0.01;  // squared, summed over the row

}  // namespace

std::size_t columns_of(const Answer& a) { return static_cast<std::size_t>(a.attributes.integer("dv")); }

// Whether a row is another one times a factor, as far as their limits say; both [n].
bool is_a_multiple(const double* got, const double* want, const double* limit, const double* other_limit,
                   std::size_t n) {
  const std::size_t top = static_cast<std::size_t>(std::max_element(want, want + n) - want);
  if (!(want[top] > 0) || !(got[top] > 0)) return false;
  const double factor = got[top] / want[top];
  for (std::size_t c = 0; c < n; ++c)
    if (!(std::fabs(got[c] - factor * want[c]) <= (1 + factor) * (limit[c] + other_limit[c]))) return false;
  return true;
}

// Whether the numbers of a row are those that they should be, in another order; the smallest of them are all
// 0.
bool in_another_order(const double* got, const double* want, const double* limit, std::size_t n) {
  std::vector<double> a(got, got + n), b(want, want + n);
  const double most = *std::max_element(limit, limit + n);
  std::ranges::sort(a), std::ranges::sort(b);
  for (std::size_t c = 0; c < n; ++c)
    if (!(std::fabs(a[c] - b[c]) <= most)) return false;
  return true;
}

Weights look_at_weights(const Answer& a) {
  Weights w;
  if (!a.ran || a.got.empty()) return w;
  const auto& want = a.truths[0].value;
  const auto& limit = a.truths[0].limit;
  const auto& got = a.got[0];
  const std::size_t n = columns_of(a);
  std::vector<bool> off(n, false);
  std::vector<double> slopes;  // of rows whose errors they explain
  std::size_t varied_rows = 0, bad_rows = 0, rows_exchanged = 0;
  for (std::size_t row = 0; row < want.size(); row += n) {
    bool bad = false, dead = true;
    std::size_t first = n, last = 0;
    for (std::size_t c = 0; c < n; ++c) {
      bad = bad || !(std::fabs(got[row + c] - want[row + c]) <= limit[row + c]);
      if (want[row + c] == 0) continue;
      dead = false;
      first = std::min(first, c), last = c;
    }
    if (!bad) continue;
    w.seen = true;
    if (!dead) w.dead_rows = false;
    ++bad_rows;
    if (in_another_order(&got[row], &want[row], &limit[row], n)) ++rows_exchanged;
    std::vector<std::pair<double, double>> points;  // log truth, log ratio
    std::vector<std::size_t> gone;
    for (std::size_t c = 0; c < n; ++c) {
      const double x = want[row + c], y = got[row + c], t = limit[row + c];
      const bool out = !(std::fabs(y - x) <= t);
      if (out) off[c] = true;
      if (out && std::fabs(y) > t) w.kept_right = false;
      if (!std::isfinite(y)) w.finite = false;
      if (x > 4 * t && !(std::fabs(y) > x / 4)) w.missing = true, gone.push_back(c);
      if (out && x <= t && std::fabs(y) > 4 * t)
        w.extra = true, w.at_edge = w.at_edge && (c + 1 == first || c == last + 1);
      if (x > 8 * t && y > 0) {
        points.emplace_back(std::log(x), std::log(y / x));
        if (std::fabs(y / x - 1) > kGross) w.gross = true;
      }
    }
    // What is missing is a run at one end of what is visible.
    if (!gone.empty() &&
        (gone.back() - gone.front() + 1 != gone.size() || (gone.front() != first && gone.back() != last)))
      w.at_edge = false;
    // Uniform: one factor lies within what every element's limit leaves.
    double floor = -INFINITY, ceiling = INFINITY;
    for (std::size_t c = 0; c < n; ++c) {
      const double x = want[row + c], y = got[row + c], t = limit[row + c];
      if (!(x > 8 * t)) continue;
      const double slack = t + std::ldexp(std::fabs(y - x), -20);  // what is far off has roundings of its own
      floor = std::max(floor, (y - slack) / x), ceiling = std::min(ceiling, (y + slack) / x);
    }
    if (!(floor <= ceiling) || !is_a_multiple(&got[row], &want[row], &limit[row], &limit[row], n))
      w.uniform = false;
    if (points.size() >= 3) {
      double mx = 0, my = 0, xx = 0, xy = 0, yy = 0;
      for (const auto& [x, y] : points) mx += x, my += y;
      mx /= static_cast<double>(points.size()), my /= static_cast<double>(points.size());
      for (const auto& [x, y] : points)
        xx += (x - mx) * (x - mx), xy += (x - mx) * (y - my), yy += (y - my) * (y - my);
      if (xx > kSpread && yy > 0) {
        ++varied_rows;
        if (xy * xy > 0.9 * xx * yy) slopes.push_back(xy / xx);
      }
    }
    for (std::size_t other = 0; other < want.size() && !w.uniform; other += n) {
      if (other != row && is_a_multiple(&got[row], &want[other], &limit[row], &limit[other], n) &&
          !is_a_multiple(&want[row], &want[other], &limit[row], &limit[other], n))
        w.other_row = true;
    }
  }
  w.exchanged = bad_rows > 0 && rows_exchanged == bad_rows;
  // A wrong factor of the logits is one factor for all rows.
  if (!slopes.empty() && 4 * slopes.size() >= 3 * varied_rows) {
    std::ranges::sort(slopes);
    w.slope = slopes[slopes.size() / 2];
    w.sloped = slopes.back() - slopes.front() <= 0.3 * std::fabs(w.slope);
  }
  for (std::size_t c = 0; c < n; ++c)
    if (off[c]) w.keys.push_back(static_cast<std::int64_t>(c));
  return w;
}

}  // namespace assay::attribution
