// Worlds of matmul whose products are summed in a type: every order, fused or not.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/studies/worlds/inputs.hpp"
#include "cases/studies/worlds/members_sum.hpp"
#include "cases/studies/worlds/world.hpp"

namespace assay::worlds {
namespace {

// From the least subnormal of a factor to sums that overflow: halves of rounding, cancellation, underflow of
// products.
std::vector<double> alphabet(std::string_view format, std::string_view acc) {
  const ScalarFormat& f = scalar_format(format);
  if (f.bits <= 4) return numbers(format);
  const bool narrow = acc == "f16";
  std::vector<double> some;
  for (const double x : {0x1p-24, 0x1.8p-20, 0x1p-14, 0x1.2p-10, 0x1p-8, 0.75, 1.0, 1.25, 3.0, 0x1p+7,
                         0x1.fcp+7, 0x1p+10, 0x1p+15})
    for (const double sign : {1.0, -1.0})
      if (narrow || std::fabs(x) < 0x1p+15) some.push_back(sign * x);
  if (f.bits == 32 || f.exponent_bits == 8) {  // a wide range: products underflow in f32 and bf16
    some.clear();
    for (const double x : {0x1p-133, 0x1p-126, 0x1.8p-75, 0x1.04p-63, 0x1p-60, 0x1.02p-10, 0.75, 1.0,
                           1.0078125, 3.0, 0x1.fcp+7, 0x1p+62, 0x1.8p+63})
      for (const double sign : {1.0, -1.0}) some.push_back(sign * x);
  }
  some.push_back(0);
  for (double& x : some) x = round_to(f, x);
  return set_of(std::move(some));
}

std::vector<Batch> batches_of(const World& w, int n, std::size_t budget) {
  const Arithmetic acc = arithmetic(declared(w, "acc"), declared(w, "ftz") == "yes");
  const Order order = order_of(declared(w, "order"));
  const std::string a_format = w.attributes.at("a");
  const auto from = alphabet(a_format, declared(w, "acc"));
  // Rows of a against several rows of b: what makes products that are exact, halves of a unit, subnormal, or
  // nearly overflow.
  const double tiny = from[from.size() / 2 + 1], large = from.back();
  std::vector<std::vector<double>> rows_of_b = {std::vector<double>(static_cast<std::size_t>(n), 1.0)};
  std::vector<double> mixed, wide, near;
  for (int i = 0; i < n; ++i) {
    mixed.push_back(i % 2 == 0 ? 1.25 : -0.75);
    wide.push_back(i % 3 == 0 ? tiny : i % 3 == 1 ? large : 1.25);
    near.push_back(i % 2 == 0 ? 0x1.2p-10 : 0x1p-8);
  }
  for (auto b : {mixed, wide, near}) {
    for (double& v : b) v = round_to(scalar_format(a_format), v);
    rows_of_b.push_back(b);
  }
  const auto rows = rows_of(from, n, false, std::max<std::size_t>(1, budget / rows_of_b.size()));
  return {products_batch(w, rows, rows_of_b, [&](const std::vector<double>& x, const std::vector<double>& y) {
    std::vector<Term> terms;
    for (std::size_t i = 0; i < x.size(); ++i) terms.push_back({x[i], y[i], true});
    return sums(acc, terms, order);
  })};
}

}  // namespace

std::vector<World> product_worlds() {
  std::vector<World> all;
  const auto add = [&](int n, Words attributes, Keys contract, const char* why) {
    all.push_back(named("matmul", fmt::format("k={}", n), std::move(attributes), std::move(contract), why,
                        [n](const World& w, std::size_t budget) { return batches_of(w, n, budget); }));
  };
  constexpr auto kOrder = "order: of the additions; any: every association and permutation, fused or not";
  constexpr auto kFlush = "ftz: subnormal inputs and results may become zero";
  for (const char* path : {"f16", "bf16", "f32"}) {
    for (const char* acc : {"f16", "bf16", "f32"}) {
      const Words f32{{"a", path}, {"path", path}, {"dtype", "f32"}};
      for (const int n : {1, 2, 3, 4}) add(n, f32, {{"acc", acc}}, kOrder);
      for (const char* order : {"sequential", "tree", "lanes:2", "blocks:2", "depth:2", "depth:3"})
        add(4, f32, {{"acc", acc}, {"order", order}}, kOrder);
      add(2, f32, {{"acc", acc}, {"ftz", "yes"}}, kFlush);
      add(3, f32, {{"acc", acc}, {"ftz", "yes"}, {"order", "sequential"}}, kFlush);
      for (const char* dtype : {"f16", "bf16"}) {
        const Words narrow{{"a", path}, {"path", path}, {"dtype", dtype}};
        add(2, narrow, {{"acc", acc}},
            "round: rounding to the output; overflow: beyond the output's largest number");
        add(2, narrow, {{"acc", acc}, {"overflow", "saturate"}},
            "overflow: beyond the output's largest number");
        add(2, narrow, {{"acc", acc}, {"round", "toward_zero"}}, "round: rounding to the output");
        add(2, narrow, {{"acc", acc}, {"round", "nearest_away"}, {"ftz", "yes"}}, kFlush);
      }
      for (const char* out : {"f16", "bf16"}) {
        add(2, f32, {{"acc", acc}, {"out", out}}, "out: rounded to this before the output's type");
        add(2, {{"a", path}, {"path", path}, {"dtype", "f16"}}, {{"acc", acc}, {"out", out}, {"ftz", "yes"}},
            "out: rounded to this before the output's type");
      }
    }
  }
  for (const char* format : {"e2m1", "e4m3fn", "e5m2", "e3m2", "e2m3"})
    for (const char* acc : {"f16", "bf16"})
      for (const int n : {2, 3})
        add(n, {{"a", format}, {"path", "codes"}, {"dtype", "f32"}}, {{"acc", acc}}, kOrder);
  return all;
}

}  // namespace assay::worlds
