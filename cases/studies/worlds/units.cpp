// Worlds of matmul on matrix units, with a handful of products at hand-picked exponents.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/studies/worlds/inputs.hpp"
#include "cases/studies/worlds/members_unit.hpp"
#include "cases/studies/worlds/world.hpp"

namespace assay::worlds {
namespace {

// Exponents at which a unit's common place lies just above, on and below the last bit of its neighbours, all
// bits set.
std::vector<double> alphabet(const MatrixUnit& unit, std::string_view format) {
  const ScalarFormat& f = scalar_format(format);
  const double ones = 2 - power_of_two(-f.fraction_bits);
  std::vector<double> some;
  const int low = 1 - f.bias, high = f.specials == Specials::ieee ? f.bias : f.bias + 1;
  for (const int e : {low - f.fraction_bits, low, -unit.fraction_bits / 2 - 1, -3, 0, 1, 6, 13})
    if (e <= std::min(high, 60) && e >= low - f.fraction_bits) {
      some.push_back(power_of_two(e));
      some.push_back(-ones * power_of_two(e));
    }
  if (f.exponent_bits == 8)
    for (const int e : {-75, -64, -40, 40})
      some.push_back(power_of_two(e)), some.push_back(-ones * power_of_two(e));
  for (double& x : some) x = round_to(f, x);
  return set_of(std::move(some));
}

std::vector<Batch> batches_of(const World& w, int n, std::size_t budget) {
  const MatrixUnit& unit = matrix_unit(declared(w, "acc"));
  const std::string format_of_a = w.attributes.at("a");
  const auto from = alphabet(unit, format_of_a);
  const bool any = declared(w, "order") != "sequential", flush = declared(w, "ftz") == "yes";
  const auto count_of = [&](std::string_view key, int fallback) {
    return has_word("matmul", key, "") ? static_cast<int>(std::stod(std::string(declared(w, key))))
                                       : fallback;
  };
  const UnitOrder order{any, count_of("promote", 0), count_of("block", 1), count_of("split", 0)};
  std::vector<std::vector<double>> rows_of_b;
  for (const int which : {0, 1, 2}) {
    std::vector<double> b;
    for (int i = 0; i < n; ++i)
      b.push_back(which == 0   ? 1.0
                  : which == 1 ? from[(static_cast<std::size_t>(i) * 5 + 3) % from.size()]
                  : i % 2 == 0 ? 1.5
                               : -1.25);
    for (double& v : b) v = round_to(scalar_format(format_of_a), v);
    rows_of_b.push_back(b);
  }
  const auto rows = rows_of(from, n, false, std::max<std::size_t>(1, budget / 3));
  return {products_batch(w, rows, rows_of_b, [&](const std::vector<double>& x, const std::vector<double>& y) {
    return unit_sums(unit, format_of_a, x, y, order, flush);
  })};
}

}  // namespace

std::vector<World> unit_worlds() {
  std::vector<World> all;
  const auto add = [&](int n, Words attributes, Keys contract, const char* why) {
    all.push_back(named("matmul", fmt::format("k={}", n), std::move(attributes), std::move(contract), why,
                        [n](const World& w, std::size_t budget) { return batches_of(w, n, budget); }));
  };
  constexpr auto kOrder =
      "order: with a matrix unit sequential says: blocks in ascending k, padded at the end; any: every "
      "association and permutation";
  for (const MatrixUnit& unit : matrix_units()) {
    if (!unit.scales.empty() || unit.combine == Combine::wrap) continue;
    const std::string acc(unit.name);
    const std::string format(unit.inputs.substr(0, unit.inputs.find(' ')));
    const std::string path = format == "f16" || format == "bf16" || format == "f32" ? format
                             : format == "tf32"                                     ? "tf32"
                                                                                    : "codes";
    const Words words{{"a", format == "tf32" ? "f32" : format}, {"path", path}, {"dtype", "f32"}};
    if (format == "tf32") continue;
    add(3, words, {{"acc", acc}, {"order", "sequential"}}, kOrder);
    add(2 * unit.group > 6 ? 3 : 2 * unit.group + 1, words, {{"acc", acc}}, kOrder);
    // Where the place of a product in its block counts there are many more members.
    const bool placeless =
        unit.combine == Combine::truncate || unit.combine == Combine::exact || unit.combine == Combine::floor;
    if (has_word("matmul", "block", "")) {
      constexpr auto kBlock =
          "block: products of every block but the last of a partial sum, at least; split: partial sums, at "
          "most";
      const Words told[] = {{{"split", "1"}},
                            {{"split", "2"}},
                            {{"block", "2"}},
                            {{"block", "2"}, {"split", "1"}},
                            {{"block", "2"}, {"split", "2"}},
                            {{"block", std::to_string(unit.group)}, {"split", "1"}}};
      for (const Words& each : told) {
        if (each.contains("block") && unit.group <= 2 && each.at("block") == "2" && each.size() == 2)
          continue;
        Keys keys{{"acc", acc}};
        for (const auto& [key, value] : each) keys.emplace_back(key, value);
        add(placeless ? 4 : 3, words, keys, kBlock);
      }
    }
    add(2, words, {{"acc", acc}, {"ftz", "yes"}}, "ftz: in a matrix unit those below 2^-126 alone");
    if (unit.out != "f16") {
      add(3, words, {{"acc", acc}, {"promote", "1"}, {"order", "sequential"}},
          "promote: blocks between promotions to f32");
      if (unit.group != 2)
        add(unit.group + 1 > 9 ? 9 : unit.group + 1, words,
            {{"acc", acc}, {"promote", "1"}, {"order", "sequential"}},
            "promote: blocks between promotions to f32");
    }
  }
  return all;
}

}  // namespace assay::worlds
