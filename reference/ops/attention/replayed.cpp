#include "reference/ops/attention/replayed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/formats/scaled.hpp"
#include "reference/replay/attention.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
namespace {

bool all_finite(std::span<const float> x) {
  return std::ranges::all_of(x, [](float each) { return std::isfinite(each); });
}
// Whether a kernel that decodes in f64, with a last bit or two of its own, has no other f32 than the
// reference: not so next to the middle of two.
bool is_decided(double x) {
  constexpr double kApart = 0x1p-51;
  return static_cast<float>(x * (1 - kApart)) == static_cast<float>(x * (1 + kApart));
}

// Whether a kernel may hand codes of the one format to a unit as numbers of the other, unchanged.
bool widens(const std::string& from, const std::string& to) {
  return to == "f16" && (from == "e4m3fn" || from == "e5m2");
}

// The format of K's or V's codes beside whose products a head's scale stands; its own name where it has no
// such scale.
std::string codes_of(const std::string& name) {
  const Format& f = format(name);
  const bool of_head =
      f.kind == FormatKind::scaled && (f.axis == ScaleAxis::tensor || f.axis == ScaleAxis::head);
  return of_head ? std::string(f.element) : name;
}
// The scale of a head's K or V; 1 where its format has none.
float scale_of_head(const Encoded& tensor, std::int64_t kv_head) {
  if (codes_of(tensor.format) == tensor.format) return 1;
  return stored_scale(tensor, format(tensor.format), kv_head * tensor.shape.back());
}

struct Declared {
  AttentionSchedule schedule;
  std::string k_format;  // of ReplayKeys
};

Declared declared(const std::string& text, const AttentionGeometry& g, const Contract& contract) {
  Declared d{parse_attention_schedule(text), g.k_format};
  require_attention_schedule(g, d.schedule);
  for (const auto& [key, of] : {std::pair{"qk", d.schedule.qk},
                                {"pv", d.schedule.pv},
                                {"p", d.schedule.p},
                                {"q", d.schedule.q},
                                {"p_shift", std::to_string(d.schedule.p_shift)}})
    if (contract.text(key) != of)
      refuse_contract(
          fmt::format("{}={} is declared, the schedule has {}={}", key, contract.text(key), key, of));
  if (d.schedule.out != g.dtype)
    refuse_contract(fmt::format("the schedule has out={}, the case dtype={}", d.schedule.out, g.dtype));
  const bool unit = sums_in_a_unit(d.schedule.qk) || sums_in_a_unit(d.schedule.pv);
  const std::string& q_format = d.schedule.q == "none" ? g.dtype : d.schedule.q;
  const auto is_taken = [&](const std::string& kv) { return kv == q_format || widens(kv, q_format); };
  const bool beside = d.schedule.head_scales;
  if (beside && codes_of(g.k_format) == g.k_format && codes_of(g.v_format) == g.v_format)
    refuse_contract(fmt::format("kv_scale=head, and neither k={} nor v={} has a scale of a tensor or a head",
                                g.k_format, g.v_format));
  const std::string k = beside ? codes_of(g.k_format) : g.k_format,
                    v = beside ? codes_of(g.v_format) : g.v_format;
  if (unit && (!is_taken(k) || !is_taken(v)))
    refuse_contract(
        fmt::format("k={} v={} beside q in {}; on a matrix unit a schedule has q, k and v of one format",
                    g.k_format, g.v_format, q_format));
  d.k_format = unit ? q_format : "f32";
  return d;
}

}  // namespace

void require_attention_schedule(const AttentionGeometry& g, const AttentionSchedule& schedule) {
  const auto refuse = [](const char* what) {
    throw InputError(InputErrorKind::bad_value, std::string("the schedule has no step for ") + what);
  };
  if (g.softcap != 0 && schedule.cap == CapStep::none) refuse("softcap: cap=none");
  if (g.sinks && schedule.sink == SinkStep::none) refuse("sinks: sink=none");
  if (g.alibi && !schedule.bias) refuse("alibi: bias=none");
  // Where both q and K are rotated nothing is to be done.
  if (g.rotate == RotateKind::qkv && schedule.unrotate == Unrotate::none)
    refuse("V that is stored rotated: unrotate=none");
  if (g.rotate != RotateKind::qkv && schedule.unrotate != Unrotate::none)
    refuse("V that is stored as it is: unrotate");
  if (schedule.slack > 0 && g.rows != 1) refuse("heads at several positions that move together: slack");
  constexpr std::int64_t kRuns = 4;
  if (schedule.dot_run != kRuns && g.d % (kRuns * schedule.dot_run) != 0)
    refuse("a d that runs of dot_run do not fill");
  if (schedule.q == "q8_0" && g.d % 32 != 0) refuse("blocks of q that are not whole: q=q8_0");
}

void replay_attention(Truth& truth, const AttentionProblem& problem, const AttentionProblem& asked,
                      const Contract& contract) {
  under_schedule(contract, [&](const std::string& text) {
    const AttentionGeometry& g = problem.geometry();
    const Declared d = declared(text, g, contract);
    std::vector<double> numbers;
    // Numbers, or their codes: what decodes to code times scale, exact in f64, is divided by that scale.
    // Nothing where they are not decided.
    const auto head_of = [&](std::int64_t count, std::int64_t width, float scale, bool exact,
                             const auto& decode) -> std::vector<float> {
      numbers.resize(static_cast<std::size_t>(count * width));
      decode(numbers.data());
      if (!exact &&
          !std::ranges::all_of(numbers, [](double x) { return !std::isfinite(x) || is_decided(x); }))
        return {};
      for (double& x : numbers) x /= static_cast<double>(scale);
      return std::vector<float>(numbers.begin(), numbers.end());
    };
    const auto exact = [](const std::string& name) { return format(name).decode_relative_error == 0; };
    const bool exact_v = contract.text("v_inverse") == "row" || exact(g.v_format);
    for (std::int64_t b = 0; b < g.batch; ++b)
      for (std::int64_t kv_head = 0; kv_head < g.kv_heads; ++kv_head) {
        const std::int64_t keys = problem.length(b);
        const bool beside = d.schedule.head_scales;
        const float k_scale = beside ? scale_of_head(problem.k(), kv_head) : 1,
                    v_scale = beside ? scale_of_head(problem.v(), kv_head) : 1;
        if (k_scale == 0 || v_scale == 0) continue;  // no number has its code
        const std::vector<float> k = head_of(keys, g.d, k_scale, exact(g.k_format),
                                             [&](double* to) { problem.decode_k(b, kv_head, 0, keys, to); });
        const std::vector<float> v = head_of(keys, g.dv, v_scale, exact_v,
                                             [&](double* to) { problem.decode_v(b, kv_head, 0, keys, to); });
        if (k.empty() || v.empty() || !all_finite(k) || !all_finite(v)) continue;
        const AttentionReplay replay({keys, g.d, g.dv, k, v, d.k_format});
        // Rows of one run: the positions of a head, or with slack the heads of a group at one position.
        const bool together = d.schedule.slack > 0;
        const std::int64_t first_head = kv_head * g.group(), rows_of_run = together ? g.group() : g.rows;
        for (std::int64_t head = first_head; head < first_head + (together ? 1 : g.group()); ++head) {
          const auto place = [&](std::int64_t r) {
            return together ? std::pair(std::int64_t{0}, head + r) : std::pair(r, head);
          };
          std::vector<float> q, slopes, sinks;
          std::vector<bool> finite;
          for (std::int64_t r = 0; r < rows_of_run; ++r) {
            const auto [i, of_head] = place(r);
            const std::span<const double> row = asked.q(b, i, of_head);
            finite.push_back(std::ranges::all_of(row, [](double x) { return std::isfinite(x); }));
            for (const double x : row) q.push_back(finite.back() ? static_cast<float>(x) : 0.0F);
            if (g.alibi) slopes.push_back(static_cast<float>(problem.slope(of_head)));
            if (g.sinks) sinks.push_back(static_cast<float>(problem.sink(of_head)));
          }
          if (together && std::ranges::find(finite, false) != finite.end()) continue;
          ReplayQueries queries{rows_of_run, q, g.scale};
          queries.softcap = g.softcap, queries.first = keys - g.rows, queries.heads = together;
          queries.head = head - first_head, queries.group = g.group();
          queries.slopes = slopes, queries.sinks = sinks;
          queries.k_scale = k_scale, queries.v_scale = v_scale;
          if (g.mask != MaskKind::none)
            queries.visible = [&](std::int64_t i, std::int64_t j) { return problem.visible(b, i, j); };
          const ReplayedRows rows = replay.run(d.schedule, queries);
          for (std::int64_t r = 0; r < rows_of_run; ++r)
            for (std::int64_t c = 0; c < g.dv; ++c) {
              const auto row = static_cast<std::size_t>(r);
              const auto [i, of_head] = place(r);
              const double y = static_cast<double>(rows.out[static_cast<std::size_t>(r * g.dv + c)]);
              const auto at = static_cast<std::size_t>(problem.out_index(b, i, of_head) + c);
              if (finite[row] && rows.known[row] != 0 && std::isfinite(y))
                truth.value[at] = y, truth.limit[at] = 0;
            }
        }
      }
    truth.limit_origin =
        fmt::format("reference/ops/attention: the bits of schedule={}", contract.text("schedule"));
  });
}

std::vector<ReplayStage> attention_stages(const Attributes& attributes, const TensorSet& inputs,
                                          const Contract& contract) {
  if (!is_judged_by_replay(contract)) return {};
  return under_schedule(contract, [&](const std::string& text) {
    const AttentionGeometry g = attention_geometry(attributes);
    const AttentionSchedule schedule = parse_attention_schedule(text);
    Schedule dot;
    dot.acc = schedule.qk, dot.lanes = sums_in_a_unit(schedule.qk) ? 1 : schedule.dot_lanes;
    const std::int64_t each = dot.unit() != nullptr ? dot.unit()->group : 1;
    const auto cut_q = [&inputs, g, each](std::int64_t t) {
      TensorSet set = inputs;
      set.insert_or_assign("q", *with_zeros(inputs.at("q"), [&](std::size_t at) {
                             return static_cast<std::int64_t>(at) % g.d < t * each;
                           }));
      return set;
    };
    const auto name_q = [=](std::int64_t t) {
      return "of q.k " + name_of_step(dot, g.d, (t - 1) * each, std::min(g.d, t * each)) +
             (t > 1 ? "" : "; no earlier step shows the exponential, its argument and the rescaling");
    };
    std::vector<ReplayStage> stages{{(g.d + each - 1) / each, cut_q, name_q}};
    if (!with_zeros(inputs.at("v"), [](std::size_t) { return true; })) return stages;
    const auto cut_v = [&inputs, &attributes, g, cut_q](std::int64_t t) {
      TensorSet set = cut_q(0);
      const AttentionProblem problem(attributes, inputs);
      std::vector<bool> kept(
          static_cast<std::size_t>(element_count(inputs.at("v").shape) / (g.kv_heads * g.dv)));
      for (std::int64_t b = 0; b < g.batch; ++b)
        for (std::int64_t j = 0; j < std::min(t, problem.length(b)); ++j)
          kept[static_cast<std::size_t>(problem.token(b, j))] = true;
      set.insert_or_assign("v", *with_zeros(inputs.at("v"), [&](std::size_t at) {
                             return kept[at / static_cast<std::size_t>(g.kv_heads * g.dv)];
                           }));
      return set;
    };
    const auto name_v = [=](std::int64_t t) {
      return fmt::format(
          "of p.v the value of key {} is added: key {} of tile {}{}", t - 1, (t - 1) % schedule.tile,
          (t - 1) / schedule.tile,
          t > 1 ? "" : "; no earlier step shows the row sum, the cast of the weights and the quotient");
    };
    stages.push_back({g.length, cut_v, name_v});
    return stages;
  });
}

}  // namespace assay
