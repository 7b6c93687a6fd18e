#include "cases/attribution/hypotheses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "cases/attribution/fault_list.hpp"
#include "cases/attribution/models.hpp"
#include "reference/formats/scalar.hpp"

namespace assay::attribution {
namespace {

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
    const double got = m.answer->got[0][elements[i]];
    if (!(m.unit[i] < kAnyNumber)) {  // any finite number is right
      if (std::isfinite(got) != std::isfinite(predicted[i])) sum += kFar * kFar;
      ++n;
      continue;
    }
    const double unit = scaled(m.unit[i], m.answer->truths[0].value[elements[i]], predicted[i]);
    const double d = distance(got, predicted[i], unit);
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
    if (m.unit[i] < kAnyNumber ? !(distance(right[i], value, m.unit[i]) <= 1) : !std::isfinite(right[i]))
      return std::nullopt;
  }
  return m;
}

// What is left by the hypothesis is that part of the error at most, and that part of what is left by another
// stage's.
constexpr double kExplains = 0.45, kDecides = 0.7;
// What may leave an answer out has to leave next to nothing of the others.
constexpr double kExplainsOthers = 0.1;
// In limits: hypotheses that leave less are right alike.
constexpr double kExact = 0.002;
// What leaves more than a limit explains where it leaves that part of the error at most, and every other
// stage so many times more.
constexpr double kNearly = 0.01, kFarBehind = 20;
// Of the first answer's squared error a hypothesis has to explain a half to be held against the others.
constexpr double kWorthwhile = 0.5;

// Two hypotheses a and b predict what lies b - a apart. Where between them an answer lies, 0 at a and 1 at b:
// the roundings of the kernel, which both leave alike, fall out of the difference, and tell little where it
// is not many of them.
struct Between {
  double along = 0, apart = 0;  // sums of (got - a) (b - a) and of (b - a)^2, in squared limits
  double share() const { return along / apart; }
};
constexpr double kNearOne = 0.25;  // of the way: the answer is the nearer one's
constexpr double kApart = 1e-4;    // squared, in limits, on average: less is of a rounding's size

// A fault and the mean square that it leaves in each answer.
struct Held {
  Fault fault;
  std::vector<double> squares;
};

// Whether a case has the formats and the path of another, so that the same code has to be right there.
bool alike(const Op& op, const Attributes& a, const Attributes& b) {
  return std::ranges::all_of(op.attributes, [&](const KeySpec& spec) {
    return (spec.kind != KeyKind::format && spec.name != "path") || a.text(spec.name) == b.text(spec.name);
  });
}

// An answer is wrong by more than a limit where the hypothesis is right, and nearer to the truth than to it.
bool refuted(const Held& h, const std::vector<double>& without, const std::vector<bool>& counts) {
  for (std::size_t i = 0; i < h.squares.size(); ++i)
    if (counts[i] && h.squares[i] > 1 && h.squares[i] > without[i]) return true;
  return false;
}

// One answer may be left out, of many: a number that lies half way between two of a fault's few bits falls
// either way, and all that follows from it is another number.
constexpr int kEnoughWrong = 3;  // of the others, by more than kExact
std::vector<bool> all_but_the_worst(const Held& h, const std::vector<double>& without,
                                    std::vector<bool> counts) {
  std::size_t worst = h.squares.size();
  for (std::size_t i = 0; i < h.squares.size(); ++i)
    if (counts[i] && (worst == h.squares.size() || h.squares[i] > h.squares[worst])) worst = i;
  if (worst == h.squares.size()) return counts;
  counts[worst] = false;
  int wrong = 0;
  for (std::size_t i = 0; i < h.squares.size(); ++i) wrong += counts[i] && without[i] > kExact ? 1 : 0;
  if (wrong < kEnoughWrong) counts[worst] = true;
  return counts;
}

Between between(const std::vector<Modelled>& used, const std::vector<bool>& counts, const Fault& a,
                const Fault& b) {
  Between sum;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!counts[i]) continue;
    const Modelled& m = used[i];
    const std::vector<double> by_a = m.model->run(a), by_b = m.model->run(b);
    const auto elements = m.model->elements();
    for (std::size_t e = 0; e < elements.size(); ++e) {
      const double got = m.answer->got[0][elements[e]];
      if (!(m.unit[e] < kAnyNumber) || !std::isfinite(got) || !std::isfinite(by_a[e]) ||
          !std::isfinite(by_b[e]))
        continue;
      const double unit = scaled(m.unit[e], m.answer->truths[0].value[elements[e]], got);
      const double far = (by_b[e] - by_a[e]) / unit, here = (got - by_a[e]) / unit;
      if (!(std::fabs(far) < kFar) || !(std::fabs(here) < kFar)) continue;
      sum.along += here * far / static_cast<double>(elements.size());
      sum.apart += far * far / static_cast<double>(elements.size());
    }
  }
  return sum;
}

// What is stored, in one direction to the bits of its format.
bool cuts_as_stored(const Explanation& e, const Modelled& m) {
  const std::string_view dtype = m.answer->attributes.text("dtype");
  const int bits = dtype == "f16" ? 11 : dtype == "bf16" ? 8 : 0;
  return e.stage == "output" && bits != 0 &&
         (e.fault.wrong == Wrong::cut
              ? e.fault.bits == bits
              : e.fault.wrong >= Wrong::stored_down && e.fault.wrong <= Wrong::stored_away);
}

// The hypothesis that explains these answers; of several stages that explain them alike the one that the
// probes named, or none.
std::optional<Explanation> decided(const std::vector<Modelled>& used, const std::vector<Held>& all,
                                   const std::vector<double>& without, const std::vector<bool>& counts,
                                   std::string_view probed, bool but_one) {
  const std::span<const Node> nodes = used[0].model->nodes();
  std::map<std::string_view, Explanation> best;  // by stage
  for (const Held& h : all) {
    const std::vector<bool> held_against = but_one ? all_but_the_worst(h, without, counts) : counts;
    if (refuted(h, without, held_against)) continue;
    double squares = 0, base = 0, count = 0;
    for (std::size_t i = 0; i < h.squares.size(); ++i)
      if (held_against[i]) squares += h.squares[i], base += without[i], ++count;
    if (!(base > 0)) continue;
    const double error = std::sqrt(squares / base);
    const Node& at = nodes[static_cast<std::size_t>(h.fault.node)];
    Explanation& e = best[at.stage];
    if (e.stage.empty() || error < e.error)
      e = {std::string(at.stage),
           in_words(at, h.fault),
           error,
           1,
           "",
           false,
           std::max(std::sqrt(squares / count), kExact),
           h.fault};
  }
  std::vector<Explanation> order;
  for (auto& [stage, e] : best) order.push_back(std::move(e));
  if (order.empty()) return std::nullopt;
  std::ranges::sort(order, {}, &Explanation::error);
  const auto left = [&](const Explanation& e) { return e.left; };
  Explanation first = order[0];
  if (order.size() > 1) first.next = order[1].error, first.other = order[1].what;
  if (!(first.error <= (but_one ? kExplainsOthers : kExplains) && left(first) <= 1) &&
      !(first.error <= kNearly && kFarBehind * first.error <= first.next))
    return std::nullopt;
  if (order.size() == 1 || left(first) <= kDecides * left(order[1])) return first;
  // Stages that explain alike. Where two of them differ, the answers lie at one of both.
  std::vector<const Explanation*> alike;
  for (const Explanation& e : order)
    if (kDecides * left(e) < left(first)) alike.push_back(&e);
  const auto beaten = [&](const Explanation* loser) {
    return std::ranges::any_of(alike, [&](const Explanation* e) {
      if (e == loser) return false;
      const Between b = between(used, counts, e->fault, loser->fault);
      return b.apart > kApart && b.share() < kNearOne;
    });
  };
  std::vector<const Explanation*> left_over;
  std::ranges::copy_if(alike, std::back_inserter(left_over), [&](const auto* e) { return !beaten(e); });
  if (left_over.empty()) left_over = alike;
  // Of those that do not, a store that cuts where the output's format would round; that of the probes; else
  // the earliest, whose result is all that the later ones see.
  const Explanation* chosen = nullptr;
  for (const Explanation* e : left_over)
    if (chosen == nullptr || e->stage == probed || cuts_as_stored(*e, used[0]) ||
        (chosen->stage != probed && !cuts_as_stored(*chosen, used[0]) && e->fault.node < chosen->fault.node))
      chosen = e;
  Explanation same = *chosen;
  const Explanation& rival = chosen == &order[0] ? order[1] : order[0];
  same.next = rival.error, same.other = rival.what, same.tied = left_over.size() > 1;
  return same;
}

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

std::optional<Explanation> explain(const Op& op, const std::vector<Answer>& answers,
                                   std::string_view probed) {
  std::vector<Modelled> used;
  for (const Answer& answer : answers)
    if (auto m = modelled(op, answer)) used.push_back(std::move(*m));
  if (used.empty()) return std::nullopt;
  // A case with a fault may be judged by its run without it, whose numbers are not at hand.
  std::erase_if(used, [](const Modelled& m) {
    return std::isfinite(m.answer->worst) &&
           mean_square(m, m.model->run({})) > 1 + std::pow(m.answer->worst, 2);
  });
  if (used.empty()) return std::nullopt;
  std::vector<double> without;
  for (const Modelled& m : used) without.push_back(mean_square(m, m.model->run({})));
  // What does not explain the first answer that is wrong explains nothing: most hypotheses end there.
  std::size_t first = 0;
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i].answer->bad &&
        (!used[first].answer->bad || used[i].model->work() < used[first].model->work()))
      first = i;
  const std::span<const Node> nodes = used[0].model->nodes();
  std::vector<Held> held;
  for (const Fault& fault : faults(nodes)) {
    const double square = mean_square(used[first], used[first].model->run(fault));
    if (!(square < kWorthwhile * without[first])) continue;
    held.push_back({fault, {}});
    for (std::size_t i = 0; i < used.size(); ++i)
      held.back().squares.push_back(i == first ? square : mean_square(used[i], used[i].model->run(fault)));
  }
  std::vector<bool> counts(used.size(), true);
  if (auto e = decided(used, held, without, counts, probed, false)) return e;
  // Other formats may run other code: what is right there does not speak against a fault here.
  std::vector<bool> own(used.size());
  for (std::size_t i = 0; i < used.size(); ++i)
    own[i] = used[i].answer->bad || alike(op, used[i].answer->attributes, answers[0].attributes);
  if (auto e = decided(used, held, without, own, probed, false)) return e;
  if (auto e = decided(used, held, without, counts, probed, true)) return e;
  return decided(used, held, without, own, probed, true);
}

}  // namespace assay::attribution
