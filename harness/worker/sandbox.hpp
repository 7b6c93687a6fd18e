// What a worker is kept from when strangers' code runs in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace assay {

struct Sandbox {
  std::string scratch;            // an absolute path of a folder: what may be written
  std::int64_t memory_bytes = 0;  // address space of each process; 0 for no limit
};

// Called in the keeper, before the worker is started. The reason why it cannot be had: then nothing may be started.
std::optional<std::string> enter_sandbox(const Sandbox& sandbox);

}  // namespace assay
