// How fast the bit-exact model of a matrix unit runs: figures for reports, not for verdicts.
#pragma once

#include <cstdint>
#include <string_view>

namespace assay {

// Fused g-term dots (c chained) per second on the calling thread, from packed operands in cache: m = n = 128,
// k = 1024, best of several repetitions that together take about `seconds`. Default: Hopper FP8 wgmma, g =
// 32.
double measure_fused_dots_per_second(std::string_view unit_name = "hopper_fp8", double seconds = 0.5);

}  // namespace assay
