// The memory that a kernel sees, seen from the assay program: where each plane stands, what surrounds it, and
// how to tell afterwards that the kernel touched what is not its own.
//
// Each plane lies in a slot of whole pages; in the worker everything between slots has no access rights (a
// guard of at least kGuardBytes, and at least the plane's largest stride, so that "one row past the end"
// cannot jump over it).
//   right  the last byte of the last element is the last byte of the slot: an overrun by one element, or a
//          read one row past the end, faults. The first element has its natural alignment (lowest set bit of
//          unit_bytes, at most 64), or `alignment` if that is larger; what this leaves behind the last
//          element is poisoned.
//   left   the first element is the first byte of the slot (kPageBytes aligned): an access in front of it
//          faults.
// Bytes of a slot that belong to no element (slack, gaps between rows, unused ranges) hold poison. A gap
// between rows of more than kFarGapBytes has poison at its two edges only; the pages between are holes
// without access, as guards are. So rows may lie gigabytes apart at the cost of the pages around them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace assay {

// Of slots and guards. Kernels of AArch64 have pages of 4, 16 or 64 KiB; what is whole pages of the largest
// is so of each.
#if defined(__aarch64__)
inline constexpr std::size_t kPageBytes = std::size_t{64} << 10;
#else
inline constexpr std::size_t kPageBytes = 4096;
#endif
inline constexpr std::size_t kGuardBytes = std::size_t{64} << 10;
inline constexpr std::size_t kFarGapBytes = std::size_t{256} << 10;
inline constexpr std::size_t kGapEdgeBytes = std::size_t{8} << 10;  // poisoned, and up to a page more

enum class Poison : std::uint8_t { nan, finite };
enum class Placement : std::uint8_t { right, left };

struct ByteRange {
  std::size_t first = 0;
  std::size_t count = 0;
};

// One array of bytes that a call reads or writes.
struct BufferPlane {
  std::string name;                 // "k", "k.scale"
  std::string format;               // as in assay_tensor
  std::vector<std::int64_t> shape;  // in elements, outermost first
  // In bytes; empty: dense. The innermost axis is always dense, its entry is filled in.
  std::vector<std::int64_t> stride;
  std::size_t bytes = 0;       // of all elements, dense
  std::size_t unit_bytes = 1;  // of what is stored as a whole: an element, a block; 1 for 4-bit codes
  // Input: `bytes` bytes, dense, row-major; must outlive the run. Output: empty.
  std::span<const std::byte> data;
  // Of the dense bytes. Input: holds poison (an unused KV page). Output: must stay poison.
  std::vector<ByteRange> unused;
  // What poison looks like, repeated from the first element on, indexed by Poison. Empty: 0xFF (a NaN in IEEE
  // formats, e4m3fn and e8m0; -1 in integers) and 0x5A (finite in all of them). The two must differ in every
  // unit.
  std::array<std::vector<std::byte>, 2> poison{};
};

// The plane's bytes by address. A piece is a run of element bytes, dense in both views.
struct Piece {
  std::size_t dense = 0;  // offset among the dense bytes
  std::size_t at = 0;     // offset from the first element
  std::size_t count = 0;
};
struct Geometry {
  std::vector<std::int64_t> stride;  // of every axis, filled in
  std::size_t extent = 0;            // first to last element byte
  std::size_t guard = kGuardBytes;
  std::size_t alignment = 1;
  std::vector<Piece> pieces;       // ascending, used bytes only
  std::vector<ByteRange> outside;  // ascending: gaps and unused ranges inside the extent
  std::vector<ByteRange> far;      // ascending: gaps of more than kFarGapBytes; not among `outside`
};
// Throws std::invalid_argument: rows that overlap, sizes that do not fit each other, equal poisons.
Geometry geometry(const BufferPlane& plane, std::size_t alignment);

struct Slot {
  std::size_t offset = 0;  // in the arena, page-aligned
  std::size_t bytes = 0;   // whole pages
  std::size_t start = 0;   // of the first element, in the arena
};
struct Layout {
  std::vector<Slot> slots;  // one per plane
  std::size_t bytes = 0;    // of the arena, guards included
};
// Slots depend on the planes alone; only `start` depends on the placement.
Layout lay_out(std::span<const Geometry> geometries, Placement placement);
// The pages of a slot that a call may touch, ascending, by their offsets in the arena: all but the holes of
// far gaps.
std::vector<ByteRange> open_pages(const Geometry& shape, const Slot& slot);

// Shared memory with a file descriptor that a worker inherits. Guards are holes in it and cost nothing; so do
// bytes that nobody touched. Its length is sealed: no worker can cut off what this process is about to look
// at.
class Arena {
 public:
  explicit Arena(std::size_t bytes);  // throws std::system_error
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int descriptor() const { return descriptor_; }
  std::size_t bytes() const { return bytes_; }
  std::byte* data() const { return data_; }
  // Calls that need the first `bytes` come now: gives memory back when they are far smaller than those
  // before. What is in the memory is lost then.
  void use(std::size_t bytes);

 private:
  int descriptor_ = -1;
  std::size_t used_ = 0;
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

std::span<const std::byte> poison_pattern(const BufferPlane& plane, Poison poison);

// Writes the plane's elements where the slot has them, and poison everywhere else in its open pages.
void write_input(std::byte* arena, const BufferPlane& plane, const Geometry& shape, const Slot& slot,
                 Poison poison);
// Fills all open pages of the slot with poison: what still holds it after a run was not written.
void poison_output(std::byte* arena, const BufferPlane& plane, const Geometry& shape, const Slot& slot,
                   Poison poison);
// The plane's elements without the gaps between rows, in row-major order; unused ranges are zeros.
std::vector<std::byte> read_output(const std::byte* arena, const BufferPlane& plane, const Geometry& shape,
                                   const Slot& slot);

// The first byte, counted from the first element (negative: in front of it), that is no longer poison.
std::optional<std::int64_t> damaged_poison(const std::byte* arena, const BufferPlane& plane,
                                           const Geometry& shape, const Slot& slot, Poison poison);
// The first dense byte at which the elements are no longer those of `dense`. Unused ranges are not looked at.
std::optional<std::int64_t> first_change(const std::byte* arena, std::span<const std::byte> dense,
                                         const Geometry& shape, const Slot& slot);

// Units that still hold poison in both of two runs with different poisons: such a unit was not written,
// whatever its legitimate value. Dense outputs.
struct Unwritten {
  std::int64_t first_unit = -1;
  std::int64_t count = 0;
};
Unwritten unwritten_units(const BufferPlane& plane, const Geometry& shape, std::span<const std::byte> nan_run,
                          std::span<const std::byte> finite_run);

}  // namespace assay
