// Placement, poison and checks, on memory that no worker touches.
#include "harness/worker/memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <system_error>

namespace assay {
namespace {

BufferPlane plane_of(std::vector<std::int64_t> shape, std::size_t unit,
                     std::vector<std::int64_t> stride = {}) {
  BufferPlane plane;
  plane.name = "p";
  plane.bytes = unit;
  for (const std::int64_t n : shape) plane.bytes *= static_cast<std::size_t>(n);
  plane.shape = std::move(shape);
  plane.stride = std::move(stride);
  plane.unit_bytes = unit;
  return plane;
}

std::vector<std::byte> ramp(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(1 + i % 89);  // never poison
  return bytes;
}

// Permuted, gapped and dense planes of several unit sizes.
std::vector<BufferPlane> some_planes() {
  std::vector<BufferPlane> planes = {
      plane_of({7}, 4),
      plane_of({1}, 4),
      plane_of({3, 5}, 2),
      plane_of({3, 5}, 2, {16, 2}),
      plane_of({2, 3, 4}, 2, {8, 16, 2}),     // [B, H, D] as a view of [H, B, D]
      plane_of({2, 3, 4}, 1, {6, 100, 1}),    // and with gaps
      plane_of({4, 1, 6}, 18, {108, 7, 18}),  // blocks of 18 bytes; an axis of length 1 may have any stride
      plane_of({5000}, 4),
      plane_of({40, 100}, 4, {5000, 4}),
      plane_of({0, 4}, 4),
      plane_of({3, 5}, 2, {std::int64_t{3} << 30, 2}),  // rows gigabytes apart
  };
  planes[2].unused = {{10, 10}};
  planes[3].unused = {{4, 8}, {20, 10}};
  planes[7].poison[0] = {std::byte{0}, std::byte{0}, std::byte{0xC0}, std::byte{0x7F}};
  planes[8].poison[1] = {std::byte{0}, std::byte{1}, std::byte{2}};
  return planes;
}

class Memory : public ::testing::TestWithParam<Placement> {};

TEST_P(Memory, bytes_come_back_as_they_went_in_and_every_other_byte_is_watched) {
  std::minstd_rand random(7);
  for (BufferPlane& plane : some_planes()) {
    const std::vector<std::byte> bytes = ramp(plane.bytes);
    plane.data = bytes;
    for (const std::size_t alignment : {1, 64}) {
      const Geometry shape = geometry(plane, alignment);
      const Layout layout = lay_out(std::span(&shape, 1), GetParam());
      const Slot& slot = layout.slots[0];
      Arena arena(layout.bytes);
      for (const Poison poison : {Poison::nan, Poison::finite}) {
        write_input(arena.data(), plane, shape, slot, poison);
        std::vector<std::byte> expected = bytes;
        for (const ByteRange& range : plane.unused)
          std::fill_n(expected.begin() + range.first, range.count, std::byte{});
        EXPECT_EQ(read_output(arena.data(), plane, shape, slot), expected);
        EXPECT_FALSE(first_change(arena.data(), plane.data, shape, slot));
        EXPECT_FALSE(damaged_poison(arena.data(), plane, shape, slot, poison));
        // Flip one bit anywhere in the slot: exactly one of the two checks says so, and where.
        for (int trial = 0; trial < 64; ++trial) {
          const auto open = open_pages(shape, slot);
          const ByteRange& pages = open[random() % open.size()];
          const std::size_t at = pages.first + random() % pages.count;
          arena.data()[at] ^= std::byte{4};
          const auto changed = first_change(arena.data(), plane.data, shape, slot);
          const auto damaged = damaged_poison(arena.data(), plane, shape, slot, poison);
          EXPECT_NE(changed.has_value(), damaged.has_value());
          if (damaged) {
            EXPECT_EQ(*damaged, static_cast<std::int64_t>(at) - static_cast<std::int64_t>(slot.start));
          }
          arena.data()[at] ^= std::byte{4};
        }
      }
    }
  }
}

TEST_P(Memory, poison_is_repeated_from_the_first_element_on) {
  for (const BufferPlane& plane : some_planes()) {
    const Geometry shape = geometry(plane, 1);
    const Layout layout = lay_out(std::span(&shape, 1), GetParam());
    const Slot& slot = layout.slots[0];
    Arena arena(layout.bytes);
    std::vector<std::byte> left[2];
    for (const Poison poison : {Poison::nan, Poison::finite}) {
      poison_output(arena.data(), plane, shape, slot, poison);
      if (plane.bytes > 0) {
        EXPECT_EQ(arena.data()[slot.start], poison_pattern(plane, poison)[0]);
      }
      EXPECT_FALSE(damaged_poison(arena.data(), plane, shape, slot, poison));
      left[static_cast<std::size_t>(poison)] = read_output(arena.data(), plane, shape, slot);
    }
    std::size_t unused = 0;
    for (const ByteRange& range : plane.unused) unused += range.count;
    EXPECT_EQ(unwritten_units(plane, shape, left[0], left[1]).count,
              static_cast<std::int64_t>((plane.bytes - unused) / plane.unit_bytes));
  }
}

TEST_P(Memory, planes_stand_against_a_guard_and_are_aligned) {
  std::vector<Geometry> shapes;
  for (const BufferPlane& plane : some_planes()) shapes.push_back(geometry(plane, 1));
  for (const BufferPlane& plane : some_planes()) shapes.push_back(geometry(plane, 64));
  const Layout layout = lay_out(shapes, GetParam());
  std::size_t end = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Slot& slot = layout.slots[i];
    EXPECT_EQ(slot.offset % kPageBytes, 0U);
    EXPECT_EQ(slot.bytes % kPageBytes, 0U);
    EXPECT_GE(slot.offset - end, shapes[i].guard);
    EXPECT_GE(slot.start, slot.offset);
    end = slot.offset + slot.bytes;
    EXPECT_LE(slot.start + shapes[i].extent, end);
    EXPECT_EQ(slot.start % shapes[i].alignment, 0U);
    if (GetParam() == Placement::left) {
      EXPECT_EQ(slot.start, slot.offset);
    } else {
      EXPECT_LT(end - (slot.start + shapes[i].extent), shapes[i].alignment);
    }
  }
  EXPECT_GE(layout.bytes - end, kGuardBytes);
}

INSTANTIATE_TEST_SUITE_P(Placements, Memory, ::testing::Values(Placement::right, Placement::left));

TEST(MemoryGeometry, slots_do_not_depend_on_the_placement) {
  std::vector<Geometry> shapes;
  for (const BufferPlane& plane : some_planes()) shapes.push_back(geometry(plane, 1));
  const Layout right = lay_out(shapes, Placement::right);
  const Layout left = lay_out(shapes, Placement::left);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_EQ(right.slots[i].offset, left.slots[i].offset);
    EXPECT_EQ(right.slots[i].bytes, left.slots[i].bytes);
  }
}

TEST(MemoryGeometry, an_element_of_a_natural_size_ends_exactly_at_the_guard) {
  for (const std::size_t unit : {1, 2, 4, 8, 18, 34}) {
    const Geometry shape = geometry(plane_of({3, 7}, unit), 1);
    const Slot slot = lay_out(std::span(&shape, 1), Placement::right).slots[0];
    EXPECT_EQ(slot.start + shape.extent, slot.offset + slot.bytes) << unit;
  }
}

TEST(MemoryGeometry, the_guard_is_wider_than_one_step_of_the_widest_stride) {
  EXPECT_GT(geometry(plane_of({3, 50'000}, 4), 1).guard, 200'000U);
}

TEST(MemoryGeometry, the_innermost_stride_is_filled_in) {
  EXPECT_EQ(geometry(plane_of({3, 5}, 4), 1).stride, (std::vector<std::int64_t>{20, 4}));
  EXPECT_EQ(geometry(plane_of({3, 5}, 4, {64, 0}), 1).stride, (std::vector<std::int64_t>{64, 4}));
  BufferPlane codes = plane_of({3, 8}, 1, {64, 0});
  codes.bytes = 12;  // two codes per byte
  EXPECT_EQ(geometry(codes, 1).stride, (std::vector<std::int64_t>{64, 0}));
}

// Every dense byte by the definition: the index of its row, each axis by its stride.
std::vector<std::size_t> addresses(const BufferPlane& plane, const Geometry& shape) {
  std::int64_t rows = 1;
  for (std::size_t a = 0; a + 1 < plane.shape.size(); ++a) rows *= plane.shape[a];
  const std::size_t row_bytes = rows == 0 ? 0 : plane.bytes / static_cast<std::size_t>(rows);
  std::vector<std::size_t> at;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t offset = 0, rest = row;
    for (std::size_t a = plane.shape.size() - 1; a-- > 0; rest /= plane.shape[a])
      offset += rest % plane.shape[a] * shape.stride[a];
    for (std::size_t i = 0; i < row_bytes; ++i) at.push_back(static_cast<std::size_t>(offset) + i);
  }
  return at;
}

TEST(MemoryGeometry, pieces_and_gaps_cover_the_extent_byte_for_byte) {
  std::minstd_rand random(11);
  const auto draw = [&](std::size_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int trial = 0; trial < 400; ++trial) {
    const std::size_t unit = std::size_t{1} << draw(4);
    std::vector<std::int64_t> shape;
    for (std::int64_t a = draw(3); a >= 0; --a) shape.push_back(1 + draw(4));
    shape.push_back(1 + draw(9));
    BufferPlane plane = plane_of(shape, unit);
    if (shape.size() > 1 && draw(4) > 0) {  // a permutation of the axes, with gaps
      std::vector<std::size_t> order;
      for (std::size_t a = 0; a + 1 < shape.size(); ++a)
        order.insert(order.begin() + draw(order.size() + 1), a);
      plane.stride.assign(shape.size(), 0);
      std::int64_t inside = shape.back() * static_cast<std::int64_t>(unit);
      for (const std::size_t a : order) {
        plane.stride[a] = inside + draw(3) * 7;
        inside = plane.stride[a] * shape[a];
      }
    }
    for (std::int64_t n = draw(4); n > 0; --n) {
      const auto first = static_cast<std::size_t>(draw(plane.bytes + 1));
      plane.unused.push_back({first, static_cast<std::size_t>(draw(plane.bytes - first + 1))});
    }
    const Geometry out = geometry(plane, 1);
    const std::vector<std::size_t> at = addresses(plane, out);
    ASSERT_EQ(at.size(), plane.bytes);
    EXPECT_EQ(out.extent, plane.bytes == 0 ? 0 : *std::max_element(at.begin(), at.end()) + 1);
    std::vector<int> owner(out.extent, -1);  // of each byte: the dense byte, -1: none
    for (std::size_t i = 0; i < at.size(); ++i) owner[at[i]] = static_cast<int>(i);
    for (const ByteRange& range : plane.unused)
      for (std::size_t i = range.first; i < range.first + range.count; ++i) owner[at[i]] = -1;
    std::vector<int> seen(out.extent, -2);
    std::size_t end = 0;
    for (const Piece& piece : out.pieces) {
      EXPECT_GT(piece.count, 0U);
      EXPECT_GE(piece.at, end);
      end = piece.at + piece.count;
      for (std::size_t i = 0; i < piece.count; ++i) seen.at(piece.at + i) = static_cast<int>(piece.dense + i);
    }
    end = 0;
    for (const ByteRange& range : out.outside) {
      EXPECT_GT(range.count, 0U);
      EXPECT_GE(range.first, end);
      end = range.first + range.count;
      for (std::size_t i = range.first; i < end; ++i) {
        EXPECT_EQ(seen.at(i), -2);
        seen[i] = -1;
      }
    }
    EXPECT_EQ(seen, owner) << "trial " << trial;
    EXPECT_EQ(out.alignment, std::min<std::size_t>(unit, 64));
  }
}

TEST(MemoryGeometry, neighbouring_rows_are_one_piece) {
  EXPECT_EQ(geometry(plane_of({5, 3, 4}, 2, {24, 8, 2}), 1).pieces.size(), 1U);
  EXPECT_EQ(geometry(plane_of({5, 3, 4}, 2, {30, 8, 2}), 1).pieces.size(), 5U);
  EXPECT_EQ(geometry(plane_of({2, 3, 4}, 2, {8, 16, 2}), 1).pieces.size(), 6U);
}

TEST(MemoryGeometry, refuses_what_cannot_be_placed) {
  EXPECT_THROW(geometry(plane_of({3, 5}, 4, {19, 4}), 1), std::invalid_argument);         // rows overlap
  EXPECT_THROW(geometry(plane_of({3, 5}, 4, {-20, 4}), 1), std::invalid_argument);        // run backwards
  EXPECT_THROW(geometry(plane_of({2, 2, 5}, 4, {24, 20, 4}), 1), std::invalid_argument);  // interleave
  EXPECT_THROW(geometry(plane_of({3, 5}, 4, {20}), 1), std::invalid_argument);
  BufferPlane plane = plane_of({3, 5}, 4);
  plane.unused = {{56, 5}};
  EXPECT_THROW(geometry(plane, 1), std::invalid_argument);
  plane = plane_of({3, 5}, 4);
  plane.unit_bytes = 7;
  EXPECT_THROW(geometry(plane, 1), std::invalid_argument);
  plane.unit_bytes = 0;
  EXPECT_THROW(geometry(plane, 1), std::invalid_argument);
  plane = plane_of({3, 5}, 4);
  const std::vector<std::byte> short_data(59);
  plane.data = short_data;
  EXPECT_THROW(geometry(plane, 1), std::invalid_argument);
  EXPECT_THROW(geometry(plane_of({-3, -5}, 4), 1), std::invalid_argument);
  plane = plane_of({3, 5}, 4);
  plane.unused = {{60, 0}};  // empty, at the end
  EXPECT_NO_THROW(geometry(plane, 1));
  plane.poison = {std::vector(2, std::byte{1}), std::vector(3, std::byte{1})};
  EXPECT_THROW(geometry(plane, 1), std::invalid_argument);
  plane.poison[1][2] = std::byte{2};
  EXPECT_NO_THROW(geometry(plane, 1));
}

TEST(MemoryUnwritten, counts_units_that_hold_both_poisons) {
  const BufferPlane plane = plane_of({6}, 2);
  const Geometry shape = geometry(plane, 1);
  std::vector<std::byte> nan(12, std::byte{0xFF});
  std::vector<std::byte> finite(12, std::byte{0x5A});
  EXPECT_EQ(unwritten_units(plane, shape, nan, finite).count, 6);
  nan[3] = finite[3] = std::byte{0};  // unit 1 written
  nan[0] = nan[1] = std::byte{0x5A};  // unit 0 holds the same value in both runs
  const Unwritten found = unwritten_units(plane, shape, nan, finite);
  EXPECT_EQ(found.count, 4);
  EXPECT_EQ(found.first_unit, 2);
}

TEST(MemoryGeometry, rows_far_apart_have_poison_around_them_and_holes_between) {
  const std::int64_t apart = (std::int64_t{5} << 30) + 192;
  const BufferPlane plane = plane_of({3, 5}, 4, {apart, 4});
  const Geometry shape = geometry(plane, 1);
  ASSERT_EQ(shape.far.size(), 2U);
  EXPECT_TRUE(shape.outside.empty());
  for (const Placement placement : {Placement::right, Placement::left}) {
    const Slot slot = lay_out(std::span(&shape, 1), placement).slots[0];
    const auto open = open_pages(shape, slot);
    ASSERT_EQ(open.size(), 3U);
    EXPECT_EQ(open.front().first, slot.offset);
    EXPECT_EQ(open.back().first + open.back().count, slot.offset + slot.bytes);
    for (std::size_t r = 0; r < 3; ++r) {
      const std::size_t row = slot.start + r * static_cast<std::size_t>(apart);
      EXPECT_EQ(open[r].first % kPageBytes, 0U);
      EXPECT_EQ(open[r].count % kPageBytes, 0U);
      EXPECT_LE(open[r].count, 2 * kGapEdgeBytes + 3 * kPageBytes);
      EXPECT_LE(open[r].first + (r > 0 ? kGapEdgeBytes : 0), row);
      EXPECT_GE(open[r].first + open[r].count, row + 20 + (r < 2 ? kGapEdgeBytes : 0));
    }
  }
  EXPECT_TRUE(geometry(plane_of({3, 5}, 4, {kFarGapBytes + 20, 4}), 1).far.empty());
  EXPECT_EQ(geometry(plane_of({3, 5}, 4, {kFarGapBytes + 24, 4}), 1).far.size(), 2U);
}

std::int64_t held_bytes(const Arena& arena) {
  struct stat file{};
  fstat(arena.descriptor(), &file);
  return file.st_blocks * 512;
}

TEST(MemoryArena, costs_what_was_touched_and_gives_back_what_a_huge_call_needed) {
  Arena arena(std::size_t{8} << 30);
  EXPECT_EQ(held_bytes(arena), 0);
  const std::size_t huge = std::size_t{65} << 20;
  arena.use(huge);
  std::fill_n(arena.data(), huge, std::byte{1});
  EXPECT_GE(held_bytes(arena), std::int64_t{65} << 20);
  arena.use(huge / 4);  // a quarter: kept
  EXPECT_GE(held_bytes(arena), std::int64_t{65} << 20);
  arena.use(huge / 4 - 1);
  EXPECT_EQ(held_bytes(arena), 0);
  EXPECT_EQ(arena.data()[0], std::byte{0});
  arena.data()[huge] = std::byte{1};  // and may be used again
}

// A worker has the same descriptor. Cut short, the memory would end this process with SIGBUS.
TEST(MemoryArena, cannot_be_cut_short_or_grown_or_unsealed) {
  const Arena arena(1 << 20);
  for (const off_t bytes : {0, 4096, 1 << 21}) EXPECT_EQ(ftruncate(arena.descriptor(), bytes), -1);
  EXPECT_EQ(fcntl(arena.descriptor(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  arena.data()[(1 << 20) - 1] = std::byte{1};
}

TEST(MemoryArena, that_cannot_be_had_is_an_error) {
  EXPECT_THROW(Arena(std::size_t{1} << 55), std::system_error);
}

}  // namespace
}  // namespace assay
