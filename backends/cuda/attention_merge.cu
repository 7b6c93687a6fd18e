// Merges the partial results of parts of the keys; the last kernel of every split attention.
#include "backends/cuda/attention_vector.cuh"

namespace assay_gpu {
namespace {

constexpr int kThreads = 512;

GPU_BOTH int merge_groups(int dv) {
  const int wide = (dv + kWarp - 1) / kWarp * kWarp;
  return wide < kThreads ? kThreads / wide : 1;
}

}  // namespace

// A block per row of out: largest top, then sum and output weighed by 2^(top - largest). Groups of dv threads (whole warps)
// take every n-th part.
__global__ void __launch_bounds__(kThreads)
    attention_merge(const GPU_GRID_CONSTANT AttentionArgs a, const Partials partials, const View v_scale) {
  extern __shared__ float shared[];  // [groups][dv], then the weights of the parts; -1: saw nothing, its output is not read
  __shared__ float slots[kThreads / kWarp];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t r = blockIdx.x;
  const int b = static_cast<int>(r / (static_cast<std::int64_t>(a.q) * a.heads));
  const Row row{static_cast<int>(r / a.heads % a.q), static_cast<int>(r % a.heads)};
  const float* tops = partials.tops + r * partials.parts;
  const float* sums = partials.sums + r * partials.parts;
  const float* outputs = partials.outputs + r * partials.parts * a.dv;
  const int groups = merge_groups(a.dv);
  float* weights = shared + groups * a.dv;

  float top = minus_infinity();
  for (int p = thread; p < partials.parts; p += kThreads) top = fmaxf(top, tops[p]);
  top = block_reduce(top, Max{}, slots);
  const float shift = top == minus_infinity() ? 0.0F : top;
  float sum = 0;
  for (int p = thread; p < partials.parts; p += kThreads) {
    weights[p] = sums[p] == 0 ? -1.0F : exp2f(tops[p] - shift);
    if (sums[p] != 0) sum += weights[p] * sums[p];
  }
  sum = block_reduce(sum, Sum{}, slots);  // its barriers also publish the weights
  const float factor = add_sink(a, row.h, top, sum);

  const int wide = (a.dv + kWarp - 1) / kWarp * kWarp;
  const int group = groups == 1 ? 0 : thread / wide;
  for (int c = groups == 1 ? thread : thread % wide; c < a.dv && group < groups; c += groups == 1 ? kThreads : wide) {
    float total = 0;
#pragma unroll 8
    for (int p = group; p < partials.parts; p += groups) {
      if (!(weights[p] < 0)) total = fmaf(weights[p], outputs[static_cast<std::int64_t>(p) * a.dv + c], total);
    }
    shared[group * a.dv + c] = total;
  }
  __syncthreads();
  for (int c = thread; c < a.dv; c += kThreads) {
    float total = 0;
    for (int g = 0; g < groups; ++g) total += shared[g * a.dv + c];
    shared[c] = total * factor;
  }
  __syncthreads();
  float scale = 1.0F;
  if (v_scale.data != nullptr) scale = vector_f32(v_scale, v_scale.shape[0] > 1 ? row.h / a.group : 0);
  store_row(a, b, row, shared, sum, scale, thread / kWarp, kThreads / kWarp, thread % kWarp);
}

void launch_merge(const AttentionArgs& args, const Partials& partials, const View& v_scale) {
  const std::int64_t rows = static_cast<std::int64_t>(args.batch) * args.q * args.heads;
  const int floats = merge_groups(args.dv) * args.dv + partials.parts;
  attention_merge<<<static_cast<unsigned>(rows), kThreads, static_cast<std::size_t>(floats) * sizeof(float)>>>(args, partials,
                                                                                                              v_scale);
}

void merge_partials(Run& run, const AttentionArgs& args, const Partials& partials, const View& v_scale) {
  launch_merge(args, partials, v_scale);
  run.launched("attention_merge");
}

}  // namespace assay_gpu
