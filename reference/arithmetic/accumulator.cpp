#include "reference/arithmetic/accumulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "reference/error.hpp"

namespace assay {
namespace {

constexpr auto kScalar = std::to_array<Accumulator>({
    {"f64", Accumulator::Kind::floating, kPrecisionF64, nullptr},
    {"f32", Accumulator::Kind::floating, kPrecisionF32, nullptr},
    {"f16", Accumulator::Kind::floating, kPrecisionF16, nullptr},
    {"bf16", Accumulator::Kind::floating, kPrecisionBf16, nullptr},
    {"i32", Accumulator::Kind::integer, {32, 0, 30}, nullptr},
});

double add(double x, double y, const Precision& f) { return f.p == 53 ? x + y : round_sum(x, y, f); }
double multiply_add(double a, double b, double s, const Precision& f) {
  return f.p == 53 ? std::fma(a, b, s)
                   : round_sum(a * b, s, f);  // a * b of 24-bit operands is exact in double
}

double tree(std::vector<double> x, const Precision& f) {
  while (x.size() > 1) {
    const std::size_t pairs = x.size() / 2;
    for (std::size_t i = 0; i < pairs; ++i) x[i] = add(x[2 * i], x[2 * i + 1], f);
    if (x.size() % 2 != 0) x[pairs] = x.back();
    x.resize(pairs + x.size() % 2);
  }
  return x.front();
}

std::int64_t tree_height(std::int64_t n) {
  std::int64_t height = 0;
  while ((std::int64_t{1} << height) < n) ++height;
  return height;
}

void require(const OrderedSum& how) {
  if (how.order == SumOrder::lanes && how.lanes < 1) {
    throw InputError(InputErrorKind::bad_value, fmt::format("lanes={}, at least 1", how.lanes));
  }
}

}  // namespace

bool find_accumulator(std::string_view name, Accumulator& found) {
  for (const Accumulator& row : kScalar) {
    if (row.name == name) return found = row, true;
  }
  if (const MatrixUnit* unit = find_matrix_unit(name)) {
    return found = {unit->name, Accumulator::Kind::unit, out_precision(*unit), unit}, true;
  }
  return false;
}

Accumulator accumulator(std::string_view name) {
  Accumulator found{};
  if (find_accumulator(name, found)) return found;
  std::string known;
  for (const Accumulator& row : kScalar) known += fmt::format(" {}", row.name);
  for (const MatrixUnit& unit : matrix_units()) known += fmt::format(" {}", unit.name);
  throw InputError(InputErrorKind::unknown_name, fmt::format("accumulator '{}'; known:{}", name, known));
}

std::int64_t addition_depth(const OrderedSum& how, std::int64_t n) {
  require(how);
  if (n <= 0) return 0;
  switch (how.order) {
    case SumOrder::sequential:
      return n;
    case SumOrder::tree:
      return tree_height(n) + 1;
    case SumOrder::lanes: {
      const std::int64_t lanes = std::min<std::int64_t>(how.lanes, n);
      return (n + how.lanes - 1) / how.lanes - 1 + tree_height(lanes) + 1;
    }
  }
  return n;
}

// Every order is one walk over terms: x_i for a sum, fl(a_i b_i) or a fused step for a dot.
template <typename Start, typename Step>
double ordered(const OrderedSum& how, std::size_t n, double c, Start start, Step step) {
  require(how);
  if (n == 0) return c;
  const Precision& f = how.precision;
  if (how.order == SumOrder::sequential) {
    for (std::size_t i = 0; i < n; ++i) c = step(c, i);
    return c;
  }
  std::vector<double> partial;
  if (how.order == SumOrder::tree) {
    for (std::size_t i = 0; i < n; ++i) partial.push_back(start(i));
  } else {
    const std::size_t lanes = std::min(static_cast<std::size_t>(how.lanes), n);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      double s = start(lane);
      for (std::size_t i = lane + static_cast<std::size_t>(how.lanes); i < n;
           i += static_cast<std::size_t>(how.lanes))
        s = step(s, i);
      partial.push_back(s);
    }
  }
  return add(c, tree(std::move(partial), f), f);
}

double ordered_sum(const OrderedSum& how, std::span<const double> x, double c) {
  return ordered(
      how, x.size(), c, [&](std::size_t i) { return x[i]; },
      [&](double s, std::size_t i) { return add(s, x[i], how.precision); });
}

double ordered_dot(const OrderedSum& how, std::span<const float> a, std::span<const float> b, double c) {
  if (a.size() != b.size()) {
    throw InputError(InputErrorKind::shape_mismatch,
                     fmt::format("{} against {} elements", a.size(), b.size()));
  }
  const Precision& f = how.precision;
  const auto product = [&](std::size_t i) {
    return round_to_precision(static_cast<double>(a[i]) * static_cast<double>(b[i]), f);
  };
  return ordered(how, a.size(), c, product, [&](double s, std::size_t i) {
    return how.fused ? multiply_add(a[i], b[i], s, f) : add(s, product(i), f);
  });
}

}  // namespace assay
