// Merges the partial results of parts of the keys; the last kernel of every split attention.
#include "backends/gpu/attention_vector.cuh"

namespace assay_gpu {
namespace {

constexpr int kThreads = kMergeThreads;

// Threads that have a row of dv columns between them, kWide columns each.
template <int kWide>
GPU_BOTH int merge_groups(int dv) {
  return dv / kWide < kThreads ? kThreads / (dv / kWide) : 1;
}

}  // namespace

// A block per row of out: largest top, then sum and output weighed by 2^(top - largest). Groups of dv / kWide
// threads take every n-th part. Every part of every row was written, with zeros where it saw nothing.
template <int kWide>
__global__ void __launch_bounds__(kThreads)
    attention_merge(const GPU_GRID_CONSTANT AttentionArgs a, const Partials partials, const View v_scale) {
  extern __shared__ float shared[];  // [groups][dv], then the weights of the parts
  __shared__ float slots[kThreads / kWarp];
  const int thread = static_cast<int>(threadIdx.x);
  const unsigned r = blockIdx.x, heads = static_cast<unsigned>(a.heads), q = static_cast<unsigned>(a.q);
  const int b = static_cast<int>(r / heads / q);
  const Row row{static_cast<int>(r / heads % q), static_cast<int>(r % heads)};
  const std::int64_t first = static_cast<std::int64_t>(r) * partials.parts;
  const float* outputs = partials.outputs + first * a.dv;
  const int groups = merge_groups<kWide>(a.dv);
  float* weights = shared + groups * a.dv;

  float top = minus_infinity();
  for (int p = thread; p < partials.parts; p += kThreads) top = fmaxf(top, partials.tops[first + p]);
  top = block_reduce(top, Max{}, slots);
  const float shift = top == minus_infinity() ? 0.0F : top;
  float sum = 0;
  for (int p = thread; p < partials.parts; p += kThreads) {
    const float part = partials.sums[first + p];
    weights[p] = exp2f(partials.tops[first + p] - shift);
    sum += weights[p] * part;
  }
  sum = block_reduce(sum, Sum{}, slots);  // its barriers also publish the weights
  const float factor = add_sink(a, row.h, top, sum);

  const int lanes = a.dv / kWide, group = thread / lanes;
  for (int c = kWide * (groups == 1 ? thread : thread % lanes); c < a.dv && group < groups;
       c += kWide * (groups == 1 ? kThreads : lanes)) {
    float total[kWide] = {};
#pragma unroll 8
    for (int p = group; p < partials.parts; p += groups) {
      const float* from = outputs + static_cast<std::int64_t>(p) * a.dv + c;
      float x[kWide];
      if constexpr (kWide == 4) {
        const float4 four = *reinterpret_cast<const float4*>(from);
        x[0] = four.x;
        x[1] = four.y;
        x[2] = four.z;
        x[3] = four.w;
      } else {
        x[0] = *from;
      }
#pragma unroll
      for (int n = 0; n < kWide; ++n) total[n] = fmaf(weights[p], x[n], total[n]);
    }
#pragma unroll
    for (int n = 0; n < kWide; ++n) shared[group * a.dv + c + n] = total[n];
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

int attention_merge_groups(int dv) { return dv % 4 == 0 ? merge_groups<4>(dv) : merge_groups<1>(dv); }

void launch_merge(const AttentionArgs& args, const Partials& partials, const View& v_scale) {
  const std::int64_t rows = static_cast<std::int64_t>(args.batch) * args.q * args.heads;
  if (rows > 0x7FFFFFFF) throw Unsupported("more than 2^31 rows");
  const auto launch = [&](auto kernel, int groups) {
    const int floats = groups * args.dv + partials.parts;
    kernel<<<static_cast<unsigned>(rows), kThreads, static_cast<std::size_t>(floats) * sizeof(float)>>>(
        args, partials, v_scale);
  };
  if (args.dv % 4 == 0) {
    launch(attention_merge<4>, merge_groups<4>(args.dv));
  } else {
    launch(attention_merge<1>, merge_groups<1>(args.dv));
  }
}

void merge_partials(Run& run, const AttentionArgs& args, const Partials& partials, const View& v_scale) {
  launch_merge(args, partials, v_scale);
  run.launched("attention_merge");
}

}  // namespace assay_gpu
