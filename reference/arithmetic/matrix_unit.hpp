// Matrix units: how hardware forms C + sum a_k b_k. One row of data per unit, and one scalar model that
// defines every row (fused_dot); fused_gemm.hpp computes the same bits many at a time.
//
// The common model is T(F, g, out). Take g exact products and the accumulator c. Exponents are not
// normalised: a product's is e_a + e_b with a significand in [0, 4), a subnormal operand keeps its format's
// emin, a non-zero c that of its register; zeros have none. M is the largest of these exponents, but at least
// `least_exponent`. Every term is truncated toward zero to a multiple of 2^(M-F); the truncated terms add
// exactly, so their order cannot matter; the sum is rounded once, to `out`. Blocks of g chain through c. The
// `combine` field says how a unit departs from that.
//
// Specials: a NaN operand, 0 * Inf, or infinities of both signs give NaN; otherwise an infinity wins. Results
// beyond the largest finite number are Inf under every rounding. NaN results are the canonical quiet NaN.
// Zero results are +0; in units that do not truncate a non-zero sum that was rounded to zero keeps its sign.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "reference/arithmetic/rounding.hpp"
#include "reference/formats/scalar.hpp"

namespace assay {

enum class Combine : std::uint8_t {
  // T(F, g, out).
  truncate,
  // T(F, g, out), the exponents of one e8m0 scale per operand and block added to each product's.
  truncate_scaled,
  // mxf4/nvf4 k64: each 16 products sum exactly; that sum times both scales' significands, at the scales'
  // exponents, is one term; four of those terms and c go through T(F, 4, out).
  group_scaled,
  // Hopper mma.sync FP8: unpacked to f16, T(25, 16, out) over k mod 4 in {0,1} of a k32 block from c = 0,
  // chained into the same over {2,3} (toward zero into f32, to nearest into f16); then one separate
  // nearest-even addition of c in `out`.
  unpack_split,
  // The exact sum of g products and c, rounded once.
  exact,
  // Products and sums are f32 operations to nearest; subnormal inputs and results become zero;
  // (p0 + p1) + (p2 + p3) [g = 4] or p0 + p1 [g = 2], then c + that.
  pairwise_flush,
  // CDNA3 16-bit: products truncated at M_p - F; their sum floored toward -inf at E - 31 and c floored at E -
  // F, E the larger of both exponents; a product of 2^128 or more is Inf.
  floor,
  // CDNA3 FP8: even k and odd k each truncated at their own M - F, the halves floored at the larger M - F and
  // added, then combined with c as in `floor`; c is dropped below E - F - 1.
  floor_halves,
  // int8: exact, modulo 2^32.
  wrap,
};

enum class Standing : std::uint8_t {
  silicon,    // agrees bit for bit with hardware that this project ran, as `source` says
  vectors,    // agrees with public vectors that hardware produced
  published,  // read in published code or papers that claim hardware equivalence; not re-run here
  assumed,    // no public bit-level description: one plausible model, never the only ground of a verdict
};
constexpr std::string_view to_string(Standing s) {
  return s == Standing::silicon     ? "silicon"
         : s == Standing::vectors   ? "vectors"
         : s == Standing::published ? "published"
                                    : "assumed";
}

struct MatrixUnit {
  std::string_view name;  // the token in a contract
  Combine combine;
  int fraction_bits;        // F
  int group;                // g: products fused in one block
  std::string_view inputs;  // accepted scalar formats, space separated, the default first
  std::string_view out;     // f32 | f16 | e8m13 | i32: the accumulator and result
  Rounding rounding;        // of the one rounding into `out`
  std::string_view scales;  // formats of block scales, space separated; "" when the unit takes none
  int scale_block;          // elements that share a scale; 0 when none
  Standing standing;
  std::string_view source;
  int least_exponent = -126;  // of M; -126 where nothing is known
};

std::span<const MatrixUnit> matrix_units();
const MatrixUnit& matrix_unit(std::string_view name);  // throws InputError unknown_name, listing the units
const MatrixUnit* find_matrix_unit(std::string_view name);  // nullptr when unknown
Precision out_precision(const MatrixUnit& unit);            // i32: {32, 0, 30}
// Of the register that c comes in: an e8m13 unit reads an f32 and cuts it as it cuts products.
Precision accumulator_precision(const MatrixUnit& unit);
bool accepts(const MatrixUnit& unit, std::string_view input_format);

// n numbers that are exactly representable in `format` (a member of unit.inputs), k ascending, and, for a
// scaled unit, ceil(n / scale_block) decoded scales. Values, not codes: every format of 19 bits or fewer is
// exact in f32.
struct Operand {
  std::span<const float> values;
  std::string_view format;  // "" means the unit's first input format
  std::span<const float> scales = {};
};

// THE definition: c + sum a_k b_k as the unit forms it, blocks of g in ascending k chained through c, a last
// short block padded with zero products. c must be representable in accumulator_precision, the result is in
// unit.out. O(n), plain integers. Throws InputError: shape_mismatch (lengths differ, scales missing),
// bad_value (format the unit does not take).
double fused_dot(const MatrixUnit& unit, const Operand& a, const Operand& b, double c);

// Two-level accumulation: the unit sums `promote` blocks of g from zero, each partial result is added to an
// f32 accumulator with one nearest-even rounding, the accumulator starts at c. promote = 0: never, the unit
// chains all.
double promoted_dot(const MatrixUnit& unit, const Operand& a, const Operand& b, double c, int promote);

}  // namespace assay
