// The card of one call whose schedule is more than one sum: attention, the ops on rows, moe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace assay {

struct CardField {
  std::string field, value;
  std::string against;    // "order=ascending: 7120 of 16384 outputs differ"
  bool concluded = true;  // false: another value gives the same bits on all that was asked
};

template <typename Kind>
struct CallCard {
  std::string subject, line;
  std::optional<Kind> schedule;  // nullopt: none of the hypotheses
  Kind nearest;                  // without one: the hypothesis with most equal outputs
  std::int64_t compared = 0,
               unequal = 0;  // under seeds 1 to last_seed; unequal is 0 where a schedule was found
  std::uint64_t last_seed = 1;
  std::int64_t also = 0;  // other hypotheses that gave the same bits on all that was asked
  std::vector<CardField> fields;
  std::string declared_contract, declared_path, refused;
  std::string
      not_understood;    // the first step for which no hypothesis gives the bits of inputs that show it alone
  std::string fallback;  // what the bits contradict of the declared contract; of moe alone
  std::vector<std::string> kernels;
  double seconds = 0;
  int calls = 0;
};

// For AttentionSchedule, RowSchedule and MoeArithmetic.
template <typename Kind>
std::string card_text(const CallCard<Kind>& card);
template <typename Kind>
std::string card_json(const CallCard<Kind>& card);

}  // namespace assay
