// The one list of formats that these kernels read and write: a row of data and two loops per format.
#pragma once

#include <span>
#include <string_view>

#include "backends/cpu/rows.hpp"

namespace assay_cpu {

// What one f32 scale of the plane ".scale" (or ".global_scale") belongs to. Axes: [.., outer, middle, inner].
enum class Scaling : std::uint8_t {
  none,     // no f32 scale outside the payload
  tensor,   // the whole tensor
  head,     // a middle index
  token,    // an outer index
  channel,  // a (middle, inner) pair
  row,      // an (outer, middle) pair
  group32,  // 32 neighbours along inner
  second,   // int4_*_tensor's ".scale_2": one for the tensor; those of rows or groups are made with the codes
  global,   // nvfp4's ".global_scale": one for the tensor, and decoding divides by it
};

struct Layout {
  std::string_view name;
  int block_elements;  // that a row must be a multiple of
  Scaling scaling;
  bool has_scale;        // a plane ".scale"
  bool has_block_scale;  // a plane ".block_scale"
  float scale_divisor;   // scale = absmax / this; 0 for formats without f32 scales
  // The row's values, decoded to f32.
  void (*read)(const Planes& planes, const Engine& engine, std::int64_t row, float* out);
  // Stores a row. f32 scales are those already in the planes; scales of blocks are computed here.
  void (*write)(const Planes& planes, const Engine& engine, std::int64_t row, const float* values);
  int packed = 1;  // elements to an element of the payload's plane
};

std::span<const Layout> layouts();
const Layout* find_layout(std::string_view name);
const Layout& layout(std::string_view name);  // throws Unsupported
// Of tq3_0, without its inverse transform; it is read, not written. Throws Unsupported.
const Layout& rotated_layout(const Layout& layout);
// Throws Unsupported when a plane is missing or rows are not whole blocks.
Planes output_planes(const Call& call, std::string_view tensor, const Layout& format);

// Which f32 scale element `column` of row `row` has.
std::int64_t scale_index(Scaling scaling, const Planes& planes, std::int64_t row, std::int64_t column);
// Fills the f32 scale plane from the values (row-major, all rows): absmax of the finite ones / divisor, 1 for
// all-zero; for nvfp4 448 * 6 / absmax. divisor 0: the format's own.
void write_scales(const Layout& layout, const Planes& planes, const float* values, std::int64_t rows,
                  float divisor = 0);
// Sets every f32 scale to 1.
void write_unit_scales(const Layout& layout, const Planes& planes);

}  // namespace assay_cpu
