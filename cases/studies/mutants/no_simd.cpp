// The mutated library has the scalar engine alone: the others would hide its mutants.
#include "backends/cpu/engine.hpp"

namespace assay_cpu {
std::span<const Engine* const> simd_engines() { return {}; }
}  // namespace assay_cpu
