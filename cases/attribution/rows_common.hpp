// What the probes of ops over rows and of the matrix product share.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/attribution/conclusion.hpp"

namespace assay::attribution {

inline void name(Attribution& a, const std::string& stage, const std::string& why) {
  a.stage = stage;
  a.support.push_back(why);
}

// Whether the case is right without something: what was taken away is what the fault needs.
inline bool passes(Bench& bench, Attribution& a, const std::vector<Change>& changes, const Edit& edit,
                   const std::string& how) {
  const Answer answer = bench.ask(changes, edit);
  if (!answer.ran) return false;
  (answer.bad ? a.against : a.support)
      .push_back(fmt::format("{}: {}", how, answer.bad ? "still wrong" : "right"));
  return !answer.bad;
}

inline bool has(const Bench& bench, std::string_view key, std::string_view other_than) {
  const auto& all = bench.the_case().attributes.all();
  const auto found = all.find(std::string(key));
  return found != all.end() && found->second != other_than;
}

// A factor that is off by more is no matter of roundings: f16 and bf16 keep 1/128. Rows whose logarithms are
// nearly alike (their squared distance from the mean, summed) show no slope.
inline constexpr double kGross = 0.01, kSpread = 0.01;

// How a wrong answer's rows are related to the truth's.
struct Rows {
  bool factor = true;   // each bad row is one factor times the truth
  bool gross = false;   // by more than a per cent
  bool sloped = false;  // log(got / truth) follows log(truth)
};
inline Rows look(const Answer& a, std::int64_t columns) {
  Rows r;
  if (a.got.empty()) {  // it ended early
    r.factor = false;
    return r;
  }
  std::size_t sloped = 0, varied = 0;
  const std::size_t n = static_cast<std::size_t>(columns);
  const auto &want = a.truths.at(0).value, &limit = a.truths[0].limit, &got = a.got.at(0);
  for (std::size_t row = 0; row + n <= want.size(); row += n) {
    double floor = -INFINITY, ceiling = INFINITY, mx = 0, my = 0, xx = 0, xy = 0, yy = 0, count = 0;
    bool bad = false;
    for (std::size_t i = row; i < row + n; ++i) {
      bad = bad || !(std::fabs(got[i] - want[i]) <= limit[i]);
      if (!(std::fabs(want[i]) > 8 * limit[i])) continue;
      const double low = (got[i] - limit[i]) / want[i], high = (got[i] + limit[i]) / want[i];
      floor = std::max(floor, std::min(low, high)), ceiling = std::min(ceiling, std::max(low, high));
      if (std::fabs(got[i] / want[i] - 1) > kGross) r.gross = true;
      if (want[i] > 0 && got[i] > 0) ++count, mx += std::log(want[i]), my += std::log(got[i] / want[i]);
    }
    if (!bad) continue;
    if (!(floor <= ceiling)) r.factor = false;
    for (std::size_t i = row; i < row + n && count >= 3; ++i) {
      if (!(want[i] > 8 * limit[i] && got[i] > 0)) continue;
      const double x = std::log(want[i]) - mx / count, y = std::log(got[i] / want[i]) - my / count;
      xx += x * x, xy += x * y, yy += y * y;
    }
    if (xx > kSpread && yy > 0) {
      ++varied;
      if (xy * xy > 0.8 * xx * yy) ++sloped;
    }
  }
  r.sloped = varied > 0 && 4 * sloped >= 3 * varied;
  return r;
}

inline std::int64_t width(const Answer& a) {
  return a.truths.at(0).value.empty()
             ? 1
             : std::ranges::find(a.tensors, a.truths[0].output, &TensorSpec::name)->shape.back();
}

// Of a case with strides of its own: whether it is right without them.
inline bool only_by_layout(Bench& bench, Attribution& a) {
  if (bench.the_case().layout == "dense" || bench.the_case().fault != "none") return false;
  const Answer dense = bench.ask({{"layout", "dense"}}, Edit{});
  if (!dense.ran || dense.bad) return false;
  name(a, "addressing", "with dense rows it is right");
  return true;
}

inline bool early(Bench& bench, Attribution& a) {
  const Status status = bench.first().verdict.status;
  if (status == Status::wrong || status == Status::distrust) return false;
  if (status == Status::crash && bench.the_case().op->name == "softmax" && !has(bench, "mask", "none")) {
    const Answer masked = bench.ask({{"mask", "random"}}, Edit{});
    if (masked.ran && masked.status == RunStatus::done) {
      name(a, "mask", "it ends with a mask, and not without one");
      return true;
    }
  }
  name(a, "addressing", fmt::format("verdict {}", to_string(status)));
  return true;
}

}  // namespace assay::attribution
