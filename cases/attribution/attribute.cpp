#include "cases/attribution/attribute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "cases/attribution/conclusion.hpp"
#include "cases/attribution/hypotheses.hpp"

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

bool early_end(Status s) {
  return s == Status::crash || s == Status::hang || s == Status::overrun || s == Status::unwritten ||
         s == Status::leak || s == Status::input_changed;
}

// Where in the case as it was given the wrong elements lie, along each axis of its first output on which
// others are right: "heads 3..3, v columns 0..31". An axis on which they lie scattered is left out.
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

bool right_as_f32(Bench& bench) {
  const Answer answer = bench.ask({{"dtype", "f32"}}, Edit{});
  return answer.ran && !answer.bad;
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
    } else if (single != std::end(kOneStage) && c.op->name == "dequantize" && status == Status::wrong &&
               c.attributes.text("dtype") != "f32" && right_as_f32(bench)) {
      a.stage = "output";
      a.support.push_back("stored as f32 it is right");
    } else if (single != std::end(kOneStage)) {
      a.stage = single->stage;
      a.support.push_back(fmt::format("{} has no other stage that changes numbers", c.op->name));
    }
  }
  if (status == Status::wrong) a.where = place(bench, a.stage);
  a.runs = bench.runs();
  return a;
}

}  // namespace assay::attribution
