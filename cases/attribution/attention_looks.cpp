// What the weights that a one-hot V showed look like, beside those that they should be.
#include <algorithm>
#include <cmath>

#include "cases/attribution/attention_probes.hpp"

namespace assay::attribution {

// Of equal weights that a sum of n + k numbers of their size leaves, 1 / (n + k), with one whole k for all.
bool Attention::counts_more(const Answer& equal) {
  constexpr double kWhole = 0.004;  // far below what a factor of 1.01 leaves of 100 keys
  if (equal.got.empty()) return false;
  double k = 0;
  for (std::size_t i = 0; i < equal.got[0].size(); ++i) {
    const double want = equal.truths[0].value[i], got = equal.got[0][i];
    if (!(want > 0) || std::fabs(got - want) <= equal.truths[0].limit[i]) continue;
    const double more = 1 / got - 1 / want, whole = std::round(more);
    if (!(std::fabs(more - whole) <= kWhole) || whole == 0 || (k != 0 && k != whole)) return false;
    k = whole;
  }
  return k != 0;
}

// Whether no weight is off by more than a step of an 8-bit format to which the contract casts them.
bool Attention::within_a_cast(const Answer& a) {
  const std::string_view cast = a.contract ? std::string_view(a.contract->text("p")) : "";
  const double step = cast == "e4m3fn" ? 0x1p-3 : cast == "e5m2" ? 0x1p-2 : 0;
  if (step == 0) return false;
  for (std::size_t i = 0; i < a.got[0].size(); ++i)
    if (!(std::fabs(a.got[0][i] - a.truths[0].value[i]) <=
          step * a.truths[0].value[i] + a.truths[0].limit[i]))
      return false;
  return true;
}

// Keys at an end have no weight, and the others what they would have beside them: the sum has them all.
void Attention::lost_from_values(const Answer& equal) {
  const std::size_t n = columns_of(equal);
  const auto &want = equal.truths[0].value, &got = equal.got[0];
  std::size_t kept = n;  // the first key of a row that has its weight
  for (std::size_t c = n; c-- > 0;)
    if (want[c] > 0 && got[c] > want[c] / 2) kept = c;
  const bool a_tile_ends =
      kept > 0 && std::cmp_less(kept, n) && static_cast<std::int64_t>(kept) % questions_.tile == 0;
  if (a_tile_ends)
    name("rescale",
         "the keys in front of the last tiles have no weight, and are in the sum: their accumulator is lost");
  else
    name("addressing", "keys at an end have no weight, and are in the sum: their V is read elsewhere");
}

// A format's smallest number lies between the largest weight that became 0 and the smallest that did not.
bool Attention::left_out_below_a_format(const Answer& a) {
  constexpr double kSmallest[] = {0x1p-6, 0x1p-9, 0x1p-10, 0x1p-14, 0x1p-16, 0x1p-17, 0x1p-24, 0x1p-25};
  double lost = 0, kept = INFINITY;
  for (std::size_t i = 0; i < a.got[0].size(); ++i) {
    const double want = a.truths[0].value[i];
    if (want > 0 && a.got[0][i] == 0)
      lost = std::max(lost, want);
    else if (want > 0)
      kept = std::min(kept, want);
  }
  return std::ranges::any_of(kSmallest, [&](double x) { return lost < x && x <= kept; });
}

bool Attention::some_columns_right(const Answer& a) {
  if (a.got.empty()) return false;
  const std::size_t columns = columns_of(a);
  std::vector<bool> off(columns, false);
  for (std::size_t i = 0; i < a.got[0].size(); ++i)
    if (!(std::fabs(a.got[0][i] - a.truths[0].value[i]) <= a.truths[0].limit[i])) off[i % columns] = true;
  const auto wrong = std::ranges::count(off, true);
  return wrong > 0 && std::cmp_less(wrong, columns - columns / 16);
}

bool Attention::counted_twice(const Answer& a) {
  constexpr double kTwice = 1.5;  // half way from once to twice
  for (std::size_t i = 0; i < a.got[0].size(); ++i)
    if (std::fabs(a.got[0][i]) > kTwice * std::fabs(a.truths[0].value[i])) return true;
  return false;
}

bool Attention::off_by_part(const Answer& a) const {
  if (questions_.split < 2 || !a.ran || a.got.empty()) return false;
  constexpr int kFewest = 3;  // keys that share a factor
  const std::size_t n = columns_of(a);
  const auto &want = a.truths[0].value, &got = a.got[0], &limit = a.truths[0].limit;
  bool some = false;
  for (std::size_t row = 0; row < want.size(); row += n) {
    std::int64_t runs = 0;
    int keys = kFewest;
    double floor = INFINITY, ceiling = -INFINITY;
    bool bad = false;
    for (std::size_t i = row; i < row + n; ++i) {
      bad = bad || !(std::fabs(got[i] - want[i]) <= limit[i]);
      if (!(want[i] > 8 * limit[i])) continue;
      const double low = (got[i] - limit[i]) / want[i], high = (got[i] + limit[i]) / want[i];
      if (std::max(floor, low) <= std::min(ceiling, high)) {
        floor = std::max(floor, low), ceiling = std::min(ceiling, high), ++keys;
        continue;
      }
      if (keys < kFewest) return false;
      ++runs, keys = 1, floor = low, ceiling = high;
    }
    if (!bad) continue;
    if (runs < 2 || runs > questions_.split) return false;
    some = true;
  }
  return some;
}
bool Attention::some_twice_for_others(const Answer& a) {
  bool lost = false, twice = false;
  for (std::size_t i = 0; i < a.got[0].size(); ++i) {
    const double got = a.got[0][i], want = a.truths[0].value[i], limit = a.truths[0].limit[i];
    if (std::fabs(got - want) <= limit) continue;
    const bool is_lost = std::fabs(got) <= limit, is_twice = std::fabs(got - 2 * want) <= 2 * limit;
    if (!is_lost && !is_twice) return false;
    lost = lost || is_lost, twice = twice || is_twice;
  }
  return lost && twice;
}

bool Attention::only_small(const Answer& a) {
  constexpr double kSmall = 0x1p-9;  // of a weight: where kernels that leave some out begin
  if (a.got.empty()) return false;
  for (std::size_t i = 0; i < a.got[0].size(); ++i)
    if (!(std::fabs(a.got[0][i] - a.truths[0].value[i]) <= a.truths[0].limit[i]) &&
        !(a.got[0][i] == 0 && a.truths[0].value[i] < kSmall))
      return false;
  return true;
}

}  // namespace assay::attribution
