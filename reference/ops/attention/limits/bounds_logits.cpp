// Steps 2, 3 and 7 of bounds.hpp: logits, running maxima, weights, row sum.
#include <algorithm>
#include <limits>

#include "reference/ops/attention/limits/bounds_detail.hpp"

namespace assay::attention_bounds {
namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct LogitError {
  double x, e;  // without the part that depends on the largest logit
};

// `behind`: a cast to `scores` is known to stand behind the soft cap and the bias; else it may be the
// scaled product that is cast, whose error a cap brings down, |z| sech^2 z < 1/2, and a bias that cancels
// it does not.
LogitError logit(const AttentionArithmetic& how, const QueryRow& row, const FormatModel& scores, double s,
                 double ds, std::int64_t j, bool behind) {
  const double scaled = row.scale * s;
  double x = scaled, e = row.scale * ds * (1 + 8 * kU);
  double cast = behind            ? 0
                : row.softcap > 0 ? std::min(std::fabs(scaled), 0.5 * row.softcap)
                                  : std::fabs(scaled);
  if (row.softcap > 0) {
    x = row.softcap * std::tanh(scaled / row.softcap);
    // Its quotient is 2 of the 8 roundings, of two ulps.
    e += (8 + 2 * std::max(0.0, how.div_ulp - 2)) * kU * std::min(std::fabs(scaled), 0.5 * row.softcap) +
         (2 * how.tanh_ulp + 6) * kU * std::fabs(x);
  }
  if (row.softcap > 0 || !row.bias.empty()) e += row.scale_error * std::fabs(scaled);
  if (!row.bias.empty()) {
    const double bias = row.bias[static_cast<std::size_t>(j)];
    e += 8 * kU * (std::fabs(x) + std::fabs(bias));
    x += bias;
  }
  cast = std::max(cast, std::fabs(x));
  e += kU * (1 + 8 * kU) * std::fabs(x) + scores.u * (1 + 8 * kU + scores.u) * cast +
       scores.half_spacing_min + 0x1p-50 * (std::fabs(x) + std::fabs(scaled));
  const double largest = behind ? std::fabs(x) : std::max(std::fabs(x), std::fabs(scaled));
  if (!scores.exact && 1.5 * largest > scores.max_finite) e = kInfinity;
  return {x, x == 0 && ds == 0 && row.bias.empty() ? 0.0 : e + kTiny};
}

// p_shift may be added to the argument of a fused exp: two roundings of arguments that are so much larger, of
// the maximum and of the whole.
double shift_error(const AttentionArithmetic& how) {
  return how.fused_argument ? 4 * kU * 0.6931472 * std::abs(how.p_shift) : 0;
}

// Whether equal scores are equal logits: a quotient or a tanh that may err need not give two lanes the same
// number, one by the body of a loop and one by its end, nor be monotone.
bool caps_alike(const AttentionArithmetic& how, const QueryRow& row) {
  return row.softcap == 0 || (how.tanh_ulp <= 0.5 && how.div_ulp <= 0.5);
}

// Running maxima of every part, and the tiles where the kernel's own maximum may rise.
void find_maxima(const AttentionArithmetic& how, const QueryRow& row, std::int64_t keys, RowLogits& r) {
  const std::int64_t tiles = (keys + how.tile - 1) / how.tile;
  // Without a bias x^ is a monotone function of S^, so that S^ alone decides whether a maximum rises.
  const bool by_score = row.bias.empty() && caps_alike(how, row);
  const auto low = [&](std::int64_t j) { return by_score ? r.s[j] - r.ds[j] : r.x[j] - r.e[j]; };
  const auto high = [&](std::int64_t j) { return by_score ? r.s[j] + r.ds[j] : r.x[j] + r.e[j]; };
  for (std::int64_t t = 0; t < tiles; ++t)
    r.tiles.push_back({t * how.tile, std::min(keys, (t + 1) * how.tile)});
  const std::int64_t split = parts_of(tiles, how.split);
  for (std::int64_t index = 0; index < split; ++index) {
    const TileRange range = split_range(tiles, split, index);
    Part part{range.first, range.last};
    double top = -kInfinity, x_low = -kInfinity, x_high = -kInfinity, held = -kInfinity;
    for (std::int64_t t = range.first; t < range.last; ++t) {
      Tile& tile = r.tiles[t];
      double rises_to = -kInfinity, next_held = held;
      for (std::int64_t j = tile.first; j < tile.last; ++j) {
        if (!row.sees(j)) continue;
        tile.any = true;
        top = std::max(top, r.x[j]);
        x_low = std::max(x_low, r.x[j] - r.e[j]);
        x_high = std::max(x_high, r.x[j] + r.e[j]);
        rises_to = std::max(rises_to, high(j));
        next_held = std::max(next_held, low(j));
      }
      if (!tile.any) continue;
      tile.first_of_split = !part.any;
      tile.may_change = part.any && rises_to > held;
      part.any = true;
      held = next_held;
      tile.top = top;
      tile.error = std::max(top - x_low, x_high - top);
      part.error = std::max(part.error, tile.error);
      part.reach = std::max(part.reach, std::fabs(top));
      part.changes += tile.may_change;
    }
    if (row.sink && index == split - 1) {
      part.changes += part.any;
      part.sink = true;
      top = std::max(top, static_cast<double>(*row.sink));
      part.error = std::max(part.error, 2 * kU * std::fabs(*row.sink) + 4 * kU * std::fabs(r.top));
      part.any = true;
    }
    part.top = top;
    if (part.any) part.reach = std::max(part.reach, std::fabs(top));
    std::int64_t after = row.sink && index == split - 1 ? 1 : 0;
    for (std::int64_t t = range.last; t-- > range.first;) {
      r.tiles[t].changes_after = after;
      after += r.tiles[t].may_change;
    }
    r.parts.push_back(part);
  }
}

}  // namespace

RowLogits row_logits(const AttentionArithmetic& how, const KeyValues& kv, const QueryRow& row,
                     ScoreError kind, bool behind, std::span<const float> computed) {
  const auto n = static_cast<std::size_t>(kv.keys);
  const StepModel step = StepModel(accumulator(how.qk)).of_blocks(how.qk_block);
  const FormatModel scores(how.scores);
  RowLogits r;
  r.s.assign(n, 0), r.ds.assign(n, 0), r.x.assign(n, 0), r.e.assign(n, 0), r.w.assign(n, 0),
      r.theta.assign(n, 0);
  const int q_emin = emin_of(row.q_format), k_emin = emin_of(kv.k_format);
  r.top = -kInfinity;
  double first = 0;
  // Equal scores are equal arguments; of a fused difference they need not be 0.
  r.all_equal = !row.sink && row.bias.empty() && !how.fused_argument;
  const bool alike = caps_alike(how, row);
  for (std::int64_t j = 0; j < kv.keys; ++j) {
    if (!row.sees(j)) continue;
    const Score s = !computed.empty()
                        ? Score{static_cast<double>(computed[static_cast<std::size_t>(j)]), 0}
                        : score(step, row.q, kv.k.data() + j * kv.d, q_emin, k_emin, how.chunk,
                                kind == ScoreError::ordered ? step.known(how.qk_order) : Order(Order::any));
    r.s[j] = s.s, r.ds[j] = s.ds;
    const LogitError x = logit(how, row, scores, s.s, s.ds, j, behind);
    r.x[j] = x.x, r.e[j] = x.e;
    if (!r.any) first = s.s;
    r.all_equal = r.all_equal && s.ds == 0 && s.s == first && (alike || s.s == 0) &&
                  std::isfinite(x.e);  // Inf - Inf is not 0
    r.top = std::max(r.top, x.x);
    r.any = true;
  }
  if (row.sink) r.top = std::max(r.top, static_cast<double>(*row.sink));
  for (std::size_t j = 0; j < n; ++j) {
    if (r.all_equal)
      r.e[j] = 0;
    else if (row.sees(static_cast<std::int64_t>(j)))
      r.e[j] += (4 * kU + row.scale_error) * std::fabs(r.x[j] - r.top) + shift_error(how);
  }
  find_maxima(how, row, kv.keys, r);

  const bool order_free = kind == ScoreError::order_free;
  r.largest_tiny = 2 * (static_cast<double>(r.tiles.size()) + 3) * kTiny;
  const double eps = exp_error(how) * (1 + 2 * exp_error(how));
  for (const Part& part : r.parts) {
    const double merge = how.split > 1 ? merge_error(how, r, part) : 0;
    for (std::int64_t t = part.first_tile; t < part.last_tile; ++t) {
      const Tile& tile = r.tiles[t];
      const std::int64_t changes =
          order_free && !r.all_equal
              ? std::max<std::int64_t>(0, part.last_tile - part.first_tile - 1 + (row.sink ? 1 : 0))
              : tile.changes_after;
      for (std::int64_t j = tile.first; tile.any && j < tile.last; ++j) {
        if (!row.sees(j)) continue;
        r.w[j] = std::exp(r.x[j] - r.top);
        const double steps = r.all_equal ? 0 : static_cast<double>(1 + changes) * eps;
        const double reach = std::max(std::fabs(tile.top), std::fabs(part.top));
        const double argument = kU * (part.top - r.x[j] + 2 * r.e[j] + 2 * part.error) +
                                static_cast<double>(1 + changes) * fused_error(how, reach, part);
        r.theta[j] = std::expm1((r.e[j] + argument + steps + merge) * (1 + 0x1p-30));
        r.sum += r.w[j];
        r.weight_error += r.w[j] * r.theta[j] + (r.all_equal ? 0 : r.largest_tiny);
      }
    }
  }
  if (row.sink) {
    const Part& part = r.parts.back();
    const double x = *row.sink;
    r.sink_weight = std::exp(x - r.top);
    const double merge = how.split > 1 ? merge_error(how, r, part) : 0;
    r.sink_theta =
        std::expm1(2 * kU * std::fabs(x) + 4 * kU * std::fabs(r.top) + kU * (part.top - x + 2 * part.error) +
                   fused_error(how, std::fabs(part.top), part) + shift_error(how) + 2 * eps + merge);
    r.sum += r.sink_weight;
    r.weight_error += r.sink_weight * r.sink_theta + r.largest_tiny;
  }
  return r;
}

Interval tile_weight(const AttentionArithmetic& how, const RowLogits& row, const Tile& tile, std::int64_t j) {
  // The key that holds the maximum, known exactly: x^ - m = 0 and exp(0) = 1.
  if (row.all_equal) return {1, 1};
  const double argument = row.x[j] - tile.top;
  const double wide = row.e[j] + tile.error;
  const double fused = how.fused_argument ? kU * (std::fabs(tile.top) + tile.error) + shift_error(how) : 0;
  const double half =
      (wide + kU * (std::fabs(argument) + wide) + fused + exp_error(how) * (1 + 2 * exp_error(how))) *
      (1 + 0x1p-30);
  return {std::max(0.0, std::exp(argument - half) - kTiny),
          std::min(std::exp(argument + half) + kTiny, (1 + exp_error(how)) * (1 + 2 * std::expm1(fused)))};
}

double fused_error(const AttentionArithmetic& how, double top, const Part& part) {
  return how.fused_argument ? kU * (top + part.error) : 0;
}

double denominator_error(const AttentionArithmetic& how, const RowLogits& row, bool ordered) {
  const Precision f = accumulator(how.rowsum).precision;
  const double u = unit_roundoff(f);
  double worst = 0;
  for (const Part& part : row.parts) {
    double sum = 0, error = 0, before = 0;
    std::int64_t terms = 0, changes = 0;
    for (std::int64_t t = part.first_tile; t < part.last_tile; ++t) {
      const Tile& tile = row.tiles[t];
      if (!tile.any) continue;
      // Also what a later maximum scales down: Inf times a factor of 0 is NaN.
      if (!(sum + error <= largest_finite(f))) return kInfinity;
      if (!tile.first_of_split) {
        const double r = std::exp(before - tile.top);
        sum *= r, error *= r;
        if (tile.may_change) error += u * (sum + error) * (1 + u), ++changes;
      }
      before = tile.top;
      if (ordered && how.rowsum_order != Order::sequential) {
        double own = 0;
        for (std::int64_t j = tile.first; j < tile.last; ++j) {
          if (row.w[j] == 0) continue;
          own += std::exp(row.x[j] - tile.top) * (1 + row.theta[j]);
          ++terms;
        }
        sum += own;
        if (row.all_equal && sum <= std::ldexp(1.0, f.p)) continue;
        const auto keys = static_cast<double>(tile.last - tile.first);
        if (how.rowsum_order == Order::lanes)  // each running sum takes its share of the tile, one by one
          error +=
              std::ceil(keys / static_cast<double>(how.rowsum_order.count)) * u * (sum + error) * (1 + u) +
              u * own;
        else  // from zero, each weight rounded to the sum's format; then one addition
          error += gamma_n(how.rowsum_order.height(keys) + 1, u) * own + u * (sum + error) * (1 + u);
        continue;
      }
      for (std::int64_t j = tile.first; j < tile.last; ++j) {
        if (row.w[j] == 0) continue;
        sum += std::exp(row.x[j] - tile.top) * (1 + row.theta[j]);
        const bool counts = row.all_equal && sum <= std::ldexp(1.0, f.p);  // whole numbers
        if (!counts) error += u * (sum + error) * (1 + u);
        ++terms;
      }
      if (!ordered && !row.all_equal) changes = part.last_tile - part.first_tile;
    }
    if (ordered && how.rowsum_order == Order::lanes)
      error +=
          gamma_n(std::ceil(std::log2(static_cast<double>(how.rowsum_order.count) + 1)), u) * (sum + error);
    if (!(sum + error <= largest_finite(f))) return kInfinity;
    const double gamma = gamma_n(static_cast<double>(terms + changes + 2), u);
    // A sum of cast weights grows like the sum of the weights only as far as the cast is accurate.
    const FormatModel p(how.p);
    const double cast = how.denominator_cast ? 2 * p.u + static_cast<double>(terms) *
                                                             std::ldexp(p.half_spacing_min, -how.p_shift)
                                             : 0;
    double relative = gamma;
    // What was added before a rescale is multiplied by the kernel's factor, not by the exact one.
    const double drift = 1 + rescale_drift(how, row, part, nullptr);
    if (ordered && how.rowsum_order != Order::any && cast < 0.25 && sum > 0)
      relative = std::min(gamma, (1 + 4 * cast) * drift * drift * error / sum + 3 * u);
    if (row.all_equal && sum <= std::ldexp(1.0, f.p)) continue;
    worst = std::max(worst, relative);
  }
  return worst;
}

double rescale_drift(const AttentionArithmetic& how, const RowLogits& row, const Part& part,
                     const Tile* tile) {
  if (row.all_equal) return how.split > 1 ? std::expm1(merge_error(how, row, part) * (1 + 0x1p-30)) : 0;
  const double eps = exp_error(how) * (1 + 2 * exp_error(how));
  const double from = tile == nullptr ? part.error : tile->error;
  const double span = tile == nullptr ? 0 : part.top - tile->top;
  const auto changes = static_cast<double>(tile == nullptr ? part.changes : tile->changes_after);
  const double merge = how.split > 1 ? merge_error(how, row, part) : 0;
  const double reach = tile == nullptr ? part.reach : std::max(std::fabs(tile->top), std::fabs(part.top));
  const double fused = changes * fused_error(how, reach, part);
  return std::expm1((from + kU * (span + 2 * part.error) + fused + changes * eps + merge) * (1 + 0x1p-30));
}

double merge_error(const AttentionArithmetic& how, const RowLogits& row, const Part& part) {
  if (!part.any) return 0;
  // lse = f32(m + log l) and e = exp(f32(lse - max lse)): |m| <= |top| + error, 1 <= l <= n.
  // l is up to n, and 2^p_shift times as large where it is the sum of cast weights.
  const double log_sum = std::log(static_cast<double>(row.x.size()) + 1) + 1 +
                         (how.denominator_cast ? std::max(0, how.p_shift) * 0.6931472 : 0);
  const double eps = exp_error(how) * (1 + 2 * exp_error(how));
  return eps * (2 + log_sum) + fused_error(how, std::fabs(part.top), part) +
         kU * (std::fabs(part.top) + part.error + log_sum) +
         kU * (std::fabs(row.top - part.top) + 2 * part.error + log_sum) * (1 + kU);
}

}  // namespace assay::attention_bounds
