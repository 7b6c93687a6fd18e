// The functions of f32 that reference/replay models exactly, against a device, over every input.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "cases/studies/silicon/device.hpp"

namespace assay::silicon {

inline constexpr std::array kModelled = {Function::ex2_approx,
                                         Function::ex2_approx_ftz,
                                         Function::exp2f,
                                         Function::expf,
                                         Function::tanhf,
                                         Function::rcp_approx_ftz,
                                         Function::rsqrt_approx_ftz,
                                         Function::sqrt_approx_ftz};
// The result of the model, bit patterns. Only of those.
std::uint32_t modelled(Function function, std::uint32_t input);

// All NaN count as one.
struct ExactTally {
  std::uint64_t inputs = 0, differ = 0;
  std::uint32_t first = 0, got = 0, want = 0;  // the smallest input that differs, where one does
};

// The results of a device for inputs, bit patterns. One a thread.
using Evaluate = std::function<std::vector<std::uint32_t>(Function, const std::vector<std::uint32_t>&)>;
// Every input begin, begin + 1, ... before end, each device's share at a time by a thread of its own. An
// exception of any thread is thrown again here.
ExactTally compare_exactly(Function function, std::uint64_t begin, std::uint64_t end, int threads,
                           const std::function<Evaluate()>& make_device);

}  // namespace assay::silicon
