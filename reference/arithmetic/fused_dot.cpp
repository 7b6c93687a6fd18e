#include <algorithm>
#include <limits>
#include <vector>

#include "reference/arithmetic/fused_block.hpp"

namespace assay {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double wrapped_dot(std::span<const float> a, std::span<const float> b, const TermFormat& f, double c) {
  auto sum = static_cast<std::uint32_t>(static_cast<std::int64_t>(c));
  for (std::size_t k = 0; k < a.size(); ++k) {
    sum += static_cast<std::uint32_t>(split(a[k], f).significand * split(b[k], f).significand);
  }
  return static_cast<double>(static_cast<std::int32_t>(sum));
}

void require_accumulator(const MatrixUnit& unit, double c) {
  const bool good = unit.combine == Combine::wrap
                        ? c >= -0x1p31 && c < 0x1p31 && c == std::floor(c)
                        : !std::isfinite(c) ||
                              round_to_precision(c, accumulator_precision(unit), Rounding::toward_zero) == c;
  if (!good) {
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("accumulator {} of {} is not a number of {}", c, unit.name,
                                 unit.out == "e8m13" ? "f32" : unit.out));
  }
}

}  // namespace

double fused_dot(const MatrixUnit& unit, const Operand& a, const Operand& b, double c) {
  const std::size_t n = a.values.size();
  const TermFormat fa = input_format(unit, a.format);
  const TermFormat fb = input_format(unit, b.format);
  require_accumulator(unit, c);
  if (b.values.size() != n) {
    throw InputError(InputErrorKind::shape_mismatch,
                     fmt::format("{} against {} elements", n, b.values.size()));
  }
  BlockScales scales{a.scales, b.scales, {}, 1};
  if (!unit.scales.empty()) {
    scales.format = term_format(unit.scales);
    scales.block = static_cast<std::size_t>(unit.scale_block);
    const std::size_t need = (n + scales.block - 1) / scales.block;
    if (a.scales.size() != need || b.scales.size() != need) {
      throw InputError(InputErrorKind::shape_mismatch,
                       fmt::format("{} takes {} scales for {} elements, got {} and {}", unit.name, need, n,
                                   a.scales.size(), b.scales.size()));
    }
  }
  if (unit.combine == Combine::wrap) return wrapped_dot(a.values, b.values, fa, c);
  const auto group = static_cast<std::size_t>(unit.group);
  for (std::size_t k = 0; k < n; k += group) {
    const std::size_t count = std::min(group, n - k);
    c = fused_block(unit, a.values.subspan(k, count), b.values.subspan(k, count), fa, fb, scales, k, c);
  }
  return c;
}

double promoted_dot(const MatrixUnit& unit, const Operand& a, const Operand& b, double c, int promote) {
  if (promote == 0) return fused_dot(unit, a, b, c);
  if (promote < 0 || unit.combine == Combine::wrap) {
    throw InputError(InputErrorKind::bad_value, fmt::format("promote={} of {}", promote, unit.name));
  }
  const std::size_t n = a.values.size();
  if (b.values.size() != n) {
    throw InputError(InputErrorKind::shape_mismatch,
                     fmt::format("{} against {} elements", n, b.values.size()));
  }
  const std::size_t chunk = static_cast<std::size_t>(unit.group) * static_cast<std::size_t>(promote);
  const auto part = [&](const Operand& x, std::size_t k, std::size_t count) {
    Operand piece{x.values.subspan(k, count), x.format, {}};
    if (unit.scale_block > 0) {
      const auto per = static_cast<std::size_t>(unit.scale_block);
      piece.scales = x.scales.subspan(k / per, (count + per - 1) / per);
    }
    return piece;
  };
  auto sum = static_cast<float>(c);
  for (std::size_t k = 0; k < n; k += chunk) {
    const std::size_t count = std::min(chunk, n - k);
    sum += static_cast<float>(fused_dot(unit, part(a, k, count), part(b, k, count), 0));
  }
  return std::isnan(sum) ? kNaN : static_cast<double>(sum);
}

}  // namespace assay
