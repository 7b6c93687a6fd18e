// What fuzz targets share. A target is a program with one function,
//   extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
// which libFuzzer calls (preset fuzz), and replay.cpp in every other build. It asserts properties by
// require(); a crash, a sanitizer's finding and an exception that is not the parser's own are findings too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "reference/error.hpp"

namespace assay::fuzz {

inline void require(bool holds, const char* property, std::string_view about = "this input") {
  if (holds) return;
  std::fprintf(stderr, "property violated: %s\n  about: %.*s\n", property, static_cast<int>(about.size()),
               about.data());
  std::abort();
}

// Calls `parse` and says whether it took the text. The refusal is an InputError that a person can read: it
// names the place, and is not as long as the text.
template <typename Parse>
bool accepted(std::string_view where, const Parse& parse) {
  constexpr std::size_t kLongestMessage = 8192;
  try {
    parse();
    return true;
  } catch (const InputError& e) {
    const std::string_view message = e.what();
    require(message.find(where) != std::string_view::npos, "a refusal says where", message);
    require(message.size() < kLongestMessage, "a refusal is short", message);
    return false;
  }
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace assay::fuzz
