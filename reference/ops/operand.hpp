// Rows of a matrix as a kernel multiplies them: the path from stored bytes to the operands of a dot product.
//
//   f32 tf32 f16 bf16
//     Every element is decoded, with `dequant_roundings` = k roundings in f32 on the way (decoding.hpp), and
//     rounded to that format. k = 1: the one rounding of an exact product or quotient is the nearest f32 of
//     the decoded number, so the operand is known exactly. k > 1: it lies between the roundings of the
//     enclosure's ends. tf32 is rounded as the kernel says: a matrix unit that is handed f32 cuts it, cvt.rna
//     rounds ties away, cvt.rn to even; undeclared, between the first two, which are neighbours.
//   codes
//     A scaled format whose scale is constant along the row (_tensor, _head, _tok, int4_ch), or a scalar
//     format of at most 8 bits: codes are multiplied, the scales come in the epilogue. Of int4_ch_tensor the
//     scale is the product of both; a kernel counts one rounding more, whether it multiplies them first or
//     one after the other.
//   e4m3fn
//     Weights: decoded, then rounded to e4m3fn, clamped at 448, no scale (nvfp4: e2m1 * block scale / global
//     scale). Activations: e4m3fn codes with one scale absmax / 448 of the whole tensor.
//   blocks
//     nvfp4, mxfp4, mxfp8: elements times their block scales go to the unit (an exact product); nvfp4's
//     global scale, by which decoding divides, or whose reciprocal multiplies, comes in the epilogue.
//     ftz=yes: a block scale below 2^-126 (e8m0's least) may be read as 0.
//   q8
//     Weights: decoded (exact in f64). Activations: quantised to q8_0 in blocks of 32: absmax / 127 in f32,
//     of which codes are made, and which is stored as f16, or stays in f32 (scale_format).
//   q8_1, q8_K
//     The same with a sum beside each block, and in blocks of 256 with a scale in f32: block_sums.hpp.
//
// An operand that the declared arithmetic does not decide (a quotient so near a rounding boundary that
// division and multiplication by the reciprocal may disagree) is one of two neighbours, or of more: `center`
// is then the middle of the admissible ones, which all lie in [center -+ radius]. An enclosure inside one
// rounding cell has the radius 0.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/formats/format.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/real/row_grid.hpp"

namespace assay {

// What each path multiplies, for the reader of a manual.
struct PathMeaning {
  std::string_view path, meaning;
};
inline constexpr PathMeaning kPathMeanings[] = {
    {"auto",
     "codes where a and b have codes that share a scale along a row; else f16 or bf16 where one is that; "
     "else f32"},
    {"f32 tf32 f16 bf16", "both are decoded, with dequant_roundings in f32, and rounded to that type"},
    {"codes", "codes as they are stored; the scales are applied to the sum"},
    {"blocks",
     "elements times the scales of their blocks, one by one or summed first, in f32 or exactly; nvfp4's "
     "global "
     "scales are applied to the sum"},
    {"e4m3fn",
     "a: codes of e4m3fn under one scale absmax / 448 of the whole tensor (1 where that is 0; a NaN or an "
     "Inf "
     "spoils the tensor), applied to the sum; b: decoded, and rounded to e4m3fn, clamped at 448, without a "
     "scale of its own (nvfp4 weights by FP8)"},
    {"q8",
     "a: codes of int8 in blocks of 32 under absmax / 127 (codes of 0 where that is 0; a NaN or an Inf "
     "spoils "
     "its row), of which they are made in f32 before it is stored in scale_format; b: as it is decoded, a "
     "minimum included; scales multiply operands, or where b has codes too a block's sum of products of "
     "codes, which is exact"},
    {"q8_1",
     "as q8, its scales in f16, with each block's sum in f16, which meets the minima of b and the "
     "offsets of q4_0 and q5_0 (path=q8 where offsets are subtracted from codes)"},
    {"q8_K",
     "a: codes of int8 in blocks of 256 under an f32 scale, absmax / 127 with either sign, with sums of 16, "
     "which meet the minima of b, or the offsets of q3_K and q6_K; b: as it is decoded"},
};

// How a path quantises activations, in the words of a quantiser (admissible.hpp), D = 448 (e4m3fn), 127 (q8).
// Both declared, the kernel's f32 scale and codes are known: a quotient that is a tie in real numbers,
// frequent where absmax is a small multiple of a power of two, is then no longer in doubt (of q8 `ties` says
// where a tie of the kernel's own quotient goes). So is a block of q8 of which every way finds the same.
struct Quantising {
  std::string_view scale =
      "any";  // divide fl(absmax / D), reciprocal fl(absmax fl(1 / D)), inverse fl(1 / fl(D / absmax))
  std::string_view code = "any";  // divide fl(x / s), reciprocal fl(x fl(1 / s)), direct fl(x fl(D / absmax))
  // path=tf32: any, nearest_even, nearest_away or toward_zero, of both sides.
  std::string_view tf32 = "any";
  std::string_view ties = "any";          // of q8: any, even, away, or rule, which is ggml's: away
  std::string_view scale_format = "f16";  // path=q8: f16 or f32
  bool flush = false;                     // ftz=yes
  bool replayed = false;                  // level=replay: weights of q8 are one number each, decoded
  bool is_declared() const { return scale != "any" && code != "any"; }
};

enum class Side : std::uint8_t { activations, weights };

// An operand that is not decided, and the ends of what is admissible.
struct Undecided {
  std::size_t index;
  double low, high;
  bool neighbours;  // no third number of the format lies between: it is `low` or `high`
};

struct OperandRow {
  std::vector<double> exact;         // the decoded numbers
  std::vector<double> center;        // the operand; times `scale` it stands for the number
  std::vector<double> reach;         // |center| + radius; empty when every radius is 0
  std::vector<Undecided> undecided;  // those with a radius
  // path=blocks: elements and block scales apart, as the unit takes them.
  std::vector<float> elements, block_scales;
  double scale = 1;
  bool has_scale = false;                  // a kernel multiplies by `scale`, be it 1
  bool scale_divides = false;              // `scale` is the reciprocal of what is stored
  std::array<double, 2> two_scales{1, 1};  // of a scale that is a product of two: both
  double scale_error = 0;                  // relative, of the kernel's scale
  double max_abs = 0;                      // of reach
  double min_abs =
      0;  // the least magnitude that is not 0 which an operand may have; 0 where one may be any near 0
  // path=blocks: the largest power of two of a block scale, and of an element (at least its format's 2^emin)
  // times its scale: the exponents at which units with block scales align. 0 elsewhere.
  double scale_head = 0, element_head = 0;
  RowGrid grid;                     // of center
  bool may_flush = false;           // ftz=yes, and a stored number or scale is subnormal in f32
  bool flushes_f16 = false;         // ftz=yes, and a conversion to f16 may make, or flush, a subnormal
  bool has_negative_scale = false;  // path=blocks: of a block; matrix units ignore the sign (ue4m3)
  bool has_infinite_scale = false;  // path=q8, weights: of some block, scale or minimum
  double scale_of_zeros = 0;        // path=q8, weights: the largest of a block of nothing but zeros
  bool same = false;                // center * scale is exact, element by element
};

bool has_nan(const OperandRow& row);
inline bool has_two_scales(const OperandRow& row) { return row.two_scales[0] != 1 || row.two_scales[1] != 1; }

// Element i is somewhere in [low, high], numbers of `format` that rounding made of an enclosure's ends: sets
// its center and, where they differ, its radius. Elements come in ascending order, each once.
void admit(OperandRow& row, std::size_t i, double low, double high, const ScalarFormat& format);
// Nothing is known of element i, whose center stands.
void leave_open(OperandRow& row, std::size_t i);
// Sets what is derived of center and reach: grid, max_abs and min_abs.
void finish(OperandRow& row);

class Operands {
 public:
  // The last axis of `tensor` is the dot's; every other index is a row. Throws InputError bad_value when the
  // path cannot take the format.
  Operands(const Encoded& tensor, std::string_view path, Side side, double dequant_roundings,
           const Quantising& quantising = {});
  std::int64_t rows() const { return rows_; }
  std::int64_t length() const { return length_; }
  OperandRow row(std::int64_t index) const;
  std::string_view element() const { return element_; }  // scalar format of the operands, for a matrix unit
  // The most significand bits that an operand's center may have, a leading one included: of nvfp4's blocks
  // element and block scale together. 53 where no number is known.
  int significand_bits() const;
  std::string_view block_scales() const { return block_scales_; }  // path=blocks: their format; "" elsewhere

 private:
  void quantise_e4m3fn(OperandRow& row, std::int64_t index) const;
  void quantise_q8(OperandRow& row, std::int64_t index) const;
  void quantise_q8_as_declared(OperandRow& row, std::size_t first) const;
  void quantise_q8_K(OperandRow& row, std::int64_t index) const;
  bool is_decoded_as_stored() const;
  bool is_declared(const OperandRow& row) const;
  std::vector<Enclosure> decoded(const OperandRow& row, std::int64_t index) const;
  std::vector<Enclosure> activations(const OperandRow& row, std::int64_t index) const;
  double decoding_roundings() const;
  void round_operands(OperandRow& row, std::int64_t index, const ScalarFormat& to, bool clamp) const;
  void take_as_decoded(OperandRow& row, std::int64_t index) const;
  void take_blocks(OperandRow& row, std::int64_t index) const;

  const Encoded& tensor_;
  const Format& format_;
  std::string path_;
  Side side_;
  double roundings_;
  std::int64_t rows_ = 0, length_ = 0;
  std::string element_, block_scales_;
  Quantising quantising_;
  float tensor_absmax_ = 0, tensor_scale_ = 1;  // path e4m3fn, activations
};

// auto: codes when both formats allow it, else f16 or bf16 when a side is of that type, else f32.
std::string resolve_path(std::string_view path, const Format& a, const Format& b);

}  // namespace assay
