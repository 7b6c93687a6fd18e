// A tensor format: how an array of real numbers [.., outer, middle, inner] becomes bytes. It is a scalar
// format, a block format with its own byte layout, or a scaled format (scalar codes plus separate scales).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/error.hpp"
#include "reference/formats/scalar.hpp"

namespace assay {

using Shape = std::vector<std::int64_t>;  // in elements, outermost axis first; the last axis is contiguous
std::int64_t element_count(const Shape& shape);
std::string to_string(const Shape& shape);  // "[2,8,128]"

// One array of bytes of a tensor. The payload has suffix ""; companions are named after it: tensor "k" in
// e4m3fn_tok has the planes "k" (e4m3fn) and "k.scale" (f32).
struct PlaneSpec {
  std::string suffix;  // "", ".scale", ".scale_2", ".block_scale", ".global_scale"
  std::string format;  // a scalar format, or the block format itself for an inline payload
  Shape shape;         // of the plane, in its own elements
  std::size_t bytes;
};

struct Plane {
  PlaneSpec spec;
  std::vector<std::byte> bytes;
};

struct Encoded {
  std::string format;
  Shape shape;                // logical, of the tensor
  std::vector<Plane> planes;  // payload first
};

enum class FormatKind : std::uint8_t { scalar, block, scaled };

// Which elements share one f32 scale (plane ".scale"). Axes of a shape: inner = the last, middle = the one
// before it (1 below rank 3), outer = all others together. A rank-2 shape is [outer, inner].
enum class ScaleAxis : std::uint8_t {
  none,
  tensor,   // all: plane [1]
  head,     // a middle index: [middle]
  token,    // an outer index: [outer]; a token of activations or KV, an output channel of W[out, in]
  channel,  // a (middle, inner) index: [middle, inner]; a KV channel
  row,      // an (outer, middle) index: [outer * middle]; an output channel of W[experts, out, in]
  group32,  // 32 neighbours along inner: [outer * middle, inner / 32]
};

struct BlockCodec;  // block.hpp

// Rows of the one list of formats (formats.cpp). Codecs of block formats live in blocks/<name>.cpp.
struct Format {
  std::string_view name;
  FormatKind kind;
  double bits_per_element;  // storage, scales included, for a long row (scales of _ch and longer runs vanish)
  int block_elements;       // that the innermost axis must be a multiple of; 1 for scalars, 2 for 4-bit ones
  double decode_relative_error;  // 0 when decode is exact in f64; 2^-53 when correctly rounded (nvfp4, tq3_0)
  std::string_view note;
  std::string_view element = {};      // scalar and scaled, and int4_ch_tensor: the payload's scalar format
  ScaleAxis axis = ScaleAxis::none;   // scaled, and int4_ch_tensor
  double scale_divisor = 0;           // scaled: scale = absmax / scale_divisor
  const BlockCodec* block = nullptr;  // block
};

std::span<const Format> formats();
const Format& format(std::string_view name);  // throws InputError unknown_name, listing near names
const Format* find_format(std::string_view name);

// How a kernel is to quantise to it, in a line; empty where no kernel is asked to (K-quants with minima,
// whose files come from a search).
std::string_view quantiser_rule(const Format& format);

// The planes that a tensor of this format and logical shape has. Throws ragged_block, shape_mismatch.
std::vector<PlaneSpec> planes(const Format& format, const Shape& shape);

// Checks that the planes of `tensor` are those of its format and shape. Throws shape_mismatch, ragged_block.
void check_planes(const Encoded& tensor);
// check_planes, and that [first, first + count) lies inside on block boundaries. Returns the row of the
// format.
const Format& check_range(const Encoded& tensor, std::int64_t first, std::int64_t count);

// Quantises. Scales are computed by the format's own rule, in f32:
//   scaled  scale = absmax / scale_divisor over the finite elements that share it (448, 240, 57344, 127, 7);
//           1 when that is 0. The code is the format's rounding of the real quotient x / scale: an f64
//           quotient of two f32 is never on the other side of a tie of 24 + 6 bits or fewer from the real
//           one.
//   block   blocks/<name>.cpp says.
// Throws shape_mismatch, ragged_block.
Encoded encode_tensor(const Format& format, const Shape& shape, std::span<const float> values,
                      const EncodePolicy& policy = {});
// Quantises with the caller's scales (plane ".scale" of a scaled format): an old, locked or wrong scale
// included. Throws bad_scale with the offending value when a scale is zero, negative, NaN or infinite.
Encoded encode_tensor_with_scales(const Format& format, const Shape& shape, std::span<const float> values,
                                  std::span<const float> scales, const EncodePolicy& policy = {});

// The real numbers that the bytes stand for. Throws shape_mismatch when planes and shape disagree, bad_scale
// when a separate f32 scale is negative, NaN or infinite, or zero where decoding divides by it (nvfp4). A
// zero scale that multiplies makes zeros of its codes: what many quantisers leave behind for a row of zeros.
std::vector<double> decode_tensor(const Encoded& tensor);
// The same, but elements under a scale that is refused are NaN: of a kernel's output, where something may be
// undefined.
std::vector<double> decode_output(const Encoded& tensor);
// The same for elements [first, first + out.size()) in row-major order; `first` and the count are multiples
// of block_elements. What streaming users (a KV cache of 2^20 keys) call.
void decode_range(const Encoded& tensor, std::int64_t first, std::span<double> out);
void decode_range(const Encoded& tensor, std::int64_t first, std::span<float> out);  // nearest f32

// The tensor with the elements for which keep(index) is false made zero, all others as they are. nullopt for
// formats in which elements are not whole bytes of their own, or a code of zero bits is no zero.
std::optional<Encoded> with_zeros(const Encoded& tensor, const std::function<bool(std::size_t)>& keep);

}  // namespace assay
