// Steps 1 to 3 of bounds.hpp: scores, logits, running maxima, weights.
#include <algorithm>
#include <limits>

#include "reference/ops/attention/bounds_detail.hpp"

namespace assay::attention_bounds {
namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Operands {  // of one dot product, looked at once
  std::vector<double> product;
  std::vector<int> head, lattice;
  std::vector<std::uint8_t> subnormal;
};

int head_exponent(double x, int emin) { return std::max(exponent_of(x), emin); }

void look_at(std::span<const float> q, const float* k, int q_emin, int k_emin, Operands& o) {
  for (std::size_t i = 0; i < q.size(); ++i) {
    const double a = q[i], b = k[i];
    o.product[i] = a * b;
    const bool zero = a == 0 || b == 0;
    o.head[i] = zero ? -kNever : head_exponent(a, q_emin) + head_exponent(b, k_emin);
    o.lattice[i] = zero ? kNever : lattice_of(a) + lattice_of(b);
    o.subnormal[i] = !zero && (exponent_of(a) < q_emin || exponent_of(b) < k_emin);
  }
}

struct Score {
  double s, ds;
};

// S_j exactly or to within a few u(f64), and the error of the declared accumulator.
Score score(const StepModel& step, const Operands& o, std::int64_t chunk, bool ordered) {
  const auto d = std::ssize(o.product);
  double sum = 0, low = 0, products = 0, flushed = 0;
  int lattice = kNever, top = -kNever;
  for (std::int64_t i = 0; i < d; ++i) {
    const double t = sum + o.product[i], back = t - sum;  // TwoSum
    low += (sum - (t - back)) + (o.product[i] - back);
    sum = t;
    products += std::fabs(o.product[i]);
    if (o.subnormal[i]) flushed += std::fabs(o.product[i]);
    lattice = std::min(lattice, o.lattice[i]);
    top = std::max(top, o.head[i]);
  }
  const double s = sum + low;
  const bool exact = products == 0 || exponent_of(products) - lattice < 52;
  const double own = exact ? 0 : 0x1p-52 * std::fabs(s) + static_cast<double>(d * d) * 0x1p-104 * products;
  if (products == 0) return {0, 0};
  const std::int64_t chain = chunk <= 0 || chunk >= d ? d : chunk;
  const std::int64_t chains = (d + chain - 1) / chain;
  if (!ordered) {
    const double head = std::ldexp(1.0, std::max(top, -1000));
    if (exact && step.never_rounds(products, head, lattice) &&
        (flushed == 0 || step.kind != StepModel::Kind::pairwise))
      return {s, 0};
    double positive = 0;  // no partial sum exceeds the larger of the positive and the negative products
    for (const double p : o.product) positive += std::max(p, 0.0);
    const double partial = std::max(positive, products - positive) * (1 + 0x1p-40);
    const std::int64_t blocks = chains * ((chain + step.group - 1) / step.group);
    double e = step.worst({partial, products, head, flushed, blocks, d});
    if (chains > 1) e += static_cast<double>(chains) * kU * (1 + 0x1p-10) * (partial + e);
    return {s, e * (1 + 0x1p-30) + own};
  }
  double total = 0, error = 0;
  for (std::int64_t first = 0; first < d; first += chain) {
    double partial = 0, e = 0;
    for (std::int64_t b = first; b < std::min(d, first + chain); b += step.group) {
      const std::int64_t end = std::min({d, first + chain, b + step.group});
      StepModel::Step block;
      int head = -kNever;
      double next = partial;
      for (std::int64_t i = b; i < end; ++i) {
        head = std::max(head, o.head[i]);
        next += o.product[i];
        block.products += std::fabs(o.product[i]);
        if (o.subnormal[i]) block.flushed += std::fabs(o.product[i]);
      }
      if (block.products == 0) continue;
      block.head = std::ldexp(1.0, std::max(head, -1000));
      block.before = std::fabs(partial) + e;
      block.after = std::fabs(next) + e;
      const int quantum = step.quantum_exponent(block);
      for (std::int64_t i = b; i < end; ++i) {
        block.inexact += step.kind == StepModel::Kind::scalar ? !representable(o.product[i], step.precision)
                                                              : o.lattice[i] < quantum;
      }
      block.c_inexact = e > 0 || lattice_of(partial) < quantum;
      block.after_fits = e == 0 && exact && representable(next, step.precision);
      e += step.error(block);
      partial = next;
    }
    const bool fits = error == 0 && e == 0 && exact && representable(total + partial, 24);
    error += e;
    total += partial;
    if (first > 0 && !fits) error += kU * (std::fabs(total) + error);
  }
  // `partial` and `total` are rounded f64 sums: a few 2^-53 of the products, far below every u here.
  return {s, error == 0
                 ? own
                 : error * (1 + 0x1p-30) + own + static_cast<double>(d) * 0x1p-52 * products * 0x1p-10};
}

struct LogitError {
  double x, e;  // without the part that depends on the largest logit
};

LogitError logit(const AttentionArithmetic& how, const QueryRow& row, const FormatModel& scores, double s,
                 double ds, std::int64_t j) {
  const double scaled = row.scale * s;
  double x = scaled, e = row.scale * ds * (1 + 8 * kU);
  if (row.softcap > 0) {
    x = row.softcap * std::tanh(scaled / row.softcap);
    e += 8 * kU * std::min(std::fabs(scaled), 0.5 * row.softcap) + (exp_error(how) + 6 * kU) * std::fabs(x);
  }
  if (!row.bias.empty()) {
    const double bias = row.bias[static_cast<std::size_t>(j)];
    e += 8 * kU * (std::fabs(x) + std::fabs(bias));
    x += bias;
  }
  e += (kU + scores.u) * (1 + 8 * kU) * std::fabs(x) + scores.half_spacing_min +
       0x1p-50 * (std::fabs(x) + std::fabs(scaled));
  if (!scores.exact && 1.5 * std::fabs(x) > scores.max_finite) e = kInfinity;
  return {x, x == 0 && ds == 0 && row.bias.empty() ? 0.0 : e + kTiny};
}

}  // namespace

namespace {

// Running maxima of every part, and the tiles where the kernel's own maximum may rise.
void find_maxima(const AttentionArithmetic& how, const QueryRow& row, std::int64_t keys, RowLogits& r) {
  const std::int64_t tiles = (keys + how.tile - 1) / how.tile;
  // Without a bias x^ is a monotone function of S^, so that S^ alone decides whether a maximum rises.
  const bool by_score = row.bias.empty();
  const auto low = [&](std::int64_t j) { return by_score ? r.s[j] - r.ds[j] : r.x[j] - r.e[j]; };
  const auto high = [&](std::int64_t j) { return by_score ? r.s[j] + r.ds[j] : r.x[j] + r.e[j]; };
  for (std::int64_t t = 0; t < tiles; ++t)
    r.tiles.push_back({t * how.tile, std::min(keys, (t + 1) * how.tile)});
  for (std::int64_t index = 0; index < how.split; ++index) {
    const TileRange range = split_range(tiles, how.split, index);
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
      part.changes += tile.may_change;
    }
    if (row.sink && index == how.split - 1) {
      part.changes += part.any;
      part.sink = true;
      top = std::max(top, static_cast<double>(*row.sink));
      part.error = std::max(part.error, 2 * kU * std::fabs(*row.sink) + 4 * kU * std::fabs(r.top));
      part.any = true;
    }
    part.top = top;
    std::int64_t after = row.sink && index == how.split - 1 ? 1 : 0;
    for (std::int64_t t = range.last; t-- > range.first;) {
      r.tiles[t].changes_after = after;
      after += r.tiles[t].may_change;
    }
    r.parts.push_back(part);
  }
}

}  // namespace

RowLogits row_logits(const AttentionArithmetic& how, const KeyValues& kv, const QueryRow& row,
                     ScoreError kind) {
  const auto n = static_cast<std::size_t>(kv.keys);
  const auto d = static_cast<std::size_t>(kv.d);
  const StepModel step{accumulator(how.qk)};
  const FormatModel scores(how.scores);
  RowLogits r;
  r.s.assign(n, 0), r.ds.assign(n, 0), r.x.assign(n, 0), r.e.assign(n, 0), r.w.assign(n, 0),
      r.theta.assign(n, 0);
  Operands o{std::vector<double>(d), std::vector<int>(d), std::vector<int>(d), std::vector<std::uint8_t>(d)};
  const int q_emin = emin_of(row.q_format), k_emin = emin_of(kv.k_format);
  r.top = -kInfinity;
  double first = 0;
  r.all_equal = !row.sink && row.bias.empty();
  for (std::int64_t j = 0; j < kv.keys; ++j) {
    if (!row.sees(j)) continue;
    look_at(row.q, kv.k.data() + j * kv.d, q_emin, k_emin, o);
    const Score s = score(step, o, how.chunk, kind == ScoreError::ordered);
    r.s[j] = s.s, r.ds[j] = s.ds;
    const LogitError x = logit(how, row, scores, s.s, s.ds, j);
    r.x[j] = x.x, r.e[j] = x.e;
    if (!r.any) first = s.s;
    r.all_equal = r.all_equal && s.ds == 0 && s.s == first;
    r.top = std::max(r.top, x.x);
    r.any = true;
  }
  if (row.sink) r.top = std::max(r.top, static_cast<double>(*row.sink));
  for (std::size_t j = 0; j < n; ++j) {
    if (r.all_equal)
      r.e[j] = 0;
    else if (row.sees(static_cast<std::int64_t>(j)))
      r.e[j] += 4 * kU * std::fabs(r.x[j] - r.top);
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
        const double argument = kU * (part.top - r.x[j] + 2 * r.e[j] + 2 * part.error);
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
    r.sink_theta = std::expm1(2 * kU * std::fabs(x) + 4 * kU * std::fabs(r.top) +
                              kU * (part.top - x + 2 * part.error) + 2 * eps + merge);
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
  const double half =
      (wide + kU * (std::fabs(argument) + wide) + exp_error(how) * (1 + 2 * exp_error(how))) * (1 + 0x1p-30);
  return {std::max(0.0, std::exp(argument - half) - kTiny),
          std::min(std::exp(argument + half) + kTiny, 1 + exp_error(how))};
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
      if (!tile.first_of_split) {
        const double r = std::exp(before - tile.top);
        sum *= r, error *= r;
        if (tile.may_change) error += u * (sum + error) * (1 + u), ++changes;
      }
      before = tile.top;
      for (std::int64_t j = tile.first; j < tile.last; ++j) {
        if (row.w[j] == 0) continue;
        sum += std::exp(row.x[j] - tile.top) * (1 + row.theta[j]);
        const bool counts = row.all_equal && sum <= std::ldexp(1.0, f.p);  // whole numbers
        if (!counts) error += u * (sum + error) * (1 + u);
        ++terms;
      }
      if (!ordered && !row.all_equal) changes = part.last_tile - part.first_tile;
    }
    if (sum + error > largest_finite(f)) return kInfinity;
    const double any_order = static_cast<double>(terms + changes + 2) * u;
    const double gamma = any_order < 1 ? any_order / (1 - any_order) : kInfinity;
    // A sum of cast weights grows like the sum of the weights only as far as the cast is accurate.
    const FormatModel p(how.p);
    const double cast = how.denominator_cast ? 2 * p.u + static_cast<double>(terms) *
                                                             std::ldexp(p.half_spacing_min, -how.p_shift)
                                             : 0;
    double relative = gamma;
    if (ordered && cast < 0.25)
      relative = std::min(gamma, (1 + 4 * cast) * (sum > 0 ? error / sum : 0) + 3 * u);
    if (row.all_equal && sum <= std::ldexp(1.0, f.p)) continue;
    worst = std::max(worst, relative);
  }
  return worst;
}

double merge_error(const AttentionArithmetic& how, const RowLogits& row, const Part& part) {
  if (!part.any) return 0;
  // lse = f32(m + log l) and e = exp(f32(lse - max lse)): |m| <= |top| + error, 1 <= l <= n.
  const double log_sum = std::log(static_cast<double>(row.x.size()) + 1) + 1;
  const double eps = exp_error(how) * (1 + 2 * exp_error(how));
  return eps * (2 + log_sum) + kU * (std::fabs(part.top) + part.error + log_sum) +
         kU * (std::fabs(row.top - part.top) + 2 * part.error + log_sum) * (1 + kU);
}

}  // namespace assay::attention_bounds
