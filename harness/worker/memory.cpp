#include "harness/worker/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace assay {
namespace {

constexpr std::array<std::byte, 1> kNanPoison{std::byte{0xFF}};
constexpr std::array<std::byte, 1> kFinitePoison{std::byte{0x5A}};
constexpr std::size_t kKeepBytes = std::size_t{64} << 20;

std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The pages of a far gap that nobody may touch, by their offset in the arena.
ByteRange closed_pages(const ByteRange& gap, const Slot& slot) {
  const std::size_t begin = round_up(slot.start + gap.first + kGapEdgeBytes, kPageBytes);
  const std::size_t end = (slot.start + gap.first + gap.count - kGapEdgeBytes) / kPageBytes * kPageBytes;
  return {begin, end - begin};
}

// Calls visit(arena begin, arena end) for every stretch of the slot that belongs to no used element.
template <typename Visit>
void for_each_outside(const Geometry& shape, const Slot& slot, Visit visit) {
  if (slot.start > slot.offset) visit(slot.offset, slot.start);
  for (const ByteRange& range : shape.outside) {
    visit(slot.start + range.first, slot.start + range.first + range.count);
  }
  for (const ByteRange& gap : shape.far) {
    const ByteRange closed = closed_pages(gap, slot);
    visit(slot.start + gap.first, closed.first);
    visit(closed.first + closed.count, slot.start + gap.first + gap.count);
  }
  const std::size_t end = slot.start + shape.extent;
  if (slot.offset + slot.bytes > end) visit(end, slot.offset + slot.bytes);
}

// Index into the pattern of the byte at arena offset `at`, for a pattern that is repeated in both directions
// from start.
std::size_t phase(std::size_t at, std::size_t start, std::size_t period) {
  return at >= start ? (at - start) % period : (period - (start - at) % period) % period;
}

void fill_pattern(std::byte* arena, std::size_t begin, std::size_t end, std::size_t start,
                  std::span<const std::byte> pattern) {
  if (pattern.size() == 1) {
    std::memset(arena + begin, std::to_integer<int>(pattern[0]), end - begin);
    return;
  }
  const std::size_t head = std::min(end - begin, pattern.size());
  for (std::size_t i = 0; i < head; ++i) arena[begin + i] = pattern[phase(begin + i, start, pattern.size())];
  for (std::size_t done = head; done < end - begin;) {  // doubling keeps `done` a multiple of the period
    const std::size_t count = std::min(done, end - begin - done);
    std::memcpy(arena + begin + done, arena + begin, count);
    done += count;
  }
}

std::optional<std::size_t> first_not_pattern(const std::byte* arena, std::size_t begin, std::size_t end,
                                             std::size_t start, std::span<const std::byte> pattern) {
  const std::size_t period = pattern.size();
  const std::size_t head = std::min(end - begin, period);
  for (std::size_t i = begin; i < begin + head; ++i) {
    if (arena[i] != pattern[phase(i, start, period)]) return i;
  }
  // The first period is right, so the rest is right if it equals itself one period earlier.
  if (end - begin <= period ||
      std::memcmp(arena + begin, arena + begin + period, end - begin - period) == 0) {
    return std::nullopt;
  }
  std::size_t i = begin + period;
  while (arena[i] == arena[i - period]) ++i;
  return i;
}

}  // namespace

Arena::Arena(std::size_t bytes) : bytes_(round_up(std::max(bytes, kPageBytes), kPageBytes)) {
  const auto refuse = [&](const char* what) {
    const int error = errno;
    if (descriptor_ >= 0) close(descriptor_);
    throw std::system_error(error, std::generic_category(), what);
  };
  descriptor_ = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor_ < 0) refuse("memfd_create");
  if (ftruncate(descriptor_, static_cast<off_t>(bytes_)) != 0) refuse("ftruncate");
  if (fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) refuse("F_ADD_SEALS");
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) refuse("mmap");
  data_ = static_cast<std::byte*>(mapped);
}

Arena::~Arena() {
  munmap(data_, bytes_);
  close(descriptor_);
}

void Arena::use(std::size_t bytes) {
  if (used_ > kKeepBytes && bytes < used_ / 4) {
    fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes_));
    used_ = bytes;
  }
  used_ = std::max(used_, bytes);
}

std::vector<ByteRange> open_pages(const Geometry& shape, const Slot& slot) {
  std::vector<ByteRange> open;
  std::size_t begin = slot.offset;
  for (const ByteRange& gap : shape.far) {
    const ByteRange closed = closed_pages(gap, slot);
    open.push_back({begin, closed.first - begin});
    begin = closed.first + closed.count;
  }
  open.push_back({begin, slot.offset + slot.bytes - begin});
  return open;
}

std::span<const std::byte> poison_pattern(const BufferPlane& plane, Poison poison) {
  const std::vector<std::byte>& own = plane.poison[static_cast<std::size_t>(poison)];
  if (!own.empty()) return own;
  return poison == Poison::nan ? std::span<const std::byte>(kNanPoison)
                               : std::span<const std::byte>(kFinitePoison);
}

void write_input(std::byte* arena, const BufferPlane& plane, const Geometry& shape, const Slot& slot,
                 Poison poison) {
  const auto pattern = poison_pattern(plane, poison);
  for_each_outside(shape, slot, [&](std::size_t begin, std::size_t end) {
    fill_pattern(arena, begin, end, slot.start, pattern);
  });
  for (const Piece& piece : shape.pieces) {
    std::memcpy(arena + slot.start + piece.at, plane.data.data() + piece.dense, piece.count);
  }
}

void poison_output(std::byte* arena, const BufferPlane& plane, const Geometry& shape, const Slot& slot,
                   Poison poison) {
  for (const ByteRange& pages : open_pages(shape, slot))
    fill_pattern(arena, pages.first, pages.first + pages.count, slot.start, poison_pattern(plane, poison));
}

std::vector<std::byte> read_output(const std::byte* arena, const BufferPlane& plane, const Geometry& shape,
                                   const Slot& slot) {
  std::vector<std::byte> dense(plane.bytes);
  for (const Piece& piece : shape.pieces) {
    std::memcpy(dense.data() + piece.dense, arena + slot.start + piece.at, piece.count);
  }
  return dense;
}

std::optional<std::int64_t> damaged_poison(const std::byte* arena, const BufferPlane& plane,
                                           const Geometry& shape, const Slot& slot, Poison poison) {
  const auto pattern = poison_pattern(plane, poison);
  std::optional<std::int64_t> damage;
  for_each_outside(shape, slot, [&](std::size_t begin, std::size_t end) {
    if (damage) return;
    if (const auto at = first_not_pattern(arena, begin, end, slot.start, pattern)) {
      damage = static_cast<std::int64_t>(*at) - static_cast<std::int64_t>(slot.start);
    }
  });
  return damage;
}

std::optional<std::int64_t> first_change(const std::byte* arena, std::span<const std::byte> dense,
                                         const Geometry& shape, const Slot& slot) {
  for (const Piece& piece : shape.pieces) {
    const std::byte* got = arena + slot.start + piece.at;
    const std::byte* want = dense.data() + piece.dense;
    if (std::memcmp(got, want, piece.count) == 0) continue;
    return static_cast<std::int64_t>(piece.dense + (std::mismatch(got, got + piece.count, want).first - got));
  }
  return std::nullopt;
}

Unwritten unwritten_units(const BufferPlane& plane, const Geometry& shape, std::span<const std::byte> nan_run,
                          std::span<const std::byte> finite_run) {
  const auto nan = poison_pattern(plane, Poison::nan);
  const auto finite = poison_pattern(plane, Poison::finite);
  const auto holds = [&](std::span<const std::byte> run, std::span<const std::byte> pattern,
                         const Piece& piece, std::size_t at) {
    for (std::size_t i = at; i < at + plane.unit_bytes; ++i) {
      if (run[piece.dense + i] != pattern[(piece.at + i) % pattern.size()]) return false;
    }
    return true;
  };
  Unwritten found;
  for (const Piece& piece : shape.pieces) {
    for (std::size_t at = 0; at + plane.unit_bytes <= piece.count; at += plane.unit_bytes) {
      if (!holds(nan_run, nan, piece, at) || !holds(finite_run, finite, piece, at)) continue;
      if (found.count++ == 0) {
        found.first_unit = static_cast<std::int64_t>((piece.dense + at) / plane.unit_bytes);
      }
    }
  }
  return found;
}

}  // namespace assay
