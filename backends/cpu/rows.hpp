// Tensors of any format as rows of f32: what lets each kernel read a format natively, one row in the L1 cache
// at a time. A row is everything along the last axis. Decoded value = code value * scale, rounded to f32 once
// per product.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/call.hpp"
#include "backends/cpu/engine.hpp"

namespace assay_cpu {

struct Layout;

// The planes of one tensor. Companions are null where the format has none.
struct Planes {
  const assay_tensor* payload = nullptr;
  const assay_tensor* scale = nullptr;         // NAME.scale
  const assay_tensor* scale_2 = nullptr;       // NAME.scale_2
  const assay_tensor* block_scale = nullptr;   // NAME.block_scale
  const assay_tensor* global_scale = nullptr;  // NAME.global_scale
  std::int64_t length = 0;                     // of a row, in elements
  std::int64_t middle = 1;                     // size of the second to last axis; 1 for rank 2 and below
};

class RowReader {
 public:
  RowReader(const Call& call, std::string_view tensor, std::string_view format);
  std::int64_t rows() const { return rows_; }
  std::int64_t length() const { return planes_.length; }
  // out[0 .. length) = row `row`, decoded.
  void read(const Engine& engine, std::int64_t row, float* out) const;
  const Planes& planes() const { return planes_; }
  // The same rows of tq3_0 as they stand in their blocks, before the inverse transform: scale times codebook
  // value. Throws Unsupported for any other format.
  RowReader rotated() const;

 private:
  Planes planes_;
  const Layout* layout_;
  std::int64_t rows_;
};

// Throws Unsupported unless `format` can be read and every companion plane of the tensor is there.
void check_readable(const Call& call, std::string_view tensor, std::string_view format);
// Throws Unsupported unless `format` is f32, f16 or bf16.
void check_dtype(std::string_view format);
// Rounds a row of f32 to f32, f16 or bf16.
void write_row(const Engine& engine, std::string_view dtype, const float* values, std::int64_t count,
               std::byte* bytes);

}  // namespace assay_cpu
