#include "harness/first_step.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/call.hpp"

namespace assay {
namespace {

// Whether the kernel keeps the contract on these inputs; a run that does not end is a difference.
bool agrees(const Case& c, const Inputs& inputs, const Contract& contract, Workers& workers,
            std::chrono::milliseconds timeout) {
  Workers::Entry& backend = workers.current(c.backend);
  RunRequest request{.call = make_call(c, inputs)};
  request.timeout = timeout;
  request.alignment = std::max<std::size_t>(1, backend.choice.info.alignment);
  request.second_run = false;
  const RunResult run = backend.worker->run(request);
  if (run.status != RunStatus::done) return false;
  const std::vector<Truth> truths = c.op->truth(c.attributes, inputs.set, contract);
  return judge_numbers(inputs, truths, output_tensors(inputs, run.outputs)).status != Status::wrong;
}

}  // namespace

std::string first_differing_step(const Case& c, const Inputs& inputs, const Contract& contract,
                                 const std::vector<ReplayStage>& stages, Workers& workers,
                                 std::chrono::milliseconds timeout) {
  Inputs cut = inputs;
  for (const ReplayStage& stage : stages) {
    const auto differs = [&](std::int64_t t) {
      cut.set = stage.cut(t);
      return !agrees(c, cut, contract, workers, timeout);
    };
    if (differs(0)) continue;
    std::int64_t same = 0, other = stage.steps;
    if (!differs(other)) return "";
    while (other - same > 1) {
      const std::int64_t middle = same + (other - same) / 2;
      (differs(middle) ? other : same) = middle;
    }
    return fmt::format("the bits first differ when {}", stage.name(other));
  }
  return stages.empty() ? "" : "the bits differ with nothing but zeros to add";
}

}  // namespace assay
