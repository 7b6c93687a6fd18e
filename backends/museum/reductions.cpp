// Norms and softmax: reductions by warps of 32, variances, and the scalar tail behind the last whole vector.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/museum/museum.hpp"

namespace assay_museum {
namespace {

constexpr std::size_t kWarp = 32;
constexpr std::size_t kVector = 8;
using Row = std::vector<float>;

Row read_row(const Call& call, std::string_view tensor, std::string_view format, std::int64_t row) {
  const RowReader reader(call, tensor, format);
  Row values(static_cast<std::size_t>(reader.length()));
  reader.read(kScalarEngine, row, values.data());
  return values;
}

void put_row(const Call& call, std::int64_t row, const Row& values) {
  write_row(kScalarEngine, call.text("dtype"), values.data(), static_cast<std::int64_t>(values.size()),
            mutable_row(call.output("y"), row));
}

}  // namespace

void layernorm_by(const Call& call, bool one_pass, bool tail_squared) {
  const Row gamma = read_row(call, "gamma", "f32", 0), beta = read_row(call, "beta", "f32", 0);
  const auto eps = static_cast<float>(call.real("eps"));
  for (std::int64_t row = 0; row < row_count(call.output("y")); ++row) {
    Row x = read_row(call, "x", call.text("dtype"), row);
    const auto n = static_cast<float>(x.size());
    float sum = 0, squares = 0;
    for (const float v : x) sum += v;
    const float mean = sum / n;
    for (const float v : x) squares += one_pass ? v * v : (v - mean) * (v - mean);
    const float variance = one_pass ? squares / n - mean * mean : squares / n;
    const float factor = 1.0F / std::sqrt(variance + eps);
    const std::size_t whole = x.size() / kVector * kVector;
    for (std::size_t i = 0; i < x.size(); ++i) {
      float centred = x[i] - mean;
      if (tail_squared && i >= whole) centred *= centred;  // the tail's result is what it added to the sum
      x[i] = centred * factor * gamma[i] + beta[i];
    }
    put_row(call, row, x);
  }
}

void rmsnorm_by_warps(const Call& call, bool drop_partial_warp) {
  const Row gamma = read_row(call, "gamma", "f32", 0);
  const auto eps = static_cast<float>(call.real("eps"));
  for (std::int64_t row = 0; row < row_count(call.output("y")); ++row) {
    Row x = read_row(call, "x", call.text("dtype"), row);
    const std::size_t counted = drop_partial_warp ? x.size() / kWarp * kWarp : x.size();
    float squares = 0;
    for (std::size_t i = 0; i < counted; ++i) squares += x[i] * x[i];
    const float factor = 1.0F / std::sqrt(squares / static_cast<float>(x.size()) + eps);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] * factor * gamma[i];
    put_row(call, row, x);
  }
}

void softmax_by_warps(const Call& call, bool first_warp_only) {
  for (std::int64_t row = 0; row < row_count(call.output("y")); ++row) {
    Row x = read_row(call, "x", call.text("dtype"), row);
    const std::size_t compared = first_warp_only ? std::min(kWarp, x.size()) : x.size();
    const float top = *std::max_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(compared));
    float sum = 0;
    for (float& v : x) sum += v = std::exp(v - top);
    for (float& v : x) v /= sum;
    put_row(call, row, x);
  }
}

}  // namespace assay_museum
