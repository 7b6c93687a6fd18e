// Many fused dots at once: C[m,n] <- unit's C[m,n] + A[m,k] B[n,k]^T, bit for bit what fused_dot defines,
// vectorised over the outputs of a row (Highway, chosen at run time).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "reference/arithmetic/matrix_unit.hpp"

namespace assay {

// Rows [rows, k] of an operand, prepared once and usable in any number of products: values, the power of two
// of each element's non-normalised exponent, and which rows hold a NaN or an infinity.
class PackedOperand {
 public:
  enum class Side : std::uint8_t { a, b };
  // values: row-major, leading dimension `stride` (>= k), exactly representable in `format` ("" = the unit's
  // first). scales: [rows, ceil(k / unit.scale_block)] decoded, empty for units without scales. Throws
  // InputError as fused_dot does.
  PackedOperand(const MatrixUnit& unit, Side side, std::string_view format, const float* values,
                std::int64_t rows, std::int64_t k, std::int64_t stride, std::span<const float> scales = {});
  PackedOperand(PackedOperand&&) noexcept;
  PackedOperand& operator=(PackedOperand&&) noexcept;
  ~PackedOperand();
  std::int64_t rows() const;
  std::int64_t depth() const;

  struct Data;
  const Data& data() const { return *data_; }

 private:
  std::unique_ptr<Data> data_;
};

struct GemmOptions {
  // Blocks of g between promotions to an f32 accumulator (nearest-even add); 0: the unit chains all.
  int promote = 0;
};

// c: row-major [a.rows, b.rows], leading dimension ldc; in: the accumulator (of accumulator_precision), out:
// the result, representable in unit.out (f32 with promotion). Units with i32 results take and give exact i32
// values through int8_gemm instead (bad_value here). Throws shape_mismatch when depths or units differ.
void fused_gemm(const MatrixUnit& unit, const PackedOperand& a, const PackedOperand& b, float* c,
                std::int64_t ldc, const GemmOptions& options = {});
// The same, only k in [k_begin, k_end) of both operands; k_begin a multiple of g: a kernel's K chunk.
void fused_gemm_range(const MatrixUnit& unit, const PackedOperand& a, const PackedOperand& b,
                      std::int64_t k_begin, std::int64_t k_end, float* c, std::int64_t ldc,
                      const GemmOptions& options = {});
// From plain row-major arrays (lda = ldb = k): packs and multiplies.
void fused_gemm(const MatrixUnit& unit, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                std::string_view a_format, const float* b, std::string_view b_format, float* c,
                std::int64_t ldc, const GemmOptions& options = {});

// c[m,n] += a[m,k] b[n,k]^T in int32 that wraps: IMMA, dp4a, int8 MFMA.
void int8_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const std::int8_t* a, const std::int8_t* b,
               std::int32_t* c, std::int64_t ldc);

}  // namespace assay
