// Device side of quantize, dequantize, requantize and kv_write, written once for every way to convert codes
// (formats.cuh).
#pragma once

#include "backends/gpu/formats.cuh"
#include "backends/gpu/kernels.hpp"
#include "backends/gpu/rows.cuh"

namespace assay_gpu {

// Rows of `from` become rows of `to`: row r, or with slots (int32, one per token of `heads` rows) row
// slots[token] * heads + head.
struct QuantizeArgs {
  Planes from, to;
  View slots;  // no data: the same row
  std::int64_t heads;
};

__device__ inline std::int64_t target_row(const QuantizeArgs& a, std::int64_t row) {
  return a.slots.data == nullptr ? row : load_int32(a.slots, row / a.heads) * a.heads + row % a.heads;
}

// One thread per unit of the target format.
template <class Codes>
__device__ void quantize_units(const QuantizeArgs& a) {
  const int unit = a.to.format.unit;
  const std::int64_t units = a.to.length / unit;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= a.from.rows * units) return;
  const std::int64_t row = at / units;
  const std::int64_t first = at % units * unit;
  float x[32];
  for (int i = 0; i < unit; ++i) x[i] = decode<Codes>(a.from, row, first + i);
  encode_unit<Codes>(a.to, target_row(a, row), first, x);
}

template <class Codes>
__device__ void dequantize_elements(const Planes& from, const RowTensor& to) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= from.rows * from.length) return;
  const std::int64_t row = at / from.length;
  const std::int64_t column = at % from.length;
  const float value = decode<Codes>(from, row, column);
  unsigned char* y = to.view.data + row_offset(to.view, row);
  if (to.dtype == Element::f32) {
    reinterpret_cast<float*>(y)[column] = value;
  } else {
    reinterpret_cast<std::uint16_t*>(y)[column] = static_cast<std::uint16_t>(Codes::encode(to.dtype, value));
  }
}

// The kernels that convert codes, of one kind.
struct Conversions {
  void (*quantize)(Run& run, const QuantizeArgs& args);
  void (*dequantize)(Run& run, const Planes& from, const RowTensor& to);
};
// Ops by a kind's kernels; the kinds' own files instantiate them.
void run_quantize(Run& run, const Conversions& kind);
void run_dequantize(Run& run, const Conversions& kind);
void run_requantize(Run& run, const Conversions& kind);
void run_kv_write(Run& run, const Conversions& kind);
std::string quantiser_contract(const Call& call, const DeviceInfo& device);
std::string dequantize_contract(const Call& call, const DeviceInfo& device);

inline unsigned blocks_of(std::int64_t threads) {
  return static_cast<unsigned>((threads + kRowThreads - 1) / kRowThreads);
}

}  // namespace assay_gpu
