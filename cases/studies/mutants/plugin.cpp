// The plug-in of mutants: cpu_mutants:17 is our CPU kernels with mutant 17 on; cpu_mutants:0 is the correct
// counterpart, and cpu_mutants:record the counterpart that notes the mutants which a run reaches. One mutant
// a process: the kernels are loaded once it is chosen, and nothing that it left behind can be taken for the
// work of another. Variants are the kernels' own. declare() always runs unmutated: a mutant breaks the
// promise of its correct counterpart.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "backends/assay_backend.h"

namespace {

const assay_backend* g_inner;
void (*g_set)(int, int);
const char* (*g_seen)();
int g_mutant;
bool g_record;

assay_status declare(void*, const assay_call* call, assay_declaration* declaration) {
  g_set(0, 0);
  return g_inner->declare(g_inner->self, call, declaration);
}

assay_status run(void*, const assay_call* call, const assay_trace* trace, char* reason) {
  g_set(g_mutant, g_record ? 1 : 0);
  const assay_status status = g_inner->run(g_inner->self, call, trace, reason);
  g_set(0, 0);
  if (g_record) trace->note(trace->self, "mutants", g_seen());
  return status;
}

std::string beside_this(const char* name) {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&beside_this), &info);
  return (std::filesystem::path(info.dli_fname).parent_path() / name).string();
}

}  // namespace

extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  char* end = nullptr;
  g_record = std::strcmp(options, "record") == 0;
  g_mutant = g_record ? 0 : static_cast<int>(std::strtol(options, &end, 10));
  if (!g_record && *end != '\0') {
    std::snprintf(reason, 256, "cpu_mutants:%s: allowed: the number of a mutant, 0 for none, or record",
                  options);
    return nullptr;
  }
  setenv("ASSAY_MUTANT", g_record ? "record" : std::to_string(g_mutant).c_str(), 1);
  void* library = dlopen(beside_this(ASSAY_MUTATED_KERNELS).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::snprintf(reason, 256, "%s", dlerror());
    return nullptr;
  }
  g_set = reinterpret_cast<void (*)(int, int)>(dlsym(library, "assay_mutants_set"));
  g_seen = reinterpret_cast<const char* (*)()>(dlsym(library, "assay_mutants_seen"));
  const auto entry = reinterpret_cast<assay_backend_open_fn>(dlsym(library, "assay_backend_open"));
  if (g_set == nullptr || g_seen == nullptr || entry == nullptr) {
    std::snprintf(reason, 256, "%s is no library of mutants", ASSAY_MUTATED_KERNELS);
    return nullptr;
  }
  g_inner = entry("", reason);
  if (g_inner == nullptr) return nullptr;
  static const assay_backend backend = {
      ASSAY_BACKEND_VERSION,
      "cpu_mutants",
      "our CPU kernels, scalar, with one mutant on",
      g_inner->variants,
      nullptr,
      declare,
      run,
      [](void*) {
        if (g_inner->close != nullptr) g_inner->close(g_inner->self);
      },
  };
  return &backend;
}
