#include "harness/fuzz/protocol_line.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return assay::fuzz::line_is_refused_or_kept<assay::parse_reply>(data, size);
}
