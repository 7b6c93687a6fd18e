// SplitMix64's finaliser (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014): a
// bijection of 64 bits with full avalanche, good enough to hash counters. The one source of every seeded
// draw.
#pragma once

#include <cstdint>

namespace assay {

constexpr std::uint64_t mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

// SplitMix64: the next number of a generator whose whole state is one word.
constexpr std::uint64_t next_mixed(std::uint64_t& state) {
  const std::uint64_t number = mix(state);
  state += 0x9E3779B97F4A7C15U;
  return number;
}

}  // namespace assay
