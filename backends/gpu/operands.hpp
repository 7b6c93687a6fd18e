// What a product kernel multiplies. Operands are prepared first: decoded, rounded as the path says and laid
// out densely, rows padded with zeros to a multiple of 128 elements; then any product kernel that takes them
// runs.
//   path f32 f16 bf16  rows decoded to f32 and rounded to that format
//   path codes         the codes themselves; the scales, constant along a row, come in the epilogue
//   path e4m3fn        weights rounded to e4m3fn (clamped at 448); activations in e4m3fn with one scale
//                      absmax / 448
//   path q8            activations quantised to blocks of 32 int8 with an f16 scale; weights decoded to f32
#pragma once

#include <string>
#include <string_view>

#include "backends/gpu/kernels.hpp"

namespace assay_gpu {

enum class Path : std::uint8_t { f32, f16, bf16, codes, e4m3fn, q8 };
enum class Side : std::uint8_t { activations, weights };
enum class Stored : std::uint8_t { f32, half, byte };  // of an operand: f32 value, 16-bit code, 8-bit code

// Formats and path of a product. Of matmul: a, b; of moe: a, w.
struct Product {
  Product(std::string_view a, std::string_view b, std::string_view path);  // resolves path=auto
  std::string_view a, b, path_name;
  Path path;
  bool integer() const;  // codes of both sides are int8 or int4
};

// Throws Unsupported when the path cannot take these formats, or k is not in whole blocks of the path.
void check_product(const Product& product, std::int64_t k);

// A kernel that multiplies prepared operands: out[m][n] = sum_k a[m][k] b[n][k].
struct Gemm {
  const void* a;
  const void* b;
  float* out;
  int m, n, k;  // k: padded
};
struct GemmKernel {
  std::string_view name;  // of the device function
  Stored stored;
  bool integer;              // codes are int8, summed in int32
  bool (*takes)(Path path);  // paths whose operands it multiplies
  // Throws Unsupported when the operands' formats or the device are not its own.
  void (*check)(const Product& product, const DeviceInfo& device);
  std::string (*accumulator)(const DeviceInfo& device);  // "acc=f32 order=sequential"
  void (*launch)(Run& run, const Gemm& gemm);
  // The sum over k as a schedule of level=replay, without the scales: "acc:f32/fma:yes"; nullptr: none is
  // known.
  std::string (*schedule)(const DeviceInfo& device) = nullptr;
};
const GemmKernel& gemm_f32();
const GemmKernel& gemm_dp4a();

// Throws Unsupported unless both operands are codes of this element, by whatever scale a row has; on
// path=e4m3fn the preparation makes them.
void check_codes(const Product& product, Element element, std::string_view name);

void check_gemm(const GemmKernel& kernel, const Product& product, std::int64_t k, const DeviceInfo& device);
// acc, dequant_roundings and epilogue_roundings.
std::string product_contract(const GemmKernel& kernel, const Product& product, const DeviceInfo& device);

struct Prepared {
  void* data = nullptr;     // [rows][padded]
  float* scales = nullptr;  // per row; nullptr: none
  int rows = 0, padded = 0;
};
// rows: which rows of the tensor (device memory), nullptr for all.
Prepared prepare(Run& run, const GemmKernel& kernel, const Product& product, Side side, const Planes& tensor,
                 const int* rows, int row_count);
// h[rows][length] of moe, f32, as activations of its second product: on the path of codes quantised per row
// to the format of the activations, else as prepare() does.
Prepared prepare_hidden(Run& run, const GemmKernel& kernel, const Product& product, const float* h, int rows,
                        std::int64_t length);
// out[i][j] of the product with the scales of both sides applied; `first` and `count`: which rows of b. The
// product of no rows launches nothing.
float* multiply(Run& run, const GemmKernel& kernel, const Prepared& a, const Prepared& b, int first,
                int count);

// matmul and moe by a given kernel.
void matmul_check(const GemmKernel& kernel, const Call& call, const DeviceInfo& device);
std::string matmul_contract(const GemmKernel& kernel, const Call& call, const DeviceInfo& device);
void matmul_run(const GemmKernel& kernel, Run& run);
// The same kernel with its schedule declared whole: judged bit by bit.
void matmul_replay_check(const GemmKernel& kernel, const Call& call, const DeviceInfo& device);
std::string matmul_replay_contract(const GemmKernel& kernel, const Call& call, const DeviceInfo& device);
void moe_check(const GemmKernel& kernel, const Call& call, const DeviceInfo& device);
std::string moe_contract(const GemmKernel& kernel, const Call& call, const DeviceInfo& device);
void moe_run(const GemmKernel& kernel, Run& run);
void moe_replay_check(const GemmKernel& kernel, const Call& call, const DeviceInfo& device);
std::string moe_replay_contract(const GemmKernel& kernel, const Call& call, const DeviceInfo& device);

#define ASSAY_REPLAY_ROWS(word, kernel, hidden)                                                           \
  Kernel{"matmul",                                                                                        \
         word,                                                                                            \
         never,                                                                                           \
         [](const Call& call, const DeviceInfo& device) { matmul_replay_check(kernel(), call, device); }, \
         [](const Call&) { return kernel().name; },                                                       \
         [](const Call& call, const DeviceInfo& device) {                                                 \
           return matmul_replay_contract(kernel(), call, device);                                         \
         },                                                                                               \
         [](Run& run) { matmul_run(kernel(), run); },                                                     \
         hidden},                                                                                         \
      Kernel {                                                                                            \
    "moe", word, never,                                                                                   \
        [](const Call& call, const DeviceInfo& device) { moe_replay_check(kernel(), call, device); },     \
        [](const Call&) { return kernel().name; },                                                        \
        [](const Call& call, const DeviceInfo& device) {                                                  \
          return moe_replay_contract(kernel(), call, device);                                             \
        },                                                                                                \
        [](Run& run) { moe_run(kernel(), run); }, hidden                                                  \
  }

// Rows of the list for a GemmKernel `kernel()`: both ops, selected by `word`.
#define ASSAY_GEMM_ROWS(word, kernel, matmul_chosen, moe_chosen)                                             \
  Kernel{"matmul",                                                                                           \
         word,                                                                                               \
         matmul_chosen,                                                                                      \
         [](const Call& call, const DeviceInfo& device) { matmul_check(kernel(), call, device); },           \
         [](const Call&) { return kernel().name; },                                                          \
         [](const Call& call, const DeviceInfo& device) { return matmul_contract(kernel(), call, device); }, \
         [](Run& run) { matmul_run(kernel(), run); }},                                                       \
      Kernel {                                                                                               \
    "moe", word, moe_chosen,                                                                                 \
        [](const Call& call, const DeviceInfo& device) { moe_check(kernel(), call, device); },               \
        [](const Call&) { return kernel().name; },                                                           \
        [](const Call& call, const DeviceInfo& device) { return moe_contract(kernel(), call, device); },     \
        [](Run& run) { moe_run(kernel(), run); }                                                             \
  }

}  // namespace assay_gpu
