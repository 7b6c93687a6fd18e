// The arithmetic that contracts stand on, run by the device itself: functions against f64 within the ulp that
// is declared, exact operations bit for bit against the IEEE arithmetic of this machine.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/vulkan/device_testing.hpp"
#include "backends/vulkan/session.hpp"

namespace assay_vulkan {
namespace {

double ulp_error(float got, double exact) {
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::fabs(double{got} - exact) / std::ldexp(1.0, exponent - 23);
}

class DeviceArithmetic : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    on = device(why);
    if (on == nullptr) GTEST_SKIP() << why;
  }
  void expect_within(std::uint32_t which, const Bits& inputs, const std::function<double(double)>& exact,
                     double limit_ulp) const {
    const Bits got = probe(*on, which, inputs, inputs);
    double worst = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const double wanted = exact(double{value(inputs[i])});
      if (std::fabs(wanted) < 0x1p-126) continue;  // may be flushed
      const double error = ulp_error(value(got[i]), wanted);
      ASSERT_TRUE(error <= limit_ulp)
          << value(inputs[i]) << ": got " << value(got[i]) << ", " << error << " ulp";
      worst = std::max(worst, error);
    }
    std::printf("%zu inputs, at most %.4f ulp\n", inputs.size(), worst);
  }
  void expect_same(std::uint32_t which, const std::function<float(float, float)>& exact) const {
    EXPECT_EQ(different(*on, which, exact).first, "");
  }
  Device* on = nullptr;
};

std::uint32_t stride() { return std::getenv("ASSAY_NIGHTLY") != nullptr ? 17 : 1999; }

TEST_F(DeviceArithmetic, exp_stays_within_the_declared_ulp) {
  expect_within(0, floats(-0x1p-27F, -104.0F, stride()), [](double x) { return std::exp(x); }, 0.51);
  expect_within(0, floats(0x1p-27F, 88.0F, stride()), [](double x) { return std::exp(x); }, 0.51);
}
TEST_F(DeviceArithmetic, log_stays_within_the_declared_ulp) {
  expect_within(1, floats(0x1p-126F, 0x1.FFFFFEp127F, stride()), [](double x) { return std::log(x); }, 0.51);
}
TEST_F(DeviceArithmetic, tanh_stays_within_the_declared_ulp) {
  expect_within(2, floats(0x1p-60F, 30.0F, stride()), [](double x) { return std::tanh(x); }, 0.51);
  expect_within(2, floats(-0x1p-60F, -30.0F, stride()), [](double x) { return std::tanh(x); }, 0.51);
}
TEST_F(DeviceArithmetic, rsqrt_stays_within_the_declared_ulp) {
  expect_within(3, floats(0x1p-100F, 0x1p100F, stride()), [](double x) { return 1 / std::sqrt(x); }, 0.51);
}
TEST_F(DeviceArithmetic, division_product_and_sum_are_those_of_ieee_subnormals_included) {
  expect_same(5, [](float a, float b) { return a / b; });
  expect_same(6, [](float a, float b) { return a * b; });
  expect_same(7, [](float a, float b) { return a + b; });
}
TEST_F(DeviceArithmetic, f16_and_bf16_are_rounded_by_bit_code_to_nearest_even) {
  const Bits inputs = mixed(200000, 3);
  const Bits f16 = probe(*on, 8, inputs, inputs);
  const Bits bf16 = probe(*on, 9, inputs, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const float x = value(inputs[i]);
    const _Float16 half = static_cast<_Float16>(x);
    if (std::isnan(x)) {
      ASSERT_EQ(f16[i] & 0x7E00U, 0x7E00U);
      ASSERT_EQ(bf16[i] & 0x7FC0U, 0x7FC0U);
      continue;
    }
    ASSERT_EQ(f16[i], std::bit_cast<std::uint16_t>(half)) << std::hexfloat << x;
    // bf16 by arithmetic: the neighbours are 2^16 codes apart.
    const std::uint32_t below = inputs[i] & 0xFFFF0000U;
    const std::uint32_t rest = inputs[i] & 0xFFFFU;
    const bool up = rest > 0x8000U || (rest == 0x8000U && (below >> 16 & 1U) != 0);
    ASSERT_EQ(bf16[i], (below >> 16) + (up ? 1U : 0U)) << std::hexfloat << x;
  }
  Bits codes(65536);
  for (std::uint32_t c = 0; c < codes.size(); ++c) codes[c] = c;
  const Bits decoded = probe(*on, 10, codes, codes);
  for (std::uint32_t c = 0; c < codes.size(); ++c) {
    const float wanted = static_cast<float>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(c)));
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(value(decoded[c])));
    } else {
      ASSERT_EQ(decoded[c], std::bit_cast<std::uint32_t>(wanted)) << c;
    }
  }
}
TEST_F(DeviceArithmetic, packed_integer_dot_products_are_exact) {
  if (!on->can().integer_dot) GTEST_SKIP() << on->can().name << " has no shaderIntegerDotProduct";
  std::mt19937 random(4);
  Bits a(10000);
  Bits b(10000);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<std::uint32_t>(random());
    b[i] = static_cast<std::uint32_t>(random());
  }
  a[0] = b[0] = 0x80808080U;
  const Bits got = probe(*on, 11, a, b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::int32_t wanted = 0;
    for (int e = 0; e < 32; e += 8)
      wanted += static_cast<std::int8_t>(a[i] >> e) * static_cast<std::int8_t>(b[i] >> e);
    ASSERT_EQ(static_cast<std::int32_t>(got[i]), wanted);
  }
}

// What FP8 matrices multiply: every code of a row as it was stored, and numbers rounded to codes. Scales
// apart, one a row.
TEST_F(DeviceArithmetic, operands_of_fp8_matrices_are_the_codes) {
  constexpr std::uint32_t kCodesApart = 3, kDecoded = 0;  // operands.comp
  constexpr std::int32_t kLength = 256;
  const auto prepared = [&](Element from, std::uint32_t path, const std::vector<std::byte>& row) {
    const std::uint64_t source = 256, to = source + 1024, scale = to + kLength;
    std::byte* memory = on->reserve(4096);
    std::memcpy(memory + source, row.data(), row.size());
    const auto rows = [&](std::uint64_t at, std::int64_t bytes) {
      DeviceTensor t;
      t.data = on->address() + at;
      t.rank = 2;
      t.rows = t.shape[0] = 1;
      t.width = t.shape[1] = kLength;
      t.stride[0] = kLength * bytes;
      t.stride[1] = bytes;
      return t;
    };
    Dispatch dispatch{"operands", "operands", {from, kUnscaled, path, kE4m3fn, kE4m3fn}, 1, {}};
    dispatch.params.operand[0].payload = rows(source, static_cast<std::int64_t>(row.size()) / kLength);
    dispatch.params.operand[1].payload = rows(to, 1);
    dispatch.params.scratch[0] = on->address() + scale;
    on->run({dispatch}, 2048);
    return std::vector<std::uint8_t>(reinterpret_cast<std::uint8_t*>(memory + to),
                                     reinterpret_cast<std::uint8_t*>(memory + to + kLength));
  };
  std::vector<std::byte> codes(kLength);
  for (std::size_t c = 0; c < codes.size(); ++c) codes[c] = static_cast<std::byte>(c);
  const std::vector<std::uint8_t> same = prepared(kE4m3fn, kCodesApart, codes);
  for (std::uint32_t c = 0; c < same.size(); ++c)
    EXPECT_EQ(same[c] & ((c & 0x7FU) == 0x7FU ? 0x7FU : 0xFFU), c & ((c & 0x7FU) == 0x7FU ? 0x7FU : 0xFFU));
  // 1, a tie to even, the largest and beyond, half the least, a little more.
  const std::vector<std::pair<float, std::uint8_t>> kRounded = {
      {1.0F, 0x38}, {-1.0625F, 0xB8}, {448.0F, 0x7E}, {1e6F, 0x7E}, {0x1p-10F, 0x00}, {0x1.1p-10F, 0x01}};
  std::vector<std::byte> numbers(kLength * sizeof(float));
  for (std::size_t i = 0; i < kRounded.size(); ++i)
    std::memcpy(numbers.data() + i * sizeof(float), &kRounded[i].first, sizeof(float));
  const std::vector<std::uint8_t> rounded = prepared(kF32, kDecoded, numbers);
  for (std::size_t i = 0; i < kRounded.size(); ++i)
    EXPECT_EQ(rounded[i], kRounded[i].second) << kRounded[i].first;
}

// The shader "clear" over 64 bytes that are its own, then over one more: bytes around a region are watched.
TEST_F(DeviceArithmetic, a_write_beside_a_tensor_in_device_memory_is_a_failure) {
  const auto clear = [&](std::int32_t bytes) {
    const assay_call raw{};
    const Call call(raw);
    Session session(*on, call);
    Params params;
    params.tensor[0].data = session.scratch(64);
    params.tensor[0].rank = 1;
    params.tensor[0].rows = 1;
    params.tensor[0].width = params.tensor[0].shape[0] = bytes;
    params.tensor[0].stride[0] = 1;
    session.add("clear", "clear", {}, 1, params);
    session.run(Trace(nullptr));
  };
  EXPECT_NO_THROW(clear(64));
  EXPECT_THROW(clear(65), Failed);
}

TEST_F(DeviceArithmetic, calls_that_need_more_loops_than_the_device_has_are_refused) {
  EXPECT_NO_THROW(Session::check_loops(*on, on->can().loop_limit));
  EXPECT_THROW(Session::check_loops(*on, on->can().loop_limit + 1), Unsupported);
}

}  // namespace
}  // namespace assay_vulkan
