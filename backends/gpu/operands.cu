#include "backends/gpu/operands.hpp"

#include "backends/gpu/formats.cuh"
#include "backends/gpu/formats.hpp"
#include "backends/gpu/rows.cuh"

namespace assay_gpu {
namespace {

constexpr int kPadding = 128;

// What becomes of a decoded element.
enum class Step : std::uint8_t {
  keep,    // the f32 value
  round,   // to `target`
  code,    // the stored code
  divide,  // by the row's scale, then to `target`; int8 held to +-127
  q8       // blocks of 32: round(x / d) times d as f16, d = absmax / 127
};

struct PrepareArgs {
  Planes tensor;
  const int* rows;        // nullptr: all
  const float* divisors;  // of Step::divide
  void* out;
  float* scales;  // of Step::code; nullptr: none
  std::int64_t row_count, padded;
  Step step;
  Stored stored;
  Element target;
};

__device__ std::int64_t source_row(const int* rows, std::int64_t row) {
  return rows == nullptr ? row : rows[row];
}

// One warp per 32 neighbours of a row; padded is a multiple of 32.
__global__ void prepare_operand(const GPU_GRID_CONSTANT PrepareArgs a) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= a.row_count * a.padded) return;
  const std::int64_t row = at / a.padded;
  const std::int64_t column = at % a.padded;
  const std::int64_t from = source_row(a.rows, row);
  const bool inside = column < a.tensor.length;
  std::uint32_t code = 0;
  float value = 0;
  if (a.step == Step::code) {
    const Element element = a.tensor.format.element;
    if (inside) code = load_code(a.tensor, from, column);
    value = inside ? decode_element(element, code) : 0.0F;
    if (inside && element == Element::int4)
      code = static_cast<std::uint32_t>(static_cast<int>(code ^ 8U) - 8);
    if (column == 0 && a.scales != nullptr)
      a.scales[row] = a.tensor.format.scaling == Scaling::none ? 1.0F : scaled_value(a.tensor, from, 0, 1.0F);
  } else {
    if (inside) value = decode(a.tensor, from, column);
    if (a.step == Step::divide) value /= a.divisors[row];
    if (a.step == Step::divide || a.step == Step::round) {
      code = a.target == Element::int8 ? static_cast<std::uint32_t>(round_to_integer(value, -127, 127))
                                       : encode_element(a.target, value);
      value = decode_element(a.target, code);
    }
    if (a.step == Step::q8) {
      const float d = warp_reduce(magnitude(value), Max()) / 127.0F;
      const float reciprocal = d == 0 ? 0.0F : 1.0F / d;
      const float nearest = rintf(value * reciprocal);
      value = nearest * decode_element(Element::f16, encode_element(Element::f16, d));
    }
  }
  switch (a.stored) {
    case Stored::f32:
      static_cast<float*>(a.out)[at] = value;
      break;
    case Stored::half:
      static_cast<std::uint16_t*>(a.out)[at] = static_cast<std::uint16_t>(code);
      break;
    case Stored::byte:
      static_cast<std::uint8_t*>(a.out)[at] = static_cast<std::uint8_t>(code);
      break;
  }
}

// scale[r] = absmax of the finite elements of row r / divisor, 1 for 0. A block per row.
__global__ void operand_row_scales(const GPU_GRID_CONSTANT Planes tensor, const int* rows, float divisor,
                                   float* scales) {
  __shared__ float slots[kRowThreads / kWarp];
  const std::int64_t row = source_row(rows, blockIdx.x);
  float absmax = 0;
  for (std::int64_t i = threadIdx.x; i < tensor.length; i += kRowThreads) {
    const float value = decode(tensor, row, i);
    if (is_finite(value)) absmax = Max()(absmax, magnitude(value));
  }
  absmax = block_reduce(absmax, Max(), slots);
  if (threadIdx.x == 0) scales[blockIdx.x] = absmax == 0 ? 1.0F : absmax / divisor;
}

// The same of the whole tensor, once per row. One block.
__global__ void operand_tensor_scale(float* scales, int count, const GPU_GRID_CONSTANT Planes tensor,
                                     float divisor) {
  __shared__ float slots[kRowThreads / kWarp];
  float absmax = 0;
  for (std::int64_t i = threadIdx.x; i < tensor.rows * tensor.length; i += kRowThreads) {
    const float value = decode(tensor, i / tensor.length, i % tensor.length);
    if (is_finite(value)) absmax = Max()(absmax, magnitude(value));
  }
  absmax = block_reduce(absmax, Max(), slots);
  const float scale = absmax == 0 ? 1.0F : absmax / divisor;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kRowThreads) scales[i] = scale;
}

__global__ void apply_scales(float* out, std::int64_t m, std::int64_t n, const float* a, const float* b) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= m * n) return;
  float value = out[at];
  if (a != nullptr) value *= a[at / n];
  if (b != nullptr) value *= b[at % n];
  out[at] = value;
}

unsigned blocks_of(std::int64_t threads) {
  return static_cast<unsigned>((threads + kRowThreads - 1) / kRowThreads);
}

std::size_t bytes_of(Stored stored) { return stored == Stored::f32 ? 4 : stored == Stored::half ? 2 : 1; }

Element rounded_to(Path path) {
  return path == Path::f16 ? Element::f16 : path == Path::bf16 ? Element::bf16 : Element::e4m3fn;
}

Prepared prepare_by(Run& run, const GemmKernel& kernel, PrepareArgs args) {
  Prepared prepared;
  prepared.rows = static_cast<int>(args.row_count);
  prepared.padded = static_cast<int>((args.tensor.length + kPadding - 1) / kPadding * kPadding);
  const std::int64_t count = args.row_count * prepared.padded;
  prepared.data = run.memory.temporary(static_cast<std::size_t>(count) * bytes_of(kernel.stored));
  prepared.scales = args.step == Step::code ? args.scales : const_cast<float*>(args.divisors);
  args.out = prepared.data;
  args.padded = prepared.padded;
  args.stored = kernel.stored;
  prepare_operand<<<blocks_of(count), kRowThreads>>>(args);
  run.launched("prepare_operand");
  return prepared;
}

}  // namespace

Prepared prepare(Run& run, const GemmKernel& kernel, const Product& product, Side side, const Planes& tensor,
                 const int* rows, int row_count) {
  PrepareArgs args{tensor,    rows, nullptr,    nullptr,       nullptr,
                   row_count, 0,    Step::keep, kernel.stored, rounded_to(product.path)};
  switch (product.path) {
    case Path::f32:
      break;
    case Path::f16:
    case Path::bf16:
      args.step = Step::round;
      break;
    case Path::codes:
      args.step = Step::code;
      args.scales = run.memory.temporary_array<float>(row_count);
      break;
    case Path::e4m3fn:
      args.step = side == Side::weights ? Step::round : Step::divide;
      if (side == Side::activations) {
        float* scales = run.memory.temporary_array<float>(row_count);
        operand_tensor_scale<<<1, kRowThreads>>>(scales, row_count, tensor, 448.0F);
        run.launched("operand_tensor_scale");
        args.divisors = scales;
      }
      break;
    case Path::q8:
      args.step = side == Side::weights ? Step::keep : Step::q8;
      break;
  }
  return prepare_by(run, kernel, args);
}

Prepared prepare_hidden(Run& run, const GemmKernel& kernel, const Product& product, const float* h, int rows,
                        std::int64_t length) {
  Planes tensor;
  tensor.format = format_row("f32").format;
  tensor.payload.data = reinterpret_cast<unsigned char*>(const_cast<float*>(h));
  tensor.payload.rank = 2;
  tensor.payload.shape[0] = tensor.rows = rows;
  tensor.payload.shape[1] = tensor.length = length;
  tensor.payload.stride[0] = length * 4;
  tensor.payload.stride[1] = 4;
  if (product.path != Path::codes)
    return prepare(run, kernel, product, Side::activations, tensor, nullptr, rows);
  const Format& format = format_row(product.a).format;
  const float divisor = format.divisor;
  float* scales = run.memory.temporary_array<float>(rows);
  operand_row_scales<<<static_cast<unsigned>(rows), kRowThreads>>>(tensor, nullptr, divisor, scales);
  run.launched("operand_row_scales");
  const Element target = format.element == Element::int4 ? Element::int8 : format.element;
  return prepare_by(
      run, kernel, {tensor, nullptr, scales, nullptr, nullptr, rows, 0, Step::divide, kernel.stored, target});
}

float* multiply(Run& run, const GemmKernel& kernel, const Prepared& a, const Prepared& b, int first,
                int count) {
  float* out = run.memory.temporary_array<float>(static_cast<std::int64_t>(a.rows) * count);
  const std::size_t row_bytes = static_cast<std::size_t>(b.padded) * bytes_of(kernel.stored);
  const void* weights =
      static_cast<const unsigned char*>(b.data) + static_cast<std::size_t>(first) * row_bytes;
  kernel.launch(run, {a.data, weights, out, a.rows, count, a.padded});
  run.launched(kernel.name.data());
  if (a.scales != nullptr || b.scales != nullptr) {
    const std::int64_t elements = static_cast<std::int64_t>(a.rows) * count;
    apply_scales<<<blocks_of(elements), kRowThreads>>>(out, a.rows, count, a.scales,
                                                       b.scales == nullptr ? nullptr : b.scales + first);
    run.launched("apply_scales");
  }
  return out;
}

}  // namespace assay_gpu
