#include "cases/studies/mutants/planted.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "cases/studies/mutants/rules.hpp"
#include "reference/ops/attention/limits/bounds.hpp"
#include "reference/ops/attention/test_fills.hpp"

namespace assay::mutants {
namespace {

constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kPage = 64;

// What a defect may touch: a copy of everything that the correct kernel has.
struct Subject {
  AttentionArithmetic how;
  AttentionFill data;
  QueryRow row;
  std::int64_t marked;  // a key that matters in the fills with a needle
  bool fp8;
  bool fourteen_bits = false;  // sums of P V by chunks of 16, cut to 14 bits
};

struct Steps : AttentionSteps {
  std::int64_t keys = 0, marked = 0;
  std::function<float(std::int64_t, float)> change_weight, change_logit;
  bool count_twice = false, no_rescale = false, start_at_zero = false, no_split_weight = false;
  float initial_max() const override {
    return start_at_zero ? 0.0F : -std::numeric_limits<float>::infinity();
  }
  float logit(std::int64_t j, float x) const override { return change_logit ? change_logit(j, x) : x; }
  float weight(std::int64_t j, float w) const override {
    if (count_twice && j == marked / kPage * kPage) return 2 * w;
    return change_weight ? change_weight(j, w) : w;
  }
  float weight_in_sum(std::int64_t j, float w) const override {
    return count_twice && j == marked / kPage * kPage ? 2 * w : w;
  }
  float rescale_output(std::int64_t, float a) const override { return no_rescale ? 1.0F : a; }
  float split_weight(std::int64_t, float e) const override { return no_split_weight ? 1.0F : e; }
};

struct Defect {
  std::string_view name;
  std::string_view what;
  void (*plant)(Subject&, Steps&);
  std::int64_t split = 1;  // of the correct kernel, for a defect of the merge
};

float* key(Subject& s, std::int64_t j) { return s.data.k.data() + j * s.data.d; }
float* value(Subject& s, std::int64_t j) { return s.data.v.data() + j * s.data.dv; }
float to(std::string_view format, double x) { return static_cast<float>(round_to(scalar_format(format), x)); }

constexpr std::array<Defect, 23> kDefects = {{
    {"scale x1.01", "softmax scale 1 % too large", [](Subject& s, Steps&) { s.row.scale *= 1.01; }},
    {"missing rescale", "the output is not rescaled when the maximum rises",
     [](Subject&, Steps& t) { t.no_rescale = true; }},
    {"mask +1", "one key beyond the last visible one is seen",
     [](Subject& s, Steps&) { s.data.visible.back() = 1; }},
    {"key skipped", "one key in the middle has no weight",
     [](Subject& s, Steps& t) {
       t.change_logit = [j = s.marked](std::int64_t at, float x) {
         return at == j ? -std::numeric_limits<float>::infinity() : x;
       };
     }},
    {"V rows swapped", "two neighbouring rows of V change places",
     [](Subject& s, Steps&) {
       std::swap_ranges(value(s, s.marked), value(s, s.marked + 1), value(s, s.marked + 1));
     }},
    {"PV acc f16", "P V accumulated in f16",
     [](Subject& s, Steps&) { s.how.pv = s.fp8 ? "hopper_fp8_f16out" : "hopper_f16_f16out"; }},
    {"QK acc f16", "Q K accumulated in f16",
     [](Subject& s, Steps&) { s.how.qk = s.fp8 ? "hopper_fp8_f16out" : "hopper_f16_f16out"; }},
    {"PV single-level 14 bits", "P V accumulated in one register of 14 bits",
     [](Subject& s, Steps&) {
       if (s.fp8) {
         s.how.promote = 0;
       } else {
         s.fourteen_bits = true;
       }
     }},
    {"FNUZ on K", "K bytes read with the other bias: half of K",
     [](Subject& s, Steps&) {
       for (float& k : s.data.k) k = to(s.data.k_format, k * 0.5F);
     }},
    {"FNUZ on one V page", "one page of V read with the other bias",
     [](Subject& s, Steps&) {
       const std::int64_t first = s.marked / kPage * kPage;
       for (float* v = value(s, first); v < value(s, first + kPage); ++v) *v = to(s.data.v_format, *v * 0.5F);
     }},
    {"V scale 0.5 %", "scale of V 0.5 % too large", [](Subject& s, Steps&) { s.row.v_scale *= 1.005; }},
    {"K scale 0.5 %", "scale of K 0.5 % too large", [](Subject& s, Steps&) { s.row.scale *= 1.005; }},
    {"max starts at 0", "the running maximum starts at 0",
     [](Subject&, Steps& t) { t.start_at_zero = true; }},
    {"log2 e in f16", "log2 e rounded to f16",
     [](Subject& s, Steps&) {
       s.row.scale *= static_cast<double>(to("f16", 1.4426950408889634)) / 1.4426950408889634;
     }},
    {"32 zero keys", "32 keys of padding are seen",
     [](Subject& s, Steps&) {
       s.data.keys += 32;
       s.data.k.resize(static_cast<std::size_t>(s.data.keys * s.data.d), 0.0F);
       s.data.v.resize(static_cast<std::size_t>(s.data.keys * s.data.dv), 0.0F);
       s.data.visible.resize(static_cast<std::size_t>(s.data.keys), 1);
     }},
    {"K page swap", "two pages of K change places",
     [](Subject& s, Steps&) {
       const std::int64_t one = s.marked / kPage * kPage,
                          other = one >= 2 * kPage ? one - 2 * kPage : one + kPage;
       std::swap_ranges(key(s, one), key(s, one + kPage), key(s, other));
     }},
    {"last dim dropped", "the last product of q k is left out",
     [](Subject& s, Steps&) { s.data.q.back() = 0; }},
    {"P one format lower", "P cast to the next lower format",
     [](Subject& s, Steps& t) {
       const int shift = s.how.p_shift;
       const std::string_view format = s.fp8 ? "e5m2" : "bf16";
       t.change_weight = [=](std::int64_t, float w) {
         return static_cast<float>(std::ldexp(to(format, std::ldexp(w, shift)), -shift));
       };
     }},
    {"row sum f16", "the sum of the weights is kept in f16",
     [](Subject& s, Steps&) { s.how.rowsum = "f16"; }},
    {"merge without weights", "parts are averaged as if their maxima were equal",
     [](Subject&, Steps& t) { t.no_split_weight = true; }, 4},
    {"border key twice", "the first key of a tile is counted in both tiles",
     [](Subject&, Steps& t) { t.count_twice = true; }},
    {"logits 16 bits", "logits rounded to f16 before the maximum is subtracted",
     [](Subject& s, Steps&) { s.how.scores = "f16"; }},
    {"last key skipped", "the last visible key is not seen",
     [](Subject& s, Steps&) { s.data.visible[static_cast<std::size_t>(s.data.keys - 2)] = 0; }},
}};

// o summed in chunks of 16 keys whose running sum is cut to 14 bits: the one kernel that the emulator has no
// unit for.
void run_fourteen_bits(const Subject& s, const AttentionEmulator& emulator, std::vector<float>& out) {
  std::vector<float> scores(static_cast<std::size_t>(s.data.keys));
  emulator.scores(s.row, scores);
  const LogitModel logit(s.how, s.row);
  float top = -std::numeric_limits<float>::infinity(), sum = 0;
  std::vector<float> o(out.size(), 0.0F);
  for (std::int64_t first = 0; first < s.data.keys; first += s.how.tile) {
    const std::int64_t last = std::min(s.data.keys, first + s.how.tile);
    float high = top;
    for (std::int64_t j = first; j < last; ++j)
      if (s.row.sees(j)) high = std::max(high, logit(scores[static_cast<std::size_t>(j)], j));
    const float rescale = std::isinf(top) ? 0.0F : std::exp(top - high);
    top = high;
    sum *= rescale;
    for (float& x : o) x = truncate_e8m13(x * rescale);
    for (std::int64_t chunk = first; chunk < last; chunk += 16) {
      std::vector<double> part(o.begin(), o.end());
      for (std::int64_t j = chunk; j < std::min(last, chunk + 16); ++j) {
        if (!s.row.sees(j)) continue;
        const float w = std::exp(logit(scores[static_cast<std::size_t>(j)], j) - top);
        const double p = round_to(scalar_format("f16"), w);
        sum += w;
        for (std::size_t c = 0; c < part.size(); ++c)
          part[c] += p * s.data.v[static_cast<std::size_t>(j) * part.size() + c];
      }
      for (std::size_t c = 0; c < part.size(); ++c) o[c] = truncate_e8m13(static_cast<float>(part[c]));
    }
  }
  for (std::size_t c = 0; c < out.size(); ++c) out[c] = to("f16", o[c] / sum);
}

std::vector<double> run(const Subject& s, const Steps& steps) {
  std::vector<float> out(static_cast<std::size_t>(s.data.dv));
  const KeyValues kv = s.data.kv();
  const AttentionEmulator emulator(s.how, kv);
  QueryRow row = s.row;
  row.q = s.data.q;
  row.visible = s.data.visible;
  Subject bound = s;
  bound.row = row;
  if (s.fourteen_bits) {
    run_fourteen_bits(bound, emulator, out);
  } else {
    emulator.run(row, out, steps);
  }
  return {out.begin(), out.end()};
}

std::size_t outside(const RowBounds& r, const std::vector<double>& got) {
  std::size_t bad = 0;
  for (std::size_t c = 0; c < got.size(); ++c)
    bad += !(std::fabs(got[c] - r.centre[c]) <= r.limit[c] && r.low[c] <= got[c] && got[c] <= r.high[c]);
  return bad;
}

void add_kernel(bool fp8, const PlantedOptions& options, KillTable& table) {
  AttentionArithmetic how;
  how.qk = fp8 ? "hopper_fp8" : "hopper_f16";
  how.pv = how.qk;
  how.p = fp8 ? "e4m3fn" : "f16";
  how.out = fp8 ? "bf16" : "f16";
  how.p_shift = fp8 ? 8 : 0;
  how.tile = fp8 ? 128 : 64;
  how.promote = fp8 ? 128 : 0;
  const std::string format = fp8 ? "e4m3fn" : "f16";
  const std::string group = fp8 ? "planted fp8 P" : "planted f16 P";
  const std::size_t first_row = table.rows.size();
  for (const auto& d : kDefects) {
    KillRow row;
    row.id = fmt::format("{}: {}", fp8 ? "fp8" : "f16", d.name);
    row.group = group;
    row.place = fmt::format("attention, {} keys", options.keys);
    row.after = d.what;
    row.rules.resize(table.rules.size());
    table.rows.push_back(row);
  }
  for (const Design fill : kDesigns) {
    Subject correct;
    correct.data = attention_fill(fill, options.keys, kWidth, kWidth, format, format, format, 1);
    correct.data.visible.assign(static_cast<std::size_t>(options.keys), 1);
    correct.data.visible.back() = 0;
    correct.marked = options.keys / 3;
    correct.fp8 = fp8;
    for (const std::int64_t split : {1, 4}) {
      correct.how = how;
      correct.how.split = split;
      correct.row = correct.data.row();
      const AttentionBounds bounds(correct.how, correct.data.kv());
      const std::array<RowBounds, 2> limits{bounds.row(correct.row, AttentionLevel::ca),
                                            bounds.row(correct.row, AttentionLevel::emu)};
      const std::vector<double> counterpart = run(correct, Steps{});
      ++table.correct.runs;
      table.correct.outputs += counterpart.size();
      for (const auto& r : limits) {
        const std::size_t bad = outside(r, counterpart);
        table.correct.assay += bad;
        if (bad > 0)
          table.correct.assay_cases.push_back(
              fmt::format("{} fill {} split {}", group, to_string(fill), split));
      }
      const auto accepts = [&](std::size_t r, const std::vector<double>& got) {
        return rules()[r].accepts({limits[0].value, got, counterpart, correct.how.out, fp8, false});
      };
      std::vector<bool> usable(table.rules.size());
      for (std::size_t r = 0; r < usable.size(); ++r) {
        usable[r] = accepts(r, counterpart) && rules()[r].name != "integers";
        if (!accepts(r, counterpart)) ++table.correct.rules[r];
      }
      for (std::size_t d = 0; d < kDefects.size(); ++d) {
        if (kDefects[d].split != split) continue;
        Subject wrong = correct;
        Steps steps;
        steps.keys = options.keys, steps.marked = correct.marked;
        kDefects[d].plant(wrong, steps);
        const std::vector<double> got = run(wrong, steps);
        KillRow& row = table.rows[first_row + d];
        const auto kill = [&](Judged2& j) {
          j.all = true;
          j.gaussian = j.gaussian || fill == Design::gaussian;
        };
        if (outside(limits[0], got) + outside(limits[1], got) > 0) {
          if (!row.assay.all) row.verdict = "wrong", row.case_line = fmt::format("fill {}", to_string(fill));
          kill(row.assay);
        }
        for (std::size_t r = 0; r < usable.size(); ++r)
          if (usable[r] && !accepts(r, got)) kill(row.rules[r]);
      }
    }
  }
}

}  // namespace

void add_planted(const PlantedOptions& options, KillTable& table) {
  table.correct.rules.resize(table.rules.size(), 0);
  add_kernel(false, options, table);
  add_kernel(true, options, table);
}

}  // namespace assay::mutants
