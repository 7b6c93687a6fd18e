// tq3_0: 32 elements in 14 bytes, stored in the basis of the 32-point randomised Walsh-Hadamard transform.
//   0..7    2-bit index of element j in bits 2 (j % 4) of byte j / 4: -c1, -c0, +c0, +c1
//   8..11   residual sign of element j in bit j % 8 of byte 8 + j / 8, set when positive (c2: stored, not
//           used)
//   12..13  f16 d
//   x = D H r / sqrt(32),  r = d (centroid +- spread)
// Centroids: the 2-bit Lloyd-Max quantiser of a unit normal; spread: the mean distance from the centroid
// within its cell. Transforms in double: the result is rounded to f32 once.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/blocks.hpp"
#include "backends/cpu/codecs.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

constexpr int kBlock = 32;
constexpr int kBytes = 14;

struct Codebook {
  double threshold;
  std::array<double, 2> centroid;
  std::array<double, 2> spread;
};

double density(double y) { return std::exp(-y * y / 2) * 0.39894228040143267794; }
double tail(double y) { return std::erfc(y * 0.70710678118654752440) / 2; }

// Each centroid is its cell's mean, and the threshold lies half way between them: iterated to the fixed
// point.
const Codebook& codebook() {
  static const Codebook book = [] {
    Codebook b{1, {}, {}};
    for (int step = 0; step < 200; ++step) {
      b.centroid[0] = (density(0) - density(b.threshold)) / (0.5 - tail(b.threshold));
      b.centroid[1] = density(b.threshold) / tail(b.threshold);
      b.threshold = (b.centroid[0] + b.centroid[1]) / 2;
    }
    // E|y - c| over a cell whose mean is c is twice its upper half.
    const auto spread = [](double c, double low_tail, double high_tail, double high_density) {
      return 2 * (density(c) - high_density - c * (tail(c) - high_tail)) / (low_tail - high_tail);
    };
    b.spread[0] = spread(b.centroid[0], 0.5, tail(b.threshold), density(b.threshold));
    b.spread[1] = spread(b.centroid[1], tail(b.threshold), 0, 0);
    return b;
  }();
  return book;
}

// In units of d, exact in double: centroid and spread are f32 numbers.
template <bool kSigns>
std::array<double, 8> levels() {  // index | sign << 2
  std::array<double, 8> table{};
  for (unsigned i = 0; i < 8; ++i) {
    const bool positive = (i & 2U) != 0;
    const unsigned cell = positive ? (i & 1U) : 1 - (i & 1U);
    const double centroid = static_cast<float>(codebook().centroid[cell]);
    const double spread = static_cast<float>(codebook().spread[cell]);
    table[i] = (positive ? centroid : -centroid) + (kSigns ? (i >= 4 ? spread : -spread) : 0);
  }
  return table;
}

void hadamard(double* x) {
  for (int half = 1; half < kBlock; half *= 2) {
    for (int start = 0; start < kBlock; start += 2 * half) {
      for (int j = start; j < start + half; ++j) {
        const double a = x[j];
        x[j] = a + x[j + half];
        x[j + half] = a - x[j + half];
      }
    }
  }
}

bool negated(int j) { return (kTq3Signs[0] >> j & 1U) != 0; }

template <bool kSigns, bool kInverse = true>
void read_row(const Planes& planes, std::int64_t row, float* out) {
  static const std::array<double, 8> table = levels<kSigns>();
  const std::byte* in = row_bytes(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; i += kBlock, in += kBytes) {
    std::uint16_t scale;
    std::memcpy(&scale, in + 12, sizeof scale);
    const double d = f16_value(scale);
    double r[kBlock];
    for (int j = 0; j < kBlock; ++j) {
      const unsigned index = std::to_integer<unsigned>(in[j / 4]) >> (2 * (j % 4)) & 3U;
      const unsigned sign = std::to_integer<unsigned>(in[8 + j / 8]) >> (j % 8) & 1U;
      r[j] = d * table[index | sign << 2];
    }
    if constexpr (!kInverse) {
      for (int j = 0; j < kBlock; ++j) out[i + j] = static_cast<float>(r[j]);
      continue;
    }
    hadamard(r);
    constexpr double kFactor = 0.17677669529663688110;  // 1 / sqrt(32)
    for (int j = 0; j < kBlock; ++j) out[i + j] = static_cast<float>((negated(j) ? -r[j] : r[j]) * kFactor);
  }
}

template <bool kSigns>
void write_row_of(const Planes& planes, std::int64_t row, const float* values) {
  static const std::array<double, 8> table = levels<kSigns>();
  std::byte* out = mutable_row(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; i += kBlock, out += kBytes) {
    std::memset(out, 0, kBytes);
    double y[kBlock];
    bool good = true;
    for (int j = 0; j < kBlock; ++j) {
      good = good && std::isfinite(values[i + j]);
      y[j] = negated(j) ? -double{values[i + j]} : double{values[i + j]};
    }
    hadamard(y);
    double norm = 0;
    for (double& e : y) {
      e /= std::sqrt(32.0);
      norm += e * e;
    }
    const auto store_scale = [&](double d) {
      const std::uint16_t code = f16_code(static_cast<float>(d));
      std::memcpy(out + 12, &code, sizeof code);
    };
    if (!good) {
      store_scale(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    if (norm == 0) continue;
    const double sigma = std::sqrt(norm / kBlock);
    double level_norm = 0;
    for (int j = 0; j < kBlock; ++j) {
      const double magnitude = std::fabs(y[j]) / sigma;
      const unsigned cell = magnitude > codebook().threshold ? 1 : 0;
      const bool positive = !std::signbit(y[j]);
      const unsigned index = positive ? 2 + cell : 1 - cell;
      const double beyond = magnitude - codebook().centroid[cell];
      const unsigned sign = (positive ? beyond : -beyond) > 0 ? 1 : 0;
      out[j / 4] |= static_cast<std::byte>(index << (2 * (j % 4)));
      out[8 + j / 8] |= static_cast<std::byte>(sign << (j % 8));
      const double level = table[index | sign << 2];
      level_norm += level * level;
    }
    store_scale(std::fmin(std::sqrt(norm / level_norm), 65504.0));  // keeps the block's norm
  }
}

}  // namespace

void read_tq3_0_c2s1_rotated(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  read_row<true, false>(planes, row, out);
}
void read_tq3_0_c2_rotated(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  read_row<false, false>(planes, row, out);
}
void read_tq3_0_c2s1(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  read_row<true>(planes, row, out);
}
void write_tq3_0_c2s1(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  write_row_of<true>(planes, row, values);
}
void read_tq3_0_c2(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  read_row<false>(planes, row, out);
}
void write_tq3_0_c2(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  write_row_of<false>(planes, row, values);
}

}  // namespace assay_cpu
