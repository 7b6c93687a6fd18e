#include "harness/witness/cupti/cupti_api.hpp"

#include <dlfcn.h>

#include <cstdlib>

namespace assay::cupti {

std::string Library::reason(int result) const {
  const char* text = nullptr;
  result_string(result, &text);
  return text != nullptr ? text : "CUPTI error " + std::to_string(result);
}

std::vector<std::string> candidates() {
  std::vector<std::string> found;
  const char* const named = std::getenv("ASSAY_CUPTI");
  std::string rest = named != nullptr ? named : "";
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    if (colon != 0) found.push_back(rest.substr(0, colon));
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  const auto first_by_name = found.size();
  for (const char* name : {"libcupti.so.13", "libcupti.so.12"}) {
    void* const loaded = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    const auto place =
        loaded != nullptr ? found.begin() + static_cast<std::ptrdiff_t>(first_by_name) : found.end();
    found.insert(place, name);
    if (loaded != nullptr) dlclose(loaded);
  }
  return found;
}

std::string open(const std::string& name, Library& out) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  std::string missing;
  const auto find = [&]<typename F>(F*& function, const char* symbol) {
    function = reinterpret_cast<F*>(dlsym(library, symbol));
    if (function == nullptr) missing = symbol;
  };
  find(out.register_callbacks, "cuptiActivityRegisterCallbacks");
  find(out.enable, "cuptiActivityEnable");
  find(out.flush_all, "cuptiActivityFlushAll");
  find(out.next_record, "cuptiActivityGetNextRecord");
  find(out.dropped_records, "cuptiActivityGetNumDroppedRecords");
  find(out.result_string, "cuptiGetResultString");
  find(out.version, "cuptiGetVersion");
  return missing.empty() ? "" : name + " has no " + missing;
}

}  // namespace assay::cupti
