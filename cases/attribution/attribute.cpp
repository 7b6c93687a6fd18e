#include "cases/attribution/attribute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "cases/attribution/conclusion.hpp"
#include "cases/attribution/hypotheses.hpp"
#include "reference/formats/format.hpp"
#include "reference/inputs/random.hpp"

namespace assay::attribution {
namespace {

constexpr StageRow kStages[] = {
    {"codec", "stored codes and scales to numbers, or numbers to codes"},
    {"qk", "the dot products q.k"},
    {"dot", "the dot products of a matrix product"},
    {"scale", "what is done to logits or products afterwards: scale, softcap, alibi, epilogue scales"},
    {"mask", "which keys are visible, and how long a sequence is"},
    {"max", "the running maximum; of argmax: which number is the largest"},
    {"rescale", "the rescaling of what is summed when the maximum rises"},
    {"exp", "the exponential"},
    {"p_cast", "the cast of the weights before PV"},
    {"pv", "the sum of weights times V"},
    {"row_sum", "the sum of the weights"},
    {"sink", "the sink in the denominator"},
    {"merge", "the merge of the parts of a split"},
    {"moments", "mean, variance, mean square"},
    {"gate", "silu(gate) times up, of a mixture of experts"},
    {"routing", "which experts a token has, their weights and their sum"},
    {"normalise", "1/sqrt and what it multiplies"},
    {"transform", "the butterflies, signs and factor of a transform"},
    {"output", "the quotient, the rotation back, the rounding and the store"},
    {"kv_write", "the cache write: scale policy, slots, codes"},
    {"addressing", "rows, heads, pages, strides, loop bounds"},
    {"dispatch", "another kernel than the one declared"},
    {"race", "bits that differ from run to run"},
};

// Ops that have one stage to be wrong in, besides where they read and write.
struct OneStage {
  std::string_view op, stage;
};
constexpr OneStage kOneStage[] = {{"quantize", "codec"},
                                  {"dequantize", "codec"},
                                  {"requantize", "codec"},
                                  {"kv_write", "kv_write"},
                                  {"wht", "transform"}};

using Probes = void (*)(Bench&, Attribution&);
struct ProbedOp {
  std::string_view op;
  Probes run;
};
constexpr ProbedOp kProbed[] = {{"attention", attribute_attention},
                                {"softmax", attribute_softmax},
                                {"logsumexp", attribute_softmax},
                                {"rmsnorm", attribute_norm},
                                {"layernorm", attribute_norm},
                                {"matmul", attribute_matmul},
                                {"moe", attribute_moe},
                                {"argmax", attribute_argmax}};

// Ratios that lie so close together are one factor behind roundings to 8 bits.
constexpr double kOneFactor = 0.02;

// "1.95 to 2.05 times the truth" of elements that are wrong: what a factor, a sign or a width look like.
void describe_ratio(const Bench& bench, Attribution& a) {
  const Answer& o = bench.original();
  double low = INFINITY, high = -INFINITY;
  for (std::size_t t = 0; t < std::min(o.got.size(), o.truths.size()); ++t)
    for (std::size_t i = 0; i < o.got[t].size(); ++i) {
      const double want = o.truths[t].value[i], limit = o.truths[t].limit[i];
      if (!(std::fabs(want) > 8 * limit) || std::fabs(o.got[t][i] - want) <= limit) continue;
      const double ratio = o.got[t][i] / want;
      if (!std::isfinite(ratio)) {
        low = NAN;
        continue;
      }
      low = std::min(low, ratio), high = std::max(high, ratio);
    }
  if (o.not_finite)
    a.what = "not finite";
  else if (low == high || (high - low < kOneFactor * std::fabs(high)))
    a.what = low < 0 ? fmt::format("sign: {:.4g} times the truth", low)
                     : fmt::format("scale: {:.4g} times the truth", low);
  else if (low > 0.9 && high < 1.1)
    a.what = "width: relative errors of few per cent or less, of either sign";
}

// Where the case has a NaN: the same case with one in each input in turn, which tells the stages apart that lose it.
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

void random_numbers(const TensorSpec& t, std::vector<float>& x, std::uint64_t seed) {
  const Stream draw(seed, t.name);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(4 * draw.uniform(i) - 2);
}

// The same case with other numbers, which every stage has something to do with: more to hold hypotheses against.
void other_data(Bench& bench) {
  constexpr std::int64_t kMostElements = 100'000;
  std::int64_t elements = 0;
  for (const TensorSpec& t : bench.original().tensors)
    elements += std::accumulate(t.shape.begin(), t.shape.end(), std::int64_t{1}, std::multiplies<>());
  if (elements > kMostElements) return;
  for (const std::uint64_t seed : {1U, 2U})
    (void)bench.ask(Edit([&](const TensorSpec& t, std::vector<float>& x) { random_numbers(t, x, seed); }));
}

// Small shapes of which nothing is a power of two, for stages that explain alike what was asked so far: q.k is q.k times scale where the
// scale is 1, one block of many is none, a weight of 1 rounds as V does.
struct SmallShape {
  std::string_view op;
  std::vector<std::vector<Change>> shapes;  // the first that the kernel takes
};
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

// Of an op that has one stage: whether it reads or writes elsewhere. Of rows that are all one row each is right then, or they differ;
// what is done to the numbers of a row is done to all alike. Formats with planes of scales have places of their own for these.
bool rows_elsewhere(Bench& bench) {
  const Answer& o = bench.original();
  if (o.got.empty() || o.truths.empty() || o.tensors.empty() || bench.the_case().fault != "none")
    return false;
  for (const TensorSpec& t : o.tensors)
    if (planes(format(t.format), t.shape).size() > 1) return false;
  const std::int64_t rows = bench.the_case().attributes.integer("rows");
  if (rows < 2 || o.got[0].size() != o.truths[0].value.size()) return false;
  const std::size_t columns = o.got[0].size() / static_cast<std::size_t>(rows);
  std::size_t worst = 0;
  for (std::size_t i = 0; i < o.got[0].size(); ++i)
    if (!(std::fabs(o.got[0][i] - o.truths[0].value[i]) <= o.truths[0].limit[i])) worst = i / columns;
  const Answer same = bench.ask(Edit([&](const TensorSpec&, std::vector<float>& x) {
    if (x.size() != o.got[0].size()) return;
    const std::vector<float> row(x.begin() + static_cast<std::ptrdiff_t>(worst * columns),
                                 x.begin() + static_cast<std::ptrdiff_t>((worst + 1) * columns));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = row[i % columns];
  }));
  if (!same.ran || same.got.empty()) return false;
  for (std::size_t i = columns; i < same.got[0].size(); ++i)
    if (!(same.got[0][i] == same.got[0][i - columns]) &&
        !(std::isnan(same.got[0][i]) && std::isnan(same.got[0][i - columns])))
      return true;
  return !same.bad;
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
      const Stream draw(3, t.name);
      if (t.name == operand.name)
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(4 * draw.uniform(i) - 2);
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

bool early_end(Status s) {
  return s == Status::crash || s == Status::hang || s == Status::overrun || s == Status::unwritten ||
         s == Status::leak || s == Status::input_changed;
}

// Where in the case as it was given the wrong elements lie, along each axis of its first output on which others are right: "heads
// 3..3, v columns 0..31". An axis on which they lie scattered is left out.
std::string wrong_places(const Bench& bench) {
  constexpr std::string_view kOfAttention[] = {"batch entries", "query rows", "heads", "v columns"};
  constexpr std::string_view kOfRows[] = {"rows", "columns"};
  const Answer& o = bench.original();
  if (o.got.empty() || o.truths.empty()) return "";
  const auto& shape = std::ranges::find(o.tensors, o.truths[0].output, &TensorSpec::name)->shape;
  const std::span<const std::string_view> names =
      bench.the_case().op->name == "attention" ? std::span<const std::string_view>(kOfAttention) : kOfRows;
  if (shape.size() != names.size()) return "";
  std::string places;
  std::size_t inner = o.truths[0].value.size();
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto extent = static_cast<std::size_t>(shape[axis]);
    inner /= extent;
    std::vector<bool> wrong(extent, false);
    for (std::size_t i = 0; i < std::min(o.got[0].size(), o.truths[0].value.size()); ++i)
      if (!(std::fabs(o.got[0][i] - o.truths[0].value[i]) <= o.truths[0].limit[i]))
        wrong[i / inner % extent] = true;
    const auto first = std::ranges::find(wrong, true) - wrong.begin();
    const auto count = std::ranges::count(wrong, true);
    if (count == 0 || count == std::ssize(wrong) ||
        !std::all_of(wrong.begin() + first,
                     wrong.begin() + first + std::min(count, std::ssize(wrong) - first), std::identity{}))
      continue;
    places += fmt::format("{}{} {}..{}", places.empty() ? "" : ", ", names[axis], first, first + count - 1);
  }
  return places;
}

// Asked where the op has questions for it; else where the case's own numbers are wrong.
std::string place(Bench& bench, const std::string& stage) {
  const std::string own = wrong_places(bench);
  const std::string_view op = bench.the_case().op->name;
  std::string asked;
  if (op == "attention") asked = attention_place(bench, stage, own.find("columns") != std::string::npos);
  if (op == "matmul") asked = matmul_place(bench);
  constexpr std::string_view kOfRows[] = {"softmax",  "logsumexp",  "rmsnorm",   "layernorm",
                                          "quantize", "dequantize", "requantize"};
  if (std::ranges::find(kOfRows, op) != std::end(kOfRows)) return rows_place(bench);
  return asked.empty() ? own : asked;
}

// Whether runs that differ in nothing, poison and placement included, give different bits. What changes with every third call
// only is seen by four.
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

// What the probes leave open, or took for its neighbour.
void by_hypotheses(Bench& bench, Attribution& a) {
  one_nan(bench), other_data(bench);
  auto e = explain(*bench.the_case().op, bench.answers(), a.stage);
  if (e && e->tied) {
    other_shape(bench);
    e = explain(*bench.the_case().op, bench.answers(), a.stage);
  }
  if (e) {
    a.stage = e->stage;
    a.support.push_back(fmt::format("{}: computed so, {:.2g} of the error is left; by the next stage {:.2g}",
                                    e->what, e->error, e->next));
    if (!e->other.empty()) a.against.push_back(fmt::format("{}: leaves {:.2g}", e->other, e->next));
  } else if (a.stage == "unknown" && unsteady(bench)) {
    a.stage = "race";
    a.support.push_back("runs on the same bytes differ");
  } else if (const std::string_view op = bench.the_case().op->name;
             a.stage != "unknown" && op != "matmul" && op != "rmsnorm" && op != "layernorm") {
    return;  // the probes of other ops look at each weight
  } else if (const std::string operand = unread(bench); !operand.empty()) {
    a.stage = "addressing";
    a.support.push_back(fmt::format("nothing depends on {}", operand));
  }
}

}  // namespace

std::span<const StageRow> stages() { return kStages; }

Attribution attribute(const Case& c, const InputLists& lists, Workers& workers, const JudgeOptions& options) {
  Bench bench(c, lists, workers, options);
  Attribution a;
  a.first = bench.first();
  const Status status = a.first.verdict.status;
  // Inputs that show nothing: what the kernel does with others can still be asked.
  const bool numbers = status == Status::wrong || status == Status::distrust;
  const auto probed = std::ranges::find(kProbed, c.op->name, &ProbedOp::op);
  const auto single = std::ranges::find(kOneStage, c.op->name, &OneStage::op);
  if (status == Status::fallback) {
    a.stage = "dispatch";
    a.support.push_back("the numbers are right, and the kernel that was declared did not run");
  } else if (status == Status::nondeterministic || (status == Status::leak && unsteady(bench))) {
    a.stage = "race";
    a.support.push_back("runs on the same bytes differ");
  } else if (early_end(status) && probed == std::end(kProbed) &&
             (single == std::end(kOneStage) || c.layout != "dense")) {
    a.stage = "addressing";
    a.support.push_back(
        fmt::format("verdict {}: what is read or written is not what is the kernel's", to_string(status)));
  } else if (numbers || early_end(status)) {
    describe_ratio(bench, a);
    if (probed != std::end(kProbed)) {
      probed->run(bench, a);
      if (numbers && !a.decided) by_hypotheses(bench, a);
    } else if (single != std::end(kOneStage)) {
      a.stage = single->stage;
      a.support.push_back(fmt::format("{} has no other stage that changes numbers", c.op->name));
      if (status == Status::wrong && c.op->name.ends_with("quantize") && rows_elsewhere(bench)) {
        a.stage = "addressing";
        a.support.back() = "rows that are all one row are right, or differ";
      }
    }
  }
  if (status == Status::wrong) a.where = place(bench, a.stage);
  a.runs = bench.runs();
  return a;
}

}  // namespace assay::attribution
