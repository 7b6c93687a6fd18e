// Bit for bit against implementations that share nothing with this one: gfloat, ml_dtypes, ggml, numpy and
// mpmath, and the tables of the OCP specifications (reference/golden/formats/README.md).
#include "reference/formats/golden.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

#include "reference/formats/format.hpp"
#include "reference/formats/plane.hpp"
#include "reference/formats/tq3.hpp"

namespace assay {
namespace {

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

const std::vector<std::vector<float>>& blocks() {
  static const std::vector<std::vector<float>> list = [] {
    std::vector<std::vector<float>> made;
    for (const GoldenRow& row : golden_rows("blocks.csv")) made.push_back(f32_from_hex(row.at(1)));
    return made;
  }();
  return list;
}

Encoded encoded_block(const std::string& name, const std::string& block) {
  return encode_tensor(format(name), {32}, blocks().at(std::stoul(block)));
}

TEST(Golden, scalar_codes_decode_like_gfloat_and_ml_dtypes) {
  for (const GoldenRow& row : golden_rows("scalar_decode.csv")) {
    const double wanted = std::strtod(row.at(2).c_str(), nullptr);
    EXPECT_TRUE(same(decode(scalar_format(row.at(0)), from_hex(row.at(1))), wanted))
        << row[0] << " " << row[1];
  }
}

TEST(Golden, the_tables_of_the_ocp_specifications_hold) {
  for (const GoldenRow& row : golden_rows("ocp_tables.csv")) {
    const double wanted = std::strtod(row.at(3).c_str(), nullptr);
    EXPECT_TRUE(same(decode(scalar_format(row.at(0)), from_hex(row.at(2))), wanted))
        << row[0] << " " << row[1];
  }
}

TEST(Golden, scalar_boundaries_encode_like_gfloat_under_every_rounding_and_overflow) {
  constexpr Rounding kColumns[] = {Rounding::nearest_even, Rounding::nearest_away, Rounding::toward_zero,
                                   Rounding::toward_negative};
  std::size_t compared = 0;
  for (const GoldenRow& row : golden_rows("scalar_encode.csv")) {
    const ScalarFormat& f = scalar_format(row.at(0));
    const float x = f32_from_hex(row.at(1)).at(0);
    for (std::size_t column = 0; column < 8; ++column) {
      const std::string& wanted = row.at(2 + column);
      if (wanted.empty()) continue;
      const EncodePolicy policy{.rounding = kColumns[column % 4],
                                .overflow = column < 4 ? Overflow::saturate : Overflow::ieee};
      const std::uint32_t got = encode(f, x, policy);
      // gfloat may give another NaN; a NaN is a NaN.
      const bool both_nan = std::isnan(decode(f, got)) && std::isnan(decode(f, from_hex(wanted)));
      EXPECT_TRUE(got == from_hex(wanted) || both_nan) << row[0] << " " << std::hexfloat << x << " column "
                                                       << column << " got " << got << " wanted " << wanted;
      ++compared;
    }
  }
  EXPECT_GT(compared, 40000U);
}

TEST(Golden, scalar_boundaries_encode_like_ml_dtypes) {
  for (const GoldenRow& row : golden_rows("scalar_encode.csv")) {
    const ScalarFormat& f = scalar_format(row.at(0));
    const float x = f32_from_hex(row.at(1)).at(0);
    if (row.at(10).empty()) continue;
    const std::uint32_t wanted = from_hex(row.at(10));
    const std::uint32_t got = encode(f, x, {.overflow = Overflow::ieee});
    const bool both_nan = std::isnan(decode(f, got)) && std::isnan(decode(f, wanted));
    EXPECT_TRUE(got == wanted || both_nan)
        << row[0] << " " << std::hexfloat << x << " got " << std::hex << got << " wanted " << wanted;
  }
}

TEST(Golden, ggml_quantisers_make_the_same_bytes) {
  for (const GoldenRow& row : golden_rows("ggml_encode.csv")) {
    const std::vector<std::byte> got = encoded_block(row.at(0), row.at(1)).planes.at(0).bytes;
    std::vector<std::byte> wanted = bytes_from_hex(row.at(2));
    const std::vector<float>& x = blocks().at(std::stoul(row.at(1)));
    constexpr float kSmallestAbsmax = 1e-15F;  // ggml's GROUP_MAX_EPS_IQ4_NL
    const bool tiny = std::all_of(x.begin(), x.end(), [](float v) { return std::fabs(v) < kSmallestAbsmax; });
    // ggml leaves the codes of a block below its threshold as they were in its work array; ours are 0.
    if (row[0] == "iq4_nl" && tiny) std::fill(wanted.begin() + 2, wanted.end(), std::byte{0});
    if (row[0] == "iq4_nl" && to_hex(wanted).starts_with("00fe"))
      wanted[1] = std::byte{0x7E};  // the sign of a NaN
    EXPECT_EQ(to_hex(got), to_hex(wanted)) << row[0] << " block " << row[1];
  }
}

TEST(Golden, ggml_dequantisers_give_the_nearest_f32) {
  for (const GoldenRow& row : golden_rows("ggml_decode.csv")) {
    Encoded tensor{row.at(0), {32}, {{planes(format(row.at(0)), {32}).at(0), bytes_from_hex(row.at(1))}}};
    std::vector<float> got(32);
    decode_range(tensor, 0, std::span<float>(got));
    const std::vector<float> wanted = f32_from_hex(row.at(2));
    for (std::size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(wanted.at(i)))
          << row[0] << " " << row[1] << " element " << i << " got " << got[i] << " wanted " << wanted[i];
    }
  }
}

// Each product has at most 24 bits, so that gguf rounds once to f32, as here.
TEST(Golden, super_blocks_decode_like_gguf_in_numpy) {
  std::map<std::string, int> seen;
  for (const GoldenRow& row : golden_rows("gguf_decode.csv")) {
    const Encoded tensor{
        row.at(0), {256}, {{planes(format(row.at(0)), {256}).at(0), bytes_from_hex(row.at(1))}}};
    std::vector<float> got(256);
    decode_range(tensor, 0, std::span<float>(got));
    const std::vector<float> wanted = f32_from_hex(row.at(2));
    for (std::size_t i = 0; i < 256; ++i)
      EXPECT_EQ(got[i], wanted.at(i)) << row[0] << " block " << seen[row[0]] << " element " << i;
    ++seen[row[0]];
  }
  EXPECT_EQ(seen.size(), 6U);
}

TEST(Golden, q8_1_has_the_bytes_of_ggmls_quantiser) {
  for (const GoldenRow& row : golden_rows("ggml_q8_1.csv"))
    EXPECT_EQ(to_hex(encoded_block("q8_1", row.at(0)).planes.at(0).bytes), row.at(1)) << "block " << row[0];
}

TEST(Golden, microscaling_blocks_encode_like_gfloat) {
  for (const GoldenRow& row : golden_rows("mx_encode.csv")) {
    const Encoded tensor = encoded_block(row.at(0), row.at(1));
    EXPECT_EQ(to_hex(tensor.planes.at(1).bytes), row.at(2)) << row[0] << " block " << row[1];
    std::string codes;
    for (const std::byte b : tensor.planes.at(0).bytes) {
      const auto byte = static_cast<unsigned>(b);
      if (row[0] != "mxfp4")
        codes += to_hex(std::vector<std::byte>{b});
      else
        codes += to_hex(
            std::vector<std::byte>{static_cast<std::byte>(byte & 15U), static_cast<std::byte>(byte >> 4)});
    }
    EXPECT_EQ(codes, row.at(3)) << row[0] << " block " << row[1];
  }
}

TEST(Golden, nvfp4_matrices_encode_like_numpy_with_linear_and_swizzled_scales) {
  for (const GoldenRow& row : golden_rows("nvfp4.csv")) {
    const Shape shape{std::stol(row.at(0)), std::stol(row.at(1))};
    const std::vector<float> x = f32_from_hex(row.at(2));
    for (const auto name : {"nvfp4", "nvfp4_swizzled"}) {
      const Encoded tensor = encode_tensor(format(name), shape, x);
      std::string codes;
      for (const char c : to_hex(tensor.planes.at(0).bytes)) codes += c;
      for (std::size_t i = 0; i < codes.size(); i += 2)
        std::swap(codes[i], codes[i + 1]);  // low nibble first
      EXPECT_EQ(codes, row.at(4)) << name << to_string(shape);
      float global = 0;
      std::memcpy(&global, tensor.planes.at(2).bytes.data(), sizeof global);
      EXPECT_EQ(global, f32_from_hex(row.at(3)).at(0));
      const std::string scales = to_hex(tensor.planes.at(1).bytes);
      if (tensor.format == "nvfp4") {
        EXPECT_EQ(scales, row.at(5)) << to_string(shape);
      } else if (row.at(6).find(':') == std::string::npos) {
        EXPECT_EQ(scales, row.at(6)) << to_string(shape);
      } else {  // position:byte of everything that is not padding
        std::string wanted(scales.size(), '0');
        std::istringstream entries(row.at(6));
        for (std::string entry; entries >> entry;) {
          const std::size_t at = std::stoul(entry);
          wanted.replace(2 * at, 2, entry.substr(entry.find(':') + 1));
        }
        EXPECT_EQ(scales, wanted) << to_string(shape);
      }
      if (row.at(7).empty()) continue;
      std::vector<float> got(x.size());
      decode_range(tensor, 0, std::span<float>(got));
      EXPECT_EQ(got, f32_from_hex(row.at(7))) << name << to_string(shape);
    }
  }
}

// The codes of int4_g32_packed are those of int4_g32_bf16, reordered word by word.
std::string packed_words(const std::string& codes) {
  constexpr std::size_t kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  std::string nibbles;
  for (std::size_t word = 0; word < codes.size(); word += 8)
    for (const std::size_t element : kOrder) nibbles += codes.at(word + element);
  return nibbles;
}

TEST(Golden, int4_with_scales_in_bf16_and_with_two_scales_encodes_like_numpy) {
  for (const GoldenRow& row : golden_rows("int4.csv")) {
    const Shape shape{std::stol(row.at(1)), std::stol(row.at(2))};
    const std::vector<float> x = f32_from_hex(row.at(3));
    std::string wanted;  // two's complement, the low nibble of each byte
    for (std::size_t i = 1; i < row.at(4).size(); i += 2) wanted += row.at(4).at(i);
    const bool in_bf16 = row.at(0) == "int4_g32_bf16";
    for (const std::string& name : {row.at(0), std::string("int4_g32_packed")}) {
      if (name != row.at(0) && !in_bf16) continue;
      const Encoded tensor = encode_tensor(format(name), shape, x);
      std::string codes = to_hex(tensor.planes.at(0).bytes);
      for (std::size_t i = 0; i < codes.size(); i += 2)
        std::swap(codes[i], codes[i + 1]);  // low nibble first
      EXPECT_EQ(codes, name == "int4_g32_packed" ? packed_words(wanted) : wanted) << name << to_string(shape);
      std::vector<float> scales(static_cast<std::size_t>(element_count(tensor.planes.at(1).spec.shape)));
      decode_plane(scalar_format(in_bf16 ? "bf16" : "f32"), tensor.planes[1].bytes, 0,
                   std::span<float>(scales));
      EXPECT_EQ(scales, f32_from_hex(row.at(5))) << name << to_string(shape);
      if (!in_bf16) {
        float second = 0;
        std::memcpy(&second, tensor.planes.at(2).bytes.data(), sizeof second);
        EXPECT_EQ(second, f32_from_hex(row.at(6)).at(0)) << name;
      }
      std::vector<float> got(x.size());
      decode_range(tensor, 0, std::span<float>(got));
      EXPECT_EQ(got, f32_from_hex(row.at(7))) << name << to_string(shape);
    }
  }
}

TEST(Golden, tq3_constants_agree_with_mpmath_to_the_last_bit) {
  std::map<std::string, double> wanted;
  for (const GoldenRow& row : golden_rows("tq3_constants.csv"))
    wanted[row.at(0)] = std::strtod(row.at(1).c_str(), nullptr);
  const Tq3Codebook& book = tq3_codebook();
  EXPECT_EQ(book.threshold, wanted.at("threshold"));
  EXPECT_EQ(book.centroid[0], wanted.at("centroid0"));
  EXPECT_EQ(book.centroid[1], wanted.at("centroid1"));
  EXPECT_EQ(book.spread[0], wanted.at("spread0"));
  EXPECT_EQ(book.spread[1], wanted.at("spread1"));
}

TEST(Golden, tq3_blocks_encode_and_decode_like_a_dense_rotation_in40_digits) {
  for (const GoldenRow& row : golden_rows("tq3.csv")) {
    const Encoded tensor = encoded_block(row.at(0), row.at(1));
    EXPECT_EQ(to_hex(tensor.planes.at(0).bytes), row.at(2)) << row[0] << " block " << row[1];
    if (row.at(3).empty()) continue;
    Encoded given = tensor;
    given.planes.at(0).bytes = bytes_from_hex(row.at(2));
    const std::vector<double> got = decode_tensor(given);
    std::istringstream values(row.at(3));
    for (std::size_t i = 0; i < 32; ++i) {
      std::string value;
      ASSERT_TRUE(values >> value);
      EXPECT_EQ(got[i], std::strtod(value.c_str(), nullptr))
          << row[0] << " block " << row[1] << " element " << i;
    }
  }
}

}  // namespace
}  // namespace assay
