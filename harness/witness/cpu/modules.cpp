#include "harness/witness/cpu/modules.hpp"

#include <set>
#include <utility>

namespace assay::cpu_witness {

std::vector<Module> new_modules() {
  static std::set<std::pair<ElfW(Addr), std::string>> known;
  std::vector<Module> fresh;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        if (known.emplace(info->dlpi_addr, info->dlpi_name).second)
          static_cast<std::vector<Module>*>(into)->push_back(
              {info->dlpi_addr, info->dlpi_name, {info->dlpi_phdr, info->dlpi_phdr + info->dlpi_phnum}});
        return 0;
      },
      &fresh);
  return fresh;
}

std::vector<std::string> needed_by(const Module& module) {
  std::vector<std::string> needed;
  for (const ElfW(Phdr) & segment : module.segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    const auto* const first = reinterpret_cast<const ElfW(Dyn)*>(module.base + segment.p_vaddr);
    const char* names = nullptr;
    for (const auto* entry = first; entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    for (const auto* entry = first; names != nullptr && entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == DT_NEEDED) needed.emplace_back(names + entry->d_un.d_val);
  }
  return needed;
}

}  // namespace assay::cpu_witness
