#pragma once
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "reference/ops/attention/emulated.hpp"

namespace assay {

namespace attention_bounds {
struct RowLogits;
struct ValueFacts;
struct StepModel;
}  // namespace attention_bounds

enum class AttentionLevel : std::uint8_t { detap, detord, ca, emu };
AttentionLevel attention_level(std::string_view name);  // throws InputError bad_value

struct RowBounds {
  std::vector<double> value;  // the real output
  std::vector<double>
      centre;  // what the level expects before the output is rounded; `value` for detap and detord
  std::vector<double> radius;     // of the interval around it, before the output is rounded
  std::vector<double> limit;      // |output - centre| <= limit, the rounding of the output included
  std::vector<double> low, high;  // low <= output <= high: the interval's ends, rounded (at least as sharp)
};

class AttentionBounds {
 public:
  AttentionBounds(const AttentionArithmetic& how, const KeyValues& kv);
  ~AttentionBounds();
  RowBounds row(const QueryRow& query, AttentionLevel level) const;

 private:
  void order_free(const QueryRow& query, const attention_bounds::RowLogits& row, RowBounds& r) const;
  void ordered(const QueryRow& query, const attention_bounds::RowLogits& row, RowBounds& r) const;
  void cast_aware(const QueryRow& query, const attention_bounds::RowLogits& row, RowBounds& r) const;
  void emulated(const QueryRow& query, const attention_bounds::RowLogits& row, RowBounds& r) const;
  void finish(const QueryRow& query, bool output_is_exact, RowBounds& r) const;
  bool exact_sum(const attention_bounds::StepModel& model, std::size_t column) const;

  AttentionArithmetic how_;
  KeyValues kv_;
  std::unique_ptr<attention_bounds::ValueFacts> facts_;
  mutable std::once_flag emulator_once_;
  mutable std::unique_ptr<AttentionEmulator> emulator_;  // level emu only
};

}  // namespace assay
