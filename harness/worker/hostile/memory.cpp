// Memory that is not the kernel's own, or not any more.
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "harness/worker/hostile/plugin.hpp"
#include "harness/worker/hostile/shared_memory.hpp"

#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_SEAL_WRITE 0x0008
#endif

namespace hostile {
namespace {

#if defined(__aarch64__)
constexpr std::uintptr_t kPage = 65536;  // whole pages there, whatever those of the kernel
#else
constexpr std::uintptr_t kPage = 4096;
#endif

char* page_of(const volatile void* address) {
  return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(address) & ~(kPage - 1));
}
char* row(const Matrix& m, std::int64_t r) { return m.data + r * m.row_stride; }
char* end_of(const Matrix& m) { return row(m, m.rows - 1) + m.cols * 4; }

template <typename T>
void spoil(const Call& c, volatile T& place) {
  c.twice();
  place = 7;
}
void add_nothing_of(const Call& c, const volatile float& place) {
  c.twice();
  c.y.at(0, 0) = c.y.at(0, 0) + 0 * place;  // a NaN remains
}

sigjmp_buf g_before_the_fault;
void out_of_the_fault(int) { siglongjmp(g_before_the_fault, 1); }

// Rights that the worker took are given back before the deed.
bool open_pages(const void* address, std::size_t bytes) {
  return mprotect(page_of(address), bytes, PROT_READ | PROT_WRITE) == 0;
}
// The file of the memory, mapped a second time, with all rights: where `address` is in it.
char* alias(Call& c, const volatile void* address) {
  const int fd = memory_descriptor(address);
  struct stat file{};
  if (fd < 0 || fstat(fd, &file) != 0) return nullptr;
  void* all =
      mmap(nullptr, static_cast<std::size_t>(file.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (all == MAP_FAILED) {
    c.refused("a second mapping");
    return nullptr;
  }
  return static_cast<char*>(all) + file_offset(address);
}
void write_at(Call& c, const volatile void* address, const char* what) {
  c.twice();
  const int fd = memory_descriptor(address);
  const float seven = 7;
  if (pwrite(fd, &seven, 4, static_cast<off_t>(file_offset(address))) != 4) c.refused(what);
}

void input_through(const char* file, Call& c, bool process_call) {
  c.twice();
  float seven = 7;
  if (process_call) {
    const iovec from{&seven, 4}, to{c.x.data, 4};
    if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) != 4) c.refused("process_vm_writev");
    return;
  }
  const int fd = open(file, O_RDWR | O_CLOEXEC);
  if (pwrite(fd, &seven, 4, reinterpret_cast<off_t>(c.x.data)) != 4) c.refused(file);
  close(fd);
}

constexpr Variant kVariants[] = {
    {"write_one_past_the_end", [](Call& c) { spoil(c, *reinterpret_cast<volatile float*>(end_of(c.y))); }},
    {"write_one_byte_past_the_end", [](Call& c) { spoil(c, *static_cast<volatile char*>(end_of(c.y))); }},
    {"write_one_before_the_start", [](Call& c) { spoil(c, c.y.at(0, -1)); }},
    {"write_into_the_gap", [](Call& c) { spoil(c, c.y.at(0, c.y.cols)); }},
    {"write_a_page_past_the_end",
     [](Call& c) { spoil(c, *static_cast<volatile char*>(end_of(c.y) + kPage)); }},
    {"write_a_row_past_the_end", [](Call& c) { spoil(c, c.y.at(c.y.rows, 0)); }},
    {"write_a_gibibyte_past_the_end",
     [](Call& c) { spoil(c, *static_cast<volatile char*>(end_of(c.y) + (1L << 30))); }},
    {"write_one_past_the_inputs_end",
     [](Call& c) { spoil(c, *reinterpret_cast<volatile float*>(end_of(c.x))); }},
    {"write_one_before_the_input", [](Call& c) { spoil(c, c.x.at(0, -1)); }},
    {"read_one_past_the_end",
     [](Call& c) { add_nothing_of(c, *reinterpret_cast<volatile float*>(end_of(c.x))); }},
    {"read_one_before_the_start", [](Call& c) { add_nothing_of(c, c.x.at(0, -1)); }},
    {"read_past_behind_its_own_handler",
     [](Call& c) {
       const auto before = signal(SIGSEGV, out_of_the_fault);
       if (sigsetjmp(g_before_the_fault, 1) == 0)
         add_nothing_of(c, *reinterpret_cast<volatile float*>(end_of(c.x) + kPage));
       signal(SIGSEGV, before);
       c.twice();
     }},
    {"fault_of_its_own_behind_its_own_handler",
     [](Call& c) {
       const auto before = signal(SIGSEGV, out_of_the_fault);
       for (int time = 0; time < 2; ++time)
         if (sigsetjmp(g_before_the_fault, 1) == 0) *opaque<volatile int*>(nullptr) = 1;
       signal(SIGSEGV, before);
       c.twice();
     }},
    {"read_the_gap", [](Call& c) { add_nothing_of(c, c.x.at(0, c.x.cols)); }},
    {"read_the_output_first",
     [](Call& c) {
       const float before = c.y.at(0, 0);
       c.twice();
       c.y.at(0, 0) = c.y.at(0, 0) + (before > 0 ? 1.0F : 0.0F);
     }},
    {"leave_the_last_row",
     [](Call& c) {
       --c.y.rows;
       c.twice();
     }},
    {"leave_the_last_column",
     [](Call& c) {
       --c.y.cols;
       c.twice();
     }},
    {"leave_everything", [](Call&) {}},
    {"write_back_what_was_there",
     [](Call& c) {
       const float before = c.y.at(0, 0);
       c.twice();
       c.y.at(0, 0) = before;
     }},
    {"write_the_input", [](Call& c) { spoil(c, c.x.at(0, 0)); }},
    {"write_the_input_after_opening_its_pages",
     [](Call& c) {
       c.twice();
       if (!open_pages(c.x.data, kPage)) return c.refused("mprotect");
       c.x.at(0, 0) = 7;
     }},
    {"write_the_input_and_close_its_pages_again",
     [](Call& c) {
       c.twice();
       if (!open_pages(c.x.data, kPage)) return c.refused("mprotect");
       c.x.at(0, 0) = 7;
       mprotect(page_of(c.x.data), kPage, PROT_READ);
     }},
    {"write_the_inputs_gap_after_opening_its_pages",
     [](Call& c) {
       c.twice();
       if (!open_pages(c.x.data, kPage)) return c.refused("mprotect");
       c.x.at(0, c.x.cols) = 7;
     }},
    {"write_a_guard_after_opening_it",
     [](Call& c) {
       c.twice();
       char* guard = page_of(end_of(c.y) - 1) + kPage;
       if (!open_pages(guard, kPage)) return c.refused("mprotect");
       *opaque(guard) = 7;
     }},
    {"write_the_input_by_a_second_mapping",
     [](Call& c) {
       c.twice();
       if (char* x = alias(c, c.x.data)) *reinterpret_cast<volatile float*>(x) = 7;
     }},
    {"write_the_input_by_pwrite", [](Call& c) { write_at(c, c.x.data, "pwrite"); }},
    {"write_the_gap_by_pwrite", [](Call& c) { write_at(c, row(c.y, 0) + 4 * c.y.cols, "pwrite"); }},
    {"write_the_input_by_its_own_memory_file", [](Call& c) { input_through("/proc/self/mem", c, false); }},
    {"write_the_input_by_process_vm_writev", [](Call& c) { input_through("", c, true); }},
    {"write_the_input_then_restore_it",
     [](Call&
            c) {  // as it was when the run ends: nothing is left to be seen, and nothing is wrong with the outputs
       c.twice();
       if (!open_pages(c.x.data, kPage)) return c.refused("mprotect");
       const float before = c.x.at(0, 0);
       c.x.at(0, 0) = 7;
       c.x.at(0, 0) = before;
     }},
    {"truncate_the_memory",
     [](Call& c) {
       c.twice();
       if (ftruncate(memory_descriptor(c.x.data), 0) != 0) c.refused("ftruncate");
     }},
    {"grow_the_memory",
     [](Call& c) {
       c.twice();
       if (ftruncate(memory_descriptor(c.x.data), 1L << 40) != 0) c.refused("ftruncate");
     }},
    {"seal_the_memory",
     [](Call& c) {
       c.twice();
       if (fcntl(memory_descriptor(c.x.data), F_ADD_SEALS, F_SEAL_WRITE) != 0) c.refused("a seal");
     }},
    {"punch_a_hole_into_the_input",
     [](Call& c) {
       c.twice();
       if (fallocate(memory_descriptor(c.x.data), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(file_offset(page_of(c.x.data))), kPage) != 0)
         c.refused("a hole");
     }},
    {"punch_a_hole_into_the_output",
     [](Call& c) {
       c.twice();
       if (fallocate(memory_descriptor(c.y.data), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(file_offset(page_of(c.y.data))), kPage) != 0)
         c.refused("a hole");
     }},
    {"remove_the_outputs_pages",
     [](Call& c) {
       c.twice();
       if (madvise(page_of(c.y.data), kPage, MADV_REMOVE) != 0) c.refused("MADV_REMOVE");
     }},
    {"unmap_the_output",
     [](Call& c) {
       munmap(page_of(c.y.data), kPage);
       c.twice();
     }},
    {"unmap_after_a_right_answer",
     [](Call& c) {
       c.twice();
       munmap(page_of(c.y.data), kPage);
       munmap(page_of(c.x.data), kPage);
     }},
    {"map_something_else_over_the_output",
     [](Call& c) {
       mmap(page_of(c.y.data), kPage, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
       c.twice();
     }},
    {"map_the_output_privately",
     [](Call& c) {
       const int fd = memory_descriptor(c.y.data);
       const auto at = static_cast<off_t>(file_offset(page_of(c.y.data)));
       if (mmap(page_of(c.y.data), kPage, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE, fd, at) ==
           MAP_FAILED)
         return c.refused("mmap");
       c.twice();
     }},
    {"close_the_memory",
     [](Call& c) {
       c.twice();
       close(memory_descriptor(c.x.data));
     }},
    {"put_another_file_over_the_memory",
     [](Call& c) {
       c.twice();
       const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
       dup2(null, memory_descriptor(c.x.data));
     }},
    {"empty_every_descriptor_of_the_memory",
     [](Call& c) {
       c.twice();
       for (int fd = 3; fd < 64; ++fd)
         if (ftruncate(fd, 0) == 0) return;
       c.refused("ftruncate");
     }},
    {"write_the_output_later",
     [](Call& c) {
       c.twice();
       std::thread([c] {
         for (float value = 0;; value += 1) c.y.at(0, 0) = value;
       }).detach();
     }},
    {"write_the_next_calls_memory",
     [](Call& c) {  // wherever that may be: everything that is mapped shared and writable, for ever
       c.twice();
       std::thread([begin = mapping_of(c.y.data).begin] {
         for (char value = 0;; ++value) *reinterpret_cast<volatile char*>(begin) = value;
       }).detach();
     }},
    {"let_a_child_write_later",
     [](Call& c) {
       c.twice();
       if (fork() == 0) {
         for (float value = 0;; value += 1) c.y.at(0, 0) = value;
       }
     }},
    {"correct_with_a_mapping_of_its_own",
     [](Call& c) {
       void* own = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
       std::memset(own, 7, kPage);
       munmap(own, kPage);
       c.twice();
     }},
    {"correct_last_element_first",
     [](Call& c) {
       for (std::int64_t r = c.y.rows - 1; r >= 0; --r)
         for (std::int64_t k = c.y.cols - 1; k >= 0; --k) c.y.at(r, k) = 2 * c.x.at(r, k);
     }},
};

}  // namespace

std::span<const Variant> memory() { return kVariants; }

}  // namespace hostile
