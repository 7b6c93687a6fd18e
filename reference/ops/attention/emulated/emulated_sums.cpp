#include "reference/ops/attention/emulated/emulated_sums.hpp"

#include <algorithm>
#include <vector>

namespace assay {
namespace {

// Operands have at most 24 bits, so a product is exact in double, and so is a sum of two f16 or bf16 numbers
// of the magnitudes a kernel meets; f32 is plain float arithmetic.
template <class Round>
void add_row(Round round, float p, const float* row, std::span<float> o) {
  for (std::size_t c = 0; c < o.size(); ++c) {
    o[c] = static_cast<float>(round(static_cast<double>(o[c]) + round(static_cast<double>(p) * row[c])));
  }
}

void add_row(const Precision& f, float p, const float* row, std::span<float> o) {
  if (f == kPrecisionF32) {
    for (std::size_t c = 0; c < o.size(); ++c) o[c] += p * row[c];
  } else if (f == kPrecisionF16) {
    add_row(round_f16, p, row, o);
  } else {
    add_row([&](double x) { return round_to_precision(x, f); }, p, row, o);
  }
}

}  // namespace

float scalar_chains(const Precision& f, const float* a, const float* b, std::int64_t n, std::int64_t chain) {
  float total = 0;
  for (std::int64_t first = 0; first < n; first += chain) {
    float s = 0;
    for (std::int64_t i = first; i < std::min(n, first + chain); ++i) add_row(f, a[i], b + i, {&s, 1});
    total = first == 0 ? s : total + s;
  }
  return total;
}

void scalar_value_chain(const Precision& f, bool chained, std::span<const float> p, const float* v,
                        std::int64_t first, std::int64_t last, std::span<float> o) {
  if (chained) {
    for (std::int64_t j = first; j < last; ++j) add_row(f, p[j], v + j * std::ssize(o), o);
    return;
  }
  std::vector<float> partial(o.size(), 0.0f);
  for (std::int64_t j = first; j < last; ++j) add_row(f, p[j], v + j * std::ssize(o), partial);
  for (std::size_t c = 0; c < o.size(); ++c) o[c] += partial[c];
}

}  // namespace assay
