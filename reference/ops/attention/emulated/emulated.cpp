#include "reference/ops/attention/emulated/emulated.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "reference/error.hpp"
#include "reference/ops/attention/emulated/emulated_sums.hpp"

namespace assay {
namespace {
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

const ScalarFormat* rounding_format(std::string_view name) {
  return name == "f32" ? nullptr : &scalar_format(name);
}
float round_if(const ScalarFormat* format, float x) {
  return format == nullptr ? x : static_cast<float>(round_to(*format, x));
}
// The output, in a format with infinities: as conversions of IEEE 754 make it.
float as_output(const ScalarFormat* format, float x) {
  return format == nullptr ? x : static_cast<float>(round_to(*format, x, {.overflow = Overflow::ieee}));
}
// What the register that holds o can represent. One of e8m13 is an f32 that the unit cuts as it takes it as
// C: where no unit reads it any more, it is not cut.
float as_accumulator(const Accumulator& how, bool chained, bool is_read, float x) {
  if (!chained) return x;
  if (how.kind == Accumulator::Kind::unit && how.unit->out == "e8m13") return is_read ? truncate_e8m13(x) : x;
  return static_cast<float>(round_to_precision(x, how.precision));
}
}  // namespace

struct AttentionEmulator::Split {
  float m = kMinusInfinity, l = 0;
  std::vector<float> o;
};

TileRange split_range(std::int64_t tiles, std::int64_t split, std::int64_t part) {
  const std::int64_t each = tiles_of_part(tiles, split);
  return {std::min(tiles, part * each), std::min(tiles, (part + 1) * each)};
}

AttentionEmulator::AttentionEmulator(const AttentionArithmetic& how, const KeyValues& kv)
    : how_(how),
      kv_(kv),
      qk_(accumulator(how.qk)),
      pv_(accumulator(how.pv)),
      rowsum_(accumulator(how.rowsum)),
      p_format_(rounding_format(how.p)) {
  how_.check("", kv.k_format, kv.v_format);
  if (qk_.kind == Accumulator::Kind::unit) {
    packed_k_ = std::make_unique<PackedOperand>(*qk_.unit, PackedOperand::Side::b, kv.k_format, kv.k.data(),
                                                kv.keys, kv.d, kv.d);
  }
  if (pv_.kind == Accumulator::Kind::unit) {
    v_columns_.resize(static_cast<std::size_t>(kv.keys * kv.dv));
    for (std::int64_t j = 0; j < kv.keys; ++j) {
      for (std::int64_t c = 0; c < kv.dv; ++c) v_columns_[c * kv.keys + j] = kv.v[j * kv.dv + c];
    }
    packed_v_ = std::make_unique<PackedOperand>(*pv_.unit, PackedOperand::Side::b, kv.v_format,
                                                v_columns_.data(), kv.dv, kv.keys, kv.keys);
  }
}
AttentionEmulator::~AttentionEmulator() = default;

void AttentionEmulator::scores(const QueryRow& row, std::span<float> s) const {
  std::fill(s.begin(), s.end(), 0.0f);
  const bool whole = how_.chunk == 0 || how_.chunk >= kv_.d;
  if (qk_.kind == Accumulator::Kind::unit) {
    const PackedOperand q(*qk_.unit, PackedOperand::Side::a, row.q_format, row.q.data(), 1, kv_.d, kv_.d);
    const int blocks = whole ? 0 : static_cast<int>(how_.chunk / qk_.unit->group);
    fused_gemm(*qk_.unit, q, *packed_k_, s.data(), kv_.keys, {blocks});
    return;
  }
  const std::int64_t chain = whole ? kv_.d : how_.chunk;
  for (std::int64_t j = 0; j < kv_.keys; ++j) {
    s[j] = scalar_chains(qk_.precision, row.q.data(), kv_.k.data() + j * kv_.d, kv_.d, chain);
  }
}

void AttentionEmulator::sum_values(const PackedOperand* packed_p, std::span<const float> p,
                                   std::int64_t first, std::int64_t last, std::span<float> o) const {
  if (packed_p != nullptr) {
    const int blocks =
        how_.chained() ? 0 : static_cast<int>(std::min(how_.promote, how_.tile) / pv_.unit->group);
    fused_gemm_range(*pv_.unit, *packed_p, *packed_v_, first, last, o.data(), kv_.dv, {blocks});
    return;
  }
  const std::int64_t chain = how_.chained() ? last - first : how_.promote;
  for (std::int64_t j = first; j < last; j += chain) {
    scalar_value_chain(pv_.precision, how_.chained(), p, kv_.v.data(), j, std::min(last, j + chain), o);
  }
}

void AttentionEmulator::run_split(const QueryRow& row, const std::vector<float>& s, std::int64_t first_tile,
                                  std::int64_t last_tile, bool with_sink, const AttentionSteps& steps,
                                  Split& result) const {
  struct Visit {
    std::int64_t first, last;
    float rescale;
  };
  const LogitModel logit(how_, row);
  const auto sum = [&](float l, float x) {
    return static_cast<float>(round_to_precision(static_cast<double>(l) + x, rowsum_.precision));
  };
  const auto scaled = [&](float l, float a) {
    return static_cast<float>(round_to_precision(static_cast<double>(l) * a, rowsum_.precision));
  };
  std::vector<float> p(static_cast<std::size_t>(kv_.keys), 0.0f);
  std::vector<float> x(static_cast<std::size_t>(std::min(how_.tile, kv_.keys)));
  std::vector<Visit> visits;
  float m = steps.initial_max(), l = 0;
  for (std::int64_t t = first_tile; t < last_tile; ++t) {
    const std::int64_t first = t * how_.tile, last = std::min(kv_.keys, first + how_.tile);
    float top = m;
    bool met_nan =
        false;  // max() passes a NaN over; a tile that holds nothing else must not be passed over with it
    for (std::int64_t j = first; j < last; ++j) {
      x[j - first] = row.sees(j) ? steps.logit(j, logit(s[j], j)) : kMinusInfinity;
      top = std::max(top, x[j - first]);
      met_nan |= std::isnan(x[j - first]);
    }
    if (top == kMinusInfinity && !met_nan) continue;
    for (int visit = 0; visit < steps.visits(t); ++visit) {
      const float a = m == kMinusInfinity ? 0.0f : emulated_exp(m - top, how_.base2, how_.exp_ulp);
      m = top;
      l = scaled(l, steps.rescale_sum(t, a));
      for (std::int64_t j = first; j < last; ++j) {
        const float w = emulated_exp(x[j - first] - m, how_.base2, how_.exp_ulp);
        p[j] = round_if(p_format_, std::ldexp(steps.weight(j, w), how_.p_shift));
        l = sum(l, how_.denominator_cast ? std::ldexp(p[j], -how_.p_shift) : steps.weight_in_sum(j, w));
      }
      visits.push_back({first, last, steps.rescale_output(t, a)});
    }
  }
  if (with_sink && row.sink) {
    const float x_sink = logit.of_sink(*row.sink), top = std::max(m, x_sink);
    const float a = m == kMinusInfinity ? 0.0f : emulated_exp(m - top, how_.base2, how_.exp_ulp);
    l = sum(scaled(l, a), emulated_exp(x_sink - top, how_.base2, how_.exp_ulp));
    m = top;
    visits.push_back({0, 0, a});
  }
  result.m = m;
  result.l = l;
  result.o.assign(static_cast<std::size_t>(kv_.dv), 0.0f);
  std::unique_ptr<PackedOperand> packed;
  if (pv_.kind == Accumulator::Kind::unit) {
    const std::string_view p_name = how_.p == "f32" ? std::string_view{} : std::string_view(how_.p);
    packed = std::make_unique<PackedOperand>(*pv_.unit, PackedOperand::Side::a, p_name, p.data(), 1, kv_.keys,
                                             kv_.keys);
  }
  for (const Visit& v : visits) {
    for (float& o : result.o) {
      if (v.rescale != 1) o = as_accumulator(pv_, how_.chained(), v.first < v.last, o * v.rescale);
    }
    if (v.first < v.last) sum_values(packed.get(), p, v.first, v.last, result.o);
  }
}

void AttentionEmulator::run(const QueryRow& row, std::span<float> out, const AttentionSteps& steps) const {
  how_.check(row.q_format, kv_.k_format, kv_.v_format);
  const ScalarFormat* out_format = rounding_format(how_.out);
  std::vector<float> s(static_cast<std::size_t>(kv_.keys));
  scores(row, s);
  const std::int64_t tiles = (kv_.keys + how_.tile - 1) / how_.tile;
  const std::int64_t split = parts_of(tiles, how_.split);
  std::vector<Split> parts(static_cast<std::size_t>(split));
  for (std::int64_t part = 0; part < split; ++part) {
    const TileRange range = split_range(tiles, split, part);
    run_split(row, s, range.first, range.last, part == split - 1, steps, parts[part]);
  }
  Split& total = parts.front();
  if (how_.split > 1) {
    float top = kMinusInfinity;
    std::vector<float> lse(parts.size(), kMinusInfinity);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].l != 0) lse[i] = parts[i].m + emulated_log(parts[i].l, how_.base2);
      top = std::max(top, lse[i]);
    }
    Split merged;
    merged.o.assign(out.size(), 0.0f);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].l == 0) continue;
      const float inverse = 1.0f / parts[i].l;
      const float e = steps.split_weight(static_cast<std::int64_t>(i),
                                         emulated_exp(lse[i] - top, how_.base2, how_.exp_ulp));
      merged.l += e;
      for (std::size_t c = 0; c < out.size(); ++c) merged.o[c] += e * (parts[i].o[c] * inverse);
    }
    total = merged;
  }
  const float inverse = 1.0f / total.l;
  const auto unscale = static_cast<float>(std::ldexp(row.v_scale, -how_.p_shift));
  for (std::size_t c = 0; c < out.size(); ++c) {
    out[c] = total.l == 0 ? 0.0f : as_output(out_format, total.o[c] * inverse * unscale);
  }
}

}  // namespace assay
