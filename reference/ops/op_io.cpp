#include "reference/ops/op_io.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "reference/arithmetic/rule.hpp"
#include "reference/error.hpp"

namespace assay {

OpInputs::OpInputs(const std::vector<TensorSpec>& specs, const TensorSet& set) : set_(set) {
  for (const TensorSpec& spec : specs) {
    if (spec.role == TensorRole::output) continue;
    const auto found = set.find(spec.name);
    if (found == set.end())
      throw InputError(
          InputErrorKind::shape_mismatch,
          fmt::format("input {} is missing: it is {}{}", spec.name, spec.format, to_string(spec.shape)));
    const Encoded& got = found->second;
    if (got.format != spec.format || got.shape != spec.shape)
      throw InputError(InputErrorKind::shape_mismatch,
                       fmt::format("input {} is {}{}; the attributes make it {}{}", spec.name, got.format,
                                   to_string(got.shape), spec.format, to_string(spec.shape)));
  }
}

const Encoded& OpInputs::tensor(std::string_view name) const { return set_.at(std::string(name)); }
bool OpInputs::has(std::string_view name) const { return set_.contains(std::string(name)); }
std::vector<double> OpInputs::values(std::string_view name) const { return decode_tensor(tensor(name)); }

std::vector<std::int64_t> OpInputs::integers(std::string_view name) const {
  const std::vector<double> decoded = values(name);
  return {decoded.begin(), decoded.end()};
}

Encoded integer_tensor(std::string_view name, const Shape& shape, const std::vector<std::int64_t>& values) {
  const Format& row = format(name);
  Encoded made{std::string(row.name), shape, {}};
  for (const PlaneSpec& spec : planes(row, shape))
    made.planes.push_back({spec, std::vector<std::byte>(spec.bytes)});
  std::vector<std::byte>& bytes = made.planes.front().bytes;
  const std::size_t width = bytes.size() / std::max<std::size_t>(values.size(), 1);
  for (std::size_t i = 0; i < values.size(); ++i)  // two's complement, little endian
    std::memcpy(bytes.data() + i * width, &values[i], width);
  return made;
}

std::vector<std::int64_t> IndexDraw::permutation(std::int64_t n) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) list[i] = i;
  for (std::int64_t i = n - 1; i > 0; --i) std::swap(list[i], list[below(static_cast<std::uint64_t>(i) + 1)]);
  return list;
}

Store store_of(const Contract& contract, std::string_view output_format) {
  Store store{nullptr, &scalar_format(output_format), {}, contract.text("ftz") == "yes"};
  if (const std::string_view through = contract.text("out"); through != "dtype" && through != output_format)
    store.through = &scalar_format(through);
  const std::string_view round = contract.text("round");
  store.policy.rounding = round == "nearest_even"   ? Rounding::nearest_even
                          : round == "nearest_away" ? Rounding::nearest_away
                          : round == "stochastic"   ? Rounding::stochastic
                                                    : Rounding::toward_zero;
  store.policy.overflow = contract.text("overflow") == "ieee" ? Overflow::ieee : Overflow::saturate;
  return store;
}

double on_the_way(const Store& store, double z) {
  constexpr EncodePolicy kConversion{.overflow = Overflow::ieee};
  return store.through == nullptr ? z : round_number(*store.through, z, kConversion);
}

double stored(const Store& store, double z) {
  return round_number(*store.output, on_the_way(store, z), store.policy);
}

StoredEnds stored_ends(const Store& store, double low, double high) {
  low = on_the_way(store, low), high = on_the_way(store, high);
  if (store.through != nullptr && store.policy.overflow == Overflow::saturate &&
      !claims(Rule::store_way_overflow, std::isfinite(low) && std::isfinite(high)))
    return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  EncodePolicy down = store.policy, up = store.policy;
  if (store.policy.rounding == Rounding::stochastic) {
    down.rounding = low < 0 ? Rounding::toward_negative : Rounding::toward_zero;
    up.rounding = high > 0 ? Rounding::toward_negative : Rounding::toward_zero;  // of -high
    const double above = high > 0 ? -round_to(*store.output, -high, up) : round_to(*store.output, high, up);
    return {round_to(*store.output, low, down), above};
  }
  return {round_number(*store.output, low, down), round_number(*store.output, high, up)};
}

void set_truth(Truth& truth, std::size_t i, Enclosure z, const Store& store) {
  set_truth_around(truth, i, z.value, 0, z, store);
}

void set_truth_around(Truth& truth, std::size_t i, double exact, double certificate, Enclosure z,
                      const Store& store) {
  double& value = truth.value[i];
  double& limit = truth.limit[i];
  value = exact;
  limit = kInfinity;
  if (!(z.error < kInfinity) || !std::isfinite(z.value)) return;
  // The kernel's own number: what is stored is decided, on a tie too.
  const bool is_known = z.error == 0 && certificate == 0;
  const auto [low, high] =
      is_known ? stored_ends(store, z.value, z.value) : stored_ends(store, z.low(), z.high());
  if (std::isnan(low) || std::isnan(high))
    return;  // beyond the largest number of a format without infinities
  if (store.through != nullptr && store.through->fraction_bits < store.output->fraction_bits &&
      std::isfinite(low) && std::isfinite(high)) {
    value = low / 2 + high / 2;
    certificate = 0;
  }
  if (std::isinf(low) && low == high) {
    value = low;
    limit = 0;
    return;
  }
  if (is_known && low == high) value = low;
  // The subtractions round once each, hence up().
  limit = up(std::max(std::fabs(low - value), std::fabs(high - value)) + certificate);
  if (store.flush) {
    const double through_normal = store.through == nullptr ? 0 : smallest_normal(*store.through);
    const double nearest_zero =
        z.low() <= 0 && z.high() >= 0 ? 0 : std::min(std::fabs(z.low()), std::fabs(z.high()));
    if (nearest_zero < std::max(smallest_normal(*store.output), through_normal))
      limit = std::max(limit, rule(Rule::store_flush, std::fabs(value) + certificate));
  }
}

void set_truth_within(Truth& truth, std::size_t i, Enclosure z, const Store& store) {
  truth.value[i] = z.value;
  truth.limit[i] = kInfinity;
  if (!(z.error < kInfinity) || !std::isfinite(z.value)) return;
  // An error of 0 says that z.value is the kernel's number itself: no neighbour of it is admitted.
  const double z_low = z.error > 0 ? z.low() : z.value, z_high = z.error > 0 ? z.high() : z.value;
  auto [low, high] = stored_ends(store, z_low, z_high);
  if (std::isinf(low) && low == high) return set_special(truth, i, low);
  if (!std::isfinite(low) || !std::isfinite(high)) return;
  if (rule(Rule::store_flush, store.flush ? 1 : 0) > 0) {
    // What is flushed after the first of two roundings may be a normal number after the second.
    const auto may_vanish = [&](double z_end, double end) {
      // Before it is rounded: tininess may be detected there.
      const auto is_tiny = [](double x, const ScalarFormat& f) { return std::fabs(x) < smallest_normal(f); };
      if (is_tiny(end, *store.output) || is_tiny(on_the_way(store, z_end), *store.output)) return true;
      return store.through != nullptr &&
             (is_tiny(z_end, *store.through) || is_tiny(on_the_way(store, z_end), *store.through));
    };
    if (low > 0 && may_vanish(z_low, low)) low = 0;
    if (high < 0 && may_vanish(z_high, high)) high = 0;
  }
  truth.value[i] = low == high ? low : low / 2 + high / 2;
  truth.limit[i] = low == high ? 0 : up(std::max(high - truth.value[i], truth.value[i] - low));
}

void set_special(Truth& truth, std::size_t i, double special) {
  truth.value[i] = special;
  truth.limit[i] = 0;
}

void set_special(Truth& truth, std::size_t i, double special, const Store& store) {
  if (std::isinf(special) && store.policy.overflow == Overflow::saturate) return set_unclaimed(truth, i);
  set_special(truth, i, special);
}

void set_unclaimed(Truth& truth, std::size_t i) {
  truth.value[i] = std::numeric_limits<double>::quiet_NaN();
  truth.limit[i] = kInfinity;
}

Truth make_truth(std::string_view output, std::size_t count, std::string_view origin) {
  return {std::string(output), std::vector<double>(count), std::vector<double>(count, kInfinity),
          std::string(origin)};
}

std::vector<Truth> alone(Truth truth) {
  std::vector<Truth> list;
  list.push_back(std::move(truth));
  return list;
}

}  // namespace assay
