// The plug-in through its C interface: loading, refusals with reasons, the kernel that it names beforehand
// and the one that it names while running, and every layout's way there and back.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "backends/cpu/codecs.hpp"
#include "backends/cpu/layouts.hpp"
#include "backends/cpu/test_call.hpp"

namespace assay_cpu_test {
namespace {

using assay_cpu::Layout;
using assay_cpu::Scaling;

std::vector<float> normal(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) value = draw(random);
  return x;
}

TEST(Plugin, opens_with_its_name_version_and_variants) {
  EXPECT_EQ(backend().version, static_cast<std::uint32_t>(ASSAY_BACKEND_VERSION));
  EXPECT_STREQ(backend().name, "cpu");
  EXPECT_GE(targets().size(), 2U);
  EXPECT_EQ(targets().front(), "scalar");
  EXPECT_NE(std::string(backend().variants).find("attention:split.scalar"), std::string::npos);
}

TEST(Plugin, refuses_an_unknown_op_variant_format_and_missing_tensor_with_a_reason) {
  assay_declaration declaration;
  EXPECT_EQ(TestCall("conv2d").declare(declaration), ASSAY_UNSUPPORTED);
  EXPECT_NE(std::string(declaration.reason).find("conv2d"), std::string::npos);
  TestCall call("rmsnorm");
  call.set("dtype", "f32").set("eps", "1e-5");
  EXPECT_EQ(call.declare(declaration), ASSAY_UNSUPPORTED);
  EXPECT_NE(std::string(declaration.reason).find("'x'"), std::string::npos);
  EXPECT_EQ(call.declare(declaration, "decode"), ASSAY_UNSUPPORTED);
  EXPECT_NE(std::string(declaration.reason).find("decode"), std::string::npos);
  call.set("dtype", "f64");
  EXPECT_EQ(call.declare(declaration), ASSAY_UNSUPPORTED);
  EXPECT_NE(std::string(declaration.reason).find("f64"), std::string::npos);
}

// y = 1 / sqrt(mean x^2 + eps) x gamma of a row with a gap behind it, on every target.
TEST(Plugin, honours_gaps_between_rows) {
  const std::vector<float> x = normal(3 * 35, 2);
  const std::vector<float> gamma = normal(35, 3);
  TestCall call("rmsnorm");
  call.set("rows", "3").set("cols", "35").set("dtype", "f32").set("eps", "1e-5");
  call.in("x", "f32", {3, 35}, x, 20).in("gamma", "f32", {35}, gamma).out("y", "f32", {3, 35}, 3 * 35 * 4, 8);
  for (const std::string& target : targets()) {
    ASSERT_EQ(call.run(target), ASSAY_OK) << call.reason;
    EXPECT_EQ(call.notes["target"], target);
    EXPECT_TRUE(call.gaps_intact());
    const std::vector<float> y = call.result<float>("y");
    for (std::size_t r = 0; r < 3; ++r) {
      double squares = 0;
      for (std::size_t i = 0; i < 35; ++i) squares += double{x[r * 35 + i]} * x[r * 35 + i];
      for (std::size_t i = 0; i < 35; ++i) {
        const double want = x[r * 35 + i] * double{gamma[i]} / std::sqrt(squares / 35 + 1e-5);
        ASSERT_TRUE(std::fabs(y[r * 35 + i] - want) <= 16 * 0x1p-24 * std::fabs(want))
            << target;  // 35 squares and additions of one sign, in lanes, halved by the root; and three roundings
      }
    }
  }
}

TEST(Plugin, argmax_follows_the_plain_loop_on_nan_and_ties) {
  const std::vector<float> x = {NAN, 5, 1, 7, /**/ 1, NAN, 3, 3, /**/ -1, -2, -1, -4};
  for (const char* checked : {"no", "yes"}) {
    TestCall call("argmax");
    call.set("rows", "3").set("cols", "4").set("dtype", "f32").set("checked", checked);
    call.in("x", "f32", {3, 4}, x).out("y", "int32", {3}, 12);
    ASSERT_EQ(call.run(), ASSAY_OK) << call.reason;
    const std::vector<std::int32_t> want = std::string(checked) == "yes"
                                               ? std::vector<std::int32_t>{-1, -2, 0}
                                               : std::vector<std::int32_t>{0, 2, 0};
    EXPECT_EQ(call.result<std::int32_t>("y"), want);
  }
}

struct Sizes {
  std::size_t payload, scale, block_scale;
};

// Bytes of a [rows, cols] tensor's planes, from the formats' bits per element.
Sizes sizes(const Layout& layout, std::int64_t rows, std::int64_t cols) {
  const std::string name(layout.name);
  const auto count = static_cast<std::size_t>(rows * cols);
  const std::map<std::string, std::size_t> block_bytes = {
      {"q8_0", 34},   {"q4_0", 18},       {"q4_1", 20},     {"q5_0", 22},      {"q5_1", 24},
      {"iq4_nl", 18}, {"tq3_0_c2s1", 14}, {"tq3_0_c2", 14}, {"mxfp4_ggml", 17}};
  Sizes s{count, 0, 0};
  if (const auto block = block_bytes.find(name); block != block_bytes.end())
    s.payload = count / 32 * block->second;
  if (name == "f32" || name == "tf32") s.payload = 4 * count;
  if (name == "f16" || name == "bf16") s.payload = 2 * count;
  if (name == "int4" || name == "e2m1" || name == "mxfp4" || name.starts_with("int4_") ||
      name.starts_with("nvfp4")) {
    s.payload = count / 2;
  }
  return s;
}

std::vector<std::int64_t> scale_shape(const Layout& layout, std::int64_t rows, std::int64_t cols) {
  switch (layout.scaling) {
    case Scaling::token:
    case Scaling::row:
      return {rows};
    case Scaling::channel:
      return {1, cols};
    case Scaling::group32:
      return {rows, cols / 32};
    default:
      return {1};
  }
}

void add_planes(TestCall& call, const Layout& layout, std::int64_t rows, std::int64_t cols, bool output,
                const std::map<std::string, std::vector<std::uint8_t>>& stored) {
  const std::string name(layout.name);
  const std::string tensor = output ? "y" : "x";
  const auto add = [&](const std::string& plane, const std::string& format,
                       const std::vector<std::int64_t>& shape, std::size_t bytes) {
    if (output) {
      call.out(plane, format, shape, bytes);
    } else {
      call.in(plane, format, shape, stored.at(plane == "x" ? "y" : "y" + plane.substr(1)));
    }
  };
  add(tensor, name, {rows, cols / layout.packed}, sizes(layout, rows, cols).payload);
  if (name == "int4_g32_bf16" || name == "int4_g32_packed") {
    add(tensor + ".scale", "bf16", {rows, cols / 32}, static_cast<std::size_t>(rows * cols / 16));
  } else if (layout.scaling == Scaling::second) {
    const std::int64_t groups = name == "int4_ch_tensor" ? 1 : cols / 32;
    add(tensor + ".scale", "f32", {rows * groups}, static_cast<std::size_t>(4 * rows * groups));
    add(tensor + ".scale_2", "f32", {1}, 4);
  } else if (layout.has_scale && layout.scaling == Scaling::none) {
    add(tensor + ".scale", "e8m0", {rows, cols / 32}, static_cast<std::size_t>(rows * cols / 32));
  } else if (layout.has_scale) {
    const std::vector<std::int64_t> shape = scale_shape(layout, rows, cols);
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    add(tensor + ".scale", "f32", shape, 4 * count);
  }
  if (layout.has_block_scale) {
    const bool swizzled = name == "nvfp4_swizzled";
    const std::vector<std::int64_t> shape = {swizzled ? (rows + 127) / 128 * 128 : rows,
                                             swizzled ? (cols / 16 + 3) / 4 * 4 : cols / 16};
    add(tensor + ".block_scale", "e4m3fn", shape, static_cast<std::size_t>(shape[0] * shape[1]));
    add(tensor + ".global_scale", "f32", {1}, 4);
  }
}

// |x' - x| of one element: half a step of the format at the block's largest magnitude, times 2 for coarse
// codebooks' widest gap. A wrong nibble order, sign, offset, scale or swizzle is off by the size of the data.
double round_trip_limit(const std::string& name, double absmax) {
  if (name == "f32") return 0;
  if (name == "f16" || name == "tf32") return absmax * 0x1p-11;
  if (name == "bf16") return absmax * 0x1p-8;
  if (name.starts_with("tq3"))
    return absmax;  // 2-bit codebook in a rotated basis: judged by its mean error below
  if (name.starts_with("q8_0") || name.starts_with("int8_"))
    return absmax / 127 * 1.01 / 2 + absmax * 0x1p-10;
  if (name == "int8" || name == "int4" || name == "uint8") return 0.5;
  if (name.starts_with("q5")) return absmax / 15;
  if (name.starts_with("e5m2")) return absmax / 8;
  if (name.starts_with("e3m2")) return absmax / 8;
  if (name.starts_with("e4m3") || name == "ue4m3" || name.starts_with("mxfp8") || name.starts_with("e2m3"))
    return absmax / 8;
  return absmax / 3;  // 4 bits: e2m1's gap from 4 to 6 is a third of 6; MX scales may clip 7 of 8 to 6
}

TEST(Layouts, quantise_and_dequantise_back_within_the_formats_step) {
  constexpr std::int64_t kRows = 5;
  constexpr std::int64_t kCols = 192;
  std::set<std::string> seen;
  for (const Layout& layout : assay_cpu::layouts()) {
    const std::string name(layout.name);
    std::vector<float> x = normal(kRows * kCols, 11);
    if (name == "e8m0" || name == "ue4m3" || name == "uint8") {
      for (float& value : x) value = std::fabs(value);
    }
    TestCall quantize("quantize");
    quantize.set("rows", "5").set("cols", "192").set("to", name).set("dtype", "f32");
    quantize.in("x", "f32", {kRows, kCols}, x);
    add_planes(quantize, layout, kRows, kCols, true, {});
    ASSERT_EQ(quantize.run(), ASSAY_OK) << name << ": " << quantize.reason;
    assay_declaration declaration;
    ASSERT_EQ(quantize.declare(declaration), ASSAY_OK);
    EXPECT_EQ(quantize.kernels, std::vector<std::string>{declaration.path});

    std::map<std::string, std::vector<std::uint8_t>> stored;
    for (const char* plane : {"y", "y.scale", "y.scale_2", "y.block_scale", "y.global_scale"}) {
      if (quantize.has_output(plane)) stored[plane] = quantize.result<std::uint8_t>(plane);
    }
    std::vector<float> scalar_result;
    for (const std::string& target : targets()) {
      TestCall dequantize("dequantize");
      dequantize.set("rows", "5").set("cols", "192").set("from", name).set("dtype", "f32");
      add_planes(dequantize, layout, kRows, kCols, false, stored);
      dequantize.out("y", "f32", {kRows, kCols}, kRows * kCols * 4);
      ASSERT_EQ(dequantize.run(target), ASSAY_OK) << name << ": " << dequantize.reason;
      const std::vector<float> y = dequantize.result<float>("y");
      if (scalar_result.empty()) scalar_result = y;
      EXPECT_EQ(y, scalar_result) << name << " " << target;
      double error = 0;
      double power = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_TRUE(std::fabs(double{y[i]} - x[i]) <= round_trip_limit(name, 4.0))
            << name << " " << x[i] << " " << y[i];
        error += (double{y[i]} - x[i]) * (double{y[i]} - x[i]);
        power += double{x[i]} * x[i];
      }
      EXPECT_TRUE(error <= 0.2 * power) << name << ": noise " << error / power;
    }
    seen.insert(name);
  }
  EXPECT_EQ(seen.size(), assay_cpu::layouts().size());
}

// Integer codes and power-of-two scales: every arithmetic must give the exact product.
TEST(Matmul, of_codes_is_exact_on_every_target) {
  std::mt19937 random(9);
  std::vector<std::int8_t> a(3 * 70);
  std::vector<std::uint8_t> b(4 * 35);
  for (std::int8_t& code : a) code = static_cast<std::int8_t>(random());
  for (std::uint8_t& pair : b) pair = static_cast<std::uint8_t>(random());
  const std::vector<float> a_scale = {0.5F, 2, 0.25F};
  const std::vector<float> b_scale = {1, 4, 0.5F, 0.125F};
  TestCall call("matmul");
  call.set("m", "3").set("n", "4").set("k", "70").set("a", "int8_tok").set("b", "int4_ch");
  call.set("dtype", "f32").set("path", "auto");
  call.in("a", "int8", {3, 70}, a).in("a.scale", "f32", {3}, a_scale);
  call.in("b", "int4", {4, 70}, b).in("b.scale", "f32", {4}, b_scale).out("y", "f32", {3, 4}, 48);
  for (const std::string& target : targets()) {
    ASSERT_EQ(call.run(target), ASSAY_OK) << call.reason;
    EXPECT_EQ(call.kernels, std::vector<std::string>{"matmul_run"});
    const std::vector<float> y = call.result<float>("y");
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 4; ++j) {
        int dot = 0;
        for (std::size_t k = 0; k < 70; ++k) {
          const int nibble = b[j * 35 + k / 2] >> (k % 2 * 4) & 0xF;
          dot += a[i * 70 + k] * (nibble >= 8 ? nibble - 16 : nibble);
        }
        ASSERT_EQ(y[i * 4 + j], static_cast<float>(dot) * a_scale[i] * b_scale[j]) << target;
      }
    }
  }
}

}  // namespace
}  // namespace assay_cpu_test
