#include "reference/replay/rounding.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace assay {
namespace {

// Every number of 16 bits, what lies half-way to the next, and the floats beside both.
TEST(Rounded, is_round_to_where_the_bits_turn) {
  for (const char* format : {"f16", "bf16", "e4m3fn"}) {
    const Rounded rounded(format);
    const auto expect_same = [&](float x) {
      const Overflow overflow = std::string_view(format) == "e4m3fn" ? Overflow::saturate : Overflow::ieee;
      const auto want =
          static_cast<float>(round_to(scalar_format(format), static_cast<double>(x), {.overflow = overflow}));
      const float got = rounded(x);
      ASSERT_TRUE(std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(want) ||
                  (std::isnan(got) && std::isnan(want)))
          << format << " " << x << " " << got << " " << want;
    };
    for (std::uint64_t high = 0; high < 1 << 20; ++high)
      for (const std::int32_t beside : {-1, 0, 1})
        expect_same(std::bit_cast<float>(static_cast<std::uint32_t>(high << 12) +
                                         static_cast<std::uint32_t>(beside)));
    for (const float x : {65503.99F, 65504.0F, 65519.99F, 65520.0F, 0x1p-25F, 0x1.8p-24F, 0x1p-14F,
                          std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity()})
      expect_same(x), expect_same(-x);
  }
}

}  // namespace
}  // namespace assay
