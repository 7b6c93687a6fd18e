// The same case with other numbers, which every stage has something to do with: more to hold hypotheses
// against, and what one question tells of operands, rows and runs.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "cases/attribution/conclusion.hpp"
#include "cases/attribution/models.hpp"
#include "reference/inputs/random.hpp"

namespace assay::attribution {
namespace {

void random_numbers(const TensorSpec& t, std::vector<float>& x, std::uint64_t seed) {
  const Stream draw(seed, t.name);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(4 * draw.uniform(i) - 2);
}

// Small shapes of an op.
struct SmallShape {
  std::string_view op;
  std::vector<std::vector<Change>> shapes;  // the first that the kernel takes
};

}  // namespace

// Where the case has a NaN: the same case with one in each input in turn, which tells the stages apart that
// lose it.
void one_nan(Bench& bench) {
  bool has = false;
  for (const TensorSpec& t : bench.original().tensors)
    if (t.role == TensorRole::data)
      for (const double x : decode_tensor(bench.original().set.at(t.name))) has = has || std::isnan(x);
  if (!has) return;
  // Beside other keys: of a single one its weight and their sum are lost alike.
  std::vector<Change> changes;
  if (bench.the_case().op->name == "attention" && bench.the_case().attributes.integer("len") < 3)
    changes.emplace_back("len", "3");
  for (const TensorSpec& nan : bench.original().tensors)
    if (nan.role == TensorRole::data)
      (void)bench.ask(changes, Edit([&](const TensorSpec& t, std::vector<float>& x) {
                        for (float& each : x)
                          if (!std::isfinite(each)) each = 0.5F;
                        if (t.name == nan.name) x[x.size() / 2] = NAN;
                      }));
}

// The same case with other numbers, which every stage has something to do with: more to hold hypotheses
// against.
void other_data(Bench& bench) {
  constexpr std::int64_t kMostElements = 100'000;
  std::int64_t elements = 0;
  for (const TensorSpec& t : bench.original().tensors)
    elements += std::accumulate(t.shape.begin(), t.shape.end(), std::int64_t{1}, std::multiplies<>());
  if (elements > kMostElements) return;
  for (const std::uint64_t seed : {1U, 2U})
    (void)bench.ask(Edit([&](const TensorSpec& t, std::vector<float>& x) { random_numbers(t, x, seed); }));
}

// Small shapes of which nothing is a power of two, for stages that explain alike what was asked so far: q.k
// is q.k times scale where the scale is 1, one block of many is none, a weight of 1 rounds as V does.
void other_shape(Bench& bench) {
  static const SmallShape kSmall[] = {
      {"attention",
       {{{"batch", "1"}, {"len", "5"}, {"d", "37"}}, {{"batch", "1"}, {"len", "5"}, {"d", "96"}}}},
      {"matmul", {{{"m", "4"}, {"n", "8"}, {"k", "37"}}, {{"m", "4"}, {"n", "8"}, {"k", "96"}}}},
      {"softmax", {{{"rows", "12"}, {"cols", "5"}}}},
      {"logsumexp", {{{"rows", "12"}, {"cols", "5"}}}},
      {"rmsnorm", {{{"rows", "12"}, {"cols", "5"}}}},
      {"layernorm", {{{"rows", "12"}, {"cols", "5"}}}}};
  const auto small = std::ranges::find(kSmall, bench.the_case().op->name, &SmallShape::op);
  if (small == std::end(kSmall)) return;
  for (const std::vector<Change>& shape : small->shapes) {
    const auto ask = [&](std::uint64_t seed) {
      return bench
          .ask(shape, Edit([&](const TensorSpec& t, std::vector<float>& x) { random_numbers(t, x, seed); }))
          .ran;
    };
    if (ask(3) && ask(4)) return;
  }
}

// An operand that nothing depends on, where something depends on another; "" where there is none.
std::string unread(Bench& bench) {
  const Answer before = bench.ask(Edit{});
  std::string none;
  bool some = false;
  if (!before.ran || before.status != RunStatus::done) return none;
  for (const TensorSpec& operand : before.tensors) {
    if (operand.role != TensorRole::data) continue;
    const Answer after = bench.ask(Edit([&](const TensorSpec& t, std::vector<float>& x) {
      if (t.name == operand.name) random_numbers(t, x, 3);
    }));
    if (!after.ran || after.status != RunStatus::done) continue;
    bool differs = false, should = false;
    for (std::size_t i = 0; i < after.got[0].size(); ++i) {
      const double far = std::fabs(after.truths[0].value[i] - before.truths[0].value[i]);
      should = should || far > 8 * (after.truths[0].limit[i] + before.truths[0].limit[i]);
      differs = differs || !(after.got[0][i] == before.got[0][i]);
    }
    some = some || differs;
    if (should && !differs) none = operand.name;
  }
  return some ? none : "";
}

bool reads_other_rows(Bench& bench) {
  const Answer& o = bench.original();
  const std::int64_t rows = bench.the_case().attributes.integer("rows");
  if (rows < 2 || o.got.empty() || o.truths.empty()) return false;
  const std::int64_t worst = worst_element(o) / (std::ssize(o.truths[0].value) / rows);
  const Answer alike = bench.ask(Edit([=](const TensorSpec& t, std::vector<float>& x) {
    if (t.name != "x") return;
    const std::ptrdiff_t columns = t.shape.back();
    const std::vector<float> row(x.begin() + worst * columns, x.begin() + (worst + 1) * columns);
    for (auto at = x.begin(); at != x.end(); at += columns) std::ranges::copy(row, at);
  }));
  return alike.ran && !alike.bad;
}

// Whether runs that differ in nothing, poison and placement included, give different bits. What changes with
// every third call only is seen by four.
bool unsteady(Bench& bench) {
  const Answer first = bench.ask(Edit{});
  for (int i = 0; i < 3 && first.ran; ++i) {
    const Answer again = bench.ask(Edit{});
    for (std::size_t o = 0; o < std::min(first.got.size(), again.got.size()); ++o)
      for (std::size_t e = 0; e < first.got[o].size(); ++e)
        if (!(first.got[o][e] == again.got[o][e]) &&
            !(std::isnan(first.got[o][e]) && std::isnan(again.got[o][e])))
          return true;
  }
  return false;
}

}  // namespace assay::attribution
