// The inner loops that every op is built from, once per instruction set. Each op is written once against this
// table; the table is what a variant ("scalar", "avx2", "avx3") selects. All sums are f32; their order is the
// target's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace assay_cpu {

struct Engine {
  const char* name;  // "scalar", "avx3": the variant, and the trace's note "target"
  bool fma;          // products and sums fuse into one rounding
  // Terms i and i + lanes are added by one accumulator, and the accumulators as a tree: order=lanes:N of a
  // contract.
  int sum_lanes;  // of sum and sum_squares
  int exp_lanes;  // of exp_shift
  int exp_ulp;    // |exp_shift's exp - e^x| <= exp_ulp ulp of the result; measured on every f32 in [-104, 0]

  std::size_t
      dot_lanes;  // partial sums of dot and dot_rows, each over every so manieth product, then added as a tree

  float (*dot)(const float* a, const float* b, std::size_t n);
  // scores[j] = a . rows[j * stride .. + n)
  void (*dot_rows)(const float* a, const float* rows, std::size_t stride, std::size_t count, std::size_t n,
                   float* scores);
  // y[i] += sum_j weights[j] * rows[j * stride + i]
  void (*add_rows)(const float* weights, const float* rows, std::size_t stride, std::size_t count,
                   std::size_t n, float* y);
  void (*scale)(float factor, float* y, std::size_t n);  // y *= factor
  float (*max)(const float* x, std::size_t n);           // -inf when n == 0; a NaN may or may not show
  float (*sum)(const float* x, std::size_t n);
  float (*sum_squares)(const float* x, float shift, std::size_t n);  // sum (x - shift)^2
  float (*exp_shift)(const float* x, float shift, float* y,
                     std::size_t n);  // y = exp(x - shift); returns sum y
  std::int32_t (*dot_int8)(const std::int8_t* a, const std::int8_t* b, std::size_t n);

  void (*from_f16)(const void* codes, float* y, std::size_t n);
  void (*from_bf16)(const void* codes, float* y, std::size_t n);
  void (*from_e4m3fn)(const void* codes, float* y, std::size_t n);
  void (*from_e4m3fnuz)(const void* codes, float* y, std::size_t n);
  void (*from_e5m2)(const void* codes, float* y, std::size_t n);
  void (*from_int8)(const void* codes, float* y, std::size_t n);
  void (*to_f16)(const float* x, void* codes, std::size_t n);   // nearest even, overflow to Inf
  void (*to_bf16)(const float* x, void* codes, std::size_t n);  // nearest even, overflow to Inf
};

extern const Engine kScalarEngine;
// Compiled in and supported by this machine, best first; never empty of SIMD on x86-64.
std::span<const Engine* const> simd_engines();
const Engine* find_engine(std::string_view name);  // nullptr when unknown or not supported here
const Engine& best_engine();

}  // namespace assay_cpu
