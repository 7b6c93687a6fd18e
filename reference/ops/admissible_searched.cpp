// Formats whose scales are searched for (q3_K, q6_K, iq4_xs): no quantiser is the right one, and this is what
// all of them keep to. Of a group x_i with its signed extreme X, codes C (far: the one of largest magnitude,
// with its sign), weights w_i = x_i^2:
//   1. The search begins at the plain step s0 = X / far, each code the nearest to x_i / s0.
//   2. It ends at a step s, of either sign, |s| <= 2 |s0|, whose E(s) = sum w_i (x_i - s c_i)^2 is at most
//   E(s0) + 2^-15 sum w_i x_i^2,
//      whatever codes it took: no greater, but for what comparing in f32 loses.
//   3. d = the largest |s| of the block / T or / (T + 1), T the largest integer scale, is stored as f16; each
//   group's integer is
//      the nearest to s / d, clamped.
//   4. Each code is the nearest to x_i / (d integer), d as stored or as it was before.
//
// Limit, value x_i. With e(x, s) = min over c in C of |x - s c|, E(s) >= sum w_i e(x_i, s)^2; so s lies in
//   S = {s: |s| <= 2 |s0|, sum w_i e(x_i, s)^2 <= E(s0) + 2^-15 sum w_i x_i^2}.
// The last term is a part of the rule, like |s| <= 2 |s0|, and f32 keeps to it: in u sum w_i x_i^2, a score
// P^2 / Q of the two sums P = sum w x c and Q = sum w c^2 over n <= 32 elements is within 3 (n + 2), so that
// of two scores one may be 6 (n + 2) = 204 worse than it seems, and 4 more for each step that is taken
// between them; E in three sums within 4 (n + 2), 272 of two; where P and Q are kept running (q3_K, n = 16:
// 108), an update that is taken rounds each twice, 6, so up to 67 of them whatever way they round. 2^-15 is
// 512. e is a minimum of functions |x - s c|, so over a cell of half width h around s it changes by at most h
// |c|,
// |c| <= min(|far|, |x| / least |s| + gap), gap the widest distance of a number from a code between two of
// them (1 for integers, 12 for the codebook). Cells in which the least of E is above the bound are left out,
// others are halved until they are narrow.
//   With D = sup |S of any group| / T, the step that is stored is s + t:
//   |t| <= D / 2 (D for a group that may need the integer T + 1, when the sign is against it) + (sup |S| + D)
//   2^-11 + (T + 1) 2^-25,
// the last two by d's rounding to f16, normal or subnormal. So |output - x_i| <= max e(x_i, s + t), and where
// the code was chosen before d was rounded, (|x_i| + e) 2^-11 + |far| (T + 1) 2^-25 more; x / s in f32 is
// within 2^-22 |x_i|.
//   A group below 2^-40, whose sums underflow in f32: |s| <= 2 |s0| is all that is taken. A block with a
//   number that is not
// finite, or whose d may exceed the largest f16: nothing is claimed. A group of zeros stores zeros: limit 0.
#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/arithmetic/rule.hpp"
#include "reference/formats/block.hpp"
#include "reference/ops/admissible.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {
namespace {

constexpr double kLargestF16 = 65504;
constexpr double kSmallest = 0x1p-40;  // of a group's absmax: w x^2 is a normal f32
constexpr double kComparisons = 0x1p-15;
constexpr double kParts =
    512;  // of a cell, at most: where the rounding of s / d is far beyond the group's own step

struct Cell {
  double low, high;
};

class Codes {
 public:
  explicit Codes(const ScaleSearch& search)
      : search_(search), far_(std::abs(search.far_code)), gap_(search.entries.empty() ? 1 : 12) {}

  double far() const { return far_; }
  // A cell is no wider than this part of the plain step, or of its own place: e changes by less than a
  // sixteenth of the distance of codes.
  double part() const { return gap_ / (8 * far_); }
  // e(x, s).
  double distance(double x, double s) const {
    if (s == 0) return std::fabs(x);
    const double q = x / s;
    if (search_.entries.empty()) {
      const double code = std::clamp(std::nearbyint(q), std::min<double>(search_.far_code, search_.top_code),
                                     std::max<double>(search_.far_code, search_.top_code));
      return std::fabs(x - s * code);
    }
    const auto above = std::ranges::lower_bound(search_.entries, q, {}, [](float c) { return double{c}; });
    double nearest = HUGE_VAL;
    if (above != search_.entries.end()) nearest = std::fabs(x - s * double{*above});
    if (above != search_.entries.begin())
      nearest = std::min(nearest, std::fabs(x - s * double{*(above - 1)}));
    return nearest;
  }
  // The most that e(x, .) changes from the middle of the cell to another place of it; the cell does not hold
  // 0.
  double variation(double x, const Cell& cell) const {
    const double least = std::min(std::fabs(cell.low), std::fabs(cell.high));
    return (cell.high - cell.low) / 2 * std::min(far_, std::fabs(x) / least + gap_);
  }
  // The largest e(x, s) over the cell, from above.
  double farthest(double x, const Cell& cell) const {
    if (cell.low > 0 || cell.high < 0) return distance(x, (cell.low + cell.high) / 2) + variation(x, cell);
    const double smallest_code = search_.entries.empty() ? 0 : 1;
    return std::fabs(x) + smallest_code * std::max(-cell.low, cell.high);
  }

 private:
  const ScaleSearch& search_;
  double far_, gap_;
};

// S of one group, as cells that hold it.
class Steps {
 public:
  Steps(const Codes& codes, std::span<const float> x, int far_code) : codes_(codes), x_(x) {
    double extreme = 0, squares = 0;
    for (const double v : x) {
      if (std::fabs(v) > std::fabs(extreme)) extreme = v;
      squares += v * v * v * v;
    }
    absmax = std::fabs(extreme);
    if (absmax == 0) return;
    plain_ = absmax / std::abs(far_code);
    if (absmax < kSmallest) {
      cells.push_back({-2 * plain_, 2 * plain_});
    } else {
      for (const double v : x) {
        const double e = codes.distance(v, extreme / far_code);
        bound_ += v * v * e * e;
      }
      bound_ += rule(Rule::search_comparison, kComparisons * squares);
      if (rule(Rule::search_step, 1) == 0) {
        cells.push_back({extreme / far_code, extreme / far_code});
      } else {
        for (const double sign : {-1.0, 1.0}) search(sign, plain_ / 4, 2 * plain_);
      }
      // A step below a quarter of the plain one reaches no farther than a quarter of the extreme, and is left
      // out by E as well as any.
      if (rule(Rule::search_step, 1) > 0 &&
          (least_error(-1, {0, plain_ / 4}) <= bound_ || least_error(1, {0, plain_ / 4}) <= bound_))
        cells.push_back({-plain_ / 4, plain_ / 4});
    }
    for (const Cell& cell : cells) largest = std::max({largest, -cell.low, cell.high});
  }

  std::vector<Cell> cells;
  double absmax = 0, largest = 0;

 private:
  // From below, of E over sign * [low, high].
  double least_error(double sign, const Cell& cell) const {
    double sum = 0;
    for (const double v : x_) {
      const double half = (cell.high - cell.low) / 2;
      const double may = cell.low > 0 ? codes_.variation(v, cell) : half * codes_.far();
      const double e = std::max(0.0, codes_.distance(v, sign * (cell.low + half)) - may);
      sum += v * v * e * e;
    }
    return sum * (1 - 0x1p-40);
  }
  void search(double sign, double low, double high) {
    if (least_error(sign, {low, high}) > bound_) return;
    if (high - low <= std::max(low, plain_) * codes_.part()) {
      const Cell cell = sign > 0 ? Cell{low, high} : Cell{-high, -low};
      if (!cells.empty() && cells.back().high == cell.low) {
        cells.back().high = cell.high;
      } else if (!cells.empty() && cells.back().low == cell.high) {
        cells.back().low = cell.low;
      } else {
        cells.push_back(cell);
      }
      return;
    }
    const double middle = (low + high) / 2;
    search(sign, low, middle);
    search(sign, middle, high);
  }

  const Codes& codes_;
  std::span<const float> x_;
  double plain_ = 0, bound_ = 0;
};

// The largest e(x, .) over all cells, each wider by `by` either way: merged cells are taken in narrow parts.
double farthest(const Codes& codes, const Steps& steps, double x, double by) {
  const double narrow = steps.absmax / codes.far() * codes.part();
  double worst = 0;
  for (const Cell& cell : steps.cells) {
    const double low = cell.low - by, high = cell.high + by;
    const int parts = static_cast<int>(std::clamp(std::ceil((high - low) / narrow), 1.0, kParts));
    for (int p = 0; p < parts; ++p)
      worst = std::max(
          worst, codes.farthest(x, {low + (high - low) * p / parts, low + (high - low) * (p + 1) / parts}));
  }
  return worst;
}

}  // namespace

void admit_searched(Truth& truth, const Format& to, std::span<const float> values) {
  const ScaleSearch& search = *to.block->search;
  const Codes codes(search);
  const auto block = static_cast<std::size_t>(to.block_elements),
             group = static_cast<std::size_t>(search.group);
  const double top = search.top_scale;
  for (std::size_t first = 0; first < values.size(); first += block) {
    const std::span<const float> x = values.subspan(first, block);
    std::vector<Steps> steps;
    double largest = 0;
    const bool finite = std::ranges::all_of(x, [](float v) { return std::isfinite(v); });
    for (std::size_t g = 0; finite && g < block / group; ++g) {
      steps.emplace_back(codes, x.subspan(g * group, group), search.far_code);
      largest = std::max(largest, steps.back().largest);
    }
    const double d = largest / top;
    for (std::size_t i = 0; i < block; ++i) {
      truth.value[first + i] = x[i];
      if (!finite || !(d < kLargestF16)) {
        set_unclaimed(truth, first + i);
        continue;
      }
      const Steps& own = steps[i / group];
      truth.limit[first + i] = 0;
      if (own.absmax == 0) continue;
      const bool clamped = own.largest * (top + 1) > (top - 0.5) * largest;
      const double by = rule(Rule::search_integer, clamped ? d : d / 2) +
                        rule(Rule::search_storage, (own.largest + d) * 0x1p-11 + (top + 1) * 0x1p-25);
      const double size = std::fabs(double{x[i]});
      const double e = farthest(codes, own, x[i], by);
      truth.limit[first + i] =
          up(e + rule(Rule::search_storage, (size + e) * 0x1p-11 + codes.far() * (top + 1) * 0x1p-25) +
             0x1p-22 * size);
    }
  }
}

}  // namespace assay
