#include <algorithm>
#include <bit>
#include <functional>
#include <stdexcept>

#include "harness/worker/memory.hpp"

namespace assay {
namespace {

std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Outer axes from the widest to the narrowest stride, so that rows come in the order of their addresses.
std::vector<std::size_t> axes_by_stride(const BufferPlane& plane, const std::vector<std::int64_t>& stride,
                                        std::size_t row_bytes) {
  std::vector<std::size_t> axes;
  for (std::size_t a = 0; a + 1 < plane.shape.size(); ++a) {
    if (plane.shape[a] > 1) axes.push_back(a);
  }
  std::ranges::stable_sort(axes, std::ranges::greater{}, [&](std::size_t a) { return stride[a]; });
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
  std::vector<ByteRange> apart;  // those that overlap or touch are one
  for (const ByteRange& range : unused) {
    if (range.count == 0) continue;
    if (apart.empty() || range.first > apart.back().first + apart.back().count) {
      apart.push_back(range);
    } else {
      apart.back().count = std::max(apart.back().count, range.first + range.count - apart.back().first);
    }
  }
  unused = std::move(apart);
  std::size_t end = 0;
  for (const Piece& row : rows) {
    if (row.at > end) (row.at - end > kFarGapBytes ? out.far : out.outside).push_back({end, row.at - end});
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
    if (!out.stride.empty()) out.stride.back() = dense_stride(plane).back();
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

}  // namespace assay
