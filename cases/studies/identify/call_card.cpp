#include "cases/studies/identify/call_card.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cases/studies/identify/moe.hpp"
#include "reference/replay/attention_schedule.hpp"
#include "reference/replay/row_schedule.hpp"

namespace assay {
namespace {

template <typename Kind>
std::string contract_text(const Kind& schedule) {
  return "level=replay schedule=" + as_contract_value(print_schedule(schedule));
}
std::string contract_text(const MoeArithmetic& arithmetic) { return print_contract(arithmetic); }

}  // namespace

template <typename Kind>
std::string card_text(const CallCard<Kind>& card) {
  std::string out = card.subject + "\n";
  if (!card.refused.empty()) return out + "  not run  " + card.refused + "\n";
  out += fmt::format("  schedule {}\n", card.schedule ? print_schedule(*card.schedule) : "unknown");
  if (card.schedule) out += fmt::format("  contract {}\n", contract_text(*card.schedule));
  if (card.schedule)
    out += fmt::format("  bits     {} of {} stored outputs equal, seeds 1..{}; {} calls, {:.1f} s\n",
                       card.compared - card.unequal, card.compared, card.last_seed, card.calls, card.seconds);
  else
    out += fmt::format("  nearest  {}\n           {} of {} stored outputs equal ({:.4f} %); {:.1f} s\n",
                       print_schedule(card.nearest), card.compared - card.unequal, card.compared,
                       100.0 * static_cast<double>(card.compared - card.unequal) /
                           static_cast<double>(std::max<std::int64_t>(1, card.compared)),
                       card.seconds);
  if (!card.not_understood.empty()) out += fmt::format("  unknown  {}\n", card.not_understood);
  if (!card.declared_contract.empty()) out += fmt::format("  declared {}\n", card.declared_contract);
  if (!card.declared_path.empty()) out += fmt::format("  path     {}\n", card.declared_path);
  for (const std::string& kernel : card.kernels) out += fmt::format("  seen     {}\n", kernel);
  for (const CardField& f : card.fields)
    out += fmt::format("  {:<10} {:<22} <- {}\n", f.field,
                       f.concluded ? f.value : "unknown (" + f.value + ")", f.against);
  if (card.also > 0) out += fmt::format("  also     {} more that give the same bits here\n", card.also);
  if (!card.fallback.empty()) out += fmt::format("  fallback {}\n", card.fallback);
  return out + fmt::format("  repeat   assay identify '{}'\n", card.line);
}

template <typename Kind>
std::string card_json(const CallCard<Kind>& card) {
  nlohmann::ordered_json out;
  out["subject"] = card.subject, out["line"] = card.line;
  if (!card.refused.empty()) out["not_run"] = card.refused;
  out["schedule"] = card.schedule ? print_schedule(*card.schedule) : "unknown";
  if (!card.schedule) out["nearest"] = print_schedule(card.nearest);
  if (!card.not_understood.empty()) out["not_understood"] = card.not_understood;
  out["compared"] = card.compared, out["unequal"] = card.unequal, out["last_seed"] = card.last_seed,
  out["also"] = card.also;
  out["declared"] = card.declared_contract, out["path"] = card.declared_path, out["kernels"] = card.kernels;
  if (!card.fallback.empty()) out["fallback"] = card.fallback;
  out["seconds"] = card.seconds, out["calls"] = card.calls;
  for (const CardField& f : card.fields)
    out["fields"].push_back({{"field", f.field},
                             {"value", f.concluded ? f.value : "unknown"},
                             {"here", f.value},
                             {"against", f.against}});
  return out.dump(2) + "\n";
}

template std::string card_text(const CallCard<AttentionSchedule>&);
template std::string card_text(const CallCard<RowSchedule>&);
template std::string card_text(const CallCard<MoeArithmetic>&);
template std::string card_json(const CallCard<AttentionSchedule>&);
template std::string card_json(const CallCard<RowSchedule>&);
template std::string card_json(const CallCard<MoeArithmetic>&);

}  // namespace assay
