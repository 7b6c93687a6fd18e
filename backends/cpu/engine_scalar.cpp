// The plain C++ engine: what a portable build of an engine runs, and the yardstick of the SIMD ones in the
// tests.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/codecs.hpp"
#include "backends/cpu/engine.hpp"

namespace assay_cpu {
namespace {

constexpr std::size_t kLanes = 8;  // independent sums, so that the add's latency does not bound the loop

float fold(const float (&lane)[kLanes]) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

float dot(const float* a, const float* b, std::size_t n) {
  float lane[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) lane[l] += a[i + l] * b[i + l];
  }
  for (; i < n; ++i) lane[i % kLanes] += a[i] * b[i];
  return fold(lane);
}

void dot_rows(const float* a, const float* rows, std::size_t stride, std::size_t count, std::size_t n,
              float* scores) {
  for (std::size_t j = 0; j < count; ++j) scores[j] = dot(a, rows + j * stride, n);
}

void add_rows(const float* weights, const float* rows, std::size_t stride, std::size_t count, std::size_t n,
              float* y) {
  for (std::size_t j = 0; j < count; ++j) {
    const float w = weights[j];
    const float* row = rows + j * stride;
    for (std::size_t i = 0; i < n; ++i) y[i] += w * row[i];
  }
}

void scale(float factor, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] *= factor;
}

float max(const float* x, std::size_t n) {
  float best = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

float sum(const float* x, std::size_t n) {
  float lane[kLanes] = {};
  for (std::size_t i = 0; i < n; ++i) lane[i % kLanes] += x[i];
  return fold(lane);
}

float sum_squares(const float* x, float shift, std::size_t n) {
  float lane[kLanes] = {};
  for (std::size_t i = 0; i < n; ++i) lane[i % kLanes] += (x[i] - shift) * (x[i] - shift);
  return fold(lane);
}

float exp_shift(const float* x, float shift, float* y, std::size_t n) {
  float lane[kLanes] = {};
  for (std::size_t i = 0; i < n; ++i) {
    y[i] = std::exp(x[i] - shift);
    lane[i % kLanes] += y[i];
  }
  return fold(lane);
}

std::int32_t dot_int8(const std::int8_t* a, const std::int8_t* b, std::size_t n) {
  std::int32_t total = 0;
  for (std::size_t i = 0; i < n; ++i) total += std::int32_t{a[i]} * b[i];
  return total;
}

template <class Code, float (*Decode)(Code)>
void widen(const void* codes, float* y, std::size_t n) {
  const std::byte* bytes = static_cast<const std::byte*>(codes);
  for (std::size_t i = 0; i < n; ++i) {
    Code code;
    std::memcpy(&code, bytes + i * sizeof code, sizeof code);
    y[i] = Decode(code);
  }
}

template <std::uint16_t (*Encode)(float)>
void narrow(const float* x, void* codes, std::size_t n) {
  std::byte* bytes = static_cast<std::byte*>(codes);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint16_t code = Encode(x[i]);
    std::memcpy(bytes + i * sizeof code, &code, sizeof code);
  }
}

float int8_value(std::uint8_t code) { return static_cast<float>(static_cast<std::int8_t>(code)); }

}  // namespace

const Engine kScalarEngine = {
    .name = "scalar",
    .fma = false,
    .sum_lanes = kLanes,
    .exp_lanes = kLanes,
    .exp_ulp = 1,
    .dot_lanes = kLanes,
    .dot = dot,
    .dot_rows = dot_rows,
    .add_rows = add_rows,
    .scale = scale,
    .max = max,
    .sum = sum,
    .sum_squares = sum_squares,
    .exp_shift = exp_shift,
    .dot_int8 = dot_int8,
    .from_f16 = widen<std::uint16_t, f16_value>,
    .from_bf16 = widen<std::uint16_t, bf16_value>,
    .from_e4m3fn = widen<std::uint8_t, e4m3fn_value>,
    .from_e4m3fnuz = widen<std::uint8_t, e4m3fnuz_value>,
    .from_e5m2 = widen<std::uint8_t, e5m2_value>,
    .from_int8 = widen<std::uint8_t, int8_value>,
    .to_f16 = narrow<f16_code>,
    .to_bf16 = narrow<bf16_code>,
};

const Engine* find_engine(std::string_view name) {
  if (name == kScalarEngine.name) return &kScalarEngine;
  for (const Engine* engine : simd_engines()) {
    if (name == engine->name) return engine;
  }
  return nullptr;
}

const Engine& best_engine() { return simd_engines().empty() ? kScalarEngine : *simd_engines().front(); }

}  // namespace assay_cpu
