// How sharp the limits of attention are: figures for reports.
#pragma once

#include <string>
#include <vector>

namespace assay {

struct AttentionBoundFigure {
  std::string name;
  double value;
  double limit;  // value <= limit is promised
};

// Medians of limit / |output - centre| over the outputs of correct emulated kernels, gaussian input, 4096
// keys, d = dv = 128: order-free (bf16), cast-aware (the worse of f16 and bf16), emulated (the worst of four
// FP8 kernels); and how many of those outputs leave a limit of any level. A few seconds.
std::vector<AttentionBoundFigure> attention_bound_figures();

}  // namespace assay
