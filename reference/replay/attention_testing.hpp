// What tests of replayed attention share.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reference/formats/scalar.hpp"

namespace assay {

// The numbers that the device was given: four fields of 16 bits of a mixed counter, added.
inline std::vector<float> drawn(std::uint64_t seed, std::size_t first, std::size_t count, float scale,
                                const std::string& format) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t z = (first + i) + (seed << 40) + 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    z ^= z >> 31;
    std::int64_t sum = -131070;
    for (int field = 0; field < 4; ++field) sum += static_cast<std::int64_t>(z >> (16 * field) & 0xFFFF);
    x[i] = static_cast<float>(
        round_to(scalar_format(format), static_cast<double>(static_cast<float>(sum) * (0x1p-15f * scale))));
  }
  return x;
}

// A schedule with one of its words another; nothing changed where `from` is "".
inline std::string with_word(std::string text, const std::string& from, const std::string& to) {
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  return text;
}

// out(from, to): what the schedule with that word replaced gives. Each of `words` gives other outputs than
// the whole, which are the same when it is asked again.
template <typename Out>
void expect_each_shows(const Out& out, const std::vector<std::pair<std::string, std::string>>& words) {
  const std::vector<float> healthy = out("", "");
  EXPECT_EQ(out("", ""), healthy);
  for (const auto& [from, to] : words) EXPECT_NE(out(from, to), healthy) << from << " " << to;
}

}  // namespace assay
