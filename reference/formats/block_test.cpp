// Block formats: every scale bit pattern times every code when decoding.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <regex>
#include <set>
#include <string>

#include "reference/formats/block.hpp"
#include "reference/formats/factors.hpp"
#include "reference/formats/scalar_oracle.hpp"

namespace assay {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

double f16(unsigned bits) {
  return static_cast<double>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(bits)));
}

// A tensor of this format with zero bytes in all planes.
Encoded blank(std::string_view name, const Shape& shape) {
  Encoded tensor{std::string(name), shape, {}};
  for (PlaneSpec& spec : planes(format(name), shape)) {
    const std::size_t bytes = spec.bytes;
    tensor.planes.push_back({std::move(spec), std::vector<std::byte>(bytes)});
  }
  return tensor;
}

void put_u16(std::vector<std::byte>& bytes, std::size_t at, unsigned word) {
  bytes[at] = static_cast<std::byte>(word & 255U);
  bytes[at + 1] = static_cast<std::byte>(word >> 8);
}

// Decodes as double and as float and compares both with wanted(i).
template <typename Wanted>
void expect_decodes(const Encoded& tensor, const Wanted& wanted) {
  const std::vector<double> wide = decode_tensor(tensor);
  std::vector<float> narrow(wide.size());
  decode_range(tensor, 0, std::span<float>(narrow));
  for (std::size_t i = 0; i < wide.size(); ++i) {
    const double value = wanted(i);
    if (same(wide[i], value) && same(narrow[i], static_cast<float>(value))) continue;
    ADD_FAILURE() << tensor.format << " element " << i << " " << wide[i] << " " << narrow[i] << " wanted "
                  << value;
    return;
  }
}

TEST(Blocks, every_scale_times_every_code_of_q8_0) {
  Encoded tensor = blank("q8_0", {256, 256});  // 256 scales at a time, 8 blocks with all 256 codes each
  std::vector<std::byte>& bytes = tensor.planes[0].bytes;
  for (unsigned high = 0; high < 256; ++high) {
    for (std::size_t block = 0; block < 2048; ++block) {
      put_u16(bytes, 34 * block, high << 8 | static_cast<unsigned>(block / 8));
      for (std::size_t e = 0; e < 32; ++e)
        bytes[34 * block + 2 + e] = static_cast<std::byte>(block % 8 * 32 + e);
    }
    expect_decodes(tensor, [&](std::size_t i) {
      return f16(high << 8 | static_cast<unsigned>(i / 256)) * static_cast<std::int8_t>(i % 256);
    });
  }
}

// Formats whose 32 elements can hold all codes at once: codes e of element e (mod 16 or 32).
struct Nibbles {
  const char* name;
  std::size_t block_bytes;
  std::size_t codes_at;
  std::size_t fifth_at;    // 0: four bits
  std::size_t minimum_at;  // 0: none
  double (*level)(unsigned code);
};

double iq4_level(unsigned code) {
  constexpr int kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return kLevels[code];
}

constexpr Nibbles kNibbles[] = {
    {"q4_0", 18, 2, 0, 0, [](unsigned c) { return c - 8.0; }},
    {"q4_1", 20, 4, 0, 2, [](unsigned c) { return c * 1.0; }},
    {"q5_0", 22, 6, 2, 0, [](unsigned c) { return c - 16.0; }},
    {"q5_1", 24, 8, 4, 2, [](unsigned c) { return c * 1.0; }},
    {"iq4_nl", 18, 2, 0, 0, iq4_level},
};

TEST(Blocks, every_scale_times_every_code_of_the_nibble_formats) {
  for (const Nibbles& f : kNibbles) {
    Encoded tensor = blank(f.name, {65536, 32});
    std::vector<std::byte>& bytes = tensor.planes[0].bytes;
    // With a minimum: every minimum for one scale in each pass, and every scale for one minimum in each pass.
    const std::vector<unsigned> others = f.minimum_at == 0
                                             ? std::vector<unsigned>{0}
                                             : std::vector<unsigned>{0x8000, 0x0001, 0xBC01, 0x7BFF, 0x7C00};
    for (const unsigned other : others) {
      for (const bool swap : {false, true}) {
        if (swap && f.minimum_at == 0) continue;
        for (unsigned word = 0; word < 65536; ++word) {
          const std::size_t at = word * f.block_bytes;
          put_u16(bytes, at, swap ? other : word);
          if (f.minimum_at != 0) put_u16(bytes, at + f.minimum_at, swap ? word : other);
          for (unsigned j = 0; j < 16; ++j) bytes[at + f.codes_at + j] = static_cast<std::byte>(j | (j << 4));
          if (f.fifth_at != 0)
            put_u16(bytes, at + f.fifth_at + 2, 0xFFFF);  // elements 16..31 are codes 16..31
        }
        expect_decodes(tensor, [&](std::size_t i) {
          const auto word = static_cast<unsigned>(i / 32);
          const unsigned code = f.fifth_at != 0 ? i % 32 : i % 16;
          const double product = f16(swap ? other : word) * f.level(code);
          return f.minimum_at == 0 ? product : product + f16(swap ? word : other);
        });
      }
    }
  }
}

TEST(Blocks, every_scale_times_every_code_of_the_microscaling_formats) {
  struct Row {
    const char* name;
    const char* element;
    std::size_t codes;
  };
  for (const Row& row :
       {Row{"mxfp4", "e2m1", 16}, Row{"mxfp8", "e4m3fn", 256}, Row{"mxfp8_e5m2", "e5m2", 256}}) {
    const std::size_t codes = row.codes;
    const ScalarFormat& element = scalar_format(row.element);
    Encoded tensor = blank(row.name, {256, 256});
    for (std::size_t i = 0; i < 65536; ++i) {
      const std::size_t code = i % codes;
      if (codes == 256)
        tensor.planes[0].bytes[i] = static_cast<std::byte>(code);
      else
        tensor.planes[0].bytes[i / 2] |= static_cast<std::byte>(code << (i % 2 == 0 ? 0 : 4));
    }
    for (std::size_t i = 0; i < 2048; ++i) tensor.planes[1].bytes[i] = static_cast<std::byte>(i / 8);
    expect_decodes(tensor, [&](std::size_t i) {
      const double scale = i / 256 == 255 ? kNan : std::pow(2.0, static_cast<double>(i / 256) - 127);
      return decode(element, static_cast<std::uint32_t>(i % codes)) * scale;
    });
  }
}

TEST(Blocks, every_exponent_times_every_code_of_ggmls_mxfp4) {
  Encoded tensor = blank("mxfp4_ggml", {256, 32});
  for (std::size_t block = 0; block < 256; ++block) {
    tensor.planes[0].bytes[17 * block] = static_cast<std::byte>(block);
    for (unsigned j = 0; j < 16; ++j)
      tensor.planes[0].bytes[17 * block + 1 + j] = static_cast<std::byte>(j | (15 - j) << 4);
  }
  constexpr double kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  expect_decodes(tensor, [&](std::size_t i) {
    const std::size_t j = i % 16;
    const double value = kDoubled[i % 32 < 16 ? j : 15 - j];
    return value * std::pow(2.0, static_cast<double>(i / 32) - 128);
  });
}

TEST(Blocks, nvfp4_divides_by_the_global_scale_for_every_block_scale_and_code) {
  for (const float global : {1.0F, 448.0F * 6, 3.0F, 0.1F, 1e-30F, 1e30F}) {
    Encoded tensor = blank("nvfp4", {256, 16});
    for (std::size_t block = 0; block < 256; ++block)
      tensor.planes[1].bytes[block] = static_cast<std::byte>(block);
    for (std::size_t i = 0; i < 2048; ++i) {
      tensor.planes[0].bytes[i] = static_cast<std::byte>(2 * (i % 8) | (2 * (i % 8) + 1) << 4);
    }
    std::memcpy(tensor.planes[2].bytes.data(), &global, sizeof global);
    expect_decodes(tensor, [&](std::size_t i) {
      const double scale = decode(scalar_format("e4m3fn"), static_cast<std::uint32_t>(i / 16));
      return decode(scalar_format("e2m1"), static_cast<std::uint32_t>(i % 16)) * scale / global;
    });
  }
}

TEST(Blocks, nvfp4_global_scale_is_the_quantising_one_so_multiplying_would_be_off_by_its_square) {
  std::vector<float> x(64, 0.25F);
  x[5] = -0.01F;
  const Encoded tensor = encode_tensor(format("nvfp4"), {4, 16}, x);
  float global = 0;
  std::memcpy(&global, tensor.planes[2].bytes.data(), sizeof global);
  EXPECT_EQ(global, 2688.0F / 0.25F);
  EXPECT_EQ(decode_tensor(tensor)[0], 0.25);
  EXPECT_GT(decode_tensor(tensor)[0] * global * global,
            2e7);  // what the wrong direction gives, far beyond 448
}

TEST(Blocks, factors_are_what_the_numbers_are_products_of) {
  std::vector<float> x(512);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i)) + 0.25F;
  for (const Format& f : formats()) {
    if (f.kind == FormatKind::scalar && f.element != "e4m3fn") continue;
    const Encoded tensor = encode_tensor(f, {2, 256}, x);
    const std::vector<double> numbers = decode_tensor(tensor);
    std::vector<Factors> each(256);
    factors(tensor, 256, each);
    std::size_t scaled = 0;
    for (std::size_t i = 0; i < each.size(); ++i) {
      const Factors& p = each[i];
      const double product = (p.divides ? p.code * p.scale / p.second : p.code * p.scale * p.second) -
                             p.minimum * p.minimum_scale;
      EXPECT_EQ(product, numbers[256 + i]) << f.name << ' ' << i;
      scaled += p.scale != 1 ? 1 : 0;
    }
    EXPECT_EQ(scaled > 0, f.kind != FormatKind::scalar && !f.name.starts_with("tq3")) << f.name;
  }
}

// What a plug-in's author reads of the bytes: ranges without a gap to the end of the block, or every plane.
TEST(Blocks, the_page_of_a_format_tells_every_byte_and_every_plane) {
  for (const Format& f : formats()) {
    if (f.kind != FormatKind::block) continue;
    const std::string text(f.block->stored);
    EXPECT_NE(text.find("value = "), std::string::npos) << f.name;
    const std::vector<PlaneSpec> all = planes(f, {1, f.block_elements});
    if (all[0].format == f.name) {
      std::size_t next = 0;
      const std::regex range(R"(\n  (\d+)(?:\.\.(\d+))?  )");
      for (std::sregex_iterator it(text.begin(), text.end(), range), end; it != end; ++it) {
        EXPECT_EQ(std::stoul((*it)[1]), next) << f.name << ": " << it->str();
        next = std::stoul((*it)[2].matched ? (*it)[2] : (*it)[1]) + 1;
      }
      EXPECT_EQ(next, all[0].bytes) << f.name;
      continue;
    }
    std::set<std::string> told, there;
    const std::regex plane(R"re(\n  plane "([^"]*)")re");
    for (std::sregex_iterator it(text.begin(), text.end(), plane), end; it != end; ++it)
      told.insert((*it)[1]);
    for (const PlaneSpec& each : all) there.insert(each.suffix);
    EXPECT_EQ(told, there) << f.name;
  }
}

TEST(Blocks, the_swizzled_order_is_the128x4_atom) {
  // Row r, column c of scales lies at (r % 32) * 16 + (r / 32) * 4 + c within its 512-byte tile.
  std::vector<float> x(200 * 80, 0.0F);
  const auto mark = [&](std::int64_t row, std::int64_t block) { x[row * 80 + block * 16] = 6; };
  mark(0, 0);
  mark(33, 1);
  mark(130, 4);
  const Encoded tensor = encode_tensor(format("nvfp4_swizzled"), {200, 80}, x);
  EXPECT_EQ(tensor.planes[1].spec.shape, (Shape{256, 8}));
  for (std::size_t i = 0; i < tensor.planes[1].bytes.size(); ++i) {
    const bool marked = i == 0 || i == 1 * 16 + 1 * 4 + 1 || i == (1 * 2 + 1) * 512 + 2 * 16;
    EXPECT_EQ(tensor.planes[1].bytes[i] != std::byte{0}, marked) << i;
  }
  Encoded linear = encode_tensor(format("nvfp4"), {200, 80}, x);
  EXPECT_EQ(decode_tensor(linear), decode_tensor(tensor));
}

}  // namespace
}  // namespace assay
