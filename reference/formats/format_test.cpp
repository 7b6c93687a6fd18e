// The list of formats, planes and shapes, scaled formats on every axis, ranges, and every refusal with its
// value.
#include "reference/formats/format.hpp"
#include "reference/formats/block.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <set>

namespace assay {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void expect_refusal(InputErrorKind kind, const std::string& value, const std::function<void()>& call) {
  try {
    call();
    FAIL() << "not refused: " << value;
  } catch (const InputError& error) {
    EXPECT_EQ(to_string(error.kind()), to_string(kind));
    EXPECT_NE(std::string(error.what()).find(value), std::string::npos)
        << error.what() << " does not say " << value;
  }
}

std::vector<float> ramp(std::int64_t count) {
  std::vector<float> x;
  for (std::int64_t i = 0; i < count; ++i) x.push_back(static_cast<float>((i * 37 % 101 - 50)) / 16);
  return x;
}

std::vector<float> scales_of(const Encoded& tensor) {
  const std::vector<std::byte>& bytes = tensor.planes.at(1).bytes;
  std::vector<float> scales(bytes.size() / 4);
  std::memcpy(scales.data(), bytes.data(), bytes.size());
  return scales;
}

TEST(Formats, names_are_unique_and_find_themselves) {
  std::set<std::string_view> names;
  for (const Format& f : formats()) {
    EXPECT_TRUE(names.insert(f.name).second) << f.name;
    EXPECT_EQ(&format(f.name), &f);
  }
  for (const auto name : {"e4m3fn", "f32", "int8", "q8_0", "tq3_0_c2s1", "mxfp4", "nvfp4_swizzled",
                          "e4m3fnuz_head", "e5m2_ch", "int8_tok", "int4_ch", "int4_g32", "e4m3fn_row",
                          "int4_g32_bf16", "int4_g32_packed", "int4_ch_tensor", "int4_g32_tensor"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Formats, bits_per_element_are_the_bytes_of_a_large_tensor) {
  for (const Format& f : formats()) {
    // Swizzled scales are padded to 128 rows of the last two axes: full tiles there.
    const Shape shape = f.name == "nvfp4_swizzled" ? Shape{2, 4096, 512} : Shape{4096, 2, 512};
    double bytes = 0;
    for (const PlaneSpec& plane : planes(f, shape)) bytes += static_cast<double>(plane.bytes);
    const double bits = 8 * bytes / static_cast<double>(element_count(shape));
    EXPECT_GE(bits, f.bits_per_element) << f.name;
    // A scale of 32 bits for a row of 512, and one for the tensor.
    EXPECT_LE(bits, f.bits_per_element + 32.0 / 512 + 32.0 / static_cast<double>(element_count(shape)))
        << f.name;
  }
}

TEST(Formats, every_format_round_trips_and_its_ranges_agree_with_the_whole) {
  const Shape shape{3, 4, 256};
  const std::vector<float> x = ramp(element_count(shape));
  for (const Format& f : formats()) {
    const std::int64_t width = std::max(64, f.block_elements);
    const Encoded tensor = encode_tensor(f, shape, x);
    const std::vector<double> whole = decode_tensor(tensor);
    ASSERT_EQ(whole.size(), x.size());
    std::vector<double> piece(static_cast<std::size_t>(width));
    std::vector<float> piece32(piece.size());
    for (std::int64_t first = 0; first + width <= element_count(shape);
         first += std::max(32, f.block_elements)) {
      decode_range(tensor, first, std::span<double>(piece));
      decode_range(tensor, first, std::span<float>(piece32));
      for (std::size_t i = 0; i < piece.size(); ++i) {
        const double wanted = whole[static_cast<std::size_t>(first) + i];
        ASSERT_EQ(piece[i], wanted) << f.name << " " << first << " " << i;
        ASSERT_EQ(piece32[i], static_cast<float>(wanted)) << f.name << " " << first << " " << i;
      }
    }
    decode_range(tensor, 0, std::span<double>());
  }
}

TEST(Formats, planes_follow_the_axes) {
  const Shape shape{2, 5, 3, 64};  // outer 10, middle 3, inner 64
  const auto scale_shape = [&](const char* name) { return planes(format(name), shape).at(1).shape; };
  EXPECT_EQ(scale_shape("e4m3fn_tensor"), (Shape{1}));
  EXPECT_EQ(scale_shape("e4m3fn_head"), (Shape{3}));
  EXPECT_EQ(scale_shape("e4m3fn_tok"), (Shape{10}));
  EXPECT_EQ(scale_shape("e4m3fn_ch"), (Shape{3, 64}));
  EXPECT_EQ(scale_shape("e4m3fn_row"), (Shape{30}));
  EXPECT_EQ(scale_shape("int4_ch"), (Shape{30}));
  EXPECT_EQ(scale_shape("int4_g32"), (Shape{30, 2}));
  EXPECT_EQ(scale_shape("int4_ch_tensor"), (Shape{30}));
  EXPECT_EQ(scale_shape("int4_g32_tensor"), (Shape{30, 2}));
  EXPECT_EQ(scale_shape("int4_g32_bf16"), (Shape{2, 5, 3, 2}));
  EXPECT_EQ(planes(format("int4_g32_packed"), {7, 64}).at(0).shape, (Shape{7, 8}));
  EXPECT_EQ(planes(format("int8_tok"), {7, 64}).at(1).shape, (Shape{7}));
  EXPECT_EQ(planes(format("int8_head"), {7, 64}).at(1).shape, (Shape{1}));
  EXPECT_EQ(planes(format("nvfp4"), {7, 64}).at(1).shape, (Shape{7, 4}));
  EXPECT_EQ(planes(format("nvfp4_swizzled"), {3, 7, 80}).at(1).shape, (Shape{3, 128, 8}));
  EXPECT_EQ(planes(format("mxfp8"), shape).at(1).shape, (Shape{2, 5, 3, 2}));
  EXPECT_EQ(planes(format("tq3_0_c2"), {2, 64}).at(0).bytes, 4U * 14);
  EXPECT_EQ(planes(format("int4"), {2, 6}).at(0).bytes, 6U);
}

TEST(Formats, computed_scales_are_absmax_over_the_largest_code) {
  const Shape shape{2, 3, 4};
  std::vector<float> x(24, 0.0F);
  const auto at = [&](int outer, int middle, int inner) -> float& {
    return x[static_cast<std::size_t>((outer * 3 + middle) * 4 + inner)];
  };
  at(0, 0, 0) = 1;
  at(0, 2, 1) = -4;
  at(1, 0, 3) = 2;
  const auto scales = [&](const char* name) { return scales_of(encode_tensor(format(name), shape, x)); };
  using Floats = std::vector<float>;
  EXPECT_EQ(scales("e4m3fn_tensor"), (Floats{4.0F / 448}));
  EXPECT_EQ(scales("e4m3fnuz_head"), (Floats{2.0F / 240, 1, 4.0F / 240}));  // an all-zero group stores 1
  EXPECT_EQ(scales("int8_tok"), (Floats{4.0F / 127, 2.0F / 127}));
  EXPECT_EQ(scales("e5m2_ch"), (Floats{1.0F / 57344, 1, 1, 2.0F / 57344, 1, 1, 1, 1, 1, 4.0F / 57344, 1, 1}));
  EXPECT_EQ(scales("int4_ch"), (Floats{1.0F / 7, 1, 4.0F / 7, 2.0F / 7, 1, 1}));
  at(1, 2, 2) = kInf;
  at(1, 2, 3) = kNan;
  EXPECT_EQ(scales("e4m3fn_tensor"), (Floats{4.0F / 448}));  // over the finite elements
}

TEST(Formats, decoded_value_is_code_times_scale_on_every_axis) {
  const Shape shape{2, 3, 32};
  const std::vector<float> x = ramp(element_count(shape));
  for (const Format& f : formats()) {
    if (f.kind != FormatKind::scaled) continue;
    const std::size_t count = planes(f, shape).at(1).bytes / 4;
    std::vector<float> scales;
    for (std::size_t i = 0; i < count; ++i) scales.push_back(0.013F * static_cast<float>(i + 1));
    const std::vector<double> got = decode_tensor(encode_tensor_with_scales(f, shape, x, scales));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t inner = i % 32;
      const std::size_t middle = i / 32 % 3;
      const std::size_t outer = i / 96;
      std::size_t index = 0;
      switch (f.axis) {
        case ScaleAxis::head:
          index = middle;
          break;
        case ScaleAxis::token:
          index = outer;
          break;
        case ScaleAxis::channel:
          index = middle * 32 + inner;
          break;
        case ScaleAxis::row:
        case ScaleAxis::group32:
          index = outer * 3 + middle;
          break;
        case ScaleAxis::tensor:
        case ScaleAxis::none:
          break;
      }
      const double code = round_to(scalar_format(f.element), static_cast<double>(x[i]) / scales[index]);
      ASSERT_EQ(got[i], code * scales[index]) << f.name << " " << i;
    }
  }
}

TEST(Formats, a_scale_locked_on_an_earlier_request_clips_the_next_one) {
  // First request within [-5, 5] under the constant 200: scale 0.025, so 448 * 0.025 = 11.2 is the largest
  // number.
  const std::vector<float> x{20, -15, 50, 2};
  const std::vector<float> scale{5.0F / 200};
  const std::vector<double> y =
      decode_tensor(encode_tensor_with_scales(format("e4m3fn_tensor"), {4}, x, scale));
  const double largest = 448.0 * scale[0];
  EXPECT_EQ(static_cast<float>(largest), 11.2F);
  EXPECT_EQ(y[0], largest);
  EXPECT_EQ(y[1], -largest);
  EXPECT_EQ(y[2], largest);
  EXPECT_EQ(y[3], 2.0 - (2.0 - 80 * static_cast<double>(scale[0])));  // 2 / 0.025 = 80 is a code
}

TEST(Formats, two_nibbles_share_a_byte_low_first) {
  const Encoded tensor = encode_tensor(format("int4"), {4}, std::vector<float>{1, -2, 7, -7});
  EXPECT_EQ(tensor.planes[0].bytes, (std::vector<std::byte>{std::byte{0xE1}, std::byte{0x97}}));
}

TEST(Formats, tf32_is_stored_as_the_f32_with_the_same_value) {
  const Encoded tensor = encode_tensor(format("tf32"), {1}, std::vector<float>{0x1.001p0F});
  std::uint32_t word = 0;
  std::memcpy(&word, tensor.planes[0].bytes.data(), 4);
  EXPECT_EQ(word, std::bit_cast<std::uint32_t>(0x1.0p0F));  // ties to even at 10 fraction bits
}

TEST(Formats, bad_input_is_refused_by_name_and_value) {
  using enum InputErrorKind;
  expect_refusal(unknown_name, "e4m3fn_tok", [] { format("e4m3fm_tok"); });
  expect_refusal(unknown_name, "'nosuch'", [] { format("nosuch"); });
  expect_refusal(ragged_block, "48", [] { encode_tensor(format("q8_0"), {2, 48}, ramp(96)); });
  expect_refusal(ragged_block, "24", [] { planes(format("nvfp4"), {24}); });
  expect_refusal(ragged_block, "7", [] { planes(format("int4_ch"), {2, 7}); });
  expect_refusal(shape_mismatch, "63 values", [] { encode_tensor(format("f16"), {2, 32}, ramp(63)); });
  expect_refusal(shape_mismatch, "[0,32]", [] { planes(format("f16"), {0, 32}); });
  expect_refusal(shape_mismatch, "[4,-1]", [] { planes(format("f16"), {4, -1}); });
  expect_refusal(shape_mismatch, "at least one axis", [] { planes(format("f16"), {}); });
  expect_refusal(shape_mismatch, "too many", [] { planes(format("f16"), {1LL << 40, 1LL << 40}); });
  expect_refusal(bad_value, "q8_0",
                 [] { encode_tensor_with_scales(format("q8_0"), {32}, ramp(32), std::vector<float>{1}); });
  expect_refusal(shape_mismatch, "2 scales, not 3", [] {
    encode_tensor_with_scales(format("int8_tok"), {2, 4}, ramp(8), std::vector<float>{1, 1, 1});
  });
}

TEST(Formats, a_bad_scale_is_refused_with_its_value_when_encoding_and_when_decoding) {
  for (const auto& [scale, text] :
       {std::pair{0.0F, "is 0"}, std::pair{-0.5F, "is -0.5"}, std::pair{kNan, "is nan"},
        std::pair{kInf, "is inf"}, std::pair{-kInf, "is -inf"}}) {
    const std::vector<float> scales{1, scale};
    expect_refusal(InputErrorKind::bad_scale, std::string(".scale[1] ") + text,
                   [&] { encode_tensor_with_scales(format("e4m3fn_tok"), {2, 32}, ramp(64), scales); });
    for (const char* name : {"e4m3fn_tok", "int8_row", "int4_ch", "int4_g32", "e5m2_ch"}) {
      if (scale == 0) continue;  // decodes: the next test
      Encoded tensor = encode_tensor(format(name), {2, 32}, ramp(64));
      std::memcpy(tensor.planes[1].bytes.data() + 4, &scale, 4);
      expect_refusal(InputErrorKind::bad_scale, std::string(".scale[1] ") + text,
                     [&] { decode_tensor(tensor); });
    }
    Encoded tensor = encode_tensor(format("nvfp4"), {2, 32}, ramp(64));
    std::memcpy(tensor.planes[2].bytes.data(), &scale, 4);
    expect_refusal(InputErrorKind::bad_scale, std::string(".global_scale[0] ") + text,
                   [&] { decode_tensor(tensor); });
  }
}

TEST(Formats, elements_of_an_output_under_a_bad_scale_are_nan_and_the_others_stand) {
  for (const char* name : {"e4m3fn_tok", "int8_tok", "int4_g32", "int4_g32_tensor"})
    for (const float scale : {-0.5F, kNan, kInf}) {
      const Encoded good = encode_tensor(format(name), {2, 32}, ramp(64));
      const std::vector<double> before = decode_tensor(good);
      EXPECT_EQ(decode_output(good), before) << name;
      Encoded tensor = good;
      std::memcpy(tensor.planes[1].bytes.data() + 4, &scale, 4);
      const std::vector<double> after = decode_output(tensor);
      for (std::size_t i = 0; i < 64; ++i)
        EXPECT_TRUE(i < 32 ? after[i] == before[i] : std::isnan(after[i]))
            << name << ' ' << scale << ' ' << i;
    }
  Encoded tensor = encode_tensor(format("nvfp4"), {2, 32}, ramp(64));
  std::memcpy(tensor.planes[2].bytes.data(), &kInf, 4);
  EXPECT_TRUE(std::ranges::all_of(decode_output(tensor), [](double x) { return std::isnan(x); }));
}

TEST(Formats, a_scale_of_zero_decodes_to_zeros_and_leaves_the_other_groups_alone) {
  for (const char* name :
       {"e4m3fn_tok", "int8_row", "int4_ch", "e5m2_tensor", "int4_ch_tensor", "int4_g32_tensor"}) {
    const Encoded good = encode_tensor(format(name), {2, 32}, ramp(64));
    const std::vector<double> before = decode_tensor(good);
    const std::size_t group = good.planes[1].bytes.size() > 4 ? 32 : 64;
    Encoded tensor = good;
    const float zero = 0;
    std::memcpy(tensor.planes[1].bytes.data(), &zero, 4);
    const std::vector<double> after = decode_tensor(tensor);
    for (std::size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i], i < group ? 0.0 : before[i]) << name;
  }
}

TEST(Formats, planes_that_do_not_fit_their_shape_are_refused_before_anything_is_read) {
  for (const Format& f : formats()) {
    if (f.block_elements > 64) continue;  // rows of 64 are no rows of these
    const Encoded good = encode_tensor(f, {2, 64}, ramp(128));
    EXPECT_NO_THROW(decode_tensor(good));
    Encoded bad = good;
    bad.planes[0].bytes.pop_back();
    expect_refusal(InputErrorKind::shape_mismatch, std::to_string(bad.planes[0].bytes.size()),
                   [&] { decode_tensor(bad); });
    bad = good;
    bad.planes.pop_back();
    expect_refusal(InputErrorKind::shape_mismatch, "planes", [&] { decode_tensor(bad); });
    bad = good;
    bad.planes.push_back(good.planes.back());
    expect_refusal(InputErrorKind::shape_mismatch, "planes", [&] { decode_tensor(bad); });
    bad = good;
    bad.planes.back().spec.suffix = ".scales";
    expect_refusal(InputErrorKind::shape_mismatch, ".scales", [&] { decode_tensor(bad); });
    bad = good;
    bad.shape = {2, 128};
    EXPECT_THROW(decode_tensor(bad), InputError);
    std::vector<double> out(64);
    expect_refusal(InputErrorKind::shape_mismatch, "[96, 160)",
                   [&] { decode_range(good, 96, std::span<double>(out)); });
    expect_refusal(InputErrorKind::shape_mismatch, "[-32, 32)",
                   [&] { decode_range(good, -32, std::span<double>(out)); });
    if (f.block_elements > 1) {
      expect_refusal(InputErrorKind::ragged_block, "[1, 65)",
                     [&] { decode_range(good, 1, std::span<double>(out)); });
    }
  }
}

// All groups of 16 have the same range, so that every group's scale is the largest; the coarsest formats then
// have steps of a third of the range (codes 0 to 3, with a minimum) or of the largest magnitude (-3 to 3).
TEST(SuperBlocks, what_is_made_is_in_order_and_no_farther_than_a_step) {
  std::vector<float> x(512);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>(i * 7 % 16)) - (i / 16 % 2 == 0 ? 7.0F : 8.0F);
  for (const Format& f : formats()) {
    if (f.block_elements != 256) continue;
    const std::vector<double> y = decode_tensor(encode_tensor(f, {2, 256}, x));
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_LE(std::fabs(y[i] - static_cast<double>(x[i])), 16.0 / 3) << f.name << " " << i;
      for (std::size_t j = i / 16 * 16; j < i / 16 * 16 + 16; ++j)
        if (x[i] <= x[j]) {
          EXPECT_LE(y[i], y[j]) << f.name << " " << i << " " << j;
        }
    }
    std::vector<float> spoilt = x;
    spoilt[300] = kInf;
    const std::vector<double> poisoned = decode_tensor(encode_tensor(f, {2, 256}, spoilt));
    EXPECT_EQ(poisoned[0], y[0]) << f.name;
    EXPECT_TRUE(std::isnan(poisoned[256])) << f.name;
  }
}

TEST(Formats, each_that_a_kernel_is_asked_to_quantise_to_has_its_rule_in_words) {
  for (const Format& f : formats()) {
    const bool searched = f.kind == FormatKind::block && f.block->searched && f.block->search == nullptr;
    EXPECT_EQ(quantiser_rule(f).empty(), searched) << f.name;
  }
}

}  // namespace
}  // namespace assay
