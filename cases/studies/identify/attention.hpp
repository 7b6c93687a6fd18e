// Which schedule a fused attention kernel has, from the bits of its outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reference/replay/attention.hpp"

namespace assay {

// One query head of one sequence: what was asked and what was stored.
struct AttentionHead {
  std::int64_t rows = 0, keys = 0, d = 0, dv = 0;
  std::string format;  // of q, K and V, and of the store
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
// Asks the kernel on inputs of this seed. nullopt where it does not take the call.
using AttentionAsk = std::function<std::optional<AttentionAnswer>(std::uint64_t seed)>;

struct AttentionField {
  std::string field, value;
  std::string against;    // "order=ascending: 7120 of 16384 outputs differ"
  bool concluded = true;  // false: another value gives the same bits on all that was asked
};
struct AttentionCard {
  std::string subject, line;
  std::optional<AttentionSchedule> schedule;  // nullopt: none of the hypotheses
  AttentionSchedule nearest;                  // without one: the hypothesis with most equal outputs
  std::int64_t compared = 0,
               unequal = 0;  // under seeds 1 to last_seed; unequal is 0 where a schedule was found
  std::uint64_t last_seed = 1;
  std::int64_t also = 0;  // other hypotheses that gave the same bits on all that was asked
  std::vector<AttentionField> fields;
  std::string declared_contract, declared_path, refused;
  std::vector<std::string> kernels;
  double seconds = 0;
};

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

std::string card_text(const AttentionCard& card);
std::string card_json(const AttentionCard& card);

}  // namespace assay
