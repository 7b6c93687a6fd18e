// Kernels that keep a contract with tiles in order and choose all that it leaves open by chance or to hurt:
// the order of every sum, fused operations, the rounding of the scale, the base of exp and its error. No
// output may leave its limit. The same kernels without a declared rounding of the weights do leave it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "reference/ops/attention/attention.hpp"
#include "reference/ops/attention/emulated/emulated.hpp"
#include "reference/ops/attention/limits/attack_sums.hpp"
#include "reference/ops/attention/test_fills.hpp"
#include "reference/ops/judged.hpp"

namespace assay {
namespace {

using attack::Random, attack::chosen_sum, attack::product_sum;

struct Freedom {  // what this run of the kernel does with what is left open
  bool fused, base2, twice_rounded_scale, divides, skips_cast = false;
  int exp_bias;  // 0: random errors, else all of one sign by the sign of v - o in the first column
};

std::vector<float> kernel(const AttentionArithmetic& how, const AttentionFill& f, const std::vector<float>& q,
                          const Freedom& free, Random& random) {
  const Accumulator qk = accumulator(how.qk), pv = accumulator(how.pv);
  const ScalarFormat* cast = how.p == "f32" || free.skips_cast ? nullptr : &scalar_format(how.p);
  const auto n = static_cast<std::size_t>(f.keys), d = static_cast<std::size_t>(f.d),
             dv = static_cast<std::size_t>(f.dv), tile = static_cast<std::size_t>(how.tile);
  const auto log2e = static_cast<float>(1.4426950408889634);
  float scale = static_cast<float>(f.scale);
  if (free.base2)
    scale = free.twice_rounded_scale ? scale * log2e : static_cast<float>(f.scale * 1.4426950408889634);
  const auto exp_of = [&](float t, double v_over_o) {
    if (t == 0) return 1.0F;
    const double real = free.base2 ? std::exp2(static_cast<double>(t)) : std::exp(static_cast<double>(t));
    const double unit = how.exp_ulp * 0x1p-23 - 0x1p-24;
    const double off = free.exp_bias == 0 ? (static_cast<double>(random() % 2001) / 1000 - 1)
                                          : free.exp_bias * (v_over_o > 0 ? 1 : -1);
    const auto w = static_cast<float>(real * (1 + unit * off * 0.999));
    return w < 0x1p-126F ? 0.0F : w;
  };
  std::vector<float> s(n);
  for (std::size_t j = 0; j < n; ++j) {
    const std::vector<float> k(f.k.begin() + static_cast<std::ptrdiff_t>(j * d),
                               f.k.begin() + static_cast<std::ptrdiff_t>((j + 1) * d));
    s[j] = product_sum(qk, how.qk_order, how.qk_block, q, k, f.q_format, f.k_format, 0, random);
  }
  const std::size_t lanes =
      how.rowsum_order == Order::lanes ? static_cast<std::size_t>(how.rowsum_order.count) : 1;
  std::vector<float> l(lanes, 0.0F), o(dv, 0.0F);
  float m = -std::numeric_limits<float>::infinity();  // of S if fused, of the rounded logit otherwise
  const std::size_t tiles = (n + tile - 1) / tile;
  for (std::size_t step = 0; step < tiles; ++step) {
    const std::size_t first = (how.descending ? tiles - 1 - step : step) * tile,
                      last = std::min(n, first + tile);
    float top = m;
    std::vector<float> x(s.begin() + static_cast<std::ptrdiff_t>(first),
                         s.begin() + static_cast<std::ptrdiff_t>(last));
    for (float& each : x) {
      if (!free.fused) each *= scale;
      top = std::max(top, each);
    }
    const bool starts = std::isinf(m);
    const float a = starts ? 0 : exp_of(free.fused ? (m - top) * scale : m - top, 1);
    m = top;
    const float scaled_top = m * scale;
    for (float& each : l) each *= a;
    std::vector<float> w, p;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float t = free.fused ? std::fma(x[i], scale, -scaled_top) : x[i] - m;
      w.push_back(exp_of(t, static_cast<double>(f.v[(first + i) * dv])));
      const float scaled = std::ldexp(w.back(), how.p_shift);
      p.push_back(cast == nullptr ? scaled
                                  : static_cast<float>(round_to(*cast, static_cast<double>(scaled))));
    }
    if (how.rowsum_order == Order::lanes || how.rowsum_order == Order::sequential)
      for (std::size_t i = 0; i < w.size(); ++i) l[i % lanes] += w[i];
    else
      l[0] += chosen_sum(w, random);
    const std::size_t chain =
        how.chained() ? tile : static_cast<std::size_t>(std::min(how.promote, how.tile));
    for (std::size_t c = 0; c < dv; ++c) {
      if (a != 1) o[c] *= a;
      for (std::size_t from = 0; from < w.size(); from += chain) {
        const std::size_t to = std::min(w.size(), from + chain);
        std::vector<float> weights(p.begin() + static_cast<std::ptrdiff_t>(from),
                                   p.begin() + static_cast<std::ptrdiff_t>(to)),
            column;
        for (std::size_t i = from; i < to; ++i) column.push_back(f.v[(first + i) * dv + c]);
        const float start = how.chained() ? o[c] : 0;
        const float sum = product_sum(pv, how.pv_order, how.pv_block, std::move(weights), std::move(column),
                                      how.p, f.v_format, start, random);
        o[c] = how.chained() ? sum : o[c] + sum;
      }
    }
  }
  float sum = 0;
  std::vector<float> tree = l;
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) tree[i] += tree[i + half];
  sum = tree.front();
  const float inverse = 1.0F / sum, unscale = std::ldexp(1.0F, -how.p_shift);
  const ScalarFormat* store = how.out == "f32" ? nullptr : &scalar_format(how.out);
  for (float& each : o) {
    each = (free.divides ? each / sum : each * inverse) * unscale;
    if (store != nullptr) each = static_cast<float>(round_to(*store, static_cast<double>(each)));
  }
  return o;
}

// A quantiser of q: one scale per row, its own way to it and to the codes; ties go either way.
float quantise(std::vector<float>& q, const ScalarFormat& format, Random& random) {
  float largest = 0;
  for (const float x : q) largest = std::max(largest, std::fabs(x));
  const auto most = static_cast<float>(format.max_finite);
  const float s = random() % 2 == 0 ? largest / most : largest * (1 / most);
  if (s == 0) return 1;
  const float inverse = random() % 2 == 0 ? 1 / s : most / largest;
  const bool divides = random() % 2 == 0;
  for (float& x : q) {
    const float t = divides ? x / s : x * inverse;
    x = static_cast<float>(
            round_to(format, std::min(static_cast<double>(most), std::fabs(static_cast<double>(t))))) *
        (t < 0 ? -1.0F : 1.0F);
  }
  return s;
}

struct Attacked {
  std::int64_t outputs = 0, outside = 0, unclaimed = 0;
  double worst = 0;
};

Attacked attack(const std::string& text, const std::string& dtype, const std::string& kv, Design fill,
                std::int64_t keys, std::int64_t d, std::int64_t rows, std::uint64_t seed,
                bool skips_cast = false) {
  constexpr std::int64_t kColumns = 32;
  const Contract contract = Contract::parse(text + " scaling=scores tiles=aligned", kAttention.contract);
  const AttentionArithmetic how = AttentionArithmetic::from(contract, dtype);
  const Attributes attributes =
      Attributes::complete(kAttention.attributes, {{"heads", fmt::format("{}", rows)},
                                                   {"kv_heads", "1"},
                                                   {"d", fmt::format("{}", d)},
                                                   {"dv", fmt::format("{}", kColumns)},
                                                   {"len", fmt::format("{}", keys)},
                                                   {"kv", kv},
                                                   {"dtype", dtype}});
  AttentionFill f = attention_fill(fill, keys, d, kColumns, dtype, kv, kv, seed);
  f.visible.clear();  // all keys
  Random random(seed * 77 + 5);
  std::vector<std::vector<float>> q(static_cast<std::size_t>(rows), f.q);
  std::normal_distribution<double> normal;
  for (std::size_t r = 1; r < q.size(); ++r)
    for (float& x : q[r])
      x = static_cast<float>(dtype == "f32" ? x * (1 + 0.2 * normal(random))
                                            : round_to(scalar_format(dtype), x * (1 + 0.2 * normal(random))));
  TensorSet inputs;
  kAttention.indices(attributes, seed, inputs);
  for (const TensorSpec& spec : kAttention.tensors(attributes)) {
    if (spec.role != TensorRole::data) continue;
    std::vector<float> all;
    if (spec.name == "q")
      for (const auto& row : q) all.insert(all.end(), row.begin(), row.end());
    inputs.insert_or_assign(spec.name, encode_tensor(format(spec.format), spec.shape,
                                                     spec.name == "q"   ? all
                                                     : spec.name == "k" ? f.k
                                                                        : f.v));
  }
  const Truth t = kAttention.truth(attributes, inputs, contract)[0];
  // The kernel takes K and V as `convert` leaves them; both conversions here are exact.
  if (contract.text("convert") != "none") f.k_format = f.v_format = std::string(contract.text("convert"));
  Attacked r;
  for (std::size_t row = 0; row < q.size(); ++row) {
    const bool rounded = !how.fused_argument;
    const Freedom free{!rounded && random() % 2 == 0,
                       random() % 2 == 0,
                       random() % 2 == 0,
                       random() % 2 == 0,
                       skips_cast,
                       static_cast<int>(random() % 3) - 1};
    AttentionFill given = f;
    if (contract.text("q") != "none") {
      given.q_format = std::string(contract.text("q"));
      given.scale *= static_cast<double>(quantise(q[row], scalar_format(given.q_format), random));
    }
    const std::vector<float> out = kernel(how, given, q[row], free, random);
    for (std::size_t c = 0; c < out.size(); ++c) {
      const std::size_t at = row * kColumns + c;
      ++r.outputs;
      if (std::isinf(t.limit[at])) {
        ++r.unclaimed;
        continue;
      }
      const Judged judged = judge(static_cast<double>(out[c]), t.value[at], t.limit[at]);
      r.outside += !judged.ok;
      r.worst = std::max(r.worst, judged.ratio);
    }
  }
  return r;
}

struct Subject {
  std::string dtype, kv, contract;
  std::int64_t d = 32;
};

const Subject kSubjects[] = {
    {"f32", "f32", "qk=f32 p=f32 pv=f32 tile=16 promote=16 order=tiles qk_order=lanes:8", 32},
    {"f32", "f32", "qk=f32 p=f32 pv=f32 tile=32 order=descending rowsum_order=lanes:4 argument=rounded", 32},
    {"f16", "f16",
     "qk=f32 p=f16 pv=f32 tile=32 promote=8 order=tiles qk_order=sequential pv_order=sequential", 48},
    {"f16", "f16", "qk=f32 p=f16 pv=f32 tile=64 order=descending pv_order=lanes:8 rowsum_order=sequential",
     32},
    {"bf16", "bf16", "qk=f32 p=bf16 pv=f32 tile=64 promote=64 order=tiles qk_order=lanes:32", 64},
    {"bf16", "bf16", "qk=f32 p=bf16 pv=f32 tile=32 order=tiles rowsum_order=lanes:4", 32},
    {"bf16", "e4m3fn", "qk=f32 p=bf16 pv=f32 tile=32 promote=32 convert=bf16 order=tiles", 32},
    {"f16", "f16", "qk=f32 p=e4m3fn p_shift=8 pv=f32 tile=32 promote=32 order=tiles", 32},
    {"f16", "f16", "qk=f32 p=e5m2 p_shift=4 pv=f32 tile=32 order=descending", 32},
    {"bf16", "bf16",
     "qk=hopper_bf16 p=bf16 pv=hopper_bf16 tile=32 order=tiles qk_order=sequential pv_order=sequential "
     "rowsum_order=lanes:4",
     32},
    {"bf16", "bf16", "qk=hopper_bf16 p=bf16 pv=hopper_bf16 tile=32 promote=32 order=descending", 32},
    {"f16", "f16", "qk=a100_f16 p=f16 pv=a100_f16 tile=32 order=tiles pv_order=sequential argument=rounded",
     32},
    {"bf16", "e4m3fn",
     "qk=hopper_bf16 p=bf16 pv=hopper_bf16 tile=32 convert=bf16 order=descending qk_order=sequential "
     "pv_order=sequential",
     32},
    {"bf16", "e4m3fn",
     "qk=hopper_fp8 q=e4m3fn p=e4m3fn p_shift=8 pv=hopper_fp8 tile=64 promote=64 chunk=64 order=tiles "
     "qk_order=sequential pv_order=sequential rowsum_order=lanes:4 qk_block=32 pv_block=32",
     64},
    {"bf16", "e4m3fn",
     "qk=hopper_fp8 q=e4m3fn p=e4m3fn p_shift=8 pv=hopper_fp8 tile=32 order=descending "
     "qk_block=32 pv_block=32",
     32},
    {"f16", "e4m3fn", "qk=f32 q=e4m3fn p=bf16 pv=f32 tile=32 promote=32 order=tiles", 32},
};

// All rounds at night, a quarter of them by day.
TEST(AttentionAttack, kernels_that_choose_what_the_contract_leaves_open_to_hurt_stay_within_the_limit) {
  const bool nightly = std::getenv("ASSAY_NIGHTLY") != nullptr;
  std::int64_t outputs = 0, outside = 0;
  for (const Subject& subject : kSubjects) {
    Attacked all;
    const std::int64_t rounds = subject.contract.find("hopper") != std::string::npos ||
                                        subject.contract.find("a100") != std::string::npos
                                    ? 8
                                    : 24;
    for (std::int64_t round = 0; round < rounds; round += nightly ? 1 : 4)
      for (const Design fill : kDesigns) {
        const std::int64_t keys = 1 + (round * 61 + 97 * static_cast<std::int64_t>(fill)) % 260;
        const Attacked r = attack(subject.contract, subject.dtype, subject.kv, fill, keys, subject.d, 16,
                                  static_cast<std::uint64_t>(round + 1));
        EXPECT_EQ(r.outside, 0) << subject.contract << " " << fill << " keys " << keys << " round " << round
                                << ": " << r.worst << " limits";
        all.outputs += r.outputs, all.outside += r.outside, all.unclaimed += r.unclaimed;
        all.worst = std::max(all.worst, r.worst);
      }
    fmt::print("{:>8} outputs, {} unclaimed, worst {:.3f} of the limit: {}\n", all.outputs, all.unclaimed,
               all.worst, subject.contract);
    outputs += all.outputs, outside += all.outside;
    EXPECT_LT(all.unclaimed, all.outputs / 10);
  }
  EXPECT_EQ(outside, 0);
  EXPECT_GE(outputs, nightly ? 1'000'000 : 250'000);
}

TEST(AttentionAttack, a_kernel_that_skips_the_declared_rounding_of_its_weights_leaves_the_limit) {
  for (const Subject& subject : kSubjects) {
    const bool rounds = subject.contract.find(" p=f32") == std::string::npos;
    const bool in_unit =
        subject.contract.find("pv=f32") == std::string::npos;  // a unit takes no other operand
    if (!rounds || in_unit) continue;
    const Attacked done =
        attack(subject.contract, subject.dtype, subject.kv, Design::gaussian, 1000, subject.d, 8, 3);
    const Attacked skipped =
        attack(subject.contract, subject.dtype, subject.kv, Design::gaussian, 1000, subject.d, 8, 3, true);
    EXPECT_EQ(done.outside, 0) << subject.contract;
    EXPECT_GT(skipped.outside, 0) << subject.contract << " worst " << skipped.worst;
  }
}

}  // namespace
}  // namespace assay
