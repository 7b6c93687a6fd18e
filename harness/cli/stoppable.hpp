// What subcommands that wait for workers share: a signal that ends them, and seconds as they are typed.
#pragma once

#include <algorithm>
#include <chrono>

#include "harness/interrupt.hpp"
#include "harness/judge.hpp"

namespace assay {

inline std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(std::max(1L, static_cast<long>(1000 * seconds)));
}

// Workers that a signal ends.
inline WorkerSettings stopped_by(const StopSignals& signals) {
  WorkerSettings settings;
  settings.stop_descriptor = signals.descriptor();
  return settings;
}

// The exit code of act(signals), or that of the signal which ended it.
template <class Act>
int until_stopped(Act act) {
  const StopSignals signals;
  try {
    return act(signals);
  } catch (const Stopped&) {
    return 128 + signals.signal();
  }
}

}  // namespace assay
