// One correct kernel judged at every level, and the count of what was found. Shared by the quick and the
// nightly tests.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/ops/attention/limits/bounds.hpp"
#include "reference/ops/attention/limits/bounds_test_kernels.hpp"
#include "reference/ops/attention/test_fills.hpp"

namespace assay {

inline constexpr std::array kLevels{AttentionLevel::detap, AttentionLevel::detord, AttentionLevel::ca,
                                    AttentionLevel::emu};
inline constexpr std::array<std::string_view, 4> kLevelNames{"detap", "detord", "ca", "emu"};

struct Tally {
  std::int64_t outputs = 0;
  std::array<std::int64_t, 4> violations{};
  std::array<std::int64_t, 4> vacuous{};
};

// Every level judges the same outputs of one correct kernel.
inline void judge(const TestKernel& kernel, const AttentionFill& f, const QueryRow& row, Design fill,
                  Tally& tally) {
  const AttentionEmulator emulator(kernel.how, f.kv());
  const AttentionBounds bounds(kernel.how, f.kv());
  std::vector<float> out(static_cast<std::size_t>(f.dv));
  emulator.run(row, out);
  tally.outputs += f.dv;
  for (std::size_t level = 0; level < kLevels.size(); ++level) {
    const RowBounds r = bounds.row(row, kLevels[level]);
    for (std::size_t c = 0; c < out.size(); ++c) {
      const double got = out[c];
      const bool ok = std::fabs(got - r.centre[c]) <= r.limit[c] && r.low[c] <= got && got <= r.high[c];
      tally.vacuous[level] += std::isinf(r.limit[c]);
      if (ok) continue;
      if (tally.violations[level]++ == 0) {
        ADD_FAILURE() << fmt::format(
            "{} fill {} keys {} d {} level {} column {}: got {:.9g}, want {:.9g} +- {:.3g} in [{:.9g}, "
            "{:.9g}], exact {:.9g}",
            kernel.name, to_string(fill), f.keys, f.d, kLevelNames[level], c, got, r.centre[c], r.limit[c],
            r.low[c], r.high[c], r.value[c]);
      }
    }
  }
}

inline Tally judge_all(std::span<const std::int64_t> sizes, std::int64_t d, std::int64_t dv,
                       std::uint64_t seeds) {
  Tally tally;
  for (const TestKernel& kernel : test_kernels()) {
    for (const Design fill : kDesigns) {
      for (const std::int64_t keys : sizes) {
        for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
          const AttentionFill f = attention_fill(fill, keys, d, dv, std::string(kernel.q),
                                                 std::string(kernel.k), std::string(kernel.v), seed);
          judge(kernel, f, f.row(), fill, tally);
        }
      }
    }
  }
  fmt::print("{} outputs; vacuous limits: detap {} detord {} ca {} emu {}\n", tally.outputs, tally.vacuous[0],
             tally.vacuous[1], tally.vacuous[2], tally.vacuous[3]);
  return tally;
}

}  // namespace assay
