// Models that differ from a matrix unit's in one parameter: what vectors and tests must tell it from.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/arithmetic/term.hpp"

namespace assay {

struct Neighbour {
  std::string what;
  std::function<double(const Operand&, const Operand&, double)> compute;
};

namespace neighbour_detail {

inline Operand slice(const MatrixUnit& unit, const Operand& o, std::size_t k, std::size_t n) {
  Operand piece{o.values.subspan(k, n), o.format, {}};
  if (const auto per = static_cast<std::size_t>(unit.scale_block); per > 0) {
    piece.scales = o.scales.subspan(k / per, (n + per - 1) / per);
  }
  return piece;
}

// block(a, b, c) chained over blocks of g.
template <class Block>
double chained(const MatrixUnit& unit, const Operand& a, const Operand& b, double c, Block block) {
  const auto group = static_cast<std::size_t>(unit.group);
  for (std::size_t k = 0; k < a.values.size(); k += group) {
    const std::size_t n = std::min(group, a.values.size() - k);
    c = block(slice(unit, a, k, n), slice(unit, b, k, n), c);
  }
  return c;
}

// The products are summed from zero, c is added after the block with a rounding of its own.
inline double late_c(const MatrixUnit& unit, const Operand& a, const Operand& b, double c) {
  return chained(unit, a, b, c, [&](const Operand& x, const Operand& y, double start) {
    return round_sum(fused_dot(unit, x, y, 0), start, out_precision(unit), unit.rounding);
  });
}

// c and the first product are summed and rounded, then the others are added to that.
inline double early_c(const MatrixUnit& unit, const Operand& a, const Operand& b, double c) {
  return chained(unit, a, b, c, [&](const Operand& x, const Operand& y, double start) {
    const double first = fused_dot(unit, slice(unit, x, 0, 1), slice(unit, y, 0, 1), start);
    const std::size_t rest = x.values.size() - 1;
    return fused_dot(unit, slice(unit, x, 1, rest), slice(unit, y, 1, rest), first);
  });
}

// unpack_split with c where its chain begins instead of after its end.
inline double early_c_of_split(const MatrixUnit& unit, const Operand& a, const Operand& b, double c) {
  const MatrixUnit& inner = matrix_unit(unit.out == "f16" ? "hopper_f16_f16out" : "hopper_f16");
  return chained(unit, a, b, c, [&](const Operand& x, const Operand& y, double start) {
    for (const std::size_t half : {0U, 1U}) {
      std::vector<float> p, q;
      for (std::size_t k = 0; k < x.values.size(); ++k) {
        if (k % 4 / 2 == half) p.push_back(x.values[k]), q.push_back(y.values[k]);
      }
      start = fused_dot(inner, {p, ""}, {q, ""}, start);
    }
    return start;
  });
}

// c takes part in M but keeps all its bits. Finite operands; specials as in the unit itself.
inline double uncut_c(const MatrixUnit& unit, const Operand& a, const Operand& b, double c) {
  const Precision out = out_precision(unit);
  return chained(unit, a, b, c, [&](const Operand& x, const Operand& y, double start) {
    const double plain = fused_dot(unit, x, y, start);
    if (!std::isfinite(plain)) return plain;
    const TermFormat fx = input_format(unit, x.format), fy = input_format(unit, y.format);
    int m = start == 0 ? unit.least_exponent : std::max(std::ilogb(start), out.emin);
    for (std::size_t k = 0; k < x.values.size(); ++k) {
      const Term p = split(x.values[k], fx), q = split(y.values[k], fy);
      if (p.significand != 0 && q.significand != 0) m = std::max(m, p.exponent + q.exponent);
    }
    const int quantum = m - unit.fraction_bits;
    double sum = 0;  // of multiples of 2^quantum: exact
    for (std::size_t k = 0; k < x.values.size(); ++k) {
      const double product = static_cast<double>(x.values[k]) * static_cast<double>(y.values[k]);
      sum += std::ldexp(std::trunc(std::ldexp(product, -quantum)), quantum);
    }
    const double result = round_sum(sum, start, out, unit.rounding);
    return result == 0 ? 0 : result;
  });
}

}  // namespace neighbour_detail

// `unit` must outlive the result.
inline std::vector<Neighbour> neighbours(const MatrixUnit& unit) {
  namespace detail = neighbour_detail;
  using Compute = double (*)(const MatrixUnit&, const Operand&, const Operand&, double);
  std::vector<Neighbour> all;
  const auto with = [&](const std::string& what, auto change) {
    MatrixUnit other = unit;
    change(other);
    all.push_back(
        {what, [other](const Operand& a, const Operand& b, double c) { return fused_dot(other, a, b, c); }});
  };
  const auto computed = [&](const std::string& what, Compute compute) {
    all.push_back({what, [&unit, compute](const Operand& a, const Operand& b, double c) {
                     return compute(unit, a, b, c);
                   }});
  };
  const Combine combine = unit.combine;
  if (combine != Combine::exact && combine != Combine::pairwise_flush) {
    with("F+1", [](MatrixUnit& u) { ++u.fraction_bits; });
    with("F-1", [](MatrixUnit& u) { --u.fraction_bits; });
  }
  if (combine == Combine::pairwise_flush) {
    with("the other group", [](MatrixUnit& u) { u.group = 6 - u.group; });
    with("exact", [](MatrixUnit& u) { u.combine = Combine::exact; });
    return all;  // it does add c last
  }
  with("g*2", [](MatrixUnit& u) { u.group *= 2; });
  with("g/2", [](MatrixUnit& u) { u.group /= 2; });
  if (combine == Combine::floor || combine == Combine::floor_halves || combine == Combine::unpack_split) {
    with("plain truncation", [](MatrixUnit& u) { u.combine = Combine::truncate; });
  } else {
    with("the other rounding", [](MatrixUnit& u) {
      u.rounding = u.rounding == Rounding::toward_zero ? Rounding::nearest_even : Rounding::toward_zero;
    });
  }
  if (combine == Combine::floor) with("halves", [](MatrixUnit& u) { u.combine = Combine::floor_halves; });
  if (combine == Combine::floor_halves) with("one sum", [](MatrixUnit& u) { u.combine = Combine::floor; });
  if (combine == Combine::unpack_split) {
    computed("c early", detail::early_c_of_split);
    return all;  // it does add c late
  }
  computed("c late", detail::late_c);
  if (combine == Combine::truncate) {
    computed("c early", detail::early_c);
    computed("c not truncated", detail::uncut_c);
  }
  return all;
}

}  // namespace assay
