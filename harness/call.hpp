// A case as its kernel is called: the planes that the worker gets, and what comes back of them.
#pragma once

#include <vector>

#include "harness/inputs.hpp"
#include "harness/worker/worker.hpp"

namespace assay {

// The planes of a case's tensors as the worker takes them. `inputs` must outlive the call.
WorkerCall make_call(const Case& c, const Inputs& inputs);
// The same without any byte: enough to ask the backend for its declaration. Throws InputError for an
// impossible shape.
WorkerCall make_empty_call(const Case& c);

// A run's outputs, plane after plane, as tensors by name.
TensorSet output_tensors(const Inputs& inputs, const Outputs& planes_of_all);

// A run's outputs as numbers, in the op's order. Empty when the run left none, or stored scales that are
// none.
std::vector<std::vector<double>> decode_outputs(const Inputs& inputs, const Outputs& planes_of_all);

}  // namespace assay
