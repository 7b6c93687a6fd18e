// Matrix units: how hardware forms C + sum a_k b_k. One row of data per unit, and one scalar model that
// defines every row (fused_dot); fused_gemm.hpp computes the same bits many at a time.
//
// The common model is `truncate` of kCombineMeanings: a subnormal operand keeps its format's emin, a
// non-zero c that of its register, zeros have no exponent, a product's significand is in [0, 4). The cut
// terms add exactly, so that their order cannot matter. Blocks of g chain through c. The other rows of the
// table depart from that.
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
  truncate,
  truncate_scaled,
  group_scaled,
  unpack_split,
  exact,
  pairwise_flush,
  floor,
  floor_halves,
  wrap,
};

struct CombineMeaning {
  Combine combine;
  std::string_view name, meaning;
};
inline constexpr CombineMeaning kCombineMeanings[] = {
    {Combine::truncate, "truncate",
     "M is the largest exponent of the g products and of c that are not 0, not normalised (a product's is "
     "e_a "
     "+ e_b), but at least `least`; each term is cut toward zero to a multiple of 2^(M - F), the cut terms "
     "add exactly, and "
     "their sum is rounded once"},
    {Combine::truncate_scaled, "truncate_scaled",
     "as `truncate`, the exponents of one e8m0 scale per operand and block added to each product's"},
    {Combine::group_scaled, "group_scaled",
     "each 16 products sum exactly; that sum times both scales' significands, at the scales' exponents, is "
     "one "
     "term; four of those terms and c go through `truncate`"},
    {Combine::unpack_split, "unpack_split",
     "unpacked to f16: `truncate` with F = 25 over k mod 4 in {0, 1} of a k32 block from c = 0, chained into "
     "the "
     "same over {2, 3} (toward zero into f32, to nearest into f16); then one separate nearest-even addition "
     "of c"},
    {Combine::exact, "exact", "the exact sum of g products and c, rounded once"},
    {Combine::pairwise_flush, "pairwise_flush",
     "products and sums are f32 operations to nearest; inputs that are subnormal in their own format become "
     "zero, and results that are subnormal in f32; (p0 + p1) + (p2 + p3) of four, p0 + p1 of two, then c + "
     "that"},
    {Combine::floor, "floor",
     "products are cut at M_p - F, M_p their largest exponent; their sum is floored toward -Inf at E - 31 "
     "and c "
     "floored at E - F, E the larger of both exponents; a product of 2^128 or more is Inf"},
    {Combine::floor_halves, "floor_halves",
     "even k and odd k each cut at their own M - F, the halves floored at the larger M - F and added, then "
     "combined with c as in `floor`; c is dropped below E - F - 1"},
    {Combine::wrap, "wrap", "exact, modulo 2^32"},
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
