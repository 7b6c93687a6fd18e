#include "reference/ops/moe_hidden.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/arithmetic/accumulator.hpp"
#include "reference/error.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/real/exp.hpp"

namespace assay {
namespace {

constexpr double kUnit32 = 0x1p-24;

// Codes of h, each one or the choice of several.
void quantise(OperandRow& row, std::span<const Enclosure> h, double low, double high, const Format& a) {
  const ScalarFormat& element = scalar_format(a.element);
  const double largest = hidden_divisor(a), ways = 1 + gamma_n(4, kUnit32);
  const double least_scale = low / largest, most_scale = up(high / largest);
  row.scale = least_scale / 2 + most_scale / 2;
  row.scale_error = up((most_scale - least_scale) / 2 / row.scale + 2 * kUnit32 + 4 * kUnit64);
  for (std::size_t i = 0; i < h.size(); ++i) {
    if (h[i].value == 0 && h[i].error == 0) continue;
    const double from = h[i].low(), to = h[i].high();
    const double least = from / (from < 0 ? least_scale : most_scale),
                 most = to / (to < 0 ? most_scale : least_scale);
    const auto code = [&](double q) { return round_to(element, std::clamp(q, -largest, largest)); };
    admit(row, i, code(least < 0 ? least * ways : least / ways), code(most < 0 ? most / ways : most * ways),
          element);
  }
}

}  // namespace

MoePaths moe_paths(const Attributes& a) {
  const auto path = [&](const char* weights) {
    return resolve_path(a.text("path"), format(a.text("a")), format(a.text(weights)));
  };
  return {path("w"), path("w2")};
}

std::string hidden_element(const MoePaths& paths, std::string_view x_element, const Format& a) {
  if (paths.down == paths.up) return std::string(x_element);
  if (paths.down != "codes") return paths.down;
  return std::string(a.element == "int4" ? "int8" : a.element);
}

Contract contract_of_down(const Contract& contract) {
  const std::string_view acc = contract.text("down_acc");
  if (acc == "same") return contract;
  Accumulator known;
  if (!find_accumulator(acc, known))
    throw InputError(
        InputErrorKind::bad_contract,
        fmt::format("down_acc={}; allowed: same, f64, f32, f16, bf16, i32, or a matrix unit", acc));
  return contract.with("acc", acc);
}

double hidden_divisor(const Format& a) {
  return a.scale_divisor != 0 ? a.scale_divisor : scalar_format(a.element).max_finite;
}

Enclosure silu(Enclosure g, double silu_ulp) {
  if (g.value == 0 && g.error == 0) return g;
  const double value = g.value / (1 + certified_exp(std::min(-g.value, 700.0)));
  // silu' = s (1 + g (1 - s)), s = 1 / (1 + exp(-g)), is below 1.1; for g <= -2, where s < exp(g) and |1 + g
  // (1 - s)| < |g|, below
  // |g| exp(g), which grows with g. With numbers: g = -12: 7.4e-5.
  const double nearest = g.value + g.error;
  const double slope =
      nearest <= -2 ? -nearest * certified_exp(std::max(nearest, -700.0)) * (1 + 0x1p-40) : 1.1;
  const double error = slope * g.error;
  constexpr double kFarBelow =
      -88;  // exp(88) is a number of f32, and exp(-g) Inf beyond 88.7: a kernel's silu is then 0
  const double tail = g.value - g.error > kFarBelow && g.magnitude() > 0x1p-100 ? 0 : 4e-37;
  return {value, up(error + 2 * silu_ulp * kUnit32 * (std::fabs(value) + error) +
                    8 * kUnit64 * std::fabs(value) + tail)};
}

HiddenRow hidden_row(std::span<const Enclosure> h, std::string_view path, const Format& a, bool flush) {
  HiddenRow made;
  OperandRow& row = made.operands;
  row.center.resize(h.size());
  double low = 0, high = 0;
  bool numbers = true;  // no NaN and no infinity of the inputs' own
  for (std::size_t i = 0; i < h.size(); ++i) {
    row.center[i] = h[i].value;
    numbers &= std::isfinite(h[i].value);
    made.unclaimed |= std::isfinite(h[i].value) && !(h[i].error < kInfinity);
    low = std::max(low, std::fabs(h[i].value) - up(h[i].error));
    high = std::max(high, h[i].magnitude());
  }
  if (numbers && !made.unclaimed) {
    if (path == "codes") {
      // Below it 1 / s overflows and s itself loses bits.
      constexpr double kLeastScale = 0x1p-125;
      made.unclaimed =
          !scalar_format(a.element).is_signed || (high > 0 && low / hidden_divisor(a) < kLeastScale);
      if (high > 0 && !made.unclaimed) quantise(row, h, low, high, a);
    } else if (path == "f32") {
      row.reach.resize(h.size());
      for (std::size_t i = 0; i < h.size(); ++i) row.reach[i] = h[i].magnitude();
    } else {
      const ScalarFormat& to = scalar_format(path);
      for (std::size_t i = 0; i < h.size(); ++i) {
        const Enclosure cell = decided(h[i], to, flush);
        made.unclaimed |= !(cell.error < kInfinity);
        if (made.unclaimed) break;
        // The ends are numbers of the type; the sums that find them again are off by u64.
        admit(row, i, round_number(to, cell.value - cell.error, {}),
              round_number(to, cell.value + cell.error, {}), to);
      }
    }
  }
  if (made.unclaimed)  // no operands of any type
    for (double& each : row.center) each = std::isnan(each) ? each : 0;
  row.exact = row.center;
  row.same = true;
  finish(row);
  return made;
}

}  // namespace assay
