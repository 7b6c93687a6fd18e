// Which schedule a fused attention kernel has, from the bits of its outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cases/studies/identify/attention_designs.hpp"
#include "cases/studies/identify/call_card.hpp"
#include "reference/replay/attention.hpp"

namespace assay {

// One query head of one sequence: what was asked and what was stored.
struct AttentionHead {
  std::int64_t rows = 0, keys = 0, d = 0, dv = 0;
  std::string format;  // of q, K and V where it is one, and a matrix unit can multiply them; else f32
  std::string out;     // of the store
  double scale = 1;
  std::vector<float> q, k, v;
  std::vector<float> got;             // [rows, dv]
  std::vector<std::uint8_t> visible;  // [rows, keys]; empty: all
  std::int64_t outputs() const { return rows * dv; }
};
struct AttentionAnswer {
  std::string line;  // the case line that repeats it
  std::vector<AttentionHead> heads;
  std::string declared_contract, declared_path;
  std::vector<std::string> kernels;  // that ran
};
// Asks the kernel on inputs of this seed and design. nullopt where it does not take the call, or the design
// cannot be had.
using AttentionAsk =
    std::function<std::optional<AttentionAnswer>(std::uint64_t seed, AttentionDesign design)>;

using AttentionCard = CallCard<AttentionSchedule>;

struct AttentionSearch {
  std::int64_t outputs = 10'000;  // to compare at least, under two seeds at least
  double seconds = 60;            // no new hypotheses after so long
};
// `known`: schedules found elsewhere, tried first.
AttentionCard identify_attention(const AttentionAsk& ask, const std::vector<AttentionSchedule>& known,
                                 const AttentionSearch& options = {});
// The schedules that differ from `s` in one field.
std::vector<std::pair<std::string, AttentionSchedule>> tampered(const AttentionSchedule& s,
                                                                const AttentionHead& head);

}  // namespace assay
