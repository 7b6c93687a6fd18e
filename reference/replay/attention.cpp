#include "reference/replay/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "reference/arithmetic/fused_gemm.hpp"
#include "reference/error.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/parallel.hpp"
#include "reference/replay/attention_left.hpp"
#include "reference/replay/attention_merge.hpp"
#include "reference/replay/attention_row.hpp"
#include "reference/replay/attention_values.hpp"
#include "reference/replay/attention_weights.hpp"
#include "reference/replay/replay.hpp"
#include "reference/replay/rounding.hpp"

namespace assay {
namespace {

constexpr std::int64_t kBlockRows = 64;

// The operands of a product on a unit, of which each instruction takes `fused` products (0, or no fewer than
// the unit can: all of them): where these are fewer, zeros fill the places between. The first instruction
// begins with product `origin`: zeros lead to it.
struct UnitProduct {
  UnitProduct(const MatrixUnit& of, std::int64_t products, std::int64_t origin = 0)
      : unit(of),
        fused(products == 0 || products >= of.group ? of.group : products),
        lead((fused - origin % fused) % fused) {}
  const MatrixUnit& unit;
  std::int64_t fused, lead;

  std::int64_t places(std::int64_t k) const { return (k + lead) / fused * unit.group + (k + lead) % fused; }
  PackedOperand packed(PackedOperand::Side side, std::string_view format, std::span<const float> values,
                       std::int64_t rows, std::int64_t k) const {
    if (fused == unit.group && lead == 0) return {unit, side, format, values.data(), rows, k, k};
    const std::int64_t width = (k + lead + fused - 1) / fused * unit.group;
    std::vector<float> spread(static_cast<std::size_t>(rows * width), 0.0f);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < k; ++c)
        spread[static_cast<std::size_t>(r * width + places(c))] = values[static_cast<std::size_t>(r * k + c)];
    return {unit, side, format, spread.data(), rows, width, width};
  }
};

// Rows of d columns in the order in which instructions of 16 products take them: four neighbours of each of
// four runs.
std::vector<float> gathered(std::span<const float> rows, std::int64_t d, std::int64_t run) {
  constexpr std::int64_t kProducts = 16, kRuns = 4, kNeighbours = 4, kPair = 2;
  std::vector<float> to(rows.begin(), rows.end());
  if (run == kNeighbours || d % (kRuns * run) != 0) return to;
  const std::int64_t steps = run / kNeighbours;  // that share their runs
  for (std::size_t first = 0; first < to.size(); first += static_cast<std::size_t>(d))
    for (std::int64_t at = 0; at < d; ++at) {
      const std::int64_t step = at / kProducts, k = at % kProducts, half = k / (kRuns * kPair);
      const std::int64_t column = step / steps * kRuns * run + k / kPair % kRuns * run +
                                  step % steps * kNeighbours + half * kPair + k % kPair;
      to[first + static_cast<std::size_t>(at)] = rows[first + static_cast<std::size_t>(column)];
    }
  return to;
}

}  // namespace

struct AttentionReplay::Data {
  ReplayKeys keys;
  std::vector<float> v_columns;  // [dv, keys]: a unit sums along the last axis
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, PackedOperand> k;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, PackedOperand> v;

  // q.k by exact sums of blocks: of codes of 8 bits and scales of 11 these have fewer than 53 bits.
  std::vector<float> block_logits(std::int64_t block, const std::vector<float>& q, std::int64_t rows) const {
    std::vector<float> s(static_cast<std::size_t>(rows * keys.keys), 0.0F);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < keys.keys; ++j) {
        float& sum = s[static_cast<std::size_t>(i * keys.keys + j)];
        for (std::int64_t first = 0; first < keys.d; first += block) {
          double exact = 0;
          for (std::int64_t c = first; c < std::min(keys.d, first + block); ++c)
            exact += static_cast<double>(q[static_cast<std::size_t>(i * keys.d + c)]) *
                     static_cast<double>(keys.k[static_cast<std::size_t>(j * keys.d + c)]);
          sum += static_cast<float>(exact);
        }
      }
    return s;
  }

  // q.k in f32. The last results are kept: a search asks them for many schedules that differ behind them.
  std::vector<float> logits(const Schedule& dot, const std::vector<float>& q, std::int64_t rows) {
    {
      const std::lock_guard lock(mutex_);
      for (const Logits& last : last_)
        if (last.dot == dot && last.q == q) return last.s;
    }
    const std::vector<double> sums =
        GemmReplay({rows, keys.d, "f32", q}, {keys.keys, keys.d, "f32", {keys.k.begin(), keys.k.end()}})
            .sums(dot);
    std::vector<float> s(sums.begin(), sums.end());
    const std::lock_guard lock(mutex_);
    constexpr std::size_t kKept = 4;
    if (last_.size() == kKept) last_.erase(last_.begin());
    last_.push_back({dot, q, s});
    return s;
  }

  const PackedOperand& packed_k(const UnitProduct& of, std::int64_t run) {
    const std::tuple key(std::string(of.unit.name), of.fused, run);
    const std::lock_guard lock(mutex_);
    auto at = k.find(key);
    if (at == k.end())
      at = k.emplace(key, of.packed(PackedOperand::Side::b, keys.format, gathered(keys.k, keys.d, run),
                                    keys.keys, keys.d))
               .first;
    return at->second;
  }
  const PackedOperand& packed_v(const UnitProduct& of) {
    const std::tuple key(std::string(of.unit.name), of.fused, of.lead);
    const std::lock_guard lock(mutex_);
    auto at = v.find(key);
    if (at == v.end())
      at =
          v.emplace(key, of.packed(PackedOperand::Side::b, keys.format, v_columns, keys.dv, keys.keys)).first;
    return at->second;
  }

 private:
  std::mutex mutex_;
  struct Logits {
    Schedule dot;
    std::vector<float> q, s;
  };
  std::vector<Logits> last_;
};

AttentionReplay::AttentionReplay(ReplayKeys keys) : data_(std::make_unique<Data>()) {
  data_->keys = std::move(keys);
  const ReplayKeys& kv = data_->keys;
  data_->v_columns.resize(static_cast<std::size_t>(kv.keys * kv.dv));
  for (std::int64_t j = 0; j < kv.keys; ++j)
    for (std::int64_t c = 0; c < kv.dv; ++c)
      data_->v_columns[static_cast<std::size_t>(c * kv.keys + j)] =
          kv.v[static_cast<std::size_t>(j * kv.dv + c)];
}
AttentionReplay::~AttentionReplay() = default;

namespace {

// The key at which the tiles of a block of rows begin.
std::int64_t origin_of(const AttentionSchedule& how, std::int64_t keys, const ReplayQueries& queries,
                       std::int64_t row) {
  if (how.origin == 0 || !queries.visible) return 0;
  const std::int64_t slot = how.origin_group ? row * queries.group + queries.head : row,
                     first = slot - slot % how.origin;
  for (std::int64_t j = 0; j < keys; ++j)
    if (queries.visible(how.origin_group ? first / queries.group : first, j))
      return how.origin_tile ? j - j % how.tile : j;
  return 0;
}

// A row of q scaled by max |q| / 448 and rounded to e4m3fn; returns the divisor.
float scaled_query(const Rounded& rounded, std::span<float> q) {
  constexpr float kLargest = 448;
  float largest = 0;
  for (const float x : q) largest = std::max(largest, std::fabs(x));
  float divisor = largest / kLargest;
  if (!(divisor > 0)) divisor = 1;
  for (float& x : q) x = rounded(std::min(kLargest, std::max(-kLargest, x / divisor)));
  return divisor;
}
constexpr std::size_t kQueryBlock = 32;
// A block of q becomes int8 codes times a step in f16; one whose step has no reciprocal, no numbers.
void round_block(std::span<float> q) {
  constexpr float kLargest = 127;
  static const Rounded to_f16("f16");
  float largest = 0;
  for (const float x : q) largest = std::max(largest, std::fabs(x));
  const float step = largest / kLargest, inverse = step == 0 ? 0 : 1 / step, stored = to_f16(step);
  if (step != 0 && !std::isnormal(inverse)) {
    std::ranges::fill(q, std::nanf(""));
    return;
  }
  for (float& x : q) x = std::nearbyint(std::min(kLargest, std::max(-kLargest, x * inverse))) * stored;
}
// Rounds a block of rows of q as the schedule says; the divisor of each row where rows are scaled.
std::vector<float> rounded_queries(const AttentionSchedule& how, std::int64_t d, std::vector<float>& q) {
  std::vector<float> divisors;
  if (how.q == "none") return divisors;
  if (how.q == "q8_0") {
    for (std::size_t first = 0; first < q.size(); first += kQueryBlock)
      round_block(std::span(q).subspan(first, kQueryBlock));
    return divisors;
  }
  const Rounded rounded(how.q);
  if (how.q != "e4m3fn") {
    for (float& x : q) x = rounded(x);
    return divisors;
  }
  for (std::size_t row = 0; row < q.size(); row += static_cast<std::size_t>(d))
    divisors.push_back(scaled_query(rounded, std::span(q).subspan(row, static_cast<std::size_t>(d))));
  return divisors;
}

}  // namespace

ReplayedRows AttentionReplay::run(const AttentionSchedule& how, const ReplayQueries& queries) const {
  const ReplayKeys& kv = data_->keys;
  std::optional<UnitProduct> qk;
  const MatrixUnit* const pv_unit = sums_in_a_unit(how.pv) ? &matrix_unit(how.pv) : nullptr;
  if (sums_in_a_unit(how.qk)) qk.emplace(matrix_unit(how.qk), how.fused);
  const PackedOperand* packed_k = qk ? &data_->packed_k(*qk, how.dot_run) : nullptr;
  const Rounded stored(how.out);
  const auto scale = static_cast<float>(queries.scale);
  ReplayedRows result;
  result.out.resize(static_cast<std::size_t>(queries.rows * kv.dv));
  result.lse.resize(static_cast<std::size_t>(queries.rows));
  result.known.resize(static_cast<std::size_t>(queries.rows));
  // Rows whose tiles begin at one key.
  const std::int64_t block_rows = how.slack > 0      ? how.slack_rows
                                  : how.origin == 0  ? kBlockRows
                                  : how.origin_group ? 1
                                                     : std::min(kBlockRows, how.origin);
  parallel_units(
      static_cast<std::size_t>((queries.rows + block_rows - 1) / block_rows), [&](std::size_t block) {
        const std::int64_t first = static_cast<std::int64_t>(block) * block_rows;
        const std::int64_t rows = std::min(block_rows, queries.rows - first);
        const std::int64_t origin = origin_of(how, kv.keys, queries, first);
        const auto plan = parts_of(how, kv.keys, origin);
        std::size_t tiles = 0;
        for (const auto& part : plan) tiles += part.size();
        const auto begin = static_cast<std::size_t>(first * kv.d),
                   count = static_cast<std::size_t>(rows * kv.d);
        std::vector<float> q_block(queries.q.begin() + static_cast<std::ptrdiff_t>(begin),
                                   queries.q.begin() + static_cast<std::ptrdiff_t>(begin + count));
        const std::vector<float> divisors = rounded_queries(how, kv.d, q_block);
        std::vector<float> s(static_cast<std::size_t>(rows * kv.keys), 0.0f);
        if (!qk) {
          s = how.dot_block > 1 ? data_->block_logits(how.dot_block, q_block, rows)
                                : data_->logits(dot_of(how), q_block, rows);
          if (how.dot_rows > 1) {
            const auto left = [&](std::int64_t lanes) {
              return data_->logits(left_dot_of(how, lanes), q_block, rows);
            };
            take_left(how, queries, kv.keys, first, rows, plan, left(how.left_lanes),
                      how.left_second > 0 ? left(how.left_second) : std::vector<float>(), s);
          }
        } else {
          const PackedOperand q =
              qk->packed(PackedOperand::Side::a, kv.format, gathered(q_block, kv.d, how.dot_run), rows, kv.d);
          fused_gemm(qk->unit, q, *packed_k, s.data(), kv.keys);
        }
        const WeighedBlock weighed = weigh_rows(how, queries, kv.keys, first, rows, divisors, plan, s);
        // Keys in front of the first tile have no weight, whatever their logits are.
        for (std::int64_t i = 0; i < rows; ++i) std::fill_n(s.begin() + i * kv.keys, origin, 0.0f);
        WeightedRows of{how, rows, kv.dv, tiles, weighed.rescale, {}};
        std::optional<UnitProduct> pv;
        std::optional<PackedOperand> p;
        if (pv_unit != nullptr) {
          pv.emplace(*pv_unit, how.fused, origin);
          const PackedOperand* const packed_v = &data_->packed_v(*pv);
          p.emplace(pv->packed(PackedOperand::Side::a, how.p, s, rows, kv.keys));
          of.chain = [&, packed_v](std::int64_t from, std::int64_t to, float* out) {
            const std::int64_t end = to == kv.keys ? p->depth() : pv->places(to);
            fused_gemm_range(pv->unit, *p, *packed_v, pv->places(from), end, out, kv.dv);
          };
        } else {
          of.chain = [&](std::int64_t from, std::int64_t to, float* out) {
            add_values(how, kv, s, rows, from, to, out);
          };
        }
        std::vector<std::vector<float>> values;
        for (const auto& part : plan) values.push_back(values_of(of, part));
        const auto dv = static_cast<std::size_t>(kv.dv);
        for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
          std::vector<RowPart> parts;
          for (std::size_t part = 0; part < plan.size(); ++part) {
            const std::size_t at = part * static_cast<std::size_t>(rows) + i;
            parts.push_back(
                {weighed.tops[at], weighed.sums[at], std::span(values[part]).subspan(i * dv, dv)});
          }
          const std::size_t row_of_all = static_cast<std::size_t>(first) + i;
          const FinishedRow finished = finish_row(
              how, parts, scale, queries.sink_of(static_cast<std::int64_t>(row_of_all)), queries.v_scale);
          result.known[row_of_all] = finished.known ? 1 : 0;
          result.lse[row_of_all] = finished.lse;
          for (std::size_t c = 0; c < dv; ++c) result.out[row_of_all * dv + c] = stored(finished.y[c]);
        }
      });
  return result;
}

}  // namespace assay
