// Who checks the referee: MPFR against mpmath's vectors, against binary128 arithmetic, and against
// identities.
#include "reference/real/mp.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "reference/real/double_double_functions.hpp"

namespace assay {
namespace {

using mp::Interval;
using mp::Real113;
using mp::Real200;

constexpr std::uint64_t kSeed = 160;
__extension__ using Binary128 = __float128;

// Vectors of 50 digits: at most half a unit of the 50th, 5e-50 relative; and 2 % of that for the width of the
// intervals.
constexpr double kFiftyDigits = 5.1e-50;

/// |a - b| <= limit |b| for all members.
void expect_near(const Interval& a, const Interval& b, double limit, const std::string& where) {
  const double error = b.magnitude() == 0 ? (a - b).magnitude() : ((a - b) / b).magnitude();
  ASSERT_LE(error, limit) << where;
}

template <class Number>
Number evaluate(const std::string& function, const Number& x) {
  if (function == "exp") return exp(x);
  if (function == "expm1") return expm1(x);
  if (function == "log") return log(x);
  if (function == "log1p") return log1p(x);
  if (function == "tanh") return tanh(x);
  if (function == "rsqrt") return Number(1.0) / sqrt(x);
  throw InputError(InputErrorKind::unknown_name, function);
}

Interval interval(const Real200& x) { return Interval::from_mpfr(x.backend().data()); }

TEST(referee, agrees_with_the_vectors_of_mpmath_to_their_last_digit) {
  std::ifstream file(ASSAY_GOLDEN_REAL "/functions.csv");
  ASSERT_TRUE(file) << ASSAY_GOLDEN_REAL "/functions.csv is missing";
  std::map<std::string, int> seen;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#' || line.rfind("function,", 0) == 0) continue;
    const std::size_t first = line.find(',');
    const std::size_t second = line.find(',', first + 1);
    const std::string function = line.substr(0, first);
    const double x = std::strtod(line.substr(first + 1, second - first - 1).c_str(), nullptr);
    const Interval golden = Interval::from_decimal(line.substr(second + 1));
    expect_near(evaluate(function, Interval(x)), golden, kFiftyDigits, line);
    expect_near(interval(evaluate(function, Real200(x))), golden, kFiftyDigits, line);
    ++seen[function];
  }
  for (const char* function : {"exp", "expm1", "log", "log1p", "tanh", "rsqrt"}) {
    EXPECT_GE(seen[function], 60) << function;
  }
}

TEST(referee, a_wrong_vector_would_be_noticed) {
  const Interval golden = Interval::from_decimal("2.7182818284590452353602874713526624977572470936999");
  const Interval wrong = Interval::from_decimal("2.7182818284590452353602874713526624977572470936989");
  EXPECT_LE(((exp(Interval(1.0)) - golden) / golden).magnitude(), kFiftyDigits);
  EXPECT_FALSE(((exp(Interval(1.0)) - wrong) / wrong).magnitude() <= kFiftyDigits);
  EXPECT_THROW(Interval::from_decimal("1.2.3"), InputError);
}

TEST(referee, its_precisions_are_what_their_names_say) {
  EXPECT_GE(mpfr_get_prec(Real113().backend().data()), 113);
  EXPECT_LE(mpfr_get_prec(Real113().backend().data()), 116);
  EXPECT_GE(mpfr_get_prec(Real200().backend().data()), 200);
  EXPECT_LE(mpfr_get_prec(Real200().backend().data()), 203);
}

TEST(referee, satisfies_the_identities_of_its_functions) {
  // Intervals have 320 bits. A handful of operations cost less than 20 of them; where a logarithm, or 1 -
  // e^a, loses the leading digits of an argument down to 2^-40 or of a value up to e^128, 70.
  constexpr double kOperations = 0x1p-300, kCancelling = 0x1p-250;
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int i = 0; i < 300; ++i) {
    const Interval a(std::ldexp(unit(random), i % 8));
    const Interval b(std::ldexp(unit(random), i % 8));
    expect_near(exp(a) * exp(b), exp(a + b), kOperations, "exp(a + b)");
    expect_near(log(exp(a)), a, kCancelling, "log exp");
    expect_near(expm1(a), exp(a) - Interval(1.0), kCancelling, "expm1");
    expect_near(log1p(expm1(abs(a))), abs(a), kCancelling, "log1p expm1");
    expect_near(sqrt(abs(a)) * sqrt(abs(a)), abs(a), kOperations, "sqrt");
    const Interval e = expm1(Interval(2.0) * a);
    expect_near(tanh(a), e / (e + Interval(2.0)), kCancelling, "tanh");
  }
  expect_near(log(Interval(2.0)), mp::ln2(), kOperations, "ln 2");
}

TEST(referee, agrees_with_binary128_arithmetic_on_dots_and_quotients) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 50; ++trial) {
    constexpr int kTerms = 200;
    Binary128 quad = 0;
    Real200 wide = 0;
    Real113 narrow = 0;
    double sum_abs = 0;
    for (int i = 0; i < kTerms; ++i) {
      const double x = normal(random);
      const double y = normal(random);
      quad += static_cast<Binary128>(x) * static_cast<Binary128>(y);
      wide += Real200(x) * Real200(y);
      narrow += Real113(x) * Real113(y);
      sum_abs += std::abs(x * y);
    }
    const double third = 1 + std::abs(normal(random));
    quad /= static_cast<Binary128>(third);
    wide /= third;
    narrow /= third;
    const double quad_high = static_cast<double>(quad);
    const double quad_low = static_cast<double>(quad - static_cast<Binary128>(quad_high));
    // 106 and 113 bit products are exact or round once; n additions and a division at 2^-113.
    const double limit = (kTerms + 2) * 0x1p-113 * sum_abs + 0x1p-105 * std::abs(quad_high);
    const Interval reference = interval(wide);
    ASSERT_LE((Interval(quad_high) + Interval(quad_low) - reference).magnitude(), limit);
    ASSERT_LE((interval(Real200(narrow)) - reference).magnitude(), limit);
  }
}

TEST(interval, encloses_and_refuses) {
  const Interval x(-1, 2);
  EXPECT_EQ((x * x).lower(), -2);
  EXPECT_EQ((x * x).upper(), 4);
  EXPECT_EQ(abs(x).lower(), 0);
  EXPECT_EQ(abs(-x).upper(), 2);
  EXPECT_EQ((Interval(1.0) / x).upper(), INFINITY);
  EXPECT_EQ((Interval(1.0) / Interval(-4, -2)).lower(), -0.5);
  EXPECT_TRUE((Interval(1.0) / Interval(3.0) * Interval(3.0)).contains(1));
  EXPECT_FALSE(Interval(NAN).magnitude() <= 1e300);
  EXPECT_EQ(Interval::hull(Interval(1.0), Interval(-3.0)).lower(), -3);
  const Certified third = (Interval(1.0) / Interval(3.0)).certified();
  EXPECT_EQ(third.value, 1.0 / 3.0);
  EXPECT_GE(third.error, 0x1p-56);  // 1/3 is a third of its last place, 2^-54, away from a double
  EXPECT_LE(third.error, 0x1p-54);
}

}  // namespace
}  // namespace assay
