// The GPU side of assay-silicon, free of everything else of the project: it knows instructions and bit codes.
//
// A tile is D[64][64] = C[64][64] + A[64][k] B[64][k]^T formed by one matrix instruction repeated along k:
// `steps` times 32 bytes of each row (16 f16 or bf16, 8 tf32 in 32-bit words, 32 FP8), C and D chaining
// through the accumulator registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace assay::silicon {

inline constexpr int kTileSide = 64;
inline constexpr int kStepBytes = 32;  // of one row, consumed by one instruction

// mma_*: mma.sync.m16n8; wgmma_*: wgmma.mma_async.m64n64, both operands from shared memory. Operand formats,
// then "f16out" where accumulator and result are f16 instead of f32.
enum class Opcode : int {
  mma_f16,
  mma_f16_f16out,
  mma_bf16,
  mma_tf32,
  mma_e4m3_e4m3,
  mma_e4m3_e5m2,
  mma_e5m2_e4m3,
  mma_e5m2_e5m2,
  mma_e4m3_e4m3_f16out,
  mma_e4m3_e5m2_f16out,
  mma_e5m2_e4m3_f16out,
  mma_e5m2_e5m2_f16out,
  wgmma_f16,
  wgmma_f16_f16out,
  wgmma_bf16,
  wgmma_tf32,
  wgmma_e4m3_e4m3,
  wgmma_e4m3_e5m2,
  wgmma_e5m2_e4m3,
  wgmma_e5m2_e5m2,
  wgmma_e4m3_e4m3_f16out,
  wgmma_e4m3_e5m2_f16out,
  wgmma_e5m2_e4m3_f16out,
  wgmma_e5m2_e5m2_f16out,
  // AMD's, by amd_device.cu: one wave's 16 x 16 outputs, as often as a step has operands for it.
  mfma_f16,
  mfma_bf16,
  mfma_fp8_fp8,
  mfma_fp8_bf8,
  mfma_bf8_fp8,
  mfma_bf8_bf8,
  wmma_gfx11_f16,
  wmma_gfx12_f16,
  wmma_gfx12_bf16,
  wmma_gfx12_fp8_fp8,
  wmma_gfx12_fp8_bf8,
  wmma_gfx12_bf8_fp8,
  wmma_gfx12_bf8_bf8,
};
inline constexpr int kOpcodes = 24;  // of Hopper

// Bit codes on the host. a, b: [tiles][64][steps][32] bytes, b the rows of B^T. c, d: [tiles][64][64] of f32
// or f16.
struct Tiles {
  Opcode opcode;
  int tiles;
  int steps;
  int accumulator_bytes;  // 4 or 2
  const void* a;
  const void* b;
  const void* c;
  void* d;
};

// One row of a function table: all inputs x of one sign and binade, 2^e <= |x| < 2^(e+1).
struct UlpRow {
  std::uint64_t inputs = 0;
  // Results that are not the f32 nearest to the exact value, ties counted as either.
  std::uint64_t not_nearest = 0;
  float max_ulp = 0;            // largest |result - exact| / ulp(exact), exact >= 2^-126
  std::uint32_t worst = 0;      // an input that has it
  float max_relative = 0;       // largest |result - exact| / |exact| in units of 2^-23, exact >= 2^-126
  float max_ulp_subnormal = 0;  // the same in units of 2^-149, exact < 2^-126
  std::uint32_t worst_subnormal = 0;
};
enum class Function : int {
  ex2_approx,
  ex2_approx_ftz,
  exp2f,
  expf,
  fast_expf,
  tanh_approx,
  tanhf,
  rcp_approx_ftz,
  rsqrt_approx_ftz,
  sqrt_approx_ftz
};
inline constexpr int kFunctions = 7;  // the first ones: those that the table of errors has rows of

// One stream of the GPU with buffers of its own: one a thread. Every failure is a std::runtime_error with the
// runtime's words.
class Device {
 public:
  // "" when this program can run matrix instructions here, else why it cannot: no nvcc at build time, no
  // driver, no GPU, another compute capability than 9.0.
  static std::string why_not();
  // "NVIDIA H200, compute capability 9.0, driver 13.0 (580.95.05), runtime 13.0".
  static std::string description();
  // What instructions are chosen by: the compute capability "9.0", or "gfx942" and its like.
  static std::string architecture();

  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  void run(const Tiles& tiles);
  // 512 rows: index sign * 256 + biased exponent of the input; exponent 255 (Inf, NaN) stays empty.
  std::vector<UlpRow> ulp_table(Function function);
  // The function's results for chosen inputs, bit patterns.
  std::vector<std::uint32_t> evaluate(Function function, const std::vector<std::uint32_t>& inputs);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace assay::silicon
