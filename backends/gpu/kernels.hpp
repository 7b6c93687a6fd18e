// One row per kernel: op, the word that selects it, what it can run, the arithmetic that it declares, and
// itself.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "backends/gpu/device.hpp"
#include "backends/plugin/kernels.hpp"

namespace assay_gpu {

using assay_plugin::Call;
using assay_plugin::Failed;
using assay_plugin::Trace;
using assay_plugin::Unsupported;

struct Kernel {
  std::string_view op;
  std::string_view variant;          // the word that selects it; "" for an op with one kernel
  bool (*chosen)(const Call& call);  // whether the backend left to itself picks this one; nullptr: always
  void (*check)(const Call& call, const DeviceInfo& device);  // throws Unsupported
  std::string_view (*name)(const Call& call);                 // of the device function that the path claims
  std::string (*contract)(const Call& call, const DeviceInfo& device);
  void (*run)(Run& run);  // launches; every launch is followed by run.launched("device function")
  bool hidden =
      false;  // not among the listed variants, run by those who ask: a defect on purpose, or of few formats
};

using assay_plugin::never;

// The list is these, in this order: of the rows of an op, the first that is chosen runs when the variant
// names none.
std::span<const Kernel> op_kernels();         // kernels.cpp
std::span<const Kernel> attention_kernels();  // attention_kernels.cpp
std::span<const Kernel> matrix_kernels();     // matrix_kernels.cpp: matrix units of this vendor

}  // namespace assay_gpu
