// The tables are constants of the library, in pages that the loader has made read-only. Each of their
// routines is replaced by one that notes its type and goes on to the library's own, so that what is noted is
// what was entered, whoever called it.
#include "backends/adapters/ggml/routines.hpp"

#include <dlfcn.h>
#include <ggml-cpu.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "backends/plugin/call.hpp"

namespace assay_ggml {
namespace {

enum class Kind : std::uint8_t { product, decoder, encoder };

std::atomic<bool>& entered(Kind kind, ggml_type type) {
  static std::array<std::array<std::atomic<bool>, GGML_TYPE_COUNT>, 3> flags;
  return flags[static_cast<std::size_t>(kind)][static_cast<std::size_t>(type)];
}
void note(Kind kind, ggml_type type) { entered(kind, type).store(true, std::memory_order_relaxed); }

// Of the library's own routines, before they were replaced.
std::string& name_of(Kind kind, ggml_type type) {
  static std::array<std::array<std::string, GGML_TYPE_COUNT>, 3> names;
  return names[static_cast<std::size_t>(kind)][static_cast<std::size_t>(type)];
}

template <typename Function>
void replace(const Function& slot, Function with) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(&slot) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(&slot + 1);
  if (mprotect(reinterpret_cast<void*>(first), end - first, PROT_READ | PROT_WRITE) != 0)
    throw assay_plugin::Failed("ggml's tables of routines cannot be written: nobody would see what runs");
  const_cast<Function&>(slot) = with;
  mprotect(reinterpret_cast<void*>(first), end - first, PROT_READ);
}

template <ggml_type kType>
struct Routines {
  static inline ggml_vec_dot_t product = nullptr;
  static inline ggml_to_float_t decoder = nullptr;
  static inline ggml_from_float_t encoder = nullptr;

  static void noted_product(int n, float* s, std::size_t bs, const void* x, std::size_t bx, const void* y,
                            std::size_t by, int rows) {
    note(Kind::product, kType);
    product(n, s, bs, x, bx, y, by, rows);
  }
  static void noted_decoder(const void* x, float* y, std::int64_t n) {
    note(Kind::decoder, kType);
    decoder(x, y, n);
  }
  static void noted_encoder(const float* x, void* y, std::int64_t n) {
    note(Kind::encoder, kType);
    encoder(x, y, n);
  }

  static void watch() {
    const ggml_type_traits_cpu& cpu = *ggml_get_type_traits_cpu(kType);
    const ggml_type_traits& base = *ggml_get_type_traits(kType);
    product = cpu.vec_dot, encoder = cpu.from_float, decoder = base.to_float;
    name_of(Kind::product, kType) = symbol_of(reinterpret_cast<const void*>(product));
    name_of(Kind::decoder, kType) = symbol_of(reinterpret_cast<const void*>(decoder));
    name_of(Kind::encoder, kType) = symbol_of(reinterpret_cast<const void*>(encoder));
    if (product) replace<ggml_vec_dot_t>(cpu.vec_dot, noted_product);
    if (encoder) replace<ggml_from_float_t>(cpu.from_float, noted_encoder);
    if (decoder) replace<ggml_to_float_t>(base.to_float, noted_decoder);
  }
};

// Types that the library at run time is sure to have: those that the oldest that is built has.
template <std::size_t... kIndex>
void watch_all(std::index_sequence<kIndex...>) {
  (Routines<kWatched[kIndex]>::watch(), ...);
}

std::vector<ggml_type> entered_of(Kind kind) {
  std::vector<ggml_type> types;
  for (const ggml_type type : kWatched)
    if (entered(kind, type).load()) types.push_back(type);
  return types;
}

}  // namespace

void watch_routines() {
  static const bool watching = (watch_all(std::make_index_sequence<std::size(kWatched)>()), true);
  (void)watching;
}

void forget_routines() {
  for (const ggml_type type : kWatched)
    for (const Kind kind : {Kind::product, Kind::decoder, Kind::encoder}) entered(kind, type).store(false);
}

Entered entered_routines() {
  return {entered_of(Kind::product), entered_of(Kind::decoder), entered_of(Kind::encoder)};
}

std::string names_of(const std::vector<ggml_type>& types) {
  std::string names;
  for (const ggml_type type : types) names += std::string(names.empty() ? "" : "+") + ggml_type_name(type);
  return names;
}

std::string symbol_of(const void* function) {
  Dl_info info{};
  const bool known = function != nullptr && dladdr(function, &info) != 0 && info.dli_saddr == function;
  return known && info.dli_sname != nullptr ? info.dli_sname : "";
}

std::string library_symbol(const char* name) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(ggml_get_type_traits_cpu), &info) == 0) return "";
  void* const library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  const bool exported = library != nullptr && dlsym(library, name) != nullptr;
  if (library != nullptr) dlclose(library);
  return exported ? name : "";
}

std::string product_name(ggml_type type) { return name_of(Kind::product, type); }
std::string decoder_name(ggml_type type) { return name_of(Kind::decoder, type); }
std::string encoder_name(ggml_type type) { return name_of(Kind::encoder, type); }

}  // namespace assay_ggml
