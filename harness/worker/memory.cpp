#include "harness/worker/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace assay {
namespace {

constexpr std::array<std::byte, 1> kNanPoison{std::byte{0xFF}};
constexpr std::array<std::byte, 1> kFinitePoison{std::byte{0x5A}};
constexpr std::size_t kKeepBytes = std::size_t{64} << 20;

std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Calls visit(arena begin, arena end) for every stretch of the slot that belongs to no used element.
template <typename Visit>
void for_each_outside(const Geometry& shape, const Slot& slot, Visit visit) {
  if (slot.start > slot.offset) visit(slot.offset, slot.start);
  for (const ByteRange& range : shape.outside) {
    visit(slot.start + range.first, slot.start + range.first + range.count);
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

// Outer axes from the widest to the narrowest stride, so that rows come in the order of their addresses.
std::vector<std::size_t> axes_by_stride(const BufferPlane& plane, const std::vector<std::int64_t>& stride,
                                        std::size_t row_bytes) {
  std::vector<std::size_t> axes;
  for (std::size_t a = 0; a + 1 < plane.shape.size(); ++a) {
    if (plane.shape[a] > 1) axes.push_back(a);
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [&](std::size_t a, std::size_t b) { return stride[a] > stride[b]; });
  std::int64_t inside = static_cast<std::int64_t>(row_bytes);
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (stride[*axis] < inside) throw std::invalid_argument("plane " + plane.name + ": rows overlap");
    inside += stride[*axis] * (plane.shape[*axis] - 1);
  }
  return axes;
}

std::vector<std::int64_t> dense_stride(const BufferPlane& plane) {
  std::vector<std::int64_t> stride(plane.shape.size());
  std::int64_t elements = 1;
  for (const std::int64_t n : plane.shape) elements *= n;
  std::int64_t outside = 1;
  for (std::size_t a = 0; a < stride.size(); ++a) {
    outside *= plane.shape[a];
    stride[a] = elements == 0 ? 0 : static_cast<std::int64_t>(plane.bytes) / outside;
  }
  return stride;
}

// All rows in the order of their addresses, touching ones joined.
std::vector<Piece> rows_of(const BufferPlane& plane, const std::vector<std::int64_t>& stride) {
  std::int64_t rows = 1;
  for (std::size_t a = 0; a + 1 < plane.shape.size(); ++a) rows *= plane.shape[a];
  if (rows == 0 || plane.bytes == 0) return {};
  if (plane.bytes % static_cast<std::size_t>(rows) != 0) {
    throw std::invalid_argument("plane " + plane.name +
                                ": strided, but its bytes are no whole number of rows");
  }
  const std::size_t row_bytes = plane.bytes / static_cast<std::size_t>(rows);
  const std::vector<std::size_t> axes = axes_by_stride(plane, stride, row_bytes);
  std::vector<std::size_t> dense(plane.shape.size(), row_bytes);
  for (std::size_t a = plane.shape.size() - 1; a-- > 0;) {
    dense[a] =
        a + 2 < plane.shape.size() ? dense[a + 1] * static_cast<std::size_t>(plane.shape[a + 1]) : row_bytes;
  }
  std::vector<Piece> pieces;
  std::vector<std::int64_t> index(axes.size(), 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    Piece piece{0, 0, row_bytes};
    for (std::size_t i = 0; i < axes.size(); ++i) {
      piece.dense += static_cast<std::size_t>(index[i]) * dense[axes[i]];
      piece.at += static_cast<std::size_t>(index[i] * stride[axes[i]]);
    }
    if (!pieces.empty() && pieces.back().at + pieces.back().count == piece.at &&
        pieces.back().dense + pieces.back().count == piece.dense) {
      pieces.back().count += row_bytes;
    } else {
      pieces.push_back(piece);
    }
    for (std::size_t i = axes.size(); i-- > 0;) {
      if (++index[i] < plane.shape[axes[i]]) break;
      index[i] = 0;
    }
  }
  return pieces;
}

// Splits rows into used pieces and the unused ranges, and collects the gaps between rows.
void split(const std::vector<Piece>& rows, std::vector<ByteRange> unused, Geometry& out) {
  std::sort(unused.begin(), unused.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::size_t end = 0;
  for (const Piece& row : rows) {
    if (row.at > end) out.outside.push_back({end, row.at - end});
    std::size_t dense = row.dense;
    const std::size_t row_end = row.dense + row.count;
    auto range = std::partition_point(unused.begin(), unused.end(),
                                      [&](const ByteRange& r) { return r.first + r.count <= dense; });
    for (; range != unused.end() && range->first < row_end; ++range) {
      const std::size_t first = std::max(range->first, dense);
      const std::size_t last = std::min(range->first + range->count, row_end);
      if (last <= first) continue;
      if (first > dense) out.pieces.push_back({dense, row.at + (dense - row.dense), first - dense});
      out.outside.push_back({row.at + (first - row.dense), last - first});
      dense = last;
    }
    if (row_end > dense) out.pieces.push_back({dense, row.at + (dense - row.dense), row_end - dense});
    end = row.at + row.count;
  }
}

}  // namespace

Geometry geometry(const BufferPlane& plane, std::size_t alignment) {
  const auto fail = [&](const char* what) {
    throw std::invalid_argument("plane " + plane.name + ": " + what);
  };
  if (plane.unit_bytes == 0 || plane.bytes % plane.unit_bytes != 0)
    fail("bytes are no whole number of units");
  if (!plane.data.empty() && plane.data.size() != plane.bytes) fail("data has not `bytes` bytes");
  if (!plane.stride.empty() && plane.stride.size() != plane.shape.size())
    fail("stride and shape differ in rank");
  for (const std::int64_t n : plane.shape) {
    if (n < 0) fail("a negative shape");
  }
  for (const ByteRange& range : plane.unused) {
    if (range.first > plane.bytes || range.count > plane.bytes - range.first)
      fail("an unused range ends outside");
  }
  const auto nan = poison_pattern(plane, Poison::nan);
  const auto finite = poison_pattern(plane, Poison::finite);
  const std::size_t unit = std::max(plane.unit_bytes, std::max(nan.size(), finite.size()));
  bool differ = false;
  for (std::size_t i = 0; i < unit; ++i) differ |= nan[i % nan.size()] != finite[i % finite.size()];
  if (!differ) fail("its two poisons are the same");

  Geometry out;
  std::vector<Piece> rows;
  if (plane.stride.empty()) {
    out.stride = dense_stride(plane);
    if (plane.bytes > 0) rows.push_back({0, 0, plane.bytes});
  } else {
    out.stride = plane.stride;
    rows = rows_of(plane, plane.stride);
  }
  if (!rows.empty()) out.extent = rows.back().at + rows.back().count;
  split(rows, plane.unused, out);
  const std::size_t natural = std::min<std::size_t>(plane.unit_bytes & (~plane.unit_bytes + 1), 64);
  out.alignment = std::max({natural, std::bit_ceil(alignment), std::size_t{1}});
  for (std::size_t a = 0; a + 1 < plane.shape.size(); ++a) {
    const auto widest =
        std::min<std::size_t>(static_cast<std::size_t>(out.stride[a]), std::size_t{256} << 20);
    out.guard = std::max(out.guard, round_up(widest + kGuardBytes, kPageBytes));
  }
  return out;
}

Layout lay_out(std::span<const Geometry> geometries, Placement placement) {
  Layout layout;
  std::size_t guard = kGuardBytes;
  for (const Geometry& shape : geometries) guard = std::max(guard, shape.guard);
  std::size_t at = guard;
  for (const Geometry& shape : geometries) {
    const std::size_t need = round_up(shape.extent, shape.alignment);
    const std::size_t bytes = std::max(round_up(need, kPageBytes), kPageBytes);
    layout.slots.push_back({at, bytes, placement == Placement::left ? at : at + bytes - need});
    at += bytes + guard;
  }
  layout.bytes = at;
  return layout;
}

Arena::Arena() : descriptor_(memfd_create("assay-tensors", MFD_CLOEXEC)) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, bytes_);
  close(descriptor_);
}

void Arena::map(std::size_t bytes) {
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot size the shared memory");
  }
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "cannot map the shared memory");
  data_ = static_cast<std::byte*>(mapped);
  bytes_ = bytes;
}

void Arena::reserve(std::size_t bytes) {
  if (bytes > bytes_) {
    map(round_up(std::max(bytes, std::min(2 * bytes_, kKeepBytes)), kPageBytes));
  } else if (bytes_ > kKeepBytes && bytes < bytes_ / 4) {
    map(round_up(std::max(bytes, kKeepBytes), kPageBytes));
  }
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

void poison_output(std::byte* arena, const BufferPlane& plane, const Slot& slot, Poison poison) {
  fill_pattern(arena, slot.offset, slot.offset + slot.bytes, slot.start, poison_pattern(plane, poison));
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

std::optional<std::int64_t> changed_input(const std::byte* arena, const BufferPlane& plane,
                                          const Geometry& shape, const Slot& slot) {
  for (const Piece& piece : shape.pieces) {
    const std::byte* got = arena + slot.start + piece.at;
    const std::byte* want = plane.data.data() + piece.dense;
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
