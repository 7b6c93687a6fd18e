#include "harness/speed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "harness/call.hpp"
#include "reference/error.hpp"

namespace assay {
namespace {

constexpr int kRepeats = 3;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One call that is timed again and again.
struct Timed {
  Case c;
  Inputs inputs;
  RunRequest request;
  std::string path;
  double bytes = 0;
  std::vector<double> ns;  // of each round
};

struct NotRun {
  std::string why;
};

double once(Timed& call, Workers& workers, bool& on_device) {
  const RunResult run = workers.of(call.c.backend).worker->run(call.request);
  if (run.status != RunStatus::done)
    throw NotRun{fmt::format("{}: {}: {}", call.c.line(), to_string(run.status), run.reason)};
  double device = 0;
  if (run.trace.witness)
    for (const SeenKernel& kernel : run.trace.witness->kernels) device += static_cast<double>(kernel.ns);
  on_device = device > 0;
  return on_device ? device : static_cast<double>(run.trace.wall_ns);
}

Timed prepared(const Case& c, Workers& workers, const InputLists& lists, const SpeedOptions& options) {
  Timed call{c, make_inputs(c, lists), {}, {}, 0, {}};
  Workers::Entry& backend = workers.of(c.backend);
  call.request.call = make_call(c, call.inputs);
  call.request.timeout = options.timeout;
  call.request.alignment = std::max<std::size_t>(1, backend.choice.info.alignment);
  call.request.second_run = false;
  const DeclareResult declared = backend.worker->declare(call.request.call, options.timeout);
  if (declared.status != RunStatus::done)
    throw NotRun{fmt::format("{}: {}: {}", c.line(), to_string(declared.status), declared.reason)};
  call.path = declared.declaration.path;
  call.request.alignment = std::max(call.request.alignment, declared.declaration.alignment);
  for (const auto* planes : {&call.request.call.inputs, &call.request.call.outputs})
    for (const BufferPlane& plane : *planes) {
      call.bytes += static_cast<double>(plane.bytes);
      for (const ByteRange& unused : plane.unused) call.bytes -= static_cast<double>(unused.count);
    }
  // The first run is not timed: it maps memory and fills caches. What it notes of temporary memory is
  // traffic.
  const RunResult warm = backend.worker->run(call.request);
  if (warm.status != RunStatus::done)
    throw NotRun{fmt::format("{}: {}: {}", c.line(), to_string(warm.status), warm.reason)};
  for (const auto& [key, value] : warm.trace.notes)
    if (key == "temporary_bytes") call.bytes += 2 * std::strtod(value.c_str(), nullptr);
  return call;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

Case with(const Case& c, const std::string& attribute, const std::string& value) {
  return attribute.empty() ? c : partner(c, attribute + "=" + value);
}

SpeedSide side(const std::vector<Timed>& calls, std::size_t first, std::size_t count, const Case& c) {
  SpeedSide s{c.line(), calls[first].path, {}, {}};
  for (std::size_t i = first; i < first + count; ++i) {
    s.median_ns.push_back(median(calls[i].ns));
    s.bytes.push_back(calls[i].bytes);
  }
  return s;
}

std::string times(const SpeedSide& s) {
  std::string text;
  for (std::size_t i = 0; i < s.median_ns.size(); ++i)
    text += fmt::format("{}{:.4g} us ({:.3g} GB/s)", i > 0 ? ", " : "", s.median_ns[i] * 1e-3,
                        s.bytes[i] / s.median_ns[i]);
  return text;
}

// Where the two straight lines through (low, t) and (high, t) meet: from there on the one with the smaller
// slope is faster.
std::string break_even(const SpeedResult& r) {
  if (r.pair.attribute.empty()) return "";
  const double low = std::strtod(r.pair.low.c_str(), nullptr),
               high = std::strtod(r.pair.high.c_str(), nullptr);
  const double start = r.first.median_ns[0] - r.second.median_ns[0];
  const double closing = start - (r.first.median_ns[1] - r.second.median_ns[1]);
  const double meet = low + (high - low) * start / closing;
  if (!(closing > 0)) return "\n  meet   never: the second gains with " + r.pair.attribute;
  return fmt::format("\n  meet   at {} = {:.0f}", r.pair.attribute, std::max(0.0, meet));
}

}  // namespace

RatioInterval ratio_interval(std::vector<std::pair<double, double>> rounds, double confidence) {
  const std::size_t n = rounds.size();
  // k: the largest with P(Bin(n, 1/2) <= k - 1) <= 1 - confidence.
  double term = std::pow(0.5, static_cast<double>(n)), below = term;
  std::size_t k = 0;
  while (k < n && below <= 1 - confidence) {
    ++k;
    term *= static_cast<double>(n - k + 1) / static_cast<double>(k);
    below += term;
  }
  if (k == 0)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("{} rounds give no confidence of {}: at least {} are needed", n, confidence,
                                 std::ceil(-std::log2(1 - confidence))));
  std::vector<double> low, high;
  for (const auto& [a, b] : rounds) {
    const bool clear = b > 0;
    low.push_back(clear ? a / b : -kInfinity);
    high.push_back(clear ? a / b : kInfinity);
  }
  std::ranges::sort(low);
  std::ranges::sort(high);
  return {low[k - 1], low[n / 2], high[n - k]};
}

Case partner(const Case& c, const std::string& words) {
  CaseSet set = parse_case(c.line());
  for (const auto& [key, values] : parse_case(std::string(c.op->name) + " " + words, "--than").sets) {
    const auto there = std::ranges::find(set.sets, key, [](const auto& s) { return s.first; });
    if (there == set.sets.end())
      set.sets.emplace_back(key, values);
    else
      there->second = values;
  }
  const std::vector<Case> cases = expand(set, "--than");
  if (cases.size() != 1)
    throw InputError(InputErrorKind::bad_value, "--than " + words + ": one partner is possible, not a set");
  return cases[0];
}

SpeedResult compare_speed(const SpeedPair& pair, Workers& workers, const InputLists& lists,
                          const SpeedOptions& options) {
  SpeedResult result;
  result.pair = pair;
  result.allowed = options.allowed, result.confidence = options.confidence, result.rounds = options.rounds;
  (void)ratio_interval(std::vector(static_cast<std::size_t>(options.rounds), std::pair(1.0, 1.0)),
                       options.confidence);
  std::vector<Timed> calls;
  try {
    for (const Case* c : {&pair.first, &pair.second}) {
      calls.push_back(prepared(with(*c, pair.attribute, pair.low), workers, lists, options));
      if (!pair.attribute.empty())
        calls.push_back(prepared(with(*c, pair.attribute, pair.high), workers, lists, options));
    }
    std::vector<std::size_t> order(calls.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::mt19937_64 draw(options.seed);
    std::vector<bool> device(calls.size());
    for (int round = 0; round < options.rounds; ++round) {
      std::ranges::shuffle(order, draw);
      for (const std::size_t i : order) {
        double least = kInfinity;
        for (int repeat = 0; repeat < kRepeats; ++repeat) {
          bool on_device = false;
          least = std::min(least, once(calls[i], workers, on_device));
          device[i] = on_device;
        }
        calls[i].ns.push_back(least);
      }
    }
    result.on_device = device[0];
    if (std::ranges::count(device, device[0]) != std::ssize(device))
      throw NotRun{"one of the two was timed on the device and the other was not: they cannot be compared"};
  } catch (const NotRun& n) {
    result.why = n.why;
    return result;
  }
  const std::size_t points = calls.size() / 2;
  const auto of = [&](std::size_t first, auto member) {
    return points == 1 ? member(calls[first]) : member(calls[first + 1]) - member(calls[first]);
  };
  std::vector<std::pair<double, double>> rounds;
  for (std::size_t r = 0; r < static_cast<std::size_t>(options.rounds); ++r) {
    const auto ns = [r](const Timed& t) { return t.ns[r]; };
    rounds.emplace_back(of(0, ns), of(points, ns));
  }
  const auto bytes = [](const Timed& t) { return t.bytes; };
  result.expected = of(0, bytes) / of(points, bytes);
  result.ratio = ratio_interval(std::move(rounds), options.confidence);
  result.first = side(calls, 0, points, pair.first);
  result.second = side(calls, points, points, pair.second);
  return result;
}

std::string describe(const SpeedResult& r) {
  const std::string_view verdict = !r.why.empty()  ? "not run"
                                   : r.slower()    ? to_string(Status::slower)
                                   : r.no_slower() ? "no slower"
                                                   : "not shown";
  std::string text = fmt::format("{} {}\n  than   {}\n", verdict, r.pair.first.line(), r.pair.second.line());
  if (!r.why.empty()) return text + "  why    " + r.why + "\n";
  const std::string per = r.pair.attribute.empty() ? "the time" : "the slope over " + r.pair.attribute;
  text += fmt::format(
      "  what   {:.3g} x {} ({:.3g} .. {:.3g}, each end at {:.5g} %, {} interleaved rounds); allowed {:.3g} "
      "x\n",
      r.ratio.median, per, r.ratio.low, r.ratio.high, 100 * r.confidence, r.rounds, r.allowed);
  text += fmt::format("  moved  {:.4g} x the bytes: {:.6g} and {:.6g}{}\n", r.expected, r.first.bytes.back(),
                      r.second.bytes.back(), r.pair.attribute.empty() ? "" : " at " + r.pair.high);
  text += fmt::format("  times  {} and {}: {}{}\n", times(r.first), times(r.second),
                      r.on_device ? "on the device" : "of the call", break_even(r));
  text += fmt::format("  path   {} and {}\n", r.first.path, r.second.path);
  return text;
}

}  // namespace assay
