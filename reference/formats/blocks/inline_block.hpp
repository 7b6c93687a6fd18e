// Formats whose scales lie inside the payload, block after block: what their files share.
// A Block has kName, kElements, kBytes, encode(const float*, std::byte*, policy, first_index) and
// decode<Real>(const std::byte*, Real*).
#pragma once

#include <array>
#include <cmath>
#include <cstring>

#include "reference/formats/block.hpp"
#include "reference/formats/scalar_codec.hpp"

namespace assay::blocks {

inline std::uint16_t load_u16(const std::byte* at) {
  std::uint16_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

inline const double* f16_table() {
  static const double* const table = decode_table(scalar_format("f16")).data();
  return table;
}
inline double load_f16(const std::byte* at) { return f16_table()[load_u16(at)]; }

// Nearest-even, overflow to Inf, whatever the policy: that is how ggml stores a scale.
inline void store_f16(std::byte* at, double x) {
  static const ScalarFormat& f16 = scalar_format("f16");
  const auto code = static_cast<std::uint16_t>(encode(f16, x, {.overflow = Overflow::ieee}));
  std::memcpy(at, &code, sizeof code);
}

// Copies one block, NaN replaced by +0 when the policy says so. False when a NaN or an infinity remains:
// ggml's quantisers are undefined there; here the block is poisoned (scale NaN, codes 0), so that it cannot
// pass unseen.
template <int N>
bool load_finite(const float* x, std::array<float, N>& out, const EncodePolicy& policy) {
  bool finite = true;
  for (int i = 0; i < N; ++i) {
    out[i] = std::isnan(x[i]) && policy.nan == NanPolicy::zero ? 0.0F : x[i];
    finite = finite && std::isfinite(out[i]);
  }
  return finite;
}

// 1/d as f32; 0 for d = 0, and where ggml's 1/d overflows (|d| < 2^-128: such a scale is 0 as an f16 anyway).
inline float inverse_or_zero(float d) {
  const float inverse = d != 0 ? 1.0F / d : 0.0F;
  return std::isfinite(inverse) ? inverse : 0.0F;
}

// The code of x (already divided by the scale) among [0, top], code = integer + offset. Nearest: ggml's own
// rule, truncation of the f32 sum x + (offset + 1/2), ties upwards. Directed and stochastic policies round x
// instead.
inline unsigned offset_code(float x, int offset, int top, const EncodePolicy& policy, std::uint64_t index) {
  static const ScalarFormat& integer = scalar_format("int32");
  const bool nearest = policy.rounding == Rounding::nearest_even || policy.rounding == Rounding::nearest_away;
  const double code = nearest ? static_cast<double>(x + (static_cast<float>(offset) + 0.5F))
                              : round_to(integer, x, policy, index) + offset;
  if (!(code >= 0)) return 0;
  return code >= top ? static_cast<unsigned>(top) : static_cast<unsigned>(code);
}

// A poisoned block: all bytes 0 and the f16 at `scale_offset` NaN.
inline void poison(std::byte* out, int bytes, int scale_offset) {
  std::memset(out, 0, static_cast<std::size_t>(bytes));
  store_f16(out + scale_offset, std::numeric_limits<double>::quiet_NaN());
}

// ggml's nibble order: byte j holds element j in its low half and element j + 16 in its high half.
inline void pack_nibbles(const std::array<unsigned, 32>& codes, std::byte* out) {
  for (int j = 0; j < 16; ++j)
    out[j] = static_cast<std::byte>((codes[j] & 0xFU) | ((codes[j + 16] & 0xFU) << 4));
}
inline unsigned nibble(const std::byte* in, int element) {
  return (static_cast<unsigned>(in[element % 16]) >> (element < 16 ? 0 : 4)) & 0xFU;
}
// The element of largest magnitude, the first one among equals, with its sign.
inline float signed_absmax(std::span<const float> v) {
  float extreme = 0;
  for (const float x : v) {
    if (std::fabs(x) > std::fabs(extreme)) extreme = x;
  }
  return extreme;
}

template <typename Block, typename Real>
void decode_blocks(const Encoded& tensor, std::int64_t first, std::span<Real> out) {
  const std::byte* at = tensor.planes[0].bytes.data() + first / Block::kElements * Block::kBytes;
  for (std::size_t i = 0; i < out.size(); i += Block::kElements, at += Block::kBytes) {
    Block::template decode<Real>(at, out.data() + i);
  }
}

// Block::factors(in, out) where a block has it; else an f16 scale stands in front, and the rest of a number
// is its code.
template <typename Block>
void block_factors(const Encoded& tensor, std::int64_t first, std::span<Factors> out) {
  const std::byte* at = tensor.planes[0].bytes.data() + first / Block::kElements * Block::kBytes;
  for (std::size_t i = 0; i < out.size(); i += Block::kElements, at += Block::kBytes) {
    const std::span<Factors> block = out.subspan(i, Block::kElements);
    if constexpr (requires { Block::factors(at, block); }) {
      Block::factors(at, block);
    } else {
      std::array<double, Block::kElements> value;
      Block::template decode<double>(at, value.data());
      const double d = load_f16(at);
      for (std::size_t e = 0; e < block.size(); ++e)
        block[e] = {.code = d == 0 ? 0 : value[e] / d, .scale = d};
    }
  }
}

template <typename Block>
constexpr BlockCodec inline_codec() {
  return {
      .planes = [](const Shape& shape) -> std::vector<PlaneSpec> {
        const auto blocks = static_cast<std::size_t>(element_count(shape) / Block::kElements);
        return {{"", std::string(Block::kName), shape, blocks * Block::kBytes}};
      },
      .encode =
          [](std::span<const float> values, const EncodePolicy& policy, Encoded& into) {
            std::byte* at = into.planes[0].bytes.data();
            for (std::size_t i = 0; i < values.size(); i += Block::kElements, at += Block::kBytes) {
              Block::encode(values.data() + i, at, policy, i);
            }
          },
      .decode = decode_blocks<Block, double>,
      .decode_f32 = decode_blocks<Block, float>,
      .factors = block_factors<Block>,
  };
}

constexpr BlockCodec searched(BlockCodec codec, const ScaleSearch* search = nullptr) {
  codec.searched = true;
  codec.search = search;
  return codec;
}

}  // namespace assay::blocks
