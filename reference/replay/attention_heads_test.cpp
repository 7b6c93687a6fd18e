// The replay of heads whose maxima move together against a kernel of that kind written out: lanes, warps,
// parts and their merge as backends/cuda has them (attention_split_mma, attention_merge), products by the
// same model of the unit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "reference/arithmetic/fused_gemm.hpp"
#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/replay/attention.hpp"
#include "reference/replay/attention_testing.hpp"
#include "reference/replay/special_functions.hpp"

namespace assay {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kWarps = 4, kLanes = 8, kBlock = 16, kThreads = 512;
constexpr float kSlack = 8, kLog2 = 1.44269504088896341f;

struct Problem {
  std::int64_t keys, d, heads, begin, parts, part_keys,
      load;  // begin: the first key that is seen; load: columns of a lane's load
  float scale;
  std::vector<float> q, k, v, slopes, sinks;  // slopes, sinks: empty, or one a head
  std::int64_t tile() const { return 2048 / d; }
};

// A warp's lanes hold the sums of keys g, g + 8, ... of each head.
struct Warp {
  explicit Warp(const Problem& p, std::int64_t heads)
      : top(static_cast<std::size_t>(heads), kNone),
        sum(static_cast<std::size_t>(heads)),
        out(static_cast<std::size_t>(heads * p.d), 0.0f) {}
  std::vector<float> top;
  std::vector<std::array<float, kLanes>> sum;
  std::vector<float> out;  // [heads, d]
};

class Kernel {
 public:
  Kernel(const Problem& problem, const std::string& format, std::int64_t heads_of_block)
      : p_(problem), format_(format), unit_(matrix_unit("hopper_" + format)), block_(heads_of_block) {}

  std::vector<float> run() const {
    std::vector<float> y;
    for (std::int64_t first = 0; first < p_.heads; first += block_) {
      const std::int64_t heads = std::min(block_, p_.heads - first);
      const auto size = static_cast<std::size_t>(heads);
      std::vector<std::vector<float>> tops(size), sums(size), outs(size);
      for (std::int64_t part = 0; part < p_.parts; ++part) take_part(part, first, heads, tops, sums, outs);
      for (std::size_t h = 0; h < size; ++h) {
        const std::vector<float> row =
            merged(tops[h], sums[h], outs[h],
                   p_.sinks.empty() ? kNone : p_.sinks[static_cast<std::size_t>(first) + h]);
        y.insert(y.end(), row.begin(), row.end());
      }
    }
    return y;
  }

 private:
  void take_part(std::int64_t part, std::int64_t first, std::int64_t heads,
                 std::vector<std::vector<float>>& tops, std::vector<std::vector<float>>& sums,
                 std::vector<std::vector<float>>& outs) const {
    std::vector<Warp> warps;
    for (std::int64_t w = 0; w < kWarps; ++w) {
      warps.emplace_back(p_, heads);
      const std::int64_t from = part * p_.part_keys, to = std::min(p_.keys, from + p_.part_keys);
      for (std::int64_t at = from + w * p_.tile(); at < to; at += kWarps * p_.tile())
        if (at + p_.tile() > p_.begin)
          take_tile(warps.back(), first, heads, at, std::max(from, p_.begin), to);
    }
    for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h) {
      float highest = kNone, total = 0;
      for (const Warp& w : warps) highest = std::max(highest, w.top[h]);
      std::vector<float> out(static_cast<std::size_t>(p_.d), 0.0f);
      for (const Warp& w : warps) {
        std::array<float, kLanes> s = w.sum[h];  // folded by exclusive ors of 1, 2 and 4
        for (std::size_t mask = 1; mask < kLanes; mask *= 2)
          for (std::size_t g = 0; g < kLanes; g += 2 * mask) s[g] += s[g + mask];
        const float factor = w.top[h] == highest ? 1.0f : ex2_approx_ftz(w.top[h] - highest),
                    weighed = factor * s[0];
        total += weighed;
        for (std::size_t c = 0; c < out.size(); ++c) {
          const float scaled = w.out[h * out.size() + c] * factor;
          out[c] += scaled;
        }
      }
      tops[h].push_back(highest), sums[h].push_back(total);
      outs[h].insert(outs[h].end(), out.begin(), out.end());
    }
  }

  void take_tile(Warp& w, std::int64_t first, std::int64_t heads, std::int64_t at, std::int64_t begin,
                 std::int64_t end) const {
    const auto tile = static_cast<std::size_t>(p_.tile());
    std::vector<float> s(static_cast<std::size_t>(heads) * tile, 0.0f);
    for (std::int64_t step = 0; step < p_.d / kBlock; ++step) {
      // An instruction's k = 2t, 2t + 1, 2t + 8, 2t + 9 are four neighbours of lane t's load.
      std::array<std::int64_t, kBlock> columns{};
      for (std::int64_t t = 0; t < 4; ++t)
        for (std::int64_t e = 0; e < 4; ++e) {
          const std::int64_t element = 4 * step + e;
          columns[static_cast<std::size_t>(2 * t + e % 2 + e / 2 * 8)] =
              (element / p_.load * 4 + t) * p_.load + element % p_.load;
        }
      std::vector<float> a, b;
      for (std::int64_t h = 0; h < heads; ++h)
        for (const std::int64_t c : columns)
          a.push_back(p_.q[static_cast<std::size_t>((first + h) * p_.d + c)]);
      for (std::int64_t j = at; j < at + p_.tile(); ++j)
        for (const std::int64_t c : columns)
          b.push_back(p_.k[static_cast<std::size_t>(std::min(j, end - 1) * p_.d + c)]);
      fused_gemm(unit_, heads, p_.tile(), kBlock, a.data(), format_, b.data(), format_, s.data(), p_.tile());
    }
    const bool bias = !p_.slopes.empty();
    float factor = p_.scale * (bias ? 1.0f : kLog2);
    bool above = false;
    std::vector<float> highest;
    const bool edge = bias || at < begin || at + p_.tile() > end;
    for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h) {
      float most = kNone;
      for (std::size_t j = 0; j < tile; ++j) {
        float& x = s[h * tile + j];
        const std::int64_t key = at + static_cast<std::int64_t>(j);
        if (edge) {
          x *= factor;
          if (bias) {
            x -= p_.slopes[static_cast<std::size_t>(first) + h] * static_cast<float>(p_.keys - 1 - key);
            x *= kLog2;
          }
          if (key < begin || key >= end) x = kNone;
        }
        most = std::max(most, x);
      }
      highest.push_back(most * (edge ? 1.0f : factor));
      above = above || highest.back() > w.top[h] + kSlack;
    }
    if (edge) factor = 1;
    std::vector<float> p16(s.size());
    for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h) {
      if (above) {
        const float risen = std::max(w.top[h], highest[h]);
        const float rescale = risen == w.top[h] ? 1.0f : ex2_approx_ftz(w.top[h] - risen);
        w.top[h] = risen;
        for (float& each : w.sum[h]) each *= rescale;
        for (std::size_t c = 0; c < static_cast<std::size_t>(p_.d); ++c)
          w.out[h * static_cast<std::size_t>(p_.d) + c] *= rescale;
      }
      for (std::size_t j = 0; j < tile; ++j) {
        const float x = ex2_approx_ftz(std::fma(s[h * tile + j], factor, w.top[h] == kNone ? 0 : -w.top[h]));
        w.sum[h][j % kLanes] += x;
        p16[h * tile + j] = static_cast<float>(round_to(scalar_format(format_), static_cast<double>(x)));
      }
    }
    for (std::size_t block = 0; block < tile / kBlock; ++block) {
      std::vector<float> a, b;
      for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h)
        for (std::size_t j = 0; j < kBlock; ++j) a.push_back(p16[h * tile + block * kBlock + j]);
      for (std::int64_t c = 0; c < p_.d; ++c)
        for (std::size_t j = 0; j < kBlock; ++j) {
          const std::int64_t key = at + static_cast<std::int64_t>(block * kBlock + j);
          b.push_back(key >= begin && key < end ? p_.v[static_cast<std::size_t>(key * p_.d + c)] : 0.0f);
        }
      fused_gemm(unit_, heads, p_.d, kBlock, a.data(), format_, b.data(), format_, w.out.data(), p_.d);
    }
  }

  std::vector<float> merged(const std::vector<float>& tops, const std::vector<float>& sums,
                            const std::vector<float>& outs, float sink) const {
    const float top = *std::ranges::max_element(tops);
    std::vector<float> weights, thread(kThreads, 0.0f);
    for (std::size_t part = 0; part < tops.size(); ++part) {
      weights.push_back(exp2_subnormal(tops[part] - top));
      const float product = weights.back() * sums[part];
      thread[part % thread.size()] += product;
    }
    float sum = 0;
    for (std::size_t warp = 0; warp < thread.size(); warp += 32) {
      for (std::size_t half = 16; half > 0; half /= 2)
        for (std::size_t l = 0; l < half; ++l) thread[warp + l] += thread[warp + l + half];
      sum = warp == 0 ? thread[0] : sum + thread[warp];
    }
    float factor = 1;
    if (sink > kNone) {
      const float s = sink * kLog2, risen = std::max(top, s);
      factor = risen == top ? 1.0f : exp2_subnormal(top - risen);
      sum *= factor;
      sum += exp2_subnormal(s - risen);
    }
    const std::size_t groups = static_cast<std::size_t>(kThreads / (p_.d / 4)),
                      d = static_cast<std::size_t>(p_.d);
    std::vector<float> y;
    for (std::size_t c = 0; c < d; ++c) {
      float total = 0;
      for (std::size_t g = 0; g < groups; ++g) {
        float of_group = 0;
        for (std::size_t part = g; part < tops.size(); part += groups)
          of_group = std::fma(weights[part], outs[part * d + c], of_group);
        total += of_group;
      }
      y.push_back(total * factor / sum);
    }
    return y;
  }

  const Problem& p_;
  std::string format_;
  const MatrixUnit& unit_;
  std::int64_t block_;
};

TEST(HeadsTogether, a_kernel_written_out_leaves_the_bits_of_its_schedule) {
  std::size_t outputs = 0;
  for (const std::string format : {"f16", "bf16"})
    for (const std::int64_t d : {64, 128})
      for (const std::int64_t heads : {5, 20})
        for (const std::int64_t window : {1300, 700})
          for (const bool more : {false, true}) {
            const std::int64_t keys = 1300, tile = 2048 / d, load = d == 64 ? 16 : 8,
                               part_keys = 2 * kWarps * tile;
            const auto size = [](std::int64_t n, std::int64_t width) {
              return static_cast<std::size_t>(n * width);
            };
            Problem p{keys,
                      d,
                      heads,
                      keys - window,
                      (keys + part_keys - 1) / part_keys,
                      part_keys,
                      load,
                      0.25f,
                      drawn(1, 0, size(heads, d), 4, format),
                      drawn(2, 0, size(keys, d), 1, format),
                      drawn(3, 0, size(keys, d), 1, format),
                      {},
                      {}};
            for (std::int64_t h = 0; more && h < heads; ++h)
              p.slopes.push_back(0.01f * static_cast<float>(h + 1)),
                  p.sinks.push_back(static_cast<float>(20 + h));
            const std::int64_t block = heads <= 8 ? 8 : 16;
            const std::string unit = "hopper_" + format, number = std::to_string(block);
            const std::string schedule =
                "qk=" + unit + " pv=" + unit + " p=" + format + " out=f32 tile=" + std::to_string(tile) +
                " argument=" + (more ? "scaled bias=subtract sink=exp2f" : "fma_max") +
                " constant=float sum_fma=no quotient=division exp=ex2 sums=thread lanes=8 pack=1 "
                "fold=adjacent "
                "edge=scaled merge_exp=exp2f slack=8 slack_rows=" +
                number + " deal=4 dot_run=" + std::to_string(load) + " split=" + std::to_string(p.parts) +
                " part=" + std::to_string(part_keys) +
                " merge=lanes merge_lanes=512 merge_fold=16.8.4.2.1.32*16 merge_groups=" +
                std::to_string(2048 / d);
            ReplayQueries queries{heads, p.q, static_cast<double>(p.scale),
                                  [&](std::int64_t, std::int64_t j) { return j >= p.begin; }};
            queries.first = keys - 1, queries.heads = true, queries.slopes = p.slopes,
            queries.sinks = p.sinks;
            const std::vector<float> out = AttentionReplay({keys, d, d, p.k, p.v, format})
                                               .run(parse_attention_schedule(schedule), queries)
                                               .out;
            EXPECT_EQ(out, Kernel(p, format, block).run()) << schedule;
            outputs += out.size();
          }
  EXPECT_EQ(outputs, 2U * 2 * 2 * (64 + 128) * (5 + 20));
}

}  // namespace
}  // namespace assay
