#include "cases/studies/identify/kernel_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/call.hpp"

namespace assay {

namespace {

std::optional<KernelAnswer> ask(const Case& c, const Inputs& inputs, Workers& workers) {
  RunRequest request{.call = make_call(c, inputs)};
  Workers::Entry& backend = workers.current(c.backend);
  request.alignment = std::max<std::size_t>(1, backend.choice.info.alignment);
  request.timeout = std::chrono::seconds(60);
  request.second_run = false;
  const DeclareResult declared = backend.worker->declare(request.call);
  if (declared.status == RunStatus::unsupported) return std::nullopt;
  if (declared.status != RunStatus::done)
    throw std::runtime_error(fmt::format("{}: {}", to_string(declared.status), declared.reason));
  request.alignment = std::max(request.alignment, declared.declaration.alignment);
  const RunResult run = backend.worker->run(request);
  if (run.status == RunStatus::unsupported) return std::nullopt;
  if (run.status != RunStatus::done)
    throw std::runtime_error(fmt::format("{}: {}: {}", c.line(), to_string(run.status), run.reason));
  KernelAnswer answer{decode_outputs(inputs, run.outputs).at(0), declared.declaration.contract,
                      declared.declaration.path, run.trace.kernels};
  if (run.trace.witness) {
    answer.kernels.clear();
    // Each once: a call that is tuned first launches thousands.
    for (const SeenKernel& seen : run.trace.witness->kernels)
      if (std::ranges::find(answer.kernels, seen.name) == answer.kernels.end())
        answer.kernels.push_back(seen.name);
  }
  return answer;
}

}  // namespace

std::optional<KernelAnswer> call_kernel(const Case& c, const Inputs& inputs, const Kernels& kernels) {
  if (kernels.answers != nullptr && kernels.answers->reads()) return kernels.answers->find(c, inputs);
  std::optional<KernelAnswer> answer = ask(c, inputs, kernels.workers);
  if (kernels.answers != nullptr) kernels.answers->add(c, inputs, answer);
  return answer;
}

}  // namespace assay
