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

}  // namespace assay::cpu_witness
