// Adversarial tiles as bit codes: a pure function of instruction, seed and index.
//
// A batch has one depth. Within it every row of A and B belongs to a family and every element of C to a kind,
// so each output meets one combination of them. Exponents centre on one the tile draws, so that terms meet
// near the last bits that alignment keeps; bf16 and tf32 tiles also go to both ends of f32's range.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cases/studies/silicon/instruction.hpp"

namespace assay::silicon {

inline constexpr std::array<std::string_view, 10> kRowFamilies = {
    "band",       // one to six binades, any fraction and sign
    "powers",     // powers of two over 32 binades
    "any",        // any finite code
    "alternate",  // pairs x, -x
    "repeat",     // pairs x, x: beside "alternate" they cancel exactly
    "subnormal",  // subnormals with a normal number here and there
    "sparse",     // three of four are zeros of either sign
    "sliver",     // three terms: 1, half its last place in the result, a bit at the edge of alignment
    "positive",   // one binade, all of one sign: sums carry
    "special",    // any code, Inf and NaN included
};
inline constexpr std::array<std::string_view, 9> kAccumulatorKinds = {
    "zero",         // of either sign
    "near",         // within 28 binades below and 12 above the products
    "edge",         // a power of two, or the number just below one, likewise
    "level",        // at most four binades above the products
    "any",          // any finite code
    "cancel",       // minus the first product, cut to the result's precision
    "subnormal",    //
    "last_binade",  // overflow is one carry away
    "special",      // Inf or NaN
};

struct Batch {
  const Instruction* how;
  std::uint64_t seed, index;
  int tiles, steps;
  std::vector<unsigned char> a, b, c, d;         // as Tiles has them
  std::vector<std::uint8_t> a_family, b_family;  // [tiles][64]
  std::vector<std::uint8_t> c_kind;              // [tiles][64][64]

  int depth() const { return steps * how->depth; }
  std::size_t outputs() const { return c_kind.size(); }
  const unsigned char* row(const std::vector<unsigned char>& operand, int tile, int r) const {
    return operand.data() + (static_cast<std::size_t>(tile) * kTileSide + static_cast<std::size_t>(r)) *
                                static_cast<std::size_t>(steps) * kStepBytes;
  }
  Tiles device_view() {
    return {how->opcode, tiles, steps, how->accumulator_bytes(), a.data(), b.data(), c.data(), d.data()};
  }
};

// Batches of even index have one step, the others up to a depth of 16,384; both numbers cut that short.
inline constexpr int kAllSteps = 1 << 20;
inline constexpr int kMostTiles = 64;
Batch draw_batch(const Instruction& how, std::uint64_t seed, std::uint64_t index,
                 int largest_steps = kAllSteps, int most_tiles = kMostTiles);

}  // namespace assay::silicon
