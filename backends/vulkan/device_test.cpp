// The arithmetic that contracts stand on, run by the device itself: functions against f64 within the ulp that
// is declared, exact operations bit for bit against the IEEE arithmetic of this machine.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backends/vulkan/device.hpp"
#include "backends/vulkan/session.hpp"

namespace assay_vulkan {
namespace {

Device* device(std::string& why) {
  static std::string reason;
  static const std::unique_ptr<Device> made = [] {
    try {
      return std::make_unique<Device>("");
    } catch (const std::exception& error) {
      reason = error.what();
      return std::unique_ptr<Device>();
    }
  }();
  why = reason;
  return made.get();
}

using Bits = std::vector<std::uint32_t>;

Bits probe(Device& on, std::uint32_t which, const Bits& a, const Bits& b) {
  const std::uint64_t bytes = (a.size() * 4 + 7) / 8 * 8;  // parameters lie behind: 8 bytes of alignment
  Dispatch dispatch{"probe", "probe", {which}, 64, {}};
  std::byte* memory = on.reserve(256 + 3 * bytes + sizeof(Params));
  std::memcpy(memory + 256, a.data(), a.size() * 4);
  std::memcpy(memory + 256 + bytes, b.data(), b.size() * 4);
  for (std::uint64_t i = 0; i < 3; ++i) dispatch.params.scratch[i] = on.address() + 256 + i * bytes;
  dispatch.params.integer[0] = static_cast<std::int64_t>(a.size());
  on.run({dispatch}, 256 + 3 * bytes);
  Bits result(a.size());
  std::memcpy(result.data(), memory + 256 + 2 * bytes, result.size() * 4);
  return result;
}

// Every `stride`-th float from first to last, by its bits.
Bits floats(float first, float last, std::uint32_t stride) {
  Bits bits;
  const std::uint32_t low = std::min(std::bit_cast<std::uint32_t>(first), std::bit_cast<std::uint32_t>(last));
  const std::uint32_t high =
      std::max(std::bit_cast<std::uint32_t>(first), std::bit_cast<std::uint32_t>(last));
  for (std::uint64_t x = low; x <= high; x += stride) bits.push_back(static_cast<std::uint32_t>(x));
  return bits;
}
// Codes of every kind: a quarter each of any bits, numbers about 1, tiny ones, and special ones.
Bits mixed(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  constexpr std::uint32_t kSpecial[] = {0,           0x80000000U, 1,           0x807FFFFFU, 0x00800000U,
                                        0x7F7FFFFFU, 0x7F800000U, 0xFF800000U, 0x7FC00000U, 0x3F800000U};
  Bits bits(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t any = static_cast<std::uint32_t>(random());
    bits[i] = i % 4 == 0   ? any
              : i % 4 == 1 ? (any & 0x807FFFFFU) | (0x3C000000U + (any & 0x07800000U))
              : i % 4 == 2 ? any & 0x81FFFFFFU
                           : kSpecial[any % 10];
  }
  return bits;
}

float value(std::uint32_t bits) { return std::bit_cast<float>(bits); }
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
    const Bits a = mixed(200000, 1);
    const Bits b = mixed(200000, 2);
    Bits shifted(b.size());  // so that every kind meets every kind
    for (std::size_t i = 0; i < b.size(); ++i) shifted[i] = b[(i + i / 4) % b.size()];
    const Bits got = probe(*on, which, a, shifted);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const float wanted = exact(value(a[i]), value(shifted[i]));
      if (std::isnan(wanted)) {
        ASSERT_TRUE(std::isnan(value(got[i]))) << std::hex << a[i] << " " << shifted[i];
      } else {
        ASSERT_EQ(got[i], std::bit_cast<std::uint32_t>(wanted)) << std::hex << a[i] << " " << shifted[i];
      }
    }
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

// Schedules are declared whole where these hold: replay.cpp.
TEST_F(DeviceArithmetic,
       products_and_sums_are_rounded_apart_and_subnormals_kept_where_schedules_are_declared) {
  if (on->can().lane_fold.empty()) GTEST_SKIP() << on->can().name << " declares no schedules";
  expect_same(12, [](float a, float b) {
    const volatile float product = a * b;
    return product + a;
  });
  expect_same(14, [](float a, float b) { return a * b; });
  expect_same(4, [](float a, float b) { return a / b; });
}
// The sum of a subgroup's lanes in each order that a schedule has a word for.
std::map<std::string, float> folds(std::vector<float> x) {
  std::map<std::string, float> sums;
  const std::size_t lanes = x.size();
  sums["sequential"] = std::accumulate(x.begin() + 1, x.end(), x.front());
  sums["reverse"] = std::accumulate(x.rbegin() + 1, x.rend(), x.back());
  std::vector<float> y = x;
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) y[l] += y[l + half];
  sums["halving"] = y.front();
  for (std::size_t by = 1; by < lanes; by *= 2)
    for (std::size_t l = 0; l + by < lanes; l += 2 * by) x[l] += x[l + by];
  sums["adjacent"] = x.front();
  return sums;
}
TEST_F(DeviceArithmetic, a_subgroup_adds_its_lanes_in_the_order_that_is_declared) {
  std::mt19937 random(5);
  Bits a(std::size_t{512} * on->subgroup());
  for (std::uint32_t& x : a) x = 0x3F000000U + static_cast<std::uint32_t>(random()) % 0x1000000U;
  const Bits got = probe(*on, 13, a, a);
  std::map<std::string, std::size_t> equal;
  for (std::size_t first = 0; first < a.size(); first += on->subgroup()) {
    std::vector<float> x;
    for (std::size_t l = first; l < first + on->subgroup(); ++l) x.push_back(value(a[l]));
    for (const auto& [fold, sum] : folds(x))
      equal[fold] += std::bit_cast<std::uint32_t>(sum) == got[first] ? 1U : 0U;
  }
  for (const auto& [fold, count] : equal) std::printf("%s: %zu of 512\n", fold.c_str(), count);
  if (on->can().lane_fold.empty()) GTEST_SKIP() << on->can().name << " declares no schedules";
  EXPECT_EQ(equal[on->can().lane_fold], 512U);
}

// What FP8 matrices multiply: every code of a row as it was stored, and numbers rounded to codes. Scales apart, one a row.
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
