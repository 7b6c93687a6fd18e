// Per group of `points` elements
//   y = H D x / sqrt(points);    inverse: y = D H x / sqrt(points)
// D holds the signs: bit j of the packed words set means -1. Butterflies in f32, one multiplication by
// 1 / sqrt(points) at the end.
#include <bit>
#include <cmath>
#include <vector>

#include "backends/cpu/ops.hpp"
#include "backends/cpu/rows.hpp"

namespace assay_cpu {

void wht_row(float* x, std::int64_t length, std::int64_t points, const std::uint32_t* signs, bool inverse) {
  const auto flip = [&](float* group) {
    if (signs == nullptr) return;
    for (std::int64_t j = 0; j < points; ++j) {
      if ((signs[j / 32] >> (j % 32) & 1U) != 0) group[j] = -group[j];
    }
  };
  const float factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(points)));
  for (float* group = x; group < x + length; group += points) {
    if (!inverse) flip(group);
    for (std::int64_t half = 1; half < points; half *= 2) {
      for (std::int64_t start = 0; start < points; start += 2 * half) {
        for (std::int64_t j = start; j < start + half; ++j) {
          const float a = group[j];
          const float b = group[j + half];
          group[j] = a + b;
          group[j + half] = a - b;
        }
      }
    }
    for (std::int64_t j = 0; j < points; ++j) group[j] *= factor;
    if (inverse) flip(group);
  }
}

void wht_check(const Call& call) {
  const std::int64_t points = call.integer("points");
  if (points < 1 || !std::has_single_bit(static_cast<std::uint64_t>(points)) ||
      call.integer("cols") % points != 0) {
    throw Unsupported("points must be a power of two that divides cols");
  }
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  if (call.text("signs") != "none") call.input("signs");
}

std::string wht_contract(const Call&, const Engine&) { return "acc=f32 order=tree scale=once"; }

void wht_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  const std::string_view dtype = call.text("dtype");
  const RowReader reader(call, "x", dtype);
  const assay_tensor& y = call.output("y");
  const std::int64_t points = call.integer("points");
  std::vector<std::uint32_t> signs;
  if (call.text("signs") != "none") {
    const assay_tensor& packed = call.input("signs");
    for (std::int64_t i = 0; i < element_count(packed); ++i) {
      signs.push_back(std::bit_cast<std::uint32_t>(int32_at(packed, i)));
    }
  }
  std::vector<float> row(static_cast<std::size_t>(reader.length()));
  for (std::int64_t r = 0; r < reader.rows(); ++r) {
    reader.read(engine, r, row.data());
    wht_row(row.data(), reader.length(), points, signs.empty() ? nullptr : signs.data(), call.yes("inverse"));
    write_row(engine, dtype, row.data(), reader.length(), mutable_row(y, r));
  }
}

}  // namespace assay_cpu
