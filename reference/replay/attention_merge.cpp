#include "reference/replay/attention_merge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "reference/replay/attention_row.hpp"
#include "reference/replay/butterflies.hpp"
#include "reference/replay/fold.hpp"
#include "reference/replay/rounding.hpp"
#include "reference/replay/special_functions.hpp"

namespace assay {
namespace {

// o / l times a scale of V, and without the power of two that weights were multiplied by.
float quotient(const AttentionSchedule& how, float o, float l, float scale = 1) {
  if (l == 0) return 0;
  const float y = how.quotient == Quotient::division ? o / l
                  : how.quotient == Quotient::approx ? div_full(o, l)
                                                     : o * (1.0f / l);
  return how.p_shift == 0 ? y * scale : y * std::ldexp(scale, -static_cast<int>(how.p_shift));
}

// m and l of a part, to base e.
std::optional<float> log_sum(const RowPart& part, float scale) {
  if (part.sum == 0) return kMinusInfinity;
  const std::optional<float> log = cuda_fast_logf(part.sum);
  if (!log) return std::nullopt;
  return std::fma(part.top, scale, *log);
}

// The weights of the parts, expf(L_s - L); false where a logarithm is not modelled.
bool weights_by_logs(const AttentionSchedule& how, std::span<const std::optional<float>> logs,
                     std::span<float> weights, float& whole) {
  float top = kMinusInfinity;
  for (const std::optional<float>& log : logs) {
    if (!log) return false;
    top = std::max(top, *log);
  }
  if (top == kMinusInfinity) top = 0;
  std::vector<float> lanes(static_cast<std::size_t>(how.merge_lanes), 0.0f);
  for (std::size_t s = 0; s < logs.size(); ++s) lanes[s % lanes.size()] += cuda_expf(*logs[s] - top);
  const float sum = LaneFold(how.merge_fold, how.merge_lanes)(lanes);
  whole = sum == 0 ? std::numeric_limits<float>::infinity() : cuda_logf(sum) + top;
  for (std::size_t s = 0; s < logs.size(); ++s) weights[s] = cuda_expf(*logs[s] - whole);
  return true;
}

FinishedRow by_logs(const AttentionSchedule& how, std::span<const RowPart> parts, float scale) {
  std::vector<std::optional<float>> logs;
  for (const RowPart& part : parts) logs.push_back(log_sum(part, scale));
  std::vector<float> weights(parts.size());
  FinishedRow row{std::vector<float>(parts[0].o.size(), 0.0f), 0, true};
  row.known = weights_by_logs(how, logs, weights, row.lse);
  if (!row.known) row.lse = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t s = 0; s < parts.size(); ++s)
    for (std::size_t c = 0; c < row.y.size(); ++c)
      row.y[c] = std::fma(weights[s], quotient(how, parts[s].o[c], parts[s].sum), row.y[c]);
  return row;
}

// merge=lanes: o and l of all parts.
void in_lanes(const AttentionSchedule& how, std::span<const RowPart> parts, std::vector<float>& o,
              RowEnd& end) {
  const Exp exp = how.merge_exp2f ? exp2_subnormal : exp_of(how.exp);
  const float shift = end.top == kMinusInfinity ? 0.0f : end.top;
  std::vector<float> lanes(static_cast<std::size_t>(how.merge_lanes), 0.0f), weights;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    weights.push_back(exp(parts[s].top - shift));
    const float product = weights.back() * parts[s].sum;
    lanes[s % lanes.size()] += product;
  }
  end.sum = LaneFold(how.merge_fold, how.merge_lanes)(lanes);
  const auto groups = static_cast<std::size_t>(how.merge_groups);
  for (std::size_t c = 0; c < o.size(); ++c) {
    o[c] = 0;
    for (std::size_t g = 0; g < groups; ++g) {
      float of_group = 0;
      for (std::size_t s = g; s < parts.size(); s += groups)
        of_group = std::fma(weights[s], parts[s].o[c], of_group);
      o[c] += of_group;
    }
  }
}

// merge=weights: likewise.
void one_by_one(const AttentionSchedule& how, std::span<const RowPart> parts, std::vector<float>& o,
                RowEnd& end) {
  const Exp exp = exp_of(how.rescale_libm ? Exponential::libm : how.exp);
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const float w = end.add(parts[s].top, parts[s].sum, s == 0, exp);
    if (s > 0 && parts[s].sum == 0) continue;
    for (std::size_t c = 0; c < o.size(); ++c) {
      const float product = w * parts[s].o[c];
      o[c] = s == 0 ? product : how.fma ? std::fma(w, parts[s].o[c], o[c]) : o[c] + product;
    }
  }
}

// deal_merge=online: likewise, to the maximum so far.
RowPart joined_online(Exp exp, std::span<const RowPart> dealt, std::span<float> o) {
  RowPart part{kMinusInfinity, 0, o};
  for (const RowPart& each : dealt) {
    const float top = std::max(part.top, each.top);
    if (top == kMinusInfinity) continue;
    const float old = exp(part.top - top), added = exp(each.top - top);
    const float l = each.sum * added;
    part.sum = std::fma(part.sum, old, l), part.top = top;
    for (std::size_t c = 0; c < o.size(); ++c) {
      const float product = each.o[c] * added;
      o[c] = std::fma(o[c], old, product);
    }
  }
  return part;
}

// merge=log2: parts that gave a quotient, rounded as the output is, and a logarithm; joined in groups, and
// these likewise.
FinishedRow by_log2(const AttentionSchedule& how, std::span<const RowPart> parts) {
  const Exp exp = exp_of(how.exp);
  const Rounded to_out(how.out);
  FinishedRow row{{}, std::numeric_limits<float>::quiet_NaN(), true};
  // A part or a group as it is stored: with a logarithm for its maximum, and a sum of 1.
  const auto stored = [&](const RowPart& part, std::vector<float>& o) {
    o.clear();
    for (const float x : part.o) o.push_back(to_out(quotient(how, x, part.sum)));
    if (part.sum == 0) return RowPart{kMinusInfinity, 0, o};
    const std::optional<float> log = lg2_approx_ftz(part.sum);
    row.known &= log.has_value();
    return RowPart{part.top + log.value_or(0), 1, o};
  };
  std::vector<RowPart> given(parts.begin(), parts.end()), taken;
  const auto groups = std::min(static_cast<std::size_t>(how.merge_groups), parts.size());
  std::vector<std::vector<float>> o_given(parts.size()), o_taken(groups + 1);
  for (std::size_t s = 0; s < parts.size(); ++s) given[s] = stored(parts[s], o_given[s]);
  const auto group = [&](std::size_t first, std::size_t step, std::vector<float>& o) {
    o.assign(parts[0].o.size(), 0.0f);
    std::vector<RowPart> of_group;
    for (std::size_t s = first; s < given.size(); s += step) of_group.push_back(given[s]);
    return joined_online(exp, of_group, o);
  };
  if (how.merge_groups > 1) {
    for (std::size_t g = 0; g < groups; ++g) taken.push_back(group(g, groups, o_taken[g]));
    given.clear();
    for (std::size_t g = 0; g < groups; ++g) given.push_back(stored(taken[g], o_given[g]));
  }
  const RowPart whole = group(0, 1, o_taken[groups]);
  for (const float x : whole.o) row.y.push_back(quotient(how, x, whole.sum));
  return row;
}

// deal: what a part was dealt to becomes the part, sums first to last.
RowPart joined(const AttentionSchedule& how, std::span<const RowPart> dealt, std::span<float> o) {
  const Exp exp = exp_of(how.exp);
  if (how.deal_online) return joined_online(exp, dealt, o);
  RowPart part{kMinusInfinity, 0, o};
  for (const RowPart& each : dealt) part.top = std::max(part.top, each.top);
  for (const RowPart& each : dealt) {
    const float w = each.top == part.top ? 1.0f : exp(each.top - part.top), l = w * each.sum;
    part.sum += l;
    for (std::size_t c = 0; c < o.size(); ++c) {
      const float product = w * each.o[c];
      o[c] += product;
    }
  }
  return part;
}

FinishedRow merged(const AttentionSchedule& how, std::span<const RowPart> given, float scale, float sink,
                   float v_scale) {
  std::vector<RowPart> parts(given.begin(), given.end());
  const std::size_t deal = static_cast<std::size_t>(how.deal), dv = given[0].o.size();
  std::vector<float> of_parts(deal > 1 ? given.size() / deal * dv : 0, 0.0f);
  if (deal > 1) {
    parts.clear();
    for (std::size_t p = 0; p < given.size() / deal; ++p)
      parts.push_back(joined(how, given.subspan(p * deal, deal), std::span(of_parts).subspan(p * dv, dv)));
  }
  if (parts.size() > 1 && how.merge == Merge::logs) return by_logs(how, parts, scale);
  if (parts.size() > 1 && how.merge == Merge::log2) return by_log2(how, parts);
  RowEnd end;
  for (const RowPart& part : parts) end.top = std::max(end.top, part.top);
  std::vector<float> o(parts[0].o.begin(), parts[0].o.end());
  if (how.merge == Merge::lanes)
    in_lanes(how, parts, o, end);
  else
    one_by_one(how, parts, o, end);
  float sunk = 1;
  if (how.sink == SinkStep::last) sunk = end.sink(sink, exp_of(Exponential::libm));
  if (how.sink == SinkStep::own) sunk = end.sink(sink, exp_of(how.exp));
  if (how.sink == SinkStep::exp2f) sunk = end.sink(sink * static_cast<float>(kLog2E), exp2_subnormal);
  FinishedRow row{std::move(o), log_sum(parts[0], scale).value_or(std::numeric_limits<float>::quiet_NaN()),
                  true};
  for (float& y : row.y) y = quotient(how, y * sunk, end.sum, how.head_scales ? v_scale : 1);
  return row;
}

}  // namespace

FinishedRow finish_row(const AttentionSchedule& how, std::span<const RowPart> parts, float scale, float sink,
                       float v_scale) {
  FinishedRow row = merged(how, parts, scale, sink, v_scale);
  if (how.unrotate != Unrotate::none) rotate_back(row.y, how.unrotate == Unrotate::ascending);
  return row;
}

}  // namespace assay
