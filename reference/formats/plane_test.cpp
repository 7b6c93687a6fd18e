// Bytes of a plane against the codec, code by code: the fast paths of decode_plane have no other witness.
#include "reference/formats/plane.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace assay {
namespace {

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

TEST(Plane, every_code_stores_loads_and_decodes_like_the_codec_at_every_offset) {
  for (const ScalarFormat& f : scalar_formats()) {
    const std::int64_t count = f.bits <= 16 ? std::int64_t{1} << f.bits : 70000;
    const auto code_of = [&](std::int64_t i) {
      const std::uint32_t code = static_cast<std::uint32_t>(i) * (f.bits <= 16 ? 1U : 2654435761U);
      return f.bits == 32 ? code : f.bits <= 16 ? code : code >> (32 - f.bits);
    };
    // What was there before must not matter.
    std::vector<std::byte> bytes(plane_bytes(f, count), std::byte{0xFF});
    for (std::int64_t i = 0; i < count; ++i) store_code(f, bytes, i, code_of(i));
    for (const std::int64_t first : {std::int64_t{0}, std::int64_t{1}, std::int64_t{7}}) {
      std::vector<double> wide(static_cast<std::size_t>(count - first));
      std::vector<float> narrow(wide.size());
      decode_plane(f, bytes, first, std::span<double>(wide));
      decode_plane(f, bytes, first, std::span<float>(narrow));
      for (std::int64_t i = first; i < count; ++i) {
        ASSERT_EQ(load_code(f, bytes, i), code_of(i)) << f.name;
        const double wanted = decode(f, code_of(i));
        const auto at = static_cast<std::size_t>(i - first);
        ASSERT_TRUE(same(wide[at], wanted))
            << f.name << " " << code_of(i) << " " << wide[at] << " " << wanted;
        ASSERT_TRUE(same(narrow[at], static_cast<float>(wanted)))
            << f.name << " " << code_of(i) << " " << narrow[at];
      }
    }
  }
}

TEST(Plane, tf32_reads_an_f32_whose_low_bits_are_not_zero) {
  const std::uint32_t word = 0x3F801FFFU;
  std::vector<std::byte> bytes(4);
  std::memcpy(bytes.data(), &word, 4);
  double value = 0;
  decode_plane(scalar_format("tf32"), bytes, 0, std::span(&value, 1));
  EXPECT_EQ(value, 1.0);
  EXPECT_EQ(load_code(scalar_format("tf32"), bytes, 0), 0x3F801FFFU >> 13);
}

TEST(Plane, four_bit_elements_take_half_a_byte_and_an_odd_one_a_whole_one) {
  EXPECT_EQ(plane_bytes(scalar_format("e2m1"), 6), 3U);
  EXPECT_EQ(plane_bytes(scalar_format("int4"), 7), 4U);
  EXPECT_EQ(plane_bytes(scalar_format("e3m2"), 7), 7U);
  EXPECT_EQ(plane_bytes(scalar_format("tf32"), 7), 28U);
}

}  // namespace
}  // namespace assay
