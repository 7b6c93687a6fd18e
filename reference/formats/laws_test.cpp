// Laws that hold for any input: fixed points, order, symmetry, idempotence, and the error that each quantiser
// promises.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "reference/formats/format.hpp"

namespace assay {
namespace {

// Any finite f32: bits, not values, are uniform, so every binade comes up.
rc::Gen<float> any_f32() {
  return rc::gen::suchThat(
      rc::gen::map(rc::gen::arbitrary<std::uint32_t>(),
                   [](std::uint32_t bits) { return std::bit_cast<float>(bits * 2654435761U); }),
      [](float x) { return std::isfinite(x); });
}

// A block of 32 within a common range of 2^-10 to 2^10, with zeros, repeats and exact ties among its
// elements.
rc::Gen<std::vector<float>> block32() {
  return rc::gen::mapcat(rc::gen::inRange(-10, 11), [](int exponent) {
    return rc::gen::container<std::vector<float>>(
        32, rc::gen::map(rc::gen::inRange(-4096, 4097), [exponent](int i) {
          return std::ldexp(static_cast<float>(i % 5 == 0 ? i / 256 * 256 : i), exponent - 12);
        }));
  });
}

std::vector<double> through(std::string_view name, const std::vector<float>& x) {
  return decode_tensor(encode_tensor(format(name), {static_cast<std::int64_t>(x.size())}, x));
}

std::vector<float> narrowed(const std::vector<double>& x) { return {x.begin(), x.end()}; }

// 64 at a time: one is soon judged, and a case costs more than the judging.
rc::Gen<std::vector<float>> many_f32() { return rc::gen::container<std::vector<float>>(64, any_f32()); }

RC_GTEST_PROP(ScalarLaws, EncodingIsMonotoneUnderEveryDeterministicRounding, ()) {
  std::vector<float> x = *many_f32();
  std::sort(x.begin(), x.end());
  for (const ScalarFormat& f : scalar_formats()) {
    for (const Rounding r :
         {Rounding::nearest_even, Rounding::nearest_away, Rounding::toward_zero, Rounding::toward_negative}) {
      for (std::size_t i = 1; i < x.size(); ++i) {
        RC_ASSERT(round_to(f, x[i - 1], {.rounding = r}) <= round_to(f, x[i], {.rounding = r}));
      }
    }
  }
}

RC_GTEST_PROP(ScalarLaws, DirectedRoundingsBracketXAndNearestIsTheCloserOne, ()) {
  const std::vector<float> inputs = *many_f32();
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  for (const ScalarFormat& f : scalar_formats()) {
    for (const float x : inputs) {
      if (f.kind != ScalarKind::floating || !f.is_signed || std::fabs(x) > f.max_finite) continue;
      const double below = round_to(f, x, {.rounding = Rounding::toward_negative});
      const double above = -round_to(f, -x, {.rounding = Rounding::toward_negative});
      const double nearest = round_to(f, x);
      RC_ASSERT(below <= x && x <= above);
      RC_ASSERT(nearest == below || nearest == above);
      RC_ASSERT(std::fabs(nearest - x) <= std::min(x - below, above - x));
      const double zeroward = round_to(f, x, {.rounding = Rounding::toward_zero});
      RC_ASSERT(zeroward == (x < 0 ? above : below));
      const double drawn = round_to(f, x, {.rounding = Rounding::stochastic, .seed = seed});
      RC_ASSERT(drawn == below || drawn == above);
    }
  }
}

RC_GTEST_PROP(ScalarLaws, SignChangesOnlyTheSign, ()) {
  const std::vector<float> inputs = *many_f32();
  for (const ScalarFormat& f : scalar_formats()) {
    if (!f.is_signed || f.integer_min != -f.integer_max) continue;
    for (const Rounding r : {Rounding::nearest_even, Rounding::nearest_away, Rounding::toward_zero}) {
      for (const float x : inputs)
        RC_ASSERT(round_to(f, -x, {.rounding = r}) == -round_to(f, x, {.rounding = r}));
    }
  }
}

RC_GTEST_PROP(BlockLaws, OrderWithinABlockSurvives, ()) {
  const std::vector<float> x = *block32();
  for (const Format& f : formats()) {
    if (f.block_elements > 32 || f.decode_relative_error > 0x1p-53 || f.name == "ue4m3" || f.name == "e8m0")
      continue;                                                            // tq3_0 rotates
    if (f.axis == ScaleAxis::channel || f.block_elements == 16) continue;  // more than one scale
    const std::vector<double> y = through(f.name, x);
    for (std::size_t i = 0; i < 32; ++i) {
      for (std::size_t j = 0; j < 32; ++j) {
        if (x[i] <= x[j]) RC_ASSERT(y[i] <= y[j]);
      }
    }
  }
}

RC_GTEST_PROP(BlockLaws, NegatingABlockNegatesItsValues, ()) {
  std::vector<float> x = *block32();
  std::vector<float> negated = x;
  for (float& v : negated) v = -v;
  for (const auto name : {"q8_0", "q4_0", "q5_0", "iq4_nl", "mxfp4", "mxfp4_ggml", "mxfp8", "mxfp8_e5m2",
                          "nvfp4", "e4m3fn_tensor", "e4m3fnuz_tok", "int8_head", "int4_ch", "int4_g32",
                          "int4_g32_bf16", "int4_ch_tensor"}) {
    const std::vector<double> y = through(name, x);
    const std::vector<double> z = through(name, negated);
    for (std::size_t i = 0; i < 32; ++i) RC_ASSERT(y[i] == -z[i]);
  }
}

RC_GTEST_PROP(BlockLaws, RequantisingWhatWasQuantisedChangesNothing, ()) {
  const std::vector<float> x = *block32();
  for (const auto name : {"q8_0", "q4_0", "q5_0", "iq4_nl", "mxfp4", "mxfp4_ggml", "mxfp8", "mxfp8_e5m2"}) {
    const std::vector<double> once = through(name, x);
    RC_ASSERT(through(name, narrowed(once)) == once);
  }
}

RC_GTEST_PROP(BlockLaws, DecodedValuesEncodeToThemselvesUnderTheSameScales, ()) {
  const std::vector<float> x = *block32();
  for (const Format& f : formats()) {
    if (f.kind != FormatKind::scaled) continue;
    const Encoded tensor = encode_tensor(f, {32}, x);
    std::vector<float> scales(tensor.planes[1].bytes.size() / 4);
    std::memcpy(scales.data(), tensor.planes[1].bytes.data(), tensor.planes[1].bytes.size());
    const Encoded again = encode_tensor_with_scales(f, {32}, narrowed(decode_tensor(tensor)), scales);
    RC_ASSERT(decode_tensor(again) == decode_tensor(tensor));
  }
}

RC_GTEST_PROP(BlockLaws, ErrorsStayWithinWhatTheQuantiserPromises, ()) {
  const std::vector<float> x = *block32();
  double absmax = 0;
  for (const float v : x) absmax = std::max(absmax, std::fabs(static_cast<double>(v)));
  const auto worst = [&](const char* name, const auto& limit) {
    const std::vector<double> y = through(name, x);
    for (std::size_t i = 0; i < 32; ++i)
      RC_ASSERT(std::fabs(y[i] - x[i]) <= limit(std::fabs(static_cast<double>(x[i]))));
  };
  // Half a step; the f16 scale is off by 2^-11 of itself or, when subnormal, by 2^-25, times the code; 2^-20
  // covers the four f32 roundings of scale, inverse and product at codes up to 127.
  const auto uniform = [&](double step, double largest_code) {
    return [=](double) { return (step / 2 + largest_code * (step * 0x1p-11 + 0x1p-25)) * (1 + 0x1p-10); };
  };
  worst("q8_0", uniform(absmax / 127, 127));
  worst("q4_0", [&](double) {
    return absmax / 8 * (1 + 8 * 0x1p-11) * (1 + 0x1p-10) + 8 * 0x1p-25;
  });  // 15 is a step short
  worst("q5_0", [&](double) { return absmax / 16 * (1 + 16 * 0x1p-11) * (1 + 0x1p-10) + 16 * 0x1p-25; });
  // e4m3fn: half of 2^-3 relatively, half of 2^-9 of the scale below the smallest normal.
  const double scale = absmax > 0 ? static_cast<double>(static_cast<float>(absmax) / 448.0F) : 1;
  worst("e4m3fn_tensor", [&](double v) { return std::max(v * 0x1p-4, scale * 0x1p-10) * (1 + 0x1p-20); });
  const double int8_scale = absmax > 0 ? static_cast<double>(static_cast<float>(absmax) / 127.0F) : 1;
  worst("int8_tensor", [&](double) { return int8_scale / 2 * (1 + 0x1p-16); });
  // mxfp4: scale 2^(floor(log2 absmax) - 2); steps of 2 near the top, up to 2 lost by saturation.
  const double mx = absmax > 0 ? std::exp2(std::floor(std::log2(absmax)) - 2) : 0;
  worst("mxfp4", [&](double v) {
    return v >= 6 * mx ? v - 6 * mx : v >= 4 * mx ? mx : v >= 2 * mx ? mx / 2 : mx / 4;
  });
}

}  // namespace
}  // namespace assay
