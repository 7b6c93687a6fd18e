#include "harness/witness/cpu/routines.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "harness/worker/kernel_name.hpp"

namespace assay::cpu_witness {
namespace {

#if defined(__x86_64__)
using Instruction = std::uint8_t;
constexpr Instruction kBreakpoint = 0xCC;  // int3: one byte, and the counter stands behind it in the handler
constexpr std::uintptr_t kPast = 1;
std::uintptr_t counter_of(const ucontext_t& c) {
  return static_cast<std::uintptr_t>(c.uc_mcontext.gregs[REG_RIP]);
}
void set_counter(ucontext_t& c, std::uintptr_t to) { c.uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(to); }
#elif defined(__aarch64__)
using Instruction = std::uint32_t;
constexpr Instruction kBreakpoint = 0xD4200000;  // brk #0: the counter stands at it
constexpr std::uintptr_t kPast = 0;
std::uintptr_t counter_of(const ucontext_t& c) { return c.uc_mcontext.pc; }
void set_counter(ucontext_t& c, std::uintptr_t to) { c.uc_mcontext.pc = to; }
#endif

struct Routine {
  Instruction own = 0;                     // what stood there
  std::vector<std::string> names;          // of one entry
  std::atomic<std::uint32_t> entered = 0;  // the how manieth of this run; 0: not
  bool of_plugin = false;
};
// By entry. Published whole: a thread of the plug-in may be in the handler while the next run is prepared.
using Table = std::vector<std::pair<std::uintptr_t, Routine*>>;
std::atomic<const Table*> g_table = nullptr;
std::atomic<std::uint32_t> g_entered = 0;

void write_code(std::uintptr_t entry, Instruction code) {
  auto* at = reinterpret_cast<Instruction*>(entry);
  __atomic_store_n(at, code, __ATOMIC_SEQ_CST);
  __builtin___clear_cache(reinterpret_cast<char*>(at), reinterpret_cast<char*>(at + 1));
}

// Two threads may meet the same breakpoint at once: the second finds it removed, and goes on too.
void on_trap(int, siginfo_t*, void* raw) {
  auto& context = *static_cast<ucontext_t*>(raw);
  const std::uintptr_t entry = counter_of(context) - kPast;
  const Table& table = *g_table.load();
  const auto found = std::lower_bound(table.begin(), table.end(), entry,
                                      [](const auto& one, std::uintptr_t at) { return one.first < at; });
  if (found == table.end() ||
      found->first != entry) {  // somebody else's trap ends the process, as it would have
    signal(SIGTRAP, SIG_DFL);
    raise(SIGTRAP);
    return;
  }
  found->second->entered.store(++g_entered);
  write_code(entry, found->second->own);
  set_counter(context, entry);
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

// Addresses and names of the functions of an ELF file: of its symbol table, or where that was stripped of its dynamic one.
std::map<std::uintptr_t, std::vector<std::string>> functions_of(const Module& module) {
  std::map<std::uintptr_t, std::vector<std::string>> found;
  std::ifstream file(module.file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto read = [&]<typename T>(std::size_t at, T& into) {
    if (at > bytes.size() || bytes.size() - at < sizeof into) return false;
    std::memcpy(&into, bytes.data() + at, sizeof into);
    return true;
  };
  ElfW(Ehdr) head{};
  if (!read(0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return found;
  const auto section = [&](std::size_t index, ElfW(Shdr) & into) {
    return read(head.e_shoff + index * sizeof(ElfW(Shdr)), into);
  };
  for (const ElfW(Word) wanted : {SHT_SYMTAB, SHT_DYNSYM}) {
    for (std::size_t s = 0; s < head.e_shnum; ++s) {
      ElfW(Shdr) symbols{}, text{};
      if (!section(s, symbols) || symbols.sh_type != wanted || !section(symbols.sh_link, text)) continue;
      for (std::size_t i = 0; i < symbols.sh_size / sizeof(ElfW(Sym)); ++i) {
        ElfW(Sym) symbol{};
        if (!read(symbols.sh_offset + i * sizeof symbol, symbol)) break;
        const bool function = (symbol.st_info & 0xF) == STT_FUNC && symbol.st_size > sizeof(Instruction) &&
                              symbol.st_shndx != SHN_UNDEF;
        const std::size_t name = text.sh_offset + symbol.st_name;
        if (function && name < bytes.size()) found[symbol.st_value].emplace_back(bytes.c_str() + name);
      }
    }
    if (!found.empty()) break;
  }
  return found;
}

}  // namespace

const char* watch_traps() {
  struct sigaction action{};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGTRAP, &action, nullptr) == 0 ? nullptr : "SIGTRAP cannot be handled";
}

void watch_routines(const Module& module) {
  static const std::uintptr_t plugin = module.base;  // the first that came
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  auto functions = functions_of(module);
  Table table = g_table.load() == nullptr ? Table{} : *g_table.load();
  for (const ElfW(Phdr) & segment : module.segments) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const std::uintptr_t first = (module.base + segment.p_vaddr) / page * page,
                         end = module.base + segment.p_vaddr + segment.p_memsz;
    if (mprotect(reinterpret_cast<void*>(first), end - first, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
      continue;
    for (auto& [address, names] : functions) {
      if (address < segment.p_vaddr || address >= segment.p_vaddr + segment.p_filesz) continue;
      auto* routine = new Routine;  // never deleted: a late thread may still meet its breakpoint
      std::memcpy(&routine->own, reinterpret_cast<const void*>(module.base + address), sizeof routine->own);
      routine->names = std::move(names);
      routine->of_plugin = module.base == plugin;
      table.emplace_back(module.base + address, routine);
    }
  }
  std::ranges::sort(table);
  g_table.store(new Table(std::move(table)));  // as the routines
}

std::size_t watched_routines() { return g_table.load() == nullptr ? 0 : g_table.load()->size(); }

void forget_routines() {
  if (g_table.load() == nullptr) return;
  g_entered.store(0);
  for (const auto& [entry, routine] : *g_table.load()) {
    routine->entered.store(0);
    write_code(entry, kBreakpoint);
  }
}

std::vector<std::string> entered_routines() {
  std::vector<std::string> names;
  if (g_table.load() == nullptr) return names;
  std::map<std::uint32_t, const Routine*> in_order;
  for (const auto& [entry, routine] : *g_table.load())
    if (const std::uint32_t when = routine->entered.load()) in_order.emplace(when, routine);
  for (const auto& [when, routine] : in_order)
    for (const std::string& name : routine->names) names.push_back(demangled(name));
  return names;
}

bool is_watched(std::string_view name) {
  if (g_table.load() == nullptr) return false;
  const auto is_it = [&](const std::string& symbol) {
    const std::string text = demangled(symbol);
    return text.find("std::") != 0 && text.find(" std::") == std::string::npos && names_kernel(name, text);
  };
  return std::ranges::any_of(*g_table.load(), [&](const auto& one) {
    return one.second->of_plugin && std::ranges::any_of(one.second->names, is_it);
  });
}

}  // namespace assay::cpu_witness
