#include "reference/replay/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "reference/arithmetic/fused_gemm.hpp"
#include "reference/error.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/parallel.hpp"
#include "reference/replay/attention_row.hpp"
#include "reference/replay/fold.hpp"
#include "reference/replay/replay.hpp"
#include "reference/replay/special_functions.hpp"

namespace assay {
namespace {

constexpr std::int64_t kBlockRows = 64;

float rounded(const ScalarFormat* format, float x) {
  return format == nullptr ? x : static_cast<float>(round_to(*format, static_cast<double>(x)));
}
const ScalarFormat* format_of(const std::string& name) {
  return name == "f32" ? nullptr : &scalar_format(name);
}

}  // namespace

struct AttentionReplay::Data {
  ReplayKeys keys;
  std::vector<float> v_columns;  // [dv, keys]: a unit sums along the last axis
  std::map<std::string, PackedOperand> k, v;

  const PackedOperand& packed_k(const std::string& unit) {
    auto at = k.find(unit);
    if (at == k.end())
      at = k.emplace(unit, PackedOperand(matrix_unit(unit), PackedOperand::Side::b, keys.format,
                                         keys.k.data(), keys.keys, keys.d, keys.d))
               .first;
    return at->second;
  }
  const PackedOperand& packed_v(const std::string& unit) {
    auto at = v.find(unit);
    if (at == v.end())
      at = v.emplace(unit, PackedOperand(matrix_unit(unit), PackedOperand::Side::b, keys.format,
                                         v_columns.data(), keys.dv, keys.keys, keys.keys))
               .first;
    return at->second;
  }
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

// One part of the keys, one block of rows: o [rows, dv] not yet divided, m and l of each row.
namespace {

struct Part {
  std::vector<float> o, top, sum;
};

struct Tile {
  std::int64_t from, to;  // keys
  std::size_t place;      // among all tiles of a row
};

// The tiles of each part, in the order in which they are taken; the first of all begins at `origin`.
std::vector<std::vector<Tile>> parts_of(const AttentionSchedule& how, std::int64_t keys,
                                        std::int64_t origin) {
  const std::int64_t tiles = (keys - origin + how.tile - 1) / how.tile,
                     each = (tiles + how.split - 1) / how.split;
  std::vector<std::vector<Tile>> parts;
  std::size_t place = 0;
  for (std::int64_t p = 0; p < how.split; ++p) {
    const bool by_keys = how.part > 0;
    const std::int64_t begin = by_keys ? std::max(origin, p * how.part) : origin + p * each * how.tile;
    const std::int64_t end = std::min(keys, !by_keys             ? begin + each * how.tile
                                            : p + 1 == how.split ? keys
                                                                 : (p + 1) * how.part);
    std::vector<Tile> part;
    for (std::int64_t from = begin; from < end; from += how.tile)
      part.push_back({from, std::min(end, from + how.tile), place++});
    if (how.descending) std::ranges::reverse(part);
    parts.push_back(std::move(part));
  }
  return parts;
}

struct Block {
  const AttentionSchedule& how;
  const ReplayKeys& keys;
  std::int64_t rows;
  std::size_t tiles;               // of a row
  std::span<const float> rescale;  // [rows, tiles]
  // out [rows, dv] += the weights of keys [from, to) times their values, by the schedule's pv.
  std::function<void(std::int64_t from, std::int64_t to, float* out)> chain;
};

// key after key, in f32
void add_values(const AttentionSchedule& how, const ReplayKeys& kv, std::span<const float> weights,
                std::int64_t rows, std::int64_t from, std::int64_t to, float* out) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = from; j < to; ++j) {
      const float w = weights[static_cast<std::size_t>(i * kv.keys + j)];
      for (std::int64_t c = 0; c < kv.dv; ++c) {
        const float v = kv.v[static_cast<std::size_t>(j * kv.dv + c)];
        float& o = out[i * kv.dv + c];
        const float product = w * v;
        o = how.fma ? std::fma(w, v, o) : o + product;
      }
    }
}

Part values_of(const Block& b, const std::vector<Tile>& tiles) {
  const std::int64_t dv = b.keys.dv;
  Part part;
  part.o.assign(static_cast<std::size_t>(b.rows * dv), 0.0f);
  std::vector<float> of_tile;
  for (const auto& [from, to, place] : tiles) {
    const bool chained = b.how.values == ValueChain::chained;
    if (!chained) of_tile.assign(part.o.size(), 0.0f);
    if (!chained) b.chain(from, to, of_tile.data());
    for (std::int64_t i = 0; i < b.rows; ++i) {
      const float a = b.rescale[static_cast<std::size_t>(i) * b.tiles + place];
      for (std::int64_t c = i * dv; c < (i + 1) * dv; ++c) {
        float& o = part.o[static_cast<std::size_t>(c)];
        const float rescaled = o * a;
        if (chained)
          o = rescaled;
        else if (b.how.values_fma)
          o = std::fma(o, a, of_tile[static_cast<std::size_t>(c)]);
        else
          o = rescaled + of_tile[static_cast<std::size_t>(c)];
      }
    }
    if (chained) b.chain(from, to, part.o.data());
  }
  return part;
}

// The key at which the tiles of a block of rows begin.
std::int64_t origin_of(const AttentionSchedule& how, std::int64_t keys, const ReplayQueries& queries,
                       std::int64_t row) {
  if (how.origin == 0 || !queries.visible) return 0;
  for (std::int64_t j = 0; j < keys; ++j)
    if (queries.visible(row - row % how.origin, j)) return j;
  return 0;
}

float quotient(Quotient how, float o, float l) {
  return l == 0 ? 0.0f : how == Quotient::division ? o / l : o * (1.0f / l);
}

// m and l of a part, to base e.
std::optional<float> log_sum(float top, float sum, float scale) {
  if (sum == 0) return kMinusInfinity;
  const std::optional<float> log = cuda_fast_logf(sum);
  if (!log) return std::nullopt;
  return std::fma(top, scale, *log);
}

// The weights of the parts, expf(L_s - L); false where a logarithm is not modelled.
bool weights_of_parts(const AttentionSchedule& how, std::span<const std::optional<float>> logs,
                      std::span<float> weights, float& whole) {
  float top = kMinusInfinity;
  for (const std::optional<float>& log : logs) {
    if (!log) return false;
    top = std::max(top, *log);
  }
  if (top == kMinusInfinity) top = 0;
  std::vector<float> lanes(static_cast<std::size_t>(how.merge_lanes), 0.0f);
  for (std::size_t s = 0; s < logs.size(); ++s) lanes[s % lanes.size()] += cuda_expf(*logs[s] - top);
  std::int32_t at = 0;
  for (const FoldAddition& f : additions(fold_of("halving", how.merge_lanes), how.merge_lanes, at))
    lanes[static_cast<std::size_t>(f.into)] += lanes[static_cast<std::size_t>(f.from)];
  const float sum = lanes[static_cast<std::size_t>(at)];
  whole = sum == 0 ? std::numeric_limits<float>::infinity() : cuda_logf(sum) + top;
  for (std::size_t s = 0; s < logs.size(); ++s) weights[s] = cuda_expf(*logs[s] - whole);
  return true;
}

}  // namespace

ReplayedRows AttentionReplay::run(const AttentionSchedule& how, const ReplayQueries& queries) const {
  const ReplayKeys& kv = data_->keys;
  const MatrixUnit* qk = how.qk == "f32" ? nullptr : &matrix_unit(how.qk);
  const MatrixUnit* pv = how.pv == "f32" ? nullptr : &matrix_unit(how.pv);
  const PackedOperand* packed_k = qk == nullptr ? nullptr : &data_->packed_k(how.qk);
  const PackedOperand* packed_v = pv == nullptr ? nullptr : &data_->packed_v(how.pv);
  const ScalarFormat* p_format = format_of(how.p);
  const ScalarFormat* out_format = format_of(how.out);
  const auto scale = static_cast<float>(queries.scale);
  ReplayedRows result;
  result.out.resize(static_cast<std::size_t>(queries.rows * kv.dv));
  result.lse.resize(static_cast<std::size_t>(queries.rows));
  result.known.resize(static_cast<std::size_t>(queries.rows));
  // Rows whose tiles begin at one key.
  const std::int64_t block_rows = how.origin > 0 ? std::min(kBlockRows, how.origin) : kBlockRows;
  parallel_units(
      static_cast<std::size_t>((queries.rows + block_rows - 1) / block_rows), [&](std::size_t block) {
        const std::int64_t first = static_cast<std::int64_t>(block) * block_rows;
        const std::int64_t rows = std::min(block_rows, queries.rows - first);
        const std::int64_t origin = origin_of(how, kv.keys, queries, first);
        const auto plan = parts_of(how, kv.keys, origin);
        std::size_t tiles = 0;
        for (const auto& part : plan) tiles += part.size();
        const float* of_block = queries.q.data() + first * kv.d;
        std::vector<float> s(static_cast<std::size_t>(rows * kv.keys), 0.0f);
        if (qk == nullptr) {
          Schedule dot;
          dot.lanes = how.dot_lanes, dot.fma = how.fma;
          const std::vector<double> sums = GemmReplay({rows, kv.d, "f32", {of_block, of_block + rows * kv.d}},
                                                      {kv.keys, kv.d, "f32", {kv.k.begin(), kv.k.end()}})
                                               .sums(dot);
          std::ranges::transform(sums, s.begin(), [](double x) { return static_cast<float>(x); });
        } else {
          const PackedOperand q(*qk, PackedOperand::Side::a, kv.format, of_block, rows, kv.d, kv.d);
          fused_gemm(*qk, q, *packed_k, s.data(), kv.keys);
        }
        std::vector<float> rescale(static_cast<std::size_t>(rows) * tiles);
        std::vector<float> tops(static_cast<std::size_t>(how.split * rows)), sums(tops.size());
        AttentionRow row(how, queries.scale);
        Weights weigh{how, row, {}, {}};
        for (std::int64_t i = 0; i < rows; ++i) {
          float* const of_row = s.data() + i * kv.keys;
          if (how.argument == Argument::scaled)
            for (std::int64_t j = 0; j < kv.keys; ++j)
              of_row[j] =
                  row.logit(of_row[j], static_cast<float>(queries.softcap), queries.slope,
                            std::fabs(static_cast<float>(queries.first + first + i) - static_cast<float>(j)));
          for (std::size_t part = 0; part < plan.size(); ++part) {
            row.start();
            for (const auto& [from, to, place] : plan[part]) {
              const std::span<float> w(of_row + from, static_cast<std::size_t>(to - from));
              const auto sees = [&, from = from](std::int64_t j) {
                return !queries.visible || queries.visible(first + i, from + j);
              };
              rescale[static_cast<std::size_t>(i) * tiles + place] = weigh.tile(w, sees);
              for (float& x : w) x = rounded(p_format, x);
            }
            row.finish();
            sums[part * static_cast<std::size_t>(rows) + static_cast<std::size_t>(i)] = row.sum;
            tops[part * static_cast<std::size_t>(rows) + static_cast<std::size_t>(i)] = row.top;
          }
        }
        Block of{how, kv, rows, tiles, rescale, {}};
        std::optional<PackedOperand> p;
        if (pv != nullptr) {
          p.emplace(*pv, PackedOperand::Side::a, how.p, s.data(), rows, kv.keys, kv.keys);
          of.chain = [&](std::int64_t from, std::int64_t to, float* out) {
            fused_gemm_range(*pv, *p, *packed_v, from, to, out, kv.dv);
          };
        } else {
          of.chain = [&](std::int64_t from, std::int64_t to, float* out) {
            add_values(how, kv, s, rows, from, to, out);
          };
        }
        std::vector<Part> parts;
        for (const auto& part : plan) parts.push_back(values_of(of, part));
        std::vector<std::optional<float>> logs(parts.size());
        std::vector<float> weights(parts.size());
        for (std::int64_t i = 0; i < rows; ++i) {
          const auto at = [&](std::size_t part) {
            return part * static_cast<std::size_t>(rows) + static_cast<std::size_t>(i);
          };
          const auto out_row = static_cast<std::size_t>(first + i);
          for (std::size_t part = 0; part < parts.size(); ++part)
            logs[part] = log_sum(tops[at(part)], sums[at(part)], scale);
          float whole = logs[0].value_or(std::numeric_limits<float>::quiet_NaN());
          const bool merges = parts.size() > 1 && how.merge == Merge::logs;
          const bool known = !merges || weights_of_parts(how, logs, weights, whole);
          result.known[out_row] = known ? 1 : 0;
          result.lse[out_row] = known ? whole : std::numeric_limits<float>::quiet_NaN();
          RowEnd end;
          if (!merges) {
            for (std::size_t part = 0; part < parts.size(); ++part)
              end.top = std::max(end.top, tops[at(part)]);
            for (std::size_t part = 0; part < parts.size(); ++part)
              weights[part] = end.add(tops[at(part)], sums[at(part)], part == 0);
          }
          const float sunk = how.sink && !merges ? end.sink(queries.sink) : 1;
          for (std::int64_t c = 0; c < kv.dv; ++c) {
            const auto o_of = [&](std::size_t part) {
              return parts[part].o[static_cast<std::size_t>(i * kv.dv + c)];
            };
            float y = 0;
            if (merges) {
              for (std::size_t part = 0; part < parts.size(); ++part)
                y = std::fma(weights[part], quotient(how.quotient, o_of(part), sums[at(part)]), y);
            } else {
              float o = o_of(0) * weights[0];
              for (std::size_t part = 1; part < parts.size(); ++part) {
                if (sums[at(part)] == 0) continue;
                const float product = weights[part] * o_of(part);
                o = how.fma ? std::fma(weights[part], o_of(part), o) : o + product;
              }
              o *= sunk;
              y = quotient(how.quotient, o, end.sum);
            }
            result.out[out_row * static_cast<std::size_t>(kv.dv) + static_cast<std::size_t>(c)] =
                rounded(out_format, y);
          }
        }
      });
  return result;
}

}  // namespace assay
