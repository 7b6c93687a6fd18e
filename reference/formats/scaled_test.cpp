// Scaled formats: the batch path against the codec's definition, and against itself under any number of
// threads.
#include "reference/formats/scaled.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/formats/plane.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/mix.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

// Around every rounding boundary of the element times `scale`: the f32 numbers on both sides of it and
// nearest to it.
std::vector<float> boundaries(const ScalarFormat& element, float scale) {
  std::vector<float> values;
  const std::uint32_t codes = element.bits < 16 ? 1U << element.bits : 1U << 15;
  for (std::uint32_t code = 0; code + 1 < codes; ++code) {
    const double middle = (decode(element, code) + decode(element, code + 1)) / 2 * scale;
    if (!std::isfinite(middle)) continue;
    const auto nearest = static_cast<float>(middle);
    for (const float x : {std::nextafter(nearest, -INFINITY), nearest, std::nextafter(nearest, INFINITY)})
      values.push_back(x);
  }
  for (const float x : {0.0F, -0.0F, 1e-45F, 3e38F, -3e38F, INFINITY, NAN}) values.push_back(x);
  values.resize((values.size() + 63) / 32 * 32, 1.0F);
  return values;
}

TEST(Scaled, codes_are_those_of_the_exact_quotient) {
  int formats_seen = 0;
  for (const Format& row : formats()) {
    if (row.kind != FormatKind::scaled) continue;
    ++formats_seen;
    const ScalarFormat& element = scalar_format(row.element);
    for (const float scale : {1.0F, 0.1F, 3.0F, 1.0F / 448, 1.7e-3F})
      for (const Rounding rounding :
           {Rounding::nearest_even, Rounding::nearest_away, Rounding::toward_zero, Rounding::stochastic}) {
        const std::vector<float> values = boundaries(element, scale);
        const Shape shape{1, static_cast<std::int64_t>(values.size())};
        EncodePolicy policy;
        policy.rounding = rounding;
        policy.seed = 5;
        const std::vector<float> scales(static_cast<std::size_t>(element_count(scale_shape(row, shape))),
                                        scale);
        const Encoded encoded = encode_tensor_with_scales(row, shape, values, scales, policy);
        for (std::size_t i = 0; i < values.size(); ++i) {
          const double quotient = static_cast<double>(values[i]) / scale;
          ASSERT_EQ(load_code(element, encoded.planes[0].bytes, static_cast<std::int64_t>(i)),
                    encode(element, quotient, policy, i))
              << row.name << " scale " << scale << " value " << values[i];
        }
      }
  }
  EXPECT_GE(formats_seen, 20);
}

TEST(Scaled, bits_do_not_depend_on_the_number_of_threads) {
  const Shape shape{2048, 2, 256};  // four ranges of kParallelGrain
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  ASSERT_GT(values.size(), 3 * kParallelGrain);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<std::int64_t>(mix(i))) * 0x1p-60F;
  for (const Format& row : formats()) {
    EncodePolicy policy;
    policy.rounding = row.kind == FormatKind::block ? Rounding::nearest_even : Rounding::stochastic;
    std::vector<Encoded> encoded;
    for (const int threads : {1, 3}) {
      set_reference_threads(threads);
      encoded.push_back(encode_tensor(row, shape, values, policy));
    }
    for (std::size_t p = 0; p < encoded[0].planes.size(); ++p)
      EXPECT_EQ(encoded[0].planes[p].bytes, encoded[1].planes[p].bytes) << row.name;
  }
  set_reference_threads(1);
}

TEST(Parallel, every_unit_runs_once_and_the_first_exception_arrives) {
  for (const int threads : {1, 4}) {
    std::vector<int> seen(1000, 0);
    parallel_units(seen.size(), [&](std::size_t u) { ++seen[u]; }, threads);
    EXPECT_EQ(seen, std::vector<int>(1000, 1));
    EXPECT_THROW(parallel_units(
                     10,
                     [](std::size_t u) {
                       if (u == 7) throw std::out_of_range("7");
                     },
                     threads),
                 std::out_of_range);
  }
  parallel_units(0, [](std::size_t) { FAIL(); });
}

}  // namespace
}  // namespace assay
