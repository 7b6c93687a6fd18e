#include "harness/laws.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <map>

#include "harness/call.hpp"

namespace assay {
namespace {

constexpr std::size_t kMostChanges = 4;  // that are looked for and told

struct Ran {
  std::string failure;  // "" when it ran
  std::vector<std::vector<double>> outputs;
  std::string contract;
  Promises promises;
};

Ran ran(const LawCall& call, Workers& workers, const JudgeOptions& options) {
  Ran result;
  Workers::Entry& backend = workers.of(call.c.backend);
  RunRequest request;
  request.call = make_call(call.c, call.inputs);
  request.timeout = options.timeout;
  request.alignment = std::max<std::size_t>(1, backend.choice.info.alignment);
  request.second_run = false;
  const DeclareResult declared = backend.worker->declare(request.call, options.timeout);
  if (declared.status != RunStatus::done) {
    result.failure = fmt::format("{}: {}", to_string(declared.status), declared.reason);
    return result;
  }
  result.contract = declared.declaration.contract;
  request.alignment = std::max(request.alignment, declared.declaration.alignment);
  if (!read_promises(declared.declaration.promises, result.promises, result.failure)) return result;
  const RunResult run = backend.worker->run(request);
  if (run.status != RunStatus::done)
    result.failure = fmt::format("{}: {}", to_string(run.status), run.reason);
  else if ((result.outputs = decode_outputs(call.inputs, run.outputs)).empty())
    result.failure = "the outputs cannot be decoded";
  return result;
}

std::string position(std::int64_t index, const TensorSpec& t) {
  std::string text;
  for (std::size_t a = t.shape.size(); a-- > 0; index /= t.shape[a])
    text = fmt::format("{}{}{}", index % t.shape[a], text.empty() ? "" : ",", text);
  return fmt::format("{}[{}]", t.name, text);
}

bool same(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

// The first element in which two calls differ, and its two places.
struct Difference {
  std::size_t output;
  std::int64_t first, second;
};
std::optional<Difference> first_difference(const SharedRanges& pieces, const Ran& a, const Ran& b) {
  for (std::size_t n = 0; n < pieces.size(); ++n)
    for (const SharedRange& p : pieces[n])
      for (std::int64_t i = 0; i < p.count; ++i)
        if (!same(a.outputs[n][static_cast<std::size_t>(p.first + i)],
                  b.outputs[n][static_cast<std::size_t>(p.second + i)]))
          return Difference{n, p.first + i, p.second + i};
  return std::nullopt;
}

std::vector<Truth> truths(const LawCall& call, const Ran& ran) {
  return call.c.op->truth(call.c.attributes, call.inputs.set,
                          Contract::parse(ran.contract, call.c.op->contract));
}

// Whether the reference keeps the relation on these very inputs: where it does not (scales that are stored
// for groups of rows), it is none, and nobody is accused.
bool holds_in_truth(const SharedRanges& pieces, const std::vector<Truth>& ta, const std::vector<Truth>& tb) {
  for (std::size_t n = 0; n < pieces.size(); ++n)
    for (const SharedRange& p : pieces[n])
      for (std::int64_t i = 0; i < p.count; ++i) {
        const auto f = static_cast<std::size_t>(p.first + i), s = static_cast<std::size_t>(p.second + i);
        const double x = ta[n].value[f], y = tb[n].value[s], allowed = ta[n].limit[f] + tb[n].limit[s];
        const bool ok = same(x, y) || (std::isnan(x) && std::isnan(y)) || std::isinf(allowed) ||
                        std::fabs(x - y) <= allowed;
        if (!ok) return false;
      }
  return true;
}

// Whether two results are no farther from each other, less what the reference says that they are, than both
// limits together. Where the reference says nothing, or no number, no kernel is asked.
bool parts_as_the_reference(const SharedRanges& pieces, const Ran& a, const std::vector<Truth>& ta,
                            const Ran& b, const std::vector<Truth>& tb) {
  for (std::size_t n = 0; n < pieces.size(); ++n)
    for (const SharedRange& p : pieces[n])
      for (std::int64_t i = 0; i < p.count; ++i) {
        const auto f = static_cast<std::size_t>(p.first + i), s = static_cast<std::size_t>(p.second + i);
        const double allowed = ta[n].limit[f] + tb[n].limit[s], expected = ta[n].value[f] - tb[n].value[s];
        if (std::isinf(allowed) || !std::isfinite(expected)) continue;
        // Each deviation is a difference of two numbers of few bits, rounded once in f64.
        const double x = a.outputs[n][f] - ta[n].value[f], y = b.outputs[n][s] - tb[n].value[s];
        const bool ok = std::fabs(x - y) <= allowed + (std::fabs(x) + std::fabs(y)) * 0x1p-52;
        if (!ok) return false;
      }
  return true;
}

// Whether what differs does so by no more than both limits: a NaN on one side alone does not.
bool within_limits(const SharedRanges& pieces, const Ran& a, const std::vector<Truth>& ta, const Ran& b,
                   const std::vector<Truth>& tb) {
  for (std::size_t n = 0; n < pieces.size(); ++n)
    for (const SharedRange& p : pieces[n])
      for (std::int64_t i = 0; i < p.count; ++i) {
        const auto f = static_cast<std::size_t>(p.first + i), s = static_cast<std::size_t>(p.second + i);
        const double x = a.outputs[n][f], y = b.outputs[n][s];
        if (same(x, y) || (std::isnan(x) && std::isnan(y))) continue;
        const double allowed = ta[n].limit[f] + tb[n].limit[s];
        const bool ok = std::isinf(allowed) || std::fabs(x - y) <= allowed;
        if (!ok) return false;
      }
  return true;
}

class Check {
 public:
  Check(const Law& law, const LawCall& base, Workers& workers, const InputLists& lists,
        const JudgeOptions& options)
      : law_(law), base_(base), workers_(workers), lists_(lists), options_(options) {
    result_.law = &law;
    result_.c = base.c;
  }

  LawResult of(const std::vector<std::int64_t>& points) {
    if (law_.fresh) workers_.of(base_.c.backend).worker->restart();
    first_ = ran(base_, workers_, options_);
    result_.promised = first_.promises.law(law_.name);
    if (!first_.failure.empty()) {
      result_.why = first_.failure;
      return result_;
    }
    std::map<std::int64_t, bool> agrees;
    for (const std::int64_t point : points)
      if (const auto same_bits = relation(point)) agrees[point] = *same_bits;
    if (result_.relations == 0 && result_.why.empty()) result_.why = "no relation of it can be made";
    if (!law_.axis.empty()) find_changes(agrees);
    return result_;
  }

 private:
  // Whether the relation is bitwise; nothing where it could not be tried.
  std::optional<bool> relation(std::int64_t point) {
    std::optional<Relation> r;
    try {
      r = law_.make(base_, point, lists_);
    } catch (const InputError& e) {
      if (result_.why.empty()) result_.why = e.what();
      return std::nullopt;
    }
    r->call.c.backend = base_.c.backend,
    r->call.c.variant = r->call.c.variant.empty() ? base_.c.variant : r->call.c.variant;
    if (r->restart) workers_.of(base_.c.backend).worker->restart();
    for (LawCall& earlier : r->before) {
      earlier.c.backend = base_.c.backend;
      (void)ran(earlier, workers_, options_);
    }
    const Ran second = ran(r->call, workers_, options_);
    if (!second.failure.empty()) {
      if (result_.why.empty()) result_.why = fmt::format("{}: {}", r->call.c.line(), second.failure);
      return std::nullopt;
    }
    const auto different = first_difference(r->pieces, first_, second);
    LawOutcome outcome = LawOutcome::bitwise;
    if (different || r->parts) {
      if (first_truth_.empty()) first_truth_ = truths(base_, first_);
      const std::vector<Truth> truth = truths(r->call, second);
      if (!r->parts && !holds_in_truth(r->pieces, first_truth_, truth)) {
        if (result_.why.empty())
          result_.why =
              fmt::format("{}: the reference gives other values for these parts: no relation", point);
        return std::nullopt;
      }
      const bool within =
          (r->parts ? parts_as_the_reference : within_limits)(r->pieces, first_, first_truth_, second, truth);
      outcome = !within ? LawOutcome::broken : different ? LawOutcome::within : LawOutcome::bitwise;
    }
    ++result_.relations;
    if (outcome != LawOutcome::bitwise &&
        (result_.second.empty() || (outcome == LawOutcome::broken && result_.outcome != LawOutcome::broken)))
      tell(point, *r, second, different);
    if (result_.outcome == LawOutcome::not_run || outcome > result_.outcome) result_.outcome = outcome;
    return !different;
  }

  void tell(std::int64_t point, const Relation& r, const Ran& second, const std::optional<Difference>& d) {
    std::vector<const TensorSpec*> outputs;
    for (const auto& t : base_.inputs.tensors)
      if (t.role == TensorRole::output) outputs.push_back(&t);
    result_.point = point;
    result_.second = r.call.c.line();
    result_.difference = d ? fmt::format("{}: {:.9g} and {:.9g}", position(d->first, *outputs[d->output]),
                                         first_.outputs[d->output][static_cast<std::size_t>(d->first)],
                                         second.outputs[d->output][static_cast<std::size_t>(d->second)])
                           : "every bit is the same, and the two calls multiply other operands";
  }

  // Between two neighbouring points, one of which agrees with the whole and one of which does not, something
  // changes; what lies between them is halved until the two are one apart.
  void find_changes(const std::map<std::int64_t, bool>& agrees) {
    if (agrees.empty()) return;
    for (auto at = agrees.begin(), next = std::next(at); next != agrees.end(); at = next++) {
      if (at->second == next->second) continue;
      if (result_.changes.size() == kMostChanges) {
        result_.changes.emplace_back("...");
        return;
      }
      std::int64_t low = at->first, high = next->first;
      while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        const auto there = relation(middle);
        if (!there) break;
        (*there == at->second ? low : high) = middle;
      }
      result_.changes.push_back(fmt::format("{} {} and {}", law_.axis, low, high));
    }
  }

  const Law& law_;
  const LawCall& base_;
  Workers& workers_;
  const InputLists& lists_;
  const JudgeOptions& options_;
  Ran first_;
  std::vector<Truth> first_truth_;
  LawResult result_;
};

}  // namespace

std::optional<LawResult> check_law(const Law& law, const LawCall& base, Workers& workers,
                                   const InputLists& lists, const JudgeOptions& options,
                                   std::optional<std::int64_t> only) {
  auto points = law.points(base);
  if (points.empty()) return std::nullopt;
  if (only) points = {*only};
  return Check(law, base, workers, lists, options).of(points);
}

}  // namespace assay
