// A parser with a fault, for the test of the replay: it takes "a==b" for a key and a value, and loses a byte
// in printing.
#include "harness/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(assay::fuzz::text_of(data, size));
  const auto key = text.find('='), value = text.find_last_of('=');
  if (key == std::string::npos) return 0;
  const std::string printed = text.substr(0, key) + "=" + text.substr(value + 1);
  assay::fuzz::require(printed == text, "a printed pair is read as itself", text);
  return 0;
}
