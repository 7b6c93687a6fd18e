// What a worker says is bounded, on its own side so that an honest one never exceeds a line, and on the
// judge's for all others: nothing of it may size what the judge holds. What is left out is counted.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "harness/worker/protocol.hpp"

namespace assay {

inline constexpr std::size_t kLineBytes = std::size_t{8} << 20;      // of one reply
inline constexpr std::size_t kMostAlignment = std::size_t{1} << 20;  // beyond every page
inline constexpr std::size_t kTextBytes = 4096;                      // of a name, a key, a value, a reason

// "aaaa... (12345 bytes more)"
std::string cut(std::string_view text, std::size_t most = kTextBytes);

// Bytes of names, as they are written in JSON, that a trace may have of each kind.
struct TraceBounds {
  std::size_t kernels = 0, witness = 0, notes = 0;
};
inline constexpr TraceBounds kInOneReply{std::size_t{1} << 20, std::size_t{2} << 20, std::size_t{1} << 18};
inline constexpr TraceBounds kForTheReport{std::size_t{1} << 14, std::size_t{1} << 14, std::size_t{1} << 12};

// Cuts each text, keeps of kernels the first launch of each name before any repeated one, and of notes the
// first. How many kernels, launches that were seen, and notes are left out is said by notes
// `kernels_left_out`, `seen_left_out`, `notes_left_out`.
void bound(Trace& trace, const TraceBounds& bounds);

}  // namespace assay
