// The witness of plug-ins that compute on the CPU: which of their routines were entered, and how much memory
// they took.
#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "harness/witness/cpu/allocations.hpp"
#include "harness/witness/cpu/routines.hpp"
#include "harness/worker/assay_witness.h"
#include "harness/worker/protocol.hpp"

namespace {

using namespace assay::cpu_witness;

// operator new is of this library, and takes its memory by malloc there.
constexpr std::string_view kStandardLibrary = "libstdc++.so";

// A driver's threads block every signal, and a breakpoint that they meet ends the process.
constexpr std::string_view kDrivers[] = {"libcuda.so", "libnvidia-", "libamdhip64.so", "libhsa-runtime64.so",
                                         "libOpenCL",  "libvulkan",  "libGLX",         "libze_",
                                         "libcudart",  "libnvrtc",   "libcupti",       "libdrm"};

// A driver, and what it brings along for its own threads (a compiler, say).
bool is_of_a_driver(const Module& module) {
  static std::set<std::string, std::less<>> brought;
  const std::string_view file = std::string_view(module.file).substr(module.file.rfind('/') + 1);
  const bool is =
      std::ranges::any_of(kDrivers, [&](std::string_view driver) { return file.starts_with(driver); }) ||
      brought.contains(file);
  if (is)
    for (std::string& each : needed_by(module)) brought.insert(std::move(each));
  return is;
}

void watch_what_is_new() {
  for (const Module& module : new_modules()) {
    if (is_of_a_driver(module)) continue;
    watch_routines(module);
    watch_allocations(module);
  }
  watch_generated(newly_generated());
}

}  // namespace

extern "C" ASSAY_WITNESS_EXPORT const char* assay_witness_open(void) {
  for (const Module& there : new_modules())
    if (there.file.find(kStandardLibrary) != std::string::npos) watch_allocations(there);
  forget_older_map();
  return watch_traps();
}

extern "C" ASSAY_WITNESS_EXPORT const char* assay_witness_collect(void) {
  static std::string text;
  assay::Witness witness;
  witness.by = "cpu";
  witness.host = true;
  for (std::string& name : entered_routines()) witness.kernels.push_back({std::move(name), {}, {}, 0, 0});
  const Allocated taken = allocations();
  witness.allocated_bytes = taken.all, witness.peak_bytes = taken.peak;
  text = assay::witness_text(witness);
  watch_what_is_new();
  forget_routines();
  forget_allocations();
  return text.c_str();
}

extern "C" ASSAY_WITNESS_EXPORT const char* assay_witness_scope(void) {
  static std::string text;
  watch_what_is_new();
  const std::size_t routines = watched_routines();
  text = routines == 0 ? "" : std::to_string(routines) + (routines == 1 ? " routine" : " routines");
  return text.c_str();
}

extern "C" ASSAY_WITNESS_EXPORT int assay_witness_watches(const char* name) {
  return is_watched(name) ? 1 : 0;
}
