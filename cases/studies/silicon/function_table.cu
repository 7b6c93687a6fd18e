// The error of a result r against the exact value y is |r - y| / ulp(y), ulp(y) = 2^(max(floor(log2 |y|),
// -126) - 23), Inf counting as 2^128; a NaN result of a number is an infinite error. r is the nearest number
// when that is at most 1/2 plus what the yardstick may be off (exact_functions.hpp).
#include <cuda_runtime.h>

#include <cstring>

#include "cases/studies/silicon/exact_functions.hpp"
#include "cases/studies/silicon/function_table.cuh"

namespace assay::silicon {
namespace {

constexpr double kYardstickUlp = 0x1p-23;

struct Ex2Approx {
  static __device__ float apply(float x) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  static __device__ double exact(float x) { return exact_exp2(x); }
};
struct Ex2ApproxFtz : Ex2Approx {
  static __device__ float apply(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
};
struct Exp2f : Ex2Approx {
  static __device__ float apply(float x) { return exp2f(x); }
};
struct Expf {
  static __device__ float apply(float x) { return expf(x); }
  static __device__ double exact(float x) { return exact_exp(static_cast<double>(x)); }
};
struct FastExpf : Expf {
  static __device__ float apply(float x) { return __expf(x); }
};
struct TanhApprox {
  static __device__ float apply(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  static __device__ double exact(float x) { return exact_tanh(x); }
};
struct Tanhf : TanhApprox {
  static __device__ float apply(float x) { return tanhf(x); }
};

struct RcpApproxFtz {
  static __device__ float apply(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  static __device__ double exact(float x) { return 1 / static_cast<double>(x); }
};
struct RsqrtApproxFtz {
  static __device__ float apply(float x) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  static __device__ double exact(float x) { return 1 / sqrt(static_cast<double>(x)); }
};
struct SqrtApproxFtz {
  static __device__ float apply(float x) {
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  static __device__ double exact(float x) { return sqrt(static_cast<double>(x)); }
};

struct UlpError {
  double ulp;
  double relative;  // in units of 2^-23
  bool subnormal;   // the exact value is below 2^-126
};

__device__ UlpError ulp_error(float result, double exact) {
  const double size = fabs(exact);
  const double infinity = 0x1p128;
  if (size >= infinity) return {isinf(result) ? 0.0 : HUGE_VAL, 0.0, false};
  const int field = static_cast<int>(__double_as_longlong(size) >> 52) - 1023;
  const bool subnormal = size < 0x1p-126;
  const double got =
      isinf(result) ? copysign(infinity, static_cast<double>(result)) : static_cast<double>(result);
  const double off = fabs(got - exact);
  const double error = off * ldexp(1.0, 23 - (subnormal ? -126 : field));
  const double relative = size == 0 ? 0 : off / size * 0x1p+23;
  return {error <= HUGE_VAL ? error : HUGE_VAL, relative <= HUGE_VAL ? relative : HUGE_VAL, subnormal};
}

constexpr int kBlocksPerBinade = 64;
constexpr int kTableThreads = 256;

template <class F>
__global__ void table(TableSlot* slots) {
  const unsigned bin = blockIdx.x / kBlocksPerBinade;  // sign and exponent
  if (bin % 256 == 255) return;
  unsigned long long worst = 0;
  unsigned long long worst_subnormal = 0;
  unsigned long long not_nearest = 0;
  float relative = 0;
  constexpr unsigned kSpan = (1u << 23) / kBlocksPerBinade;
  for (unsigned i = threadIdx.x; i < kSpan; i += kTableThreads) {
    const unsigned bits = (bin << 23) | (blockIdx.x % kBlocksPerBinade * kSpan + i);
    const float x = __uint_as_float(bits);
    const UlpError e = ulp_error(F::apply(x), F::exact(x));
    if (!(e.ulp <= 0.5 + kYardstickUlp)) ++not_nearest;
    const unsigned long long key =
        (static_cast<unsigned long long>(__float_as_uint(static_cast<float>(e.ulp))) << 32) | bits;
    unsigned long long& place = e.subnormal ? worst_subnormal : worst;
    place = key > place ? key : place;
    if (!e.subnormal) relative = fmaxf(relative, __double2float_ru(e.relative));
  }
  atomicMax(&slots[bin].worst, worst);
  atomicMax(&slots[bin].worst_subnormal, worst_subnormal);
  atomicMax(&slots[bin].relative, static_cast<unsigned long long>(__float_as_uint(relative)));
  atomicAdd(&slots[bin].not_nearest, not_nearest);
  if (threadIdx.x == 0) atomicAdd(&slots[bin].inputs, static_cast<unsigned long long>(kSpan));
}

template <class F>
__global__ void evaluate(const std::uint32_t* x, std::uint32_t* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = __float_as_uint(F::apply(__uint_as_float(x[i])));
}

template <class Visit>
void with_function(Function function, Visit visit) {
  switch (function) {
    case Function::ex2_approx:
      return visit(Ex2Approx{});
    case Function::ex2_approx_ftz:
      return visit(Ex2ApproxFtz{});
    case Function::exp2f:
      return visit(Exp2f{});
    case Function::expf:
      return visit(Expf{});
    case Function::fast_expf:
      return visit(FastExpf{});
    case Function::tanh_approx:
      return visit(TanhApprox{});
    case Function::tanhf:
      return visit(Tanhf{});
    case Function::rcp_approx_ftz:
      return visit(RcpApproxFtz{});
    case Function::rsqrt_approx_ftz:
      return visit(RsqrtApproxFtz{});
    case Function::sqrt_approx_ftz:
      return visit(SqrtApproxFtz{});
  }
}

}  // namespace

UlpRow unpack(const TableSlot& slot) {
  const auto number = [](unsigned long long word) {
    const auto bits = static_cast<std::uint32_t>(word);
    float x = 0;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  };
  return {slot.inputs,
          slot.not_nearest,
          number(slot.worst >> 32),
          static_cast<std::uint32_t>(slot.worst),
          number(slot.relative),
          number(slot.worst_subnormal >> 32),
          static_cast<std::uint32_t>(slot.worst_subnormal)};
}

void launch_table(Function function, TableSlot* slots, void* stream) {
  with_function(function, [&](auto f) {
    table<decltype(f)>
        <<<512 * kBlocksPerBinade, kTableThreads, 0, static_cast<cudaStream_t>(stream)>>>(slots);
  });
}

void launch_evaluate(Function function, const std::uint32_t* x, std::uint32_t* y, int n, void* stream) {
  with_function(function, [&](auto f) {
    evaluate<decltype(f)>
        <<<static_cast<unsigned>((n + 255) / 256), 256, 0, static_cast<cudaStream_t>(stream)>>>(x, y, n);
  });
}

}  // namespace assay::silicon
