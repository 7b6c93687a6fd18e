// What the engine of the scenarios computes with: a backend's own ops through the worker, or plain loops.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay::scenarios {

enum class Variance : std::uint8_t { one_pass, one_pass_clamped, welford, two_pass };
inline constexpr std::string_view kVarianceNames[] = {"one_pass", "one_pass_clamped", "welford", "two_pass"};

// How a write of K or V finds its scales: an op kv_write policy, and the range that it looks back to.
struct WriteScale {
  std::string format;         // e4m3fn_tensor, e4m3fn_tok, e4m3fn_head; f32: not quantised
  std::string policy;         // locked, calibrated, token, fixed
  double constant = 200;      // policy locked
  std::vector<float> absmax;  // locked, calibrated: of the whole [1], or per head [heads]
};
struct Written {
  std::vector<std::uint8_t> codes;  // [tokens, heads, d] e4m3fn
  std::vector<float> scale;         // [1], [tokens] or [heads] by the format
};

// One side (K or V) of one layer's paged cache, [slots, heads, d].
struct KvView {
  std::string format;
  std::span<const std::uint8_t> codes;  // e4m3fn_*
  std::span<const float> raw;           // f32
  std::span<const float> scale;
};
struct AttentionCall {
  int q, length, heads, d, page, pages;
  std::span<const float> queries;       // [q, heads, d]
  KvView k, v;                          // [pages, page, heads, d]
  std::span<const std::int32_t> table;  // [ceil(length / page)]
};

// All tensors f32, row-major.
class Arithmetic {
 public:
  virtual ~Arithmetic() = default;
  // y = (x - mean) / sqrt(variance + eps) per row.
  virtual void layernorm(std::span<const float> x, int rows, int cols, float eps, std::span<float> y) = 0;
  virtual void rmsnorm(std::span<const float> x, int rows, int cols, float eps, std::span<float> y) = 0;
  // y[m,n] = a[m,k] b[n,k]^T
  virtual void matmul(std::span<const float> a, std::span<const float> b, int m, int n, int k,
                      std::span<float> y) = 0;
  virtual Written kv_write(std::span<const float> x, int tokens, int heads, int d,
                           const WriteScale& scale) = 0;
  // Causal, bottom-right aligned.
  virtual void attention(const AttentionCall& call, std::span<float> out) = 0;
  virtual void argmax(std::span<const float> x, int rows, int cols, bool checked,
                      std::span<std::int32_t> y) = 0;
  virtual std::string description() const = 0;
};

// In this process, in f32 and memory order; the variance forms are those of reference/ops/variance.hpp.
std::unique_ptr<Arithmetic> host_arithmetic(Variance variance);
// The same stages in f64, each rounded once to f32; two-pass variance; NaN only from NaN.
std::unique_ptr<Arithmetic> reference_arithmetic();

}  // namespace assay::scenarios
