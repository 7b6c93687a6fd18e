// The kernels of matmul and attention with their schedules declared whole, to be judged bit by bit
// (level=replay). They are declared on drivers whose arithmetic is known (Capabilities::lane_fold): products
// and sums of every shader are decorated NoContraction, so that what is left to a driver is how a subgroup
// adds its lanes, whether subnormals are kept, and quotients in f64, which device_test asks.
#pragma once

#include <span>

#include "backends/vulkan/kernels.hpp"

namespace assay_vulkan {

std::span<const Kernel> replay_kernels();

}  // namespace assay_vulkan
