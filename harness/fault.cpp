#include "harness/fault.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "harness/near_names.hpp"

namespace assay {

bool applies(const Fault& fault, std::string_view op) {
  if (fault.ops.empty()) return true;
  const std::string padded = fmt::format(" {} ", fault.ops);
  return padded.find(fmt::format(" {} ", op)) != std::string::npos;
}

const Fault* find_fault(std::string_view name, std::string_view op) {
  if (name == "none") return nullptr;
  std::vector<std::string> allowed{"none"};
  for (const auto& f : faults()) {
    if (!applies(f, op)) continue;
    if (f.name == name) return &f;
    allowed.emplace_back(f.name);
  }
  throw InputError(InputErrorKind::unknown_name,
                   fmt::format("{}: no fault '{}'; {}", op, name, suggest(std::string(name), allowed)));
}

}  // namespace assay
