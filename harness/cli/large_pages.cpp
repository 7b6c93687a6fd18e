// Memory of a size that only tensors have comes in pages of 2 MiB where the system gives them: a truth of 30
// million elements is half a GiB, and half of a norm's reference was the kernel making pages of 4 KiB.
// Replaces operator new for the program.
#include <sys/mman.h>

#include <cstdlib>
#include <new>

#if !defined(ASSAY_ADDRESS_SANITIZER)

namespace {

constexpr std::size_t kPage = std::size_t{1} << 21, kLarge = 4 * kPage;

void* taken(std::size_t bytes) {
  if (bytes < kLarge) return std::malloc(bytes == 0 ? 1 : bytes);
  const std::size_t whole = (bytes + kPage - 1) / kPage * kPage;
  if (whole < bytes) return nullptr;
  void* memory = std::aligned_alloc(kPage, whole);
  if (memory != nullptr) (void)madvise(memory, whole, MADV_HUGEPAGE);  // a wish
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  for (;;) {
    if (void* memory = taken(bytes)) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#endif
