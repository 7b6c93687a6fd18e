#include "cases/studies/identify/moe_numbers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "reference/error.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/mix.hpp"

namespace assay {

std::optional<Encoded> exactly_encoded(const std::string& name, const Shape& shape,
                                       const std::vector<float>& values, bool unit_scales) {
  const Format& f = format(name);
  try {
    if (f.kind != FormatKind::scaled) return encode_tensor(f, shape, values);
    std::size_t count = 0;
    for (const PlaneSpec& plane : planes(f, shape))
      if (plane.suffix == ".scale") count = static_cast<std::size_t>(element_count(plane.shape));
    std::vector<float> scales(count, 1.0F);
    const std::size_t run = count > 0 ? values.size() / count : 0;
    // Scales along other axes than the last stay 1.
    const bool runs = f.axis != ScaleAxis::head && f.axis != ScaleAxis::channel;
    for (std::size_t i = 0; i < count && runs && !unit_scales; ++i) {
      float absmax = 0;
      for (std::size_t j = i * run; j < (i + 1) * run; ++j) absmax = std::max(absmax, std::fabs(values[j]));
      if (absmax > 0)
        scales[i] = static_cast<float>(
            std::exp2(std::ceil(std::log2(static_cast<double>(absmax) / f.scale_divisor))));
    }
    return encode_tensor_with_scales(f, shape, values, scales);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

void set_apart(const PairedColumns& a, const PairedColumns& b, std::int64_t columns, bool last_is_given) {
  const auto k = static_cast<std::size_t>(columns), last = k - 1;
  const auto few_bits = [](const std::string& name, const std::vector<float>& x) {
    return name.starts_with("int") || (name.starts_with("e") && std::ranges::any_of(x, [&](float each) {
                                         const auto exact = static_cast<double>(each);
                                         return round_to(scalar_format(name), exact) != exact;
                                       }));
  };
  const auto whole_number = [](float x) {
    constexpr std::array kSizes = {1.0F, 2.0F, 3.0F, 4.0F, 6.0F, 6.0F};
    int exponent = 0;
    const float fraction = std::frexp(std::fabs(x), &exponent);
    return std::copysign(kSizes[static_cast<std::size_t>(12 * fraction - 6) % kSizes.size()], x);
  };
  // How far a format's columns may be apart: scales of integers lie along the weights' rows, of which h is a
  // column.
  const auto reach = [&](const std::string& name, bool is_b) {
    if (name.starts_with("int")) return is_b ? 0 : 16;
    return name == "f16" || name.starts_with("e") ? 4 : 16;
  };
  std::vector<std::uint64_t> hash(k);
  for (std::size_t i = 0; i < k; ++i) hash[i] = mix(std::bit_cast<std::uint32_t>(std::fabs((*b.values)[i])));
  // The last column where it is given, and the one that cancels it, stay as they are.
  std::vector<char> is_given(k, 0);
  for (std::size_t i = 0; i < k && last_is_given; ++i) is_given[i] = hash[i] == hash[last] ? 1 : 0;
  for (const PairedColumns* side : {&a, &b}) {
    const bool is_b = side == &b;
    const std::string& name = side->element;
    std::vector<float>& values = *side->values;
    const bool few = few_bits(name, values);
    const int most = reach(name, is_b) + (few && name.starts_with("e") ? 2 : 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      float& each = values[i];
      if (is_given[i % k] != 0 && !is_b) continue;
      if (few) each = whole_number(each);
      if (is_given[i % k] == 0)
        each =
            std::ldexp(each, static_cast<int>(hash[i % k] % static_cast<std::uint64_t>(2 * most + 1)) - most);
    }
  }
}

}  // namespace assay
