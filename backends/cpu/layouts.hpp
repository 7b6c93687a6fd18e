// The one list of formats that these kernels read and write: a row of data and two loops per format.
#pragma once

#include <span>
#include <string_view>

#include "backends/cpu/rows.hpp"

namespace assay_cpu {

struct Layout {
  std::string_view name;
  int block_elements;  // that a row must be a multiple of
  bool has_scale;
  bool has_block_scale;
  bool has_global_scale;
  void (*read)(const Planes& planes, const Engine& engine, std::int64_t row, float* out);
};

std::span<const Layout> layouts();
const Layout* find_layout(std::string_view name);
const Layout& layout(std::string_view name);  // throws Unsupported
Planes output_planes(const Call& call, std::string_view tensor, const Layout& format);

}  // namespace assay_cpu
