// y = 2 x, by routines that no symbol of this plug-in names: two that are generated and told to perf, and
// those of a library beside it (brought.c). A variant announces one routine; which it enters is another
// matter.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "backends/assay_backend.h"

extern "C" int brought_factor(void);
extern "C" int brought_other(void);

namespace {

constexpr std::size_t kPage = 65536;
using Code = int (*)();

void* pages(void* at, int rights) {
  return mmap(at, kPage, rights, MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1, 0);
}
constexpr const char* kFolderOfPerf = "/tmp";  // wherever temporary files are otherwise
std::string map_file() { return std::string(kFolderOfPerf) + "/perf-" + std::to_string(getpid()) + ".map"; }

// A routine that returns 2.
Code generated(const char* name) {
#if defined(__x86_64__)
  constexpr std::array<std::uint8_t, 6> kCode{0xB8, 2, 0, 0, 0, 0xC3};
#else
  constexpr std::array<std::uint32_t, 2> kCode{0x52800040, 0xD65F03C0};
#endif
  void* const at = pages(nullptr, PROT_READ | PROT_WRITE);
  std::memcpy(at, kCode.data(), sizeof kCode);
  __builtin___clear_cache(static_cast<char*>(at), static_cast<char*>(at) + sizeof kCode);
  mprotect(at, kPage, PROT_READ | PROT_EXEC);
  static FILE* const map = std::fopen(map_file().c_str(), "w");
  std::fprintf(map, "%lx %zx %s\n", reinterpret_cast<unsigned long>(at), sizeof kCode, name);
  std::fflush(map);
  return reinterpret_cast<Code>(at);
}

Code g_fast = nullptr, g_slow = nullptr;
unsigned char* g_data = nullptr;  // where g_fast was

assay_status run(void*, const assay_call* call, const assay_trace* trace, char* reason) {
  const std::string_view variant = call->variant;
  const auto fail = [&](const char* why) {
    std::snprintf(reason, 256, "%s", why);
    return ASSAY_FAILED;
  };
  if (access(map_file().c_str(), F_OK) == 0) return fail("the map is left behind");
  if (g_data != nullptr)
    for (std::size_t i = 0; i < kPage; ++i)
      if (g_data[i] != 7) return fail("the witness wrote into data");
  int factor = 0;
  if (variant == "fast") trace->kernel(trace->self, "generated_fast"), factor = g_fast();
  if (variant == "slow") trace->kernel(trace->self, "generated_fast"), factor = g_slow();
  if (variant == "unnamed") trace->kernel(trace->self, "generated_none"), factor = 2;
  if (variant == "late") trace->kernel(trace->self, "generated_late"), factor = generated("generated_late")();
  if (variant == "brought") trace->kernel(trace->self, "brought_factor"), factor = brought_factor();
  if (variant == "other") trace->kernel(trace->self, "brought_factor"), factor = brought_other();
  if (variant == "freed") {
    trace->kernel(trace->self, "generated_fast"), factor = g_fast();
    munmap(reinterpret_cast<void*>(g_fast), kPage);
    g_data = static_cast<unsigned char*>(pages(reinterpret_cast<void*>(g_fast), PROT_READ | PROT_WRITE));
    std::memset(g_data, 7, kPage);
  }
  if (variant == "data") trace->kernel(trace->self, "generated_fast"), factor = 2;
  const assay_tensor &x = call->inputs[0], &y = call->outputs[0];
  for (std::int64_t i = 0; i < x.shape[0] * x.shape[1]; ++i)
    static_cast<float*>(y.data)[i] = static_cast<float>(factor) * static_cast<const float*>(x.data)[i];
  return ASSAY_OK;
}

assay_status declare(void*, const assay_call*, assay_declaration* declaration) {
  std::memset(declaration, 0, sizeof *declaration);
  return ASSAY_OK;
}

}  // namespace

extern "C" ASSAY_EXPORT const assay_backend* assay_backend_open(const char*, char*) {
  g_fast = generated("generated_fast"), g_slow = generated("generated_slow");
  static const assay_backend backend = {
      ASSAY_BACKEND_VERSION, "generating", "routines without symbols", "", nullptr, declare, run,
      [](void*) {}};
  return &backend;
}
