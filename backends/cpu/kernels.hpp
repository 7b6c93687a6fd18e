// One row per kernel: op, the word that selects it, what it can run, the arithmetic that it declares, and
// itself.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "backends/cpu/call.hpp"
#include "backends/cpu/engine.hpp"
#include "backends/plugin/kernels.hpp"

namespace assay_cpu {

struct Kernel {
  std::string_view op;
  std::string_view variant;  // "" for an op with one kernel; "decode", "prefill", ...: the word of a variant
  bool listed;               // among the backend's variants: it takes whatever the op's other kernels take
  bool (*chosen)(const Call& call);  // whether an engine left to itself picks this one; nullptr: always
  void (*check)(const Call& call);   // throws Unsupported
  std::string (*contract)(const Call& call, const Engine& engine);
  // Announces itself through trace.kernel() and runs.
  void (*run)(const Call& call, const Engine& engine, const Trace& trace);
  std::string_view routine;  // the name of `run`: declaration.path, which a witness sees
};

std::span<const Kernel> kernels();

}  // namespace assay_cpu
