#include "harness/input_lists.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "reference/near_names.hpp"

namespace assay {

const Fill& find_fill(const InputLists& lists, std::string_view name, std::string_view op_name) {
  const Fill* general = nullptr;
  std::vector<std::string> allowed;
  for (const auto& f : lists.fills) {
    if (!f.op.empty() && f.op != op_name) continue;
    allowed.emplace_back(f.name);
    if (f.name != name) continue;
    if (!f.op.empty()) return f;
    general = &f;
  }
  if (general) return *general;
  throw InputError(InputErrorKind::unknown_name,
                   fmt::format("{}: no fill '{}'; {}", op_name, name, suggest(name, allowed)));
}

bool applies(const Fault& fault, std::string_view op) {
  if (fault.ops.empty()) return true;
  const std::string padded = fmt::format(" {} ", fault.ops);
  return padded.find(fmt::format(" {} ", op)) != std::string::npos;
}

const Fault* find_fault(const InputLists& lists, std::string_view name, std::string_view op) {
  if (name == "none") return nullptr;
  std::vector<std::string> allowed{"none"};
  for (const auto& f : lists.faults) {
    if (!applies(f, op)) continue;
    if (f.name == name) return &f;
    allowed.emplace_back(f.name);
  }
  throw InputError(InputErrorKind::unknown_name,
                   fmt::format("{}: no fault '{}'; {}", op, name, suggest(std::string(name), allowed)));
}

}  // namespace assay
