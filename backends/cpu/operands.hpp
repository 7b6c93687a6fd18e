// What a product kernel multiplies: the path from stored rows to the operands of a dot product.
//   f32 f16 bf16  rows decoded to f32 and rounded to that format
//   codes         the codes themselves; the scales, constant along a row, come in the epilogue
//   e4m3fn        weights rounded to e4m3fn (clamped at 448); activations in e4m3fn with one scale absmax /
//                 448
//   q8            activations quantised to blocks of 32 int8 with an f16 scale; weights decoded to f32
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/layouts.hpp"

namespace assay_cpu {

// path=auto: codes when both sides' scales are constant along rows, else the 16-bit type of a side, else f32.
std::string resolve_path(std::string_view path, std::string_view a, std::string_view b);
// Throws Unsupported when this path cannot take these formats.
void check_path(std::string_view path, std::string_view a, std::string_view b);
// Codes of both sides are integers: products are summed in int32.
bool integer_product(std::string_view path, std::string_view a, std::string_view b);
// "acc=i32 ..." or "acc=f32 ...".
std::string product_contract(const Engine& engine, std::string_view path, std::string_view a,
                             std::string_view b);

// How four vectors of sums of engine.dot are added: in pairs, then the lanes by halves. Whole vectors of
// terms that are left go to the first, the rest to the second.
std::string fold_of_four_vectors(const Engine& engine);
// The order of the additions of k products, whole, for level=replay: "acc:f32/lanes:16"; each key behind
// `prefix`. Sums of integers are exact in every order. Else weights of one row
// meet rows of activations in fours (rows:4), a vector of sums for each, and the rows that are left one by
// one, each with four vectors of sums (left.*).
std::string product_schedule(const Engine& engine, std::string_view path, bool integers, std::int64_t k,
                             std::string_view prefix = "");

// A matrix of activations, ready to be multiplied: row-major operands and one epilogue scale per row.
struct Activations {
  std::size_t rows = 0;
  std::size_t length = 0;
  std::vector<float> values;       // floating products
  std::vector<std::int8_t> codes;  // integer products
  std::vector<float> scales;       // empty: none
};
// Rows `which` of the reader (all of them when empty).
Activations take_activations(const Engine& engine, const RowReader& reader, std::string_view format,
                             std::string_view path, bool integer,
                             const std::vector<std::int64_t>& which = {});
// One row of weights against every activation: out[i] = activations[i] . weights[row], scales applied.
class WeightRows {
 public:
  WeightRows(const Engine& engine, const RowReader& reader, std::string_view format, std::string_view path,
             bool integer);
  void dot(std::int64_t row, const Activations& activations, float* out);

 private:
  const Engine& engine_;
  const RowReader& reader_;
  std::string format_, path_;
  bool integer_;
  std::vector<float> values_;
  std::vector<std::int8_t> codes_;
};

// Values of an activation matrix as the operands of `path` (what e4m3fn and q8 do; f16 and bf16 round).
void prepare_values(const Engine& engine, std::string_view path, Activations& activations);

}  // namespace assay_cpu
