// tq3_0: its constants against the ones that shipped wrong, its two layouts, and the deferred inverse.
#include "reference/formats/tq3.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/formats/rotation.hpp"

namespace assay {
namespace {

std::vector<float> gaussian(std::size_t count, std::uint64_t seed) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) {
    double sum = -6;  // twelve uniforms: variance 1
    for (std::uint64_t k = 0; k < 12; ++k)
      sum += static_cast<double>(stochastic_draw(seed, 12 * i + k)) * 0x1p-64;
    x[i] = static_cast<float>(sum);
  }
  return x;
}

double mean_square_error(const char* name, const std::vector<float>& x) {
  const std::vector<double> y =
      decode_tensor(encode_tensor(format(name), {static_cast<std::int64_t>(x.size())}, x));
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return sum / static_cast<double>(x.size());
}

TEST(Tq3, the_signs_pack_to0x_b1_a6_d4_b2) {
  EXPECT_EQ(kTq3Signs, 0xB1A6D4B2U);
  std::array<int, 32> moved = kTq3SignList;
  std::swap(moved[0], moved[1]);
  EXPECT_NE(pack_signs(moved), kTq3Signs);
}

TEST(Tq3, the_centroids_are_lloyd_max_of_the_unit_normal) {
  const Tq3Codebook& book = tq3_codebook();
  // Half a unit of the last digit that Max printed (Quantizing for minimum distortion, 1960, table I, N = 4).
  constexpr double kFourPlaces = 0.5e-4, kThreePlaces = 0.5e-3;
  EXPECT_NEAR(book.centroid[0], 0.4528, kFourPlaces);
  EXPECT_NEAR(book.centroid[1], 1.510, kThreePlaces);
  // Each is rounded on its own: 2^-55, 2^-53 and 2^-54, and their sum 2^-53.
  constexpr double kRoundings = 0x1p-52;
  EXPECT_NEAR(book.threshold, (book.centroid[0] + book.centroid[1]) / 2, kRoundings);
}

TEST(Tq3, the_hadamard_core_is_its_own_inverse_up_to_the_number_of_points) {
  for (const std::size_t points : {1U, 2U, 32U, 128U, 1024U}) {
    std::vector<double> x(points);
    for (std::size_t i = 0; i < points; ++i) x[i] = static_cast<double>(i * i % 37) - 11;
    std::vector<double> y = x;
    hadamard(std::span<double>(y));
    for (std::size_t i = 0; i < points && points <= 128; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < points; ++j) sum += (std::popcount(i & j) % 2 == 0 ? 1 : -1) * x[j];
      EXPECT_EQ(y[i], sum);
    }
    hadamard(std::span<double>(y));
    for (std::size_t i = 0; i < points; ++i) EXPECT_EQ(y[i], static_cast<double>(points) * x[i]);
  }
}

TEST(Tq3, gaussian_error_is_what_the_codebook_promises) {
  const std::vector<float> x = gaussian(32 * 4000, 3);
  // For a normal variable: 2-bit Lloyd-Max leaves 1 - E[c^2] = 0.11748, and the sign takes E[spread^2] from
  // it. A coordinate of a 32-vector scaled to its own norm has lighter tails than a normal one, so the error
  // must come out smaller, above all the one with signs, where the tail is most of it; half of it would be
  // another quantiser.
  const Tq3Codebook& book = tq3_codebook();
  const double inner = std::erf(book.threshold / std::sqrt(2.0));
  const auto expected = [&](double a, double b) { return inner * a * a + (1 - inner) * b * b; };
  const double two_bits = 1 - expected(book.centroid[0], book.centroid[1]);
  const double with_sign = two_bits - expected(book.spread[0], book.spread[1]);
  constexpr double kFivePlaces = 0.5e-5;  // half a unit of the last digit that is known
  EXPECT_NEAR(two_bits, 0.11748, kFivePlaces);
  for (const auto& [name, normal] : {std::pair{"tq3_0_c2", two_bits}, std::pair{"tq3_0_c2s1", with_sign}}) {
    const double error = mean_square_error(name, x);
    EXPECT_LE(error, normal) << name;
    EXPECT_GE(error, normal / 2) << name;
  }
}

TEST(Tq3, norm_of_a_block_survives_up_to_the_f16_scale) {
  for (const char* name : {"tq3_0_c2s1", "tq3_0_c2"}) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const std::vector<float> x = gaussian(32, seed);
      const std::vector<double> y = decode_tensor(encode_tensor(format(name), {32}, x));
      double before = 0;
      double after = 0;
      for (std::size_t i = 0; i < 32; ++i) {
        before += static_cast<double>(x[i]) * x[i];
        after += y[i] * y[i];
      }
      constexpr double kScale = 0x1p-11 + 0x1p-40;  // rounding to f16, and the sums of 32 squares in double
      EXPECT_NEAR(std::sqrt(after / before), 1, kScale) << name;
    }
  }
}

TEST(Tq3, the_two_layouts_store_the_same_indices_and_signs_and_only_one_reads_the_signs) {
  const std::vector<float> x = gaussian(32, 8);
  Encoded with = encode_tensor(format("tq3_0_c2s1"), {32}, x);
  Encoded without = encode_tensor(format("tq3_0_c2"), {32}, x);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(with.planes[0].bytes[i], without.planes[0].bytes[i]);
  for (Encoded* tensor : {&with, &without}) {
    const std::vector<double> before = decode_tensor(*tensor);
    for (std::size_t i = 8; i < 12; ++i) tensor->planes[0].bytes[i] ^= std::byte{0xFF};
    EXPECT_EQ(decode_tensor(*tensor) == before, tensor == &without);
  }
}

TEST(Tq3, every_scale_times_every_level_in_the_rotated_domain) {
  for (const Tq3Layout& layout : tq3_layouts()) {
    Encoded tensor = encode_tensor(format(layout.name), {65536, 32}, std::vector<float>(65536 * 32, 0.0F));
    std::vector<std::byte>& bytes = tensor.planes[0].bytes;
    for (std::size_t block = 0; block < 65536; ++block) {
      for (std::size_t i = 0; i < 8; ++i) bytes[14 * block + i] = std::byte{0xE4};  // indices 0 1 2 3
      for (std::size_t i = 0; i < 4; ++i)
        bytes[14 * block + 8 + i] = std::byte{0xF0};  // four below, four above
      bytes[14 * block + 12] = static_cast<std::byte>(block & 255U);
      bytes[14 * block + 13] = static_cast<std::byte>(block >> 8);
    }
    std::vector<double> rotated(65536 * 32);
    decode_range_rotated(tensor, 0, rotated);
    for (std::size_t i = 0; i < rotated.size(); ++i) {
      const auto scale = static_cast<double>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(i / 32)));
      const double wanted = scale * tq3_level(layout, i % 4, i % 8 >= 4);
      ASSERT_TRUE(rotated[i] == wanted || (std::isnan(rotated[i]) && std::isnan(wanted)))
          << layout.name << " " << i;
    }
  }
}

TEST(Tq3, one_inverse_of_a_weighted_sum_is_the_weighted_sum_of_inverses) {
  // IWHT(sum p_j v_j) = sum p_j IWHT(v_j): what a kernel with a deferred inverse relies on.
  const std::vector<float> v = gaussian(64 * 32, 21);
  const Encoded tensor = encode_tensor(format("tq3_0_c2s1"), {64, 32}, v);
  const std::vector<double> plain = decode_tensor(tensor);
  std::vector<double> rotated(v.size());
  decode_range_rotated(tensor, 0, rotated);
  std::vector<double> late(32, 0.0);
  std::vector<double> early(32, 0.0);
  double mass = 0;
  for (std::size_t j = 0; j < 64; ++j) {
    const double p = 1.0 / static_cast<double>(j + 1);
    for (std::size_t i = 0; i < 32; ++i) {
      late[i] += p * rotated[32 * j + i];
      early[i] += p * plain[32 * j + i];
      mass += p * std::fabs(rotated[32 * j + i]);
    }
  }
  hadamard(std::span<double>(late));
  apply_signs(std::span<double>(late), std::span(&kTq3Signs, 1));
  // 64 additions and 5 butterfly levels on either side, every term below `mass`.
  const double limit = (64 + 5 + 4) * 0x1p-53 * mass;
  for (std::size_t i = 0; i < 32; ++i) EXPECT_LE(std::fabs(late[i] / std::sqrt(32.0) - early[i]), limit);
  // And a rotation with one sign wrong is far outside it.
  const std::uint32_t shipped = 0xAA6CD4B2U;
  std::vector<double> wrong = late;
  apply_signs(std::span<double>(wrong), std::span(&kTq3Signs, 1));
  apply_signs(std::span<double>(wrong), std::span(&shipped, 1));
  EXPECT_NE(wrong, late);
}

TEST(Tq3, only_rotated_formats_have_a_rotated_domain) {
  const Encoded tensor = encode_tensor(format("q8_0"), {32}, std::vector<float>(32, 1.0F));
  std::vector<double> out(32);
  try {
    decode_range_rotated(tensor, 0, out);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.kind(), InputErrorKind::bad_value);
  }
}

}  // namespace
}  // namespace assay
