// Speed of FP8 decode attention against its floor: bytes of K and V over the copy bandwidth that this very
// run measures, and against the same kernel on an f16 cache. One JSON object per line.
//   bench_attention [--heads 32] [--kv-heads 8] [--d 128] [--repeats 15] [LEN ...]
//   LEN   numbers of keys; by default 8192 ... 1048576
// Times are device time between events around 10 calls (main kernel and merge), over inputs that rotate
// through more memory than the L2 cache holds; the median of `repeats`. Inputs are Gaussian, rounded to the
// cache's format.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "backends/cuda/mma_attention_split.cuh"

namespace {

using namespace assay_gpu;

constexpr int kCallsPerTiming = 10;
constexpr std::size_t kRotate = std::size_t{512} << 20;  // bytes that inputs rotate through, at least
constexpr std::size_t kCopyBytes = std::size_t{2} << 30;

void require(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "bench_attention: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

unsigned char* allocate(std::size_t bytes) {
  void* at = nullptr;
  require(cudaMalloc(&at, bytes), "device memory");
  return static_cast<unsigned char*>(at);
}

__device__ std::uint32_t scramble(std::uint64_t x) {  // SplitMix64's finaliser
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<std::uint32_t>(x ^ (x >> 31));
}

__global__ void fill_gaussian(unsigned char* to, std::int64_t count, Element element, std::uint64_t seed) {
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += threads) {
    const float u = (static_cast<float>(scramble(seed + 2 * i) >> 8) + 1) * 0x1p-24F;
    const float v = static_cast<float>(scramble(seed + 2 * i + 1) >> 8) * 0x1p-24F;
    const float x = sqrtf(-2 * logf(u)) * cospif(2 * v);
    const std::uint32_t code = encode_element(element, x);
    if (element == Element::e4m3fn) {
      to[i] = static_cast<unsigned char>(code);
    } else {
      reinterpret_cast<std::uint16_t*>(to)[i] = static_cast<std::uint16_t>(code);
    }
  }
}

void gaussian(unsigned char* to, std::int64_t count, Element element, std::uint64_t seed) {
  fill_gaussian<<<4096, 256>>>(to, count, element, seed * 0x9E3779B97F4A7C15ULL);
  require(cudaGetLastError(), "fill");
}

struct Times {
  double median, lowest, highest;  // seconds of one call
};

template <class Work>
Times measure(int repeats, Work work) {  // work(i): enqueues call i
  cudaEvent_t from, to;
  require(cudaEventCreate(&from), "event");
  require(cudaEventCreate(&to), "event");
  std::vector<double> seconds;
  int call = 0;
  for (int i = 0; i < 3 * kCallsPerTiming; ++i) work(call++);
  for (int r = 0; r < repeats; ++r) {
    require(cudaEventRecord(from), "event");
    for (int i = 0; i < kCallsPerTiming; ++i) work(call++);
    require(cudaEventRecord(to), "event");
    require(cudaEventSynchronize(to), "a kernel failed");
    float milliseconds = 0;
    require(cudaEventElapsedTime(&milliseconds, from, to), "event");
    seconds.push_back(milliseconds * 1e-3 / kCallsPerTiming);
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back()};
}

double copy_bandwidth(int repeats) {  // bytes read and bytes written per second
  unsigned char* from = allocate(kCopyBytes);
  unsigned char* to = allocate(kCopyBytes);
  gaussian(from, static_cast<std::int64_t>(kCopyBytes / 2), Element::f16, 1);
  const Times t = measure(repeats, [&](int) {
    require(cudaMemcpyAsync(to, from, kCopyBytes, cudaMemcpyDeviceToDevice), "copy");
  });
  cudaFree(from);
  cudaFree(to);
  return 2.0 * static_cast<double>(kCopyBytes) / t.median;
}

View view4(unsigned char* data, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d,
           std::int64_t bytes) {
  View v;
  v.data = data;
  v.rank = 4;
  const std::int64_t shape[] = {a, b, c, d};
  std::int64_t stride = bytes;
  for (int axis = 3; axis >= 0; --axis) {
    v.shape[axis] = shape[axis];
    v.stride[axis] = stride;
    stride *= shape[axis];
  }
  return v;
}

struct Problem {
  int heads = 32, kv_heads = 8, d = 128, repeats = 15;
};

void bench(const Problem& p, std::int64_t len, Element element, double bandwidth,
           const cudaDeviceProp& device) {
  const int bytes = element == Element::e4m3fn ? 1 : 2;
  const std::int64_t elements = len * p.kv_heads * p.d;
  const std::size_t tensor = static_cast<std::size_t>(elements) * bytes;
  const int sets = static_cast<int>(std::max<std::size_t>(2, (kRotate + 2 * tensor - 1) / (2 * tensor)));
  std::vector<unsigned char*> k, v;
  for (int s = 0; s < sets; ++s) {
    k.push_back(allocate(tensor));
    v.push_back(allocate(tensor));
    gaussian(k.back(), elements, element, 10 + 2 * s);
    gaussian(v.back(), elements, element, 11 + 2 * s);
  }
  SplitMmaArgs args{};
  AttentionArgs& a = args.a;
  a.batch = 1;
  a.heads = p.heads;
  a.kv_heads = p.kv_heads;
  a.group = p.heads / p.kv_heads;
  a.d = a.dv = p.d;
  a.q = 1;
  a.len = static_cast<int>(len);
  a.scale = 1.0F / sqrtf(static_cast<float>(p.d));
  a.dtype = Element::f16;
  unsigned char* q = allocate(static_cast<std::size_t>(p.heads) * p.d * 2);
  unsigned char* out = allocate(static_cast<std::size_t>(p.heads) * p.d * 2);
  gaussian(q, p.heads * p.d, Element::f16, 2);
  a.queries = view4(q, 1, 1, p.heads, p.d, 2);
  a.out = view4(out, 1, 1, p.heads, p.d, 2);
  const SplitPlan plan = split_mma_plan(len, p.d, bytes, 1, p.kv_heads, a.group, device.multiProcessorCount);
  const std::int64_t slots = p.heads * plan.parts;
  args.partials = {reinterpret_cast<float*>(allocate(slots * 4)),
                   reinterpret_cast<float*>(allocate(slots * 4)),
                   reinterpret_cast<float*>(allocate(slots * p.d * 4)), static_cast<int>(plan.parts)};
  args.part_keys = static_cast<int>(plan.part_keys);
  const auto call = [&](int i, bool merge) {
    args.keys = view4(k[i % sets], 1, len, p.kv_heads, p.d, bytes);
    args.values = view4(v[i % sets], 1, len, p.kv_heads, p.d, bytes);
    launch_split_mma(args, element == Element::e4m3fn ? SplitCodes::e4m3 : SplitCodes::half);
    if (merge) launch_merge(a, args.partials, View{});
  };
  const Times whole = measure(p.repeats, [&](int i) { call(i, true); });
  const Times main = measure(p.repeats, [&](int i) { call(i, false); });
  require(cudaDeviceSynchronize(), "a kernel failed");
  std::vector<std::uint16_t> result(static_cast<std::size_t>(p.heads) * p.d);
  require(cudaMemcpy(result.data(), out, result.size() * 2, cudaMemcpyDeviceToHost), "download");
  const auto finite = std::count_if(result.begin(), result.end(), [](std::uint16_t x) {
    return (x & 0x7C00) != 0x7C00 && (x & 0x7FFF) != 0;
  });
  const double kv_bytes = 2.0 * static_cast<double>(tensor), floor = kv_bytes / bandwidth;
  std::printf(
      "{\"kernel\": \"attention_split_mma\", \"kv\": \"%s\", \"len\": %lld, \"heads\": %d, \"kv_heads\": %d, "
      "\"d\": %d, "
      "\"parts\": %lld, \"median_us\": %.3f, \"lowest_us\": %.3f, \"highest_us\": %.3f, "
      "\"main_kernel_us\": %.3f, "
      "\"kv_bytes\": %.0f, \"floor_us\": %.3f, \"of_copy_bandwidth\": %.4f, \"copy_bandwidth_GBps\": %.1f, "
      "\"finite_nonzero_outputs\": %.4f, \"device\": \"%s\"}\n",
      bytes == 1 ? "e4m3fn" : "f16", static_cast<long long>(len), p.heads, p.kv_heads, p.d,
      static_cast<long long>(plan.parts), whole.median * 1e6, whole.lowest * 1e6, whole.highest * 1e6,
      main.median * 1e6, kv_bytes, floor * 1e6, floor / whole.median, bandwidth * 1e-9,
      static_cast<double>(finite) / static_cast<double>(result.size()), device.name);
  std::fflush(stdout);
  for (int s = 0; s < sets; ++s) {
    cudaFree(k[s]);
    cudaFree(v[s]);
  }
  cudaFree(q);
  cudaFree(out);
  cudaFree(args.partials.tops);
  cudaFree(args.partials.sums);
  cudaFree(args.partials.outputs);
}

}  // namespace

int main(int argc, char** argv) {
  Problem p;
  std::vector<std::int64_t> lengths;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    int* option = word == "--heads"      ? &p.heads
                  : word == "--kv-heads" ? &p.kv_heads
                  : word == "--d"        ? &p.d
                  : word == "--repeats"  ? &p.repeats
                                         : nullptr;
    const char* text = option == nullptr ? argv[i] : i + 1 < argc ? argv[++i] : "";
    char* end = nullptr;
    const long long number = std::strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || number < 1 || number > (1 << 22)) {
      std::fprintf(stderr, "bench_attention: '%s' is not a number that can be meant\n", text);
      return 2;
    }
    if (option != nullptr) {
      *option = static_cast<int>(number);
    } else {
      lengths.push_back(number);
    }
  }
  if ((p.d != 64 && p.d != 128) || p.heads % p.kv_heads != 0) {
    std::fprintf(stderr, "bench_attention: d is 64 or 128, heads a multiple of kv-heads\n");
    return 2;
  }
  if (lengths.empty()) lengths = {8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576};
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::fprintf(stderr, "bench_attention: no GPU here\n");
    return 77;
  }
  cudaDeviceProp device{};
  require(cudaGetDeviceProperties(&device, 0), "properties");
  const double bandwidth = copy_bandwidth(p.repeats);
  for (const std::int64_t len : lengths) {
    for (const Element element : {Element::e4m3fn, Element::f16}) bench(p, len, element, bandwidth, device);
  }
  return 0;
}
