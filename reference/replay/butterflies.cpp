#include "reference/replay/butterflies.hpp"

#include <cmath>

#include "reference/formats/rotation.hpp"

namespace assay {

void butterflies(float* x, std::int64_t n, std::int64_t half) {
  for (std::int64_t start = 0; start < n; start += 2 * half)
    for (std::int64_t j = start; j < start + half; ++j) {
      const float a = x[j], b = x[j + half];
      x[j] = a + b, x[j + half] = a - b;
    }
}

void rotate_back(std::span<float> row, bool ascending) {
  constexpr std::int64_t kPoints = 32;
  const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(kPoints)));
  for (std::size_t first = 0; first + kPoints <= row.size(); first += kPoints) {
    float* const x = row.data() + first;
    for (std::int64_t step = 1; step < kPoints; step *= 2)
      butterflies(x, kPoints, ascending ? step : kPoints / (2 * step));
    for (std::int64_t j = 0; j < kPoints; ++j) x[j] *= (kTq3Signs >> j & 1U) != 0 ? -factor : factor;
  }
}

}  // namespace assay
