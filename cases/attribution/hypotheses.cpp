#include "cases/attribution/hypotheses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cases/attribution/models.hpp"
#include "reference/formats/scalar.hpp"

namespace assay::attribution {
namespace {

constexpr std::string_view kWords[] = {"right",
                                       "in 8 bits",
                                       "in f16",
                                       "cut to 14 bits",
                                       "in 17 bits",
                                       "in 20 bits",
                                       "NaN is lost",
                                       "clipped to f16's range",
                                       "flushed below 2^-24",
                                       "0",
                                       "the first operand alone",
                                       "the second operand alone",
                                       "added instead",
                                       "subtracted instead",
                                       "multiplied instead",
                                       "divided instead",
                                       "negated",
                                       "1.01 times it",
                                       "it over 1.01",
                                       "twice it",
                                       "half of it",
                                       "without the first element",
                                       "without the last element",
                                       "another function of its kind",
                                       "expm1 or log1p",
                                       "its argument",
                                       "rounded down",
                                       "rounded up",
                                       "rounded towards zero",
                                       "rounded away from zero"};
static_assert(std::size(kWords) == static_cast<std::size_t>(Wrong::count));

// Steps of one computation: some thousand hypotheses on such an answer take a second.
constexpr std::int64_t kMostWork = 20'000;
// An element that is off by so many limits is wrong, and by how much says nothing more.
constexpr double kFar = 1e6;

double distance(double got, double predicted, double limit) {
  if (std::isnan(got) && std::isnan(predicted)) return 0;
  if (got == predicted) return 0;
  const double d = std::fabs(got - predicted);
  return d <= kFar * limit ? d / limit : kFar;  // NaN and infinities are far
}

// The limit for a prediction in place of the truth: roundings grow with the numbers.
double scaled(double limit, double value, double predicted) {
  if (!std::isfinite(value)) return std::max(limit, std::ldexp(std::fabs(predicted), -20));
  const double ratio = std::fabs(predicted) / (std::fabs(value) + limit);
  return ratio > 1 && ratio < kFar ? limit * ratio : limit;
}

struct Modelled {
  const Answer* answer;
  std::unique_ptr<Model> model;
  std::vector<double> unit;  // of each element: its limit, at least a rounding of f64
};

double mean_square(const Modelled& m, const std::vector<double>& predicted) {
  double sum = 0;
  std::size_t n = 0;
  const auto elements = m.model->elements();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!(m.unit[i] < kAnyNumber)) continue;  // unclaimed
    const double unit = scaled(m.unit[i], m.answer->truths[0].value[elements[i]], predicted[i]);
    const double d = distance(m.answer->got[0][elements[i]], predicted[i], unit);
    sum += d * d, ++n;
  }
  return n > 0 ? sum / static_cast<double>(n) : 0;
}

// An answer that the model without a fault does not hold for is none that its hypotheses can be held against.
std::optional<Modelled> modelled(const Op& op, const Answer& answer) {
  if (!answer.ran || answer.status != RunStatus::done || answer.got.empty() || answer.truths.empty())
    return std::nullopt;
  const Truth& truth = answer.truths[0];
  if (answer.got[0].size() != truth.value.size()) return std::nullopt;
  Modelled m{&answer, model_of(op, answer), {}};
  if (!m.model || m.model->work() > kMostWork) return std::nullopt;
  const std::vector<double> right = m.model->run({});
  const auto elements = m.model->elements();
  for (std::size_t i = 0; i < right.size(); ++i) {
    const double value = truth.value[elements[i]];
    m.unit.push_back(std::max({truth.limit[elements[i]], std::ldexp(std::fabs(value), -40), 0x1p-149}));
    if (m.unit[i] < kAnyNumber && !(distance(right[i], value, m.unit[i]) <= 1)) return std::nullopt;
  }
  return m;
}

// What is left by the hypothesis is that part of the error at most, and that part of what is left by another stage's.
constexpr double kExplains = 0.35, kDecides = 0.7;
// In limits: hypotheses that leave less are right alike.
constexpr double kExact = 0.002;
// Of the first answer's squared error a hypothesis has to explain a half to be held against the others.
constexpr double kWorthwhile = 0.5;

}  // namespace

std::unique_ptr<Model> model_of(const Op& op, const Answer& answer) {
  if (!answer.contract) return nullptr;
  if (op.name == "attention") return attention_model(answer);
  if (op.name == "softmax") return softmax_model(answer);
  if (op.name == "logsumexp") return logsumexp_model(answer);
  if (op.name == "rmsnorm" || op.name == "layernorm") return norm_model(answer, op.name == "layernorm");
  if (op.name == "matmul") return matmul_model(answer);
  return nullptr;
}

double stored(const Fault& f, int node, std::string_view dtype, double x) {
  if (f.at(node) && f.wrong >= Wrong::stored_down && dtype != "f32")
    x = directed(x, dtype == "f16" ? 11 : 8, f.wrong);
  x = f.value(node, x);
  return dtype == "f32" ? x : round_to(scalar_format(dtype), x);
}

std::int64_t worst_element(const Answer& a) {
  const Truth& truth = a.truths[0];
  std::int64_t worst = 0;
  double largest = -1;
  for (std::size_t i = 0; i < std::min(truth.value.size(), a.got[0].size()); ++i) {
    if (!(truth.limit[i] < kAnyNumber)) continue;
    const double d = distance(a.got[0][i], truth.value[i], std::max(truth.limit[i], 0x1p-149));
    if (d > largest) largest = d, worst = static_cast<std::int64_t>(i);
  }
  return worst;
}

std::vector<std::int64_t> some_rows(const Answer& a, std::int64_t n, std::int64_t most) {
  const auto rows = static_cast<std::int64_t>(a.truths[0].value.size()) / n;
  const std::int64_t step = (rows + most - 1) / most;
  std::vector<std::int64_t> chosen;
  for (std::int64_t row = worst_element(a) / n % step; row < rows; row += step) chosen.push_back(row);
  return chosen;
}

std::optional<Explanation> explain(const Op& op, const std::vector<Answer>& answers) {
  std::vector<Modelled> used;
  for (const Answer& answer : answers)
    if (auto m = modelled(op, answer)) used.push_back(std::move(*m));

  if (used.empty()) return std::nullopt;
  std::vector<double> without;
  for (const Modelled& m : used) without.push_back(mean_square(m, m.model->run({})));
  // What does not explain the first answer that is wrong explains nothing: most hypotheses end there.
  std::size_t first = 0;
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i].answer->bad &&
        (!used[first].answer->bad || used[i].model->work() < used[first].model->work()))
      first = i;
  double base = 0;
  for (const double each : without) base += each;
  if (!(base > 0)) return std::nullopt;
  const std::span<const Node> nodes = used[0].model->nodes();
  std::map<std::string_view, Explanation> best;  // by stage
  for (int node = 0; std::cmp_less(node, nodes.size()); ++node)
    for (int w = 1; w < static_cast<int>(Wrong::count); ++w) {
      const Fault fault{node, static_cast<Wrong>(w)};
      double with = mean_square(used[first], used[first].model->run(fault));
      if (!(with < kWorthwhile * without[first])) continue;
      for (std::size_t i = 0; i < used.size(); ++i)
        if (i != first) with += mean_square(used[i], used[i].model->run(fault));
      const double error = std::sqrt(with / base);
      const Node& at = nodes[static_cast<std::size_t>(node)];
      Explanation& e = best[at.stage];
      if (e.stage.empty() || error < e.error)
        e = {std::string(at.stage), fmt::format("{}: {}", at.name, kWords[w]), error, 1};
    }
  std::vector<Explanation> order;
  for (auto& [stage, e] : best) order.push_back(std::move(e));
  std::ranges::sort(order, {}, &Explanation::error);
  if (order.empty()) return std::nullopt;
  order[0].next = order.size() > 1 ? order[1].error : 1;
  const double limits = std::sqrt(base / static_cast<double>(used.size()));
  const auto left = [&](const Explanation& e) { return std::max(e.error * limits, kExact); };
  if (!(order[0].error <= kExplains && left(order[0]) <= 1)) return std::nullopt;
  if (order.size() > 1 && !(left(order[0]) <= kDecides * left(order[1]))) return std::nullopt;
  return order[0];
}

}  // namespace assay::attribution
