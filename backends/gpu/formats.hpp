// The one list of formats that these kernels read and write. Host side.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backends/gpu/view.hpp"
#include "backends/plugin/call.hpp"

namespace assay_gpu {

struct FormatRow {
  std::string_view name;
  Format format;
  int block_elements;  // that a row must be a multiple of
  int bits;            // of payload, per element; 0 for inline blocks
  int block_bytes;     // of an inline block, else 0
  bool has_scale, has_block_scale, has_global_scale, has_second_scale = false;
  int word_elements = 1;  // of an element of the payload's tensor: 8 where it is int32 with eight codes
};

std::span<const FormatRow> formats();
const FormatRow* find_format(std::string_view name);
const FormatRow& format_row(std::string_view name);  // throws Unsupported

// Bytes of `count` neighbours of a plane: a format above, or int32, int64.
std::int64_t plane_bytes(std::string_view plane_format, std::int64_t count);

// Throw Unsupported unless the format is known, all of its planes are there and rows are whole blocks.
void check_readable(const assay_plugin::Call& call, std::string_view tensor, std::string_view format);
void check_writable(const assay_plugin::Call& call, std::string_view tensor, std::string_view format);
// Throws Unsupported unless `format` is f32, f16 or bf16.
void check_dtype(std::string_view format);

}  // namespace assay_gpu
