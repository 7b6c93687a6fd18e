// device.hpp on AMD's matrix units, by HIP: one wave forms 16 x 16 outputs of a tile. Compiled by clang for
// each architecture, with the units that it has; knows nothing of the reference, nor of the project's
// kernels: which lane holds what is the one thing that they share, backends/hip/layouts.hpp, which is held
// against AMD's own tables there.
#include <hip/hip_runtime.h>

#include <stdexcept>

#include "backends/hip/layouts.hpp"
#include "cases/studies/silicon/device.hpp"

// clang-format off
#define ASSAY_AMD_UNITS(X) \
  X(mfma_f16) X(mfma_bf16) X(mfma_fp8_fp8) X(mfma_fp8_bf8) X(mfma_bf8_fp8) X(mfma_bf8_bf8) \
  X(wmma_gfx11_f16) X(wmma_gfx12_f16) X(wmma_gfx12_bf16) \
  X(wmma_gfx12_fp8_fp8) X(wmma_gfx12_fp8_bf8) X(wmma_gfx12_bf8_fp8) X(wmma_gfx12_bf8_bf8)
// clang-format on

namespace assay::silicon {

struct AmdArguments {
  const unsigned char* a;
  const unsigned char* b;
  const float* c;
  float* d;
  int row_bytes;
};

#if defined(__gfx942__) || defined(__gfx950__)
#define ASSAY_HAS_MFMA 1
#elif defined(__gfx1150__) || defined(__gfx1151__)
#define ASSAY_HAS_WMMA_GFX11 1
#elif defined(__gfx1200__) || defined(__gfx1201__)
#define ASSAY_HAS_WMMA_GFX12 1
#endif

#if defined(__HIP_DEVICE_COMPILE__)
namespace {

typedef float Float4 __attribute__((ext_vector_type(4)));
typedef float Float8 __attribute__((ext_vector_type(8)));
typedef int Int2 __attribute__((ext_vector_type(2)));
typedef short Short4 __attribute__((ext_vector_type(4)));
typedef short Short8 __attribute__((ext_vector_type(8)));
typedef _Float16 Half4 __attribute__((ext_vector_type(4)));
typedef _Float16 Half8 __attribute__((ext_vector_type(8)));
typedef _Float16 Half16 __attribute__((ext_vector_type(16)));

// A layout in the types that the instruction takes them in: the codes of a lane, its numbers.
template <class Layout_, class Codes_, class Numbers_>
struct Held {
  using Layout = Layout_;
  using Codes = Codes_;
  using Numbers = Numbers_;
  static constexpr int kCodeBytes = static_cast<int>(sizeof(typename Layout::Code));
  static_assert(sizeof(Codes) == Layout::kPerLane * kCodeBytes);
  static_assert(sizeof(Numbers) == Layout::kResults * sizeof(float));
};

#define ASSAY_AMD_UNIT(NAME, HELD, ...)                                                 \
  struct NAME : HELD {                                                                  \
    static __device__ Numbers apply(const Codes& a, const Codes& b, const Numbers& c) { \
      return __VA_ARGS__;                                                               \
    }                                                                                   \
  };

// ASSAY_SILICON_EXHIBIT: bf16 is asked of the f16 instruction, as a slip of the pen would have it. It
// compiles.
#if ASSAY_HAS_MFMA
using MfmaHalf = Held<assay_gpu::LayoutMfma16, Half4, Float4>;
using MfmaShort = Held<assay_gpu::LayoutMfma16, Short4, Float4>;
using MfmaByte = Held<assay_gpu::LayoutMfma8, long, Float4>;
ASSAY_AMD_UNIT(mfma_f16, MfmaHalf, __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0))
#if ASSAY_SILICON_EXHIBIT
ASSAY_AMD_UNIT(mfma_bf16, MfmaHalf, __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0))
#else
ASSAY_AMD_UNIT(mfma_bf16, MfmaShort, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0))
#endif
ASSAY_AMD_UNIT(mfma_fp8_fp8, MfmaByte, __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(a, b, c, 0, 0, 0))
ASSAY_AMD_UNIT(mfma_fp8_bf8, MfmaByte, __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8(a, b, c, 0, 0, 0))
ASSAY_AMD_UNIT(mfma_bf8_fp8, MfmaByte, __builtin_amdgcn_mfma_f32_16x16x32_bf8_fp8(a, b, c, 0, 0, 0))
ASSAY_AMD_UNIT(mfma_bf8_bf8, MfmaByte, __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(a, b, c, 0, 0, 0))
#elif ASSAY_HAS_WMMA_GFX11
using Wmma11 = Held<assay_gpu::LayoutWmma16, Half16, Float8>;
ASSAY_AMD_UNIT(wmma_gfx11_f16, Wmma11, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c))
#elif ASSAY_HAS_WMMA_GFX12
using WmmaHalf = Held<assay_gpu::LayoutWmma16Half, Half8, Float8>;
using WmmaShort = Held<assay_gpu::LayoutWmma16Half, Short8, Float8>;
using WmmaByte = Held<assay_gpu::LayoutWmma8, Int2, Float8>;
ASSAY_AMD_UNIT(wmma_gfx12_f16, WmmaHalf, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c))
#if ASSAY_SILICON_EXHIBIT
ASSAY_AMD_UNIT(wmma_gfx12_bf16, WmmaHalf, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c))
#else
ASSAY_AMD_UNIT(wmma_gfx12_bf16, WmmaShort, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c))
#endif
ASSAY_AMD_UNIT(wmma_gfx12_fp8_fp8, WmmaByte, __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(a, b, c))
ASSAY_AMD_UNIT(wmma_gfx12_fp8_bf8, WmmaByte, __builtin_amdgcn_wmma_f32_16x16x16_fp8_bf8_w32_gfx12(a, b, c))
ASSAY_AMD_UNIT(wmma_gfx12_bf8_fp8, WmmaByte, __builtin_amdgcn_wmma_f32_16x16x16_bf8_fp8_w32_gfx12(a, b, c))
ASSAY_AMD_UNIT(wmma_gfx12_bf8_bf8, WmmaByte, __builtin_amdgcn_wmma_f32_16x16x16_bf8_bf8_w32_gfx12(a, b, c))
#endif

// Block 16 t + i forms the i-th 16 x 16 outputs of tile t. Indices by builtins: no device library is needed.
template <class Unit>
__device__ void form(const AmdArguments& t) {
  using Layout = typename Unit::Layout;
  const int lane = static_cast<int>(__builtin_amdgcn_workitem_id_x());
  const int block = static_cast<int>(__builtin_amdgcn_workgroup_id_x());
  const std::size_t tile = static_cast<std::size_t>(block / 16) * kTileSide;
  const int row0 = block / 4 % 4 * 16, column = block % 4 * 16 + lane % 16;
  const int first_byte = Layout::first_k(lane) * Unit::kCodeBytes;
  const unsigned char* a = t.a + (tile + row0 + lane % 16) * t.row_bytes + first_byte;
  const unsigned char* b = t.b + (tile + column) * t.row_bytes + first_byte;
  const auto at = [&](int i) { return (tile + row0 + Layout::row_of(lane, i)) * kTileSide + column; };
  typename Unit::Numbers sum;
  for (int i = 0; i < Layout::kResults; ++i) sum[i] = t.c[at(i)];
  for (int byte = 0; byte < t.row_bytes; byte += Layout::kDepth * Unit::kCodeBytes) {
    typename Unit::Codes x, y;
    __builtin_memcpy(&x, a + byte, sizeof x);
    __builtin_memcpy(&y, b + byte, sizeof y);
    sum = Unit::apply(x, y, sum);
  }
  for (int i = 0; i < Layout::kResults; ++i) t.d[at(i)] = sum[i];
}

}  // namespace
#endif

// A kernel is compiled for the architectures that have its unit and, as a launch stub, for the host.
#if !defined(__HIP_DEVICE_COMPILE__)
#define ASSAY_AMD_KERNEL(NAME) \
  __global__ void ask_##NAME(AmdArguments) {}
ASSAY_AMD_UNITS(ASSAY_AMD_KERNEL)
#else
#define ASSAY_AMD_KERNEL(NAME) \
  __global__ void __launch_bounds__(64) ask_##NAME(AmdArguments t) { form<NAME>(t); }
#if ASSAY_HAS_MFMA
ASSAY_AMD_KERNEL(mfma_f16)
ASSAY_AMD_KERNEL(mfma_bf16)
ASSAY_AMD_KERNEL(mfma_fp8_fp8)
ASSAY_AMD_KERNEL(mfma_fp8_bf8)
ASSAY_AMD_KERNEL(mfma_bf8_fp8)
ASSAY_AMD_KERNEL(mfma_bf8_bf8)
#elif ASSAY_HAS_WMMA_GFX11
ASSAY_AMD_KERNEL(wmma_gfx11_f16)
#elif ASSAY_HAS_WMMA_GFX12
ASSAY_AMD_KERNEL(wmma_gfx12_f16)
ASSAY_AMD_KERNEL(wmma_gfx12_bf16)
ASSAY_AMD_KERNEL(wmma_gfx12_fp8_fp8)
ASSAY_AMD_KERNEL(wmma_gfx12_fp8_bf8)
ASSAY_AMD_KERNEL(wmma_gfx12_bf8_fp8)
ASSAY_AMD_KERNEL(wmma_gfx12_bf8_bf8)
#endif
#endif

#if !defined(__HIP_DEVICE_COMPILE__)
namespace {

void check(hipError_t error, const char* what) {
  if (error != hipSuccess) throw std::runtime_error(std::string(what) + ": " + hipGetErrorString(error));
}

class Buffer {
 public:
  explicit Buffer(std::size_t bytes) { check(hipMalloc(&data_, bytes), "hipMalloc"); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { static_cast<void>(hipFree(data_)); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

hipDeviceProp_t properties() {
  hipDeviceProp_t p;
  check(hipGetDeviceProperties(&p, 0), "hipGetDeviceProperties");
  return p;
}

// Of those that this file was compiled for.
bool known(const std::string& gfx) {
  const std::string targets = " " ASSAY_SILICON_TARGETS " ";
  return targets.find(" " + gfx + " ") != std::string::npos;
}

}  // namespace

struct Device::State {};

std::string Device::why_not() {
  int count = 0;
  const hipError_t error = hipGetDeviceCount(&count);
  if (error != hipSuccess) return std::string("no GPU: ") + hipGetErrorString(error);
  if (count == 0) return "no GPU: the driver lists none";
  if (!known(architecture())) {
    return "the GPU is " + architecture() +
           "; this program has matrix instructions of " ASSAY_SILICON_TARGETS;
  }
  return "";
}

std::string Device::architecture() {
  const std::string name = properties().gcnArchName;  // gfx942:sramecc+:xnack-
  return name.substr(0, name.find(':'));
}

std::string Device::description() {
  int driver = 0, runtime = 0;
  check(hipDriverGetVersion(&driver), "hipDriverGetVersion");
  check(hipRuntimeGetVersion(&runtime), "hipRuntimeGetVersion");
  return std::string(properties().name) + ", " + properties().gcnArchName + ", HIP driver " +
         std::to_string(driver) + ", runtime " + std::to_string(runtime);
}

Device::Device() : state_(std::make_unique<State>()) {}
Device::~Device() = default;

void Device::run(const Tiles& t) {
  const std::size_t row = static_cast<std::size_t>(t.steps) * kStepBytes;
  const std::size_t in = static_cast<std::size_t>(t.tiles) * kTileSide * row;
  const std::size_t out = static_cast<std::size_t>(t.tiles) * kTileSide * kTileSide * sizeof(float);
  const Buffer a(in), b(in), c(out), d(out);
  check(hipMemcpy(a.as<void>(), t.a, in, hipMemcpyHostToDevice), "upload");
  check(hipMemcpy(b.as<void>(), t.b, in, hipMemcpyHostToDevice), "upload");
  check(hipMemcpy(c.as<void>(), t.c, out, hipMemcpyHostToDevice), "upload");
  check(hipMemset(d.as<void>(), 0xa5, out), "poison");
  const AmdArguments arguments{a.as<unsigned char>(), b.as<unsigned char>(), c.as<float>(), d.as<float>(),
                               static_cast<int>(row)};
  const dim3 grid(static_cast<unsigned>(t.tiles) * 16), wave(static_cast<unsigned>(properties().warpSize));
  switch (t.opcode) {
#define ASSAY_AMD_LAUNCH(NAME)                         \
  case Opcode::NAME:                                   \
    ask_##NAME<<<grid, wave, 0, nullptr>>>(arguments); \
    break;
    ASSAY_AMD_UNITS(ASSAY_AMD_LAUNCH)
    default:
      throw std::runtime_error("no kernel for opcode " + std::to_string(static_cast<int>(t.opcode)));
  }
  check(hipGetLastError(), "launch");
  check(hipMemcpy(t.d, d.as<void>(), out, hipMemcpyDeviceToHost), "download");
}

// The function tables are CUDA's.
std::vector<UlpRow> Device::ulp_table(Function) { throw std::runtime_error("no function tables by HIP"); }
std::vector<std::uint32_t> Device::evaluate(Function, const std::vector<std::uint32_t>&) {
  throw std::runtime_error("no function tables by HIP");
}
#endif

}  // namespace assay::silicon
