// What stands behind the colon of backend=NAME:OPTIONS.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "backends/plugin/call.hpp"

namespace assay_plugin {

// For assay_backend_open(): the options are wrong. By its first word the worker knows a mistake from a
// machine that lacks something.
[[noreturn]] inline void refuse_option(std::string_view got, std::string_view allowed) {
  throw Failed("option '" + std::string(got) + "': allowed: " + std::string(allowed));
}

// Of a backend that has no options.
inline void no_options(std::string_view backend, const char* options) {
  if (options == nullptr || options[0] == '\0') return;
  refuse_option(options, "none, the backend " + std::string(backend) + " has no options");
}

// N of the option threads=N, which is 1..most.
inline int threads_of_option(std::string_view option, int most) {
  constexpr std::string_view kThreads = "threads=";
  const char* const end = option.data() + option.size();
  int threads = 0;
  if (!option.starts_with(kThreads) ||
      std::from_chars(option.data() + kThreads.size(), end, threads).ptr != end || threads < 1 ||
      threads > most)
    refuse_option(option, "threads=1 to threads=" + std::to_string(most));
  return threads;
}

}  // namespace assay_plugin
