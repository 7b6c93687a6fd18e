// The hostile corpus: what each misdeed must be found to be. One row each; the build checks that names are
// unique, and hostile_test that the table and the programs that misbehave name the same misdeeds.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "harness/worker/worker.hpp"

namespace assay {

enum class Via : std::uint8_t {
  run,       // the hostile plug-in, in run()
  declare,   // in declare()
  open,      // while it is opened: the row's name is the plug-in's options
  raw,       // a worker that breaks the protocol, behind a run
  greeting,  // in hello or open: the row's name is the worker's argument
  python,    // a subject in Python
};

// Beyond the call itself, with the default limits.
enum Flags : unsigned {
  kPlain = 0,
  kShort = 1,       // the limit is short: the row does not end by itself
  kWrong = 2,       // `done`, and the outputs are not 2 x: the reference's to find
  kSandbox = 4,     // in a sandbox
  kOtherFirst = 8,  // the misdeed is called with other numbers of the same shape before
  kIsolate = 16,    // RunRequest::isolate
  kRepeat = 32,     // RunRequest::repeats = 2
  kOrDone =
      64,  // what strikes late may strike when nobody looks any more, and is nobody's finding; see `why`
};

struct Row {
  std::string_view name;  // of the misdeed; what stands behind a '/' tells rows of one misdeed apart
  Via via;
  RunStatus status;
  std::string_view reason;  // a part of it
  unsigned flags = kPlain;
  // Where the moment decides between two statuses: the other one, and why no harness could say which.
  RunStatus other = RunStatus::done;
  std::string_view why = "";

  constexpr std::string_view misdeed() const { return name.substr(0, name.find('/')); }
};

std::span<const Row> rows();

}  // namespace assay
