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

constexpr std::size_t kHeadBytes = 16;  // by which generated code is known again

struct Routine {
  Instruction own = 0;                     // what stood there
  std::vector<std::string> names;          // of one entry
  std::atomic<std::uint32_t> entered = 0;  // the how manieth of this run; 0: not
  enum class From : std::uint8_t { plugin, library, generated } from = From::library;
  std::uint32_t since = 0;  // the run behind which it was met
  std::string head = {};    // generated: its first bytes, without a breakpoint
};
// By entry. Published whole: a thread of the plug-in may be in the handler while the next run is prepared.
using Table = std::vector<std::pair<std::uintptr_t, Routine*>>;
std::atomic<const Table*> g_table = nullptr;
std::atomic<std::uint32_t> g_entered = 0;
std::uint32_t g_runs = 0;

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

// Addresses and names of the functions of an ELF file: of its symbol table, or where that was stripped of its
// dynamic one.
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

// Whether the code that was named still stands there, with a breakpoint or without.
bool is_there(std::uintptr_t entry, const Routine& routine, const CodeRanges& code) {
  if (!code.contain(entry, routine.head.size())) return false;
  std::string now(reinterpret_cast<const char*>(entry), routine.head.size());
  Instruction first{};
  std::memcpy(&first, now.data(), sizeof first);
  if (first == kBreakpoint) std::memcpy(now.data(), &routine.own, sizeof routine.own);
  return now == routine.head;
}

// What a library generated it may free, and then the memory is somebody's data: nothing is written there any
// more.
void drop_generated_that_are_gone() {
  const auto generated = [](const auto& one) { return one.second->from == Routine::From::generated; };
  if (std::ranges::none_of(*g_table.load(), generated)) return;
  const CodeRanges code;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  Table left = *g_table.load();
  const std::size_t gone = std::erase_if(left, [&](const auto& one) {
    if (!generated(one)) return false;
    const auto& [entry, routine] = one;
    if (!is_there(entry, *routine, code)) return true;
    if (code.writable(entry)) return false;
    const std::uintptr_t first = entry / page * page, end = entry + sizeof(Instruction);
    return mprotect(reinterpret_cast<void*>(first), end - first, PROT_READ | PROT_WRITE | PROT_EXEC) != 0;
  });
  if (gone > 0) g_table.store(new Table(std::move(left)));
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
      routine->from = module.base == plugin ? Routine::From::plugin : Routine::From::library;
      routine->since = g_runs;
      table.emplace_back(module.base + address, routine);
    }
  }
  std::ranges::sort(table);
  g_table.store(new Table(std::move(table)));  // as the routines
}

std::size_t watched_routines() { return g_table.load() == nullptr ? 0 : g_table.load()->size(); }

void watch_generated(const std::vector<Generated>& fresh) {
  if (fresh.empty()) return;
  const CodeRanges code;
  Table table = g_table.load() == nullptr ? Table{} : *g_table.load();
  for (const Generated& one : fresh) {
    const std::size_t bytes = std::min(one.bytes, kHeadBytes);
    std::erase_if(table, [&](const auto& known) { return known.first == one.entry; });
    if (bytes < sizeof(Instruction) || !code.contain(one.entry, bytes)) continue;
    auto* routine = new Routine;  // as those of modules
    std::memcpy(&routine->own, reinterpret_cast<const void*>(one.entry), sizeof routine->own);
    routine->names = {one.name};
    routine->from = Routine::From::generated;
    routine->since = g_runs;
    routine->head.assign(reinterpret_cast<const char*>(one.entry), bytes);
    table.emplace_back(one.entry, routine);
  }
  std::ranges::sort(table);
  g_table.store(new Table(std::move(table)));
}

void forget_routines() {
  if (g_table.load() == nullptr) return;
  ++g_runs;
  g_entered.store(0);
  drop_generated_that_are_gone();
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
  const auto is_it = [&](const Routine& routine, const std::string& symbol) {
    if (routine.from == Routine::From::library)
      return name.ends_with('*') ? symbol.starts_with(name.substr(0, name.size() - 1)) : symbol == name;
    const std::string text = demangled(symbol);
    return text.find("std::") != 0 && text.find(" std::") == std::string::npos && names_kernel(name, text);
  };
  return std::ranges::any_of(*g_table.load(), [&](const auto& one) {
    const Routine& routine = *one.second;
    const bool before_the_run = routine.since + 1 < g_runs;
    return before_the_run && std::ranges::any_of(routine.names, [&](const std::string& symbol) {
             return is_it(routine, symbol);
           });
  });
}

}  // namespace assay::cpu_witness
