// Rows of formats whose scales are shared by blocks of a row. Byte layouts stand at the top of the .cpp
// files.
#pragma once

#include <cstdint>

#include "backends/cpu/rows.hpp"

namespace assay_cpu {

#define ASSAY_BLOCK(name)                                                                     \
  void read_##name(const Planes& planes, const Engine& engine, std::int64_t row, float* out); \
  void write_##name(const Planes& planes, const Engine& engine, std::int64_t row, const float* values)
// blocks_ggml.cpp
ASSAY_BLOCK(q8_0);
ASSAY_BLOCK(q4_0);
ASSAY_BLOCK(q4_1);
ASSAY_BLOCK(q5_0);
ASSAY_BLOCK(q5_1);
ASSAY_BLOCK(iq4_nl);
ASSAY_BLOCK(mxfp4_ggml);
// blocks_int4.cpp
ASSAY_BLOCK(int4_g32_bf16);
ASSAY_BLOCK(int4_g32_packed);
ASSAY_BLOCK(int4_ch_tensor);
ASSAY_BLOCK(int4_g32_tensor);
// blocks_mx.cpp
ASSAY_BLOCK(mxfp4);
ASSAY_BLOCK(mxfp8);
ASSAY_BLOCK(mxfp8_e5m2);
ASSAY_BLOCK(nvfp4);
ASSAY_BLOCK(nvfp4_swizzled);
// blocks_tq3.cpp
ASSAY_BLOCK(tq3_0_c2s1);
ASSAY_BLOCK(tq3_0_c2);
void read_tq3_0_c2s1_rotated(const Planes& planes, const Engine& engine, std::int64_t row, float* out);
void read_tq3_0_c2_rotated(const Planes& planes, const Engine& engine, std::int64_t row, float* out);
// scalars.cpp
ASSAY_BLOCK(e8m0);
ASSAY_BLOCK(ue4m3);
ASSAY_BLOCK(uint8);
ASSAY_BLOCK(tf32);
#undef ASSAY_BLOCK

}  // namespace assay_cpu
