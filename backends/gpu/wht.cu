// Per group of `points` elements
//   y = H D x / sqrt(points);    inverse: y = D H x / sqrt(points)
// D holds the signs: bit j of the packed words set means -1. Butterflies in f32 from neighbours outward, one
// multiplication by 1 / sqrt(points) at the end.
//   wht_warp   up to 256 points: a group (below 32 points several) in the registers of a warp, pairs by
//              shuffles
//   wht_block  any number: a group per block, in shared memory, or in device memory where it does not fit
#include <cmath>

#include "backends/gpu/formats.hpp"
#include "backends/gpu/gpu_runtime.hpp"
#include "backends/gpu/ops.hpp"
#include "backends/gpu/rows.cuh"

namespace assay_gpu {
namespace {

constexpr int kWarpPoints = 256;

struct WhtArgs {
  RowTensor x, y;
  View signs;  // no data: none
  std::int64_t cols, groups;
  int points;
  float factor;
  bool inverse;
};

__device__ bool negated(const WhtArgs& a, int j) {
  return a.signs.data != nullptr &&
         (static_cast<std::uint32_t>(load_int32(a.signs, j / 32)) >> (j % 32) & 1U) != 0;
}

// Element j of a lane's group is in register j / 32 of lane j % 32.
__global__ void wht_warp(const GPU_GRID_CONSTANT WhtArgs a) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int width = a.points < kWarp ? a.points : kWarp;  // lanes of a group
  const int registers = a.points < kWarp ? 1 : a.points / kWarp;
  const std::int64_t warp =
      static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const std::int64_t group = warp * (kWarp / width) + lane / width;
  const bool there = group < a.groups;
  const std::int64_t first = (there ? group : 0) * a.points;
  const unsigned char* x = a.x.view.data + row_offset(a.x.view, first / a.cols);
  unsigned char* y = a.y.view.data + row_offset(a.y.view, first / a.cols);
  const std::int64_t column = first % a.cols;
  float r[kWarpPoints / kWarp];
#pragma unroll
  for (int i = 0; i < kWarpPoints / kWarp; ++i) {
    if (i >= registers) break;
    const int j = i * kWarp + lane % width;
    r[i] = load_value(a.x.dtype, x, column + j);
    if (!a.inverse && negated(a, j)) r[i] = -r[i];
  }
#pragma unroll
  for (int i = 0; i < kWarpPoints / kWarp; ++i) {
    if (i >= registers) break;
    for (int half = 1; half < width; half *= 2) {
      const float other = shuffle_xor(r[i], half);
      r[i] = (lane & half) == 0 ? r[i] + other : other - r[i];
    }
  }
#pragma unroll
  for (int half = 1; half < kWarpPoints / kWarp; half *= 2) {
    if (half >= registers) break;
#pragma unroll
    for (int i = 0; i < kWarpPoints / kWarp; ++i) {
      if (i >= registers || (i & half) != 0) continue;
      const float low = r[i];
      const float high = r[i | half];
      r[i] = low + high;
      r[i | half] = low - high;
    }
  }
#pragma unroll
  for (int i = 0; i < kWarpPoints / kWarp; ++i) {
    if (i >= registers || !there) break;
    const int j = i * kWarp + lane % width;
    const float value = r[i] * a.factor;
    store_value(a.y.dtype, y, column + j, a.inverse && negated(a, j) ? -value : value);
  }
}

// workspace: points floats per block in device memory, or nullptr for shared memory.
__global__ void wht_block(const GPU_GRID_CONSTANT WhtArgs a, float* workspace) {
  extern __shared__ float shared[];
  float* work = workspace == nullptr ? shared : workspace + static_cast<std::int64_t>(blockIdx.x) * a.points;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * a.points;
  const unsigned char* x = a.x.view.data + row_offset(a.x.view, first / a.cols);
  unsigned char* y = a.y.view.data + row_offset(a.y.view, first / a.cols);
  const std::int64_t column = first % a.cols;
  for (int j = static_cast<int>(threadIdx.x); j < a.points; j += kRowThreads) {
    const float value = load_value(a.x.dtype, x, column + j);
    work[j] = !a.inverse && negated(a, j) ? -value : value;
  }
  __syncthreads();
  for (int half = 1; half < a.points; half *= 2) {
    for (int pair = static_cast<int>(threadIdx.x); pair < a.points / 2; pair += kRowThreads) {
      const int j = pair / half * 2 * half + pair % half;
      const float low = work[j];
      const float high = work[j + half];
      work[j] = low + high;
      work[j + half] = low - high;
    }
    __syncthreads();
  }
  for (int j = static_cast<int>(threadIdx.x); j < a.points; j += kRowThreads) {
    const float value = work[j] * a.factor;
    store_value(a.y.dtype, y, column + j, a.inverse && negated(a, j) ? -value : value);
  }
}

WhtArgs wht_args(const Run& run) {
  const std::string_view dtype = run.call.text("dtype");
  const Element element = format_row(dtype).format.element;
  const Planes x = run.memory.input_planes("x", dtype);
  const int points = static_cast<int>(run.call.integer("points"));
  return {{x.payload, element},
          {run.memory.output("y"), element},
          run.call.text("signs") != "none" ? run.memory.input("signs") : View(),
          x.length,
          x.rows * x.length / points,
          points,
          static_cast<float>(1.0 / std::sqrt(static_cast<double>(points))),
          run.call.yes("inverse")};
}

}  // namespace

void wht_check(const Call& call, const DeviceInfo&) {
  const std::int64_t points = call.integer("points");
  if (points < 1 || (points & (points - 1)) != 0 || call.integer("cols") % points != 0)
    throw Unsupported("points must be a power of two that divides cols");
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  check_writable(call, "y", call.text("dtype"));
  if (call.text("signs") != "none") call.input("signs");
}
void wht_warp_check(const Call& call, const DeviceInfo& device) {
  wht_check(call, device);
  if (call.integer("points") > kWarpPoints)
    throw Unsupported("the warp kernel takes at most " + std::to_string(kWarpPoints) + " points");
}
bool wht_warp_chosen(const Call& call) { return call.integer("points") <= kWarpPoints; }

std::string_view wht_warp_name(const Call&) { return "wht_warp"; }
std::string_view wht_block_name(const Call&) { return "wht_block"; }
std::string wht_warp_contract(const Call&, const DeviceInfo&) { return "acc=f32 order=tree scale=once"; }
std::string wht_block_contract(const Call& call, const DeviceInfo& device) {
  return wht_warp_contract(call, device);
}

void wht_warp_run(Run& run) {
  const WhtArgs args = wht_args(run);
  const std::int64_t groups_of_warp = args.points < kWarp ? kWarp / args.points : 1;
  const std::int64_t warps = (args.groups + groups_of_warp - 1) / groups_of_warp;
  constexpr std::int64_t kWarps = kRowThreads / kWarp;
  wht_warp<<<static_cast<unsigned>((warps + kWarps - 1) / kWarps), kRowThreads>>>(args);
  run.launched("wht_warp");
}

void wht_block_run(Run& run) {
  const WhtArgs args = wht_args(run);
  const std::size_t bytes = static_cast<std::size_t>(args.points) * sizeof(float);
  const bool fits = bytes <= std::size_t{48} << 10;
  float* workspace = fits ? nullptr : run.memory.temporary_array<float>(args.groups * args.points);
  wht_block<<<static_cast<unsigned>(args.groups), kRowThreads, fits ? bytes : 0>>>(args, workspace);
  run.launched("wht_block");
}

}  // namespace assay_gpu
