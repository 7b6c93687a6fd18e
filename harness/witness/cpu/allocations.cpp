#include "harness/witness/cpu/allocations.hpp"

#include <elf.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace assay::cpu_witness {
namespace {

constexpr std::int64_t kLeastBytes = 4096;

std::atomic<std::int64_t> g_live = 0, g_peak = 0, g_all = 0;

std::int64_t counted_bytes(void* block) {
  const auto bytes = block == nullptr ? 0 : static_cast<std::int64_t>(malloc_usable_size(block));
  return bytes >= kLeastBytes ? bytes : 0;
}
void* taken(void* block) {
  if (const std::int64_t bytes = counted_bytes(block)) {
    g_all += bytes;
    const std::int64_t live = g_live += bytes;
    for (std::int64_t peak = g_peak; live > peak && !g_peak.compare_exchange_weak(peak, live);) {
    }
  }
  return block;
}
void given_back(void* block) { g_live -= counted_bytes(block); }

void* counted_malloc(std::size_t n) { return taken(std::malloc(n)); }
void* counted_calloc(std::size_t n, std::size_t size) { return taken(std::calloc(n, size)); }
void* counted_aligned(std::size_t alignment, std::size_t n) {
  return taken(std::aligned_alloc(alignment, n));
}
void* counted_memalign(std::size_t alignment, std::size_t n) { return taken(memalign(alignment, n)); }
int counted_posix(void** into, std::size_t alignment, std::size_t n) {
  const int error = posix_memalign(into, alignment, n);
  if (error == 0) taken(*into);
  return error;
}
void* counted_realloc(void* block, std::size_t n) {
  const std::int64_t before = counted_bytes(block);
  void* moved = std::realloc(block, n);
  if (moved != nullptr || n == 0) g_live -= before;
  return taken(moved);
}
void counted_free(void* block) {
  given_back(block);
  std::free(block);
}

struct Counted {
  std::string_view name;
  void* with;
};
const Counted kCounted[] = {{"malloc", reinterpret_cast<void*>(counted_malloc)},
                            {"calloc", reinterpret_cast<void*>(counted_calloc)},
                            {"realloc", reinterpret_cast<void*>(counted_realloc)},
                            {"aligned_alloc", reinterpret_cast<void*>(counted_aligned)},
                            {"memalign", reinterpret_cast<void*>(counted_memalign)},
                            {"posix_memalign", reinterpret_cast<void*>(counted_posix)},
                            {"free", reinterpret_cast<void*>(counted_free)}};

#if defined(__x86_64__)
constexpr std::uint64_t kSlots[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT};
#elif defined(__aarch64__)
constexpr std::uint64_t kSlots[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT};
#endif

// The slot stays writable: what it is in is read-only behind the loader's work, which this is a part of.
void replace(std::uintptr_t slot, void* with) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = slot / page * page;
  if (mprotect(reinterpret_cast<void*>(first), page, PROT_READ | PROT_WRITE) == 0)
    *reinterpret_cast<void**>(slot) = with;
}

void replace_in(const Module& module, std::uintptr_t table, std::size_t bytes, const ElfW(Sym) * symbols,
                const char* names) {
  const auto* relocations = reinterpret_cast<const ElfW(Rela)*>(table);
  for (std::size_t i = 0; i < bytes / sizeof *relocations; ++i) {
    const ElfW(Rela)& one = relocations[i];
    if (ELF64_R_TYPE(one.r_info) != kSlots[0] && ELF64_R_TYPE(one.r_info) != kSlots[1]) continue;
    const std::string_view name = names + symbols[ELF64_R_SYM(one.r_info)].st_name;
    for (const Counted& counted : kCounted)
      if (name == counted.name) replace(module.base + one.r_offset, counted.with);
  }
}

}  // namespace

void watch_allocations(const Module& module) {
  for (const ElfW(Phdr) & segment : module.segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    std::uintptr_t plain = 0, jumps = 0, symbols = 0, names = 0;
    std::size_t plain_bytes = 0, jump_bytes = 0;
    for (const auto* d = reinterpret_cast<const ElfW(Dyn)*>(module.base + segment.p_vaddr);
         d->d_tag != DT_NULL; ++d) {
      if (d->d_tag == DT_RELA) plain = d->d_un.d_ptr;
      if (d->d_tag == DT_RELASZ) plain_bytes = d->d_un.d_val;
      if (d->d_tag == DT_JMPREL) jumps = d->d_un.d_ptr;
      if (d->d_tag == DT_PLTRELSZ) jump_bytes = d->d_un.d_val;
      if (d->d_tag == DT_SYMTAB) symbols = d->d_un.d_ptr;
      if (d->d_tag == DT_STRTAB) names = d->d_un.d_ptr;
    }
    if (symbols < module.base || names < module.base)
      continue;  // a loader that leaves offsets here is not known
    const auto* table = reinterpret_cast<const ElfW(Sym)*>(symbols);
    const auto* text = reinterpret_cast<const char*>(names);
    if (plain != 0) replace_in(module, plain, plain_bytes, table, text);
    if (jumps != 0) replace_in(module, jumps, jump_bytes, table, text);
  }
}

void forget_allocations() { g_live = 0, g_peak = 0, g_all = 0; }
Allocated allocations() { return {g_all, g_peak}; }

}  // namespace assay::cpu_witness
