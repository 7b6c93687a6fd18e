// Every f32 there is, into e4m3fn, e4m3fnuz, e5m2 and e2m1, under every rounding and overflow policy. A walk
// in order of magnitude lets the oracle (scalar_oracle.hpp) move its place in the list of values by
// comparison alone.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "reference/formats/scalar_oracle.hpp"

namespace assay {
namespace {

constexpr std::uint32_t kInfBits = 0x7F800000U;
constexpr std::size_t kChunk = 1U << 14;
constexpr std::uint32_t kShard = 1U << 24;  // bit patterns of one sign that a thread takes at a time

struct Mismatch {
  std::uint32_t bits = 0;
  std::uint32_t got = 0;
  std::uint32_t wanted = 0;
};

// Patterns [first, first + kShard) with the sign; returns how many disagree and the first one that does.
std::uint64_t check_shard(const ScalarFormat& format, const ScalarOracle& oracle, const EncodePolicy& policy,
                          std::uint32_t first, bool negative, Mismatch& example) {
  std::array<float, kChunk> x;
  std::array<std::uint32_t, kChunk> got;
  const std::uint32_t sign = negative ? 0x80000000U : 0U;
  const std::vector<double>& values = oracle.values();
  std::size_t below = 0;
  std::uint64_t bad = 0;
  for (std::uint32_t start = first; start - first < kShard; start += kChunk) {
    for (std::uint32_t i = 0; i < kChunk; ++i) x[i] = std::bit_cast<float>((start + i) | sign);
    encode_many(format, x, policy, start | sign, got);
    const auto wanted = [&](std::uint32_t bits) {
      if (bits >= kInfBits) return oracle.expected(std::bit_cast<float>(bits | sign), policy, bits | sign);
      const double magnitude = std::bit_cast<float>(bits);
      while (below < oracle.top() + 1 && magnitude >= values[below + 1]) ++below;
      return oracle.expected(magnitude, below, negative, policy, bits | sign);
    };
    // A deterministic rounding is monotone, plainly so in the oracle: equal ends of a chunk settle what lies
    // between.
    const std::uint32_t last = start + kChunk - 1;
    const bool flat = policy.rounding != Rounding::stochastic && last < kInfBits;
    const std::uint32_t at_start = wanted(start);
    const std::size_t below_start = below;
    if (flat && wanted(last) == at_start) {
      std::uint32_t differences = 0;
      for (const std::uint32_t code : got) differences |= code ^ at_start;
      if (differences == 0) continue;
    }
    below = below_start;
    for (std::uint32_t i = 0; i < kChunk; ++i) {
      const std::uint32_t code = wanted(start + i);
      if (got[i] != code) {
        if (bad++ == 0) example = {(start + i) | sign, got[i], code};
      }
    }
  }
  return bad;
}

class EveryF32 : public testing::TestWithParam<std::tuple<std::string, Rounding, Overflow>> {};

TEST_P(EveryF32, encodes_as_the_oracle_says) {
  const auto& [name, rounding, overflow] = GetParam();
  const ScalarFormat& format = scalar_format(name);
  const ScalarOracle oracle(format);
  const EncodePolicy policy{.rounding = rounding, .overflow = overflow, .seed = 2026};
  std::atomic<std::uint32_t> next{0};
  std::array<std::uint64_t, 2> bad{};
  std::array<std::uint64_t, 2> seen{};
  std::array<Mismatch, 2> example;
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint32_t shard = next++; shard < 256; shard = next++) {
        Mismatch one;
        const std::uint64_t count =
            check_shard(format, oracle, policy, (shard & 127U) * kShard, shard >= 128, one);
        if (count > 0 && bad[t] == 0) example[t] = one;
        bad[t] += count;
        seen[t] += kShard;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(seen[0] + seen[1], std::uint64_t{1} << 32);
  EXPECT_EQ(bad[0] + bad[1], 0U) << "first: bits " << std::hex << example[bad[0] == 0].bits << " got "
                                 << example[bad[0] == 0].got << " wanted " << example[bad[0] == 0].wanted;
}

std::string policy_name(const testing::TestParamInfo<EveryF32::ParamType>& row) {
  static const std::array<std::string, 5> names = {"nearest_even", "nearest_away", "toward_zero",
                                                   "toward_negative", "stochastic"};
  const auto& [name, rounding, overflow] = row.param;
  return name + "_" + names[static_cast<std::size_t>(rounding)] +
         (overflow == Overflow::ieee ? "_ieee" : "_saturate");
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryF32,
                         testing::Combine(testing::Values("e4m3fn", "e4m3fnuz", "e5m2", "e2m1"),
                                          testing::Values(Rounding::nearest_even, Rounding::nearest_away,
                                                          Rounding::toward_zero, Rounding::toward_negative,
                                                          Rounding::stochastic),
                                          testing::Values(Overflow::saturate, Overflow::ieee)),
                         policy_name);

}  // namespace
}  // namespace assay
