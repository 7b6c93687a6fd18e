// What came back of one request: for the files of class Worker alone.
#pragma once

#include <optional>
#include <string>

#include "harness/worker/findings.hpp"
#include "harness/worker/worker.hpp"

namespace assay {

// A reply, or the reason why there is none (crash, hang) and nobody left to talk to.
struct Worker::Exchange {
  std::optional<Reply> reply;
  RunStatus status = RunStatus::done;
  std::string reason;
  std::optional<reply::Crash> crash;
  ExitStatus exit;
  bool not_started = false;
  std::string output_tail;
};

// As the request has it; without a layout, as it is for declare, the tensors have no place.
CallMessage call_message(const WorkerCall& call, const PlaneSet& set, const Layout* layout);

}  // namespace assay
