// The schedule of an op on rows: everything that decides the bits of softmax, logsumexp, rmsnorm, layernorm
// or wht, as one line of text. Words of the op's steps, and for each of its sums a schedule (schedule.hpp)
// behind a prefix:
//
//   exp=libm quotient=reciprocal sum.acc=f32 sum.lanes=8
//   mean=division root=inverse product=x_inv_gamma squares.acc=f32 squares.fma=yes squares.lanes=32
//   squares.tail=vector:16
//
//   softmax    e_i = exp(x_i - max x); y_i = e_i (1 / sum e) or e_i / sum e (`quotient`).
//              A call with a temperature t, a softcap c, a mask or sinks s has these steps too, each of which
//              a word names: x / t (`temperature`); then c tanh(x / c) (`cap`); hidden logits have y = 0, and
//              in the sum no place or a 0 in theirs (`hidden`); exp(s - max) is added to the sum of the lanes
//              (`sink`)
//   logsumexp  y = max x + log(sum e)
//   rmsnorm    v = (sum x^2) / n (`mean`); f = 1 / sqrt(v + eps) (`root`); y_i = x_i f gamma_i (`product`)
//   layernorm  m = (sum x) / n; v = (sum (x - m)^2) / n, or as `variance` says; y_i = (x_i - m) f gamma_i +
//              beta_i (`shift`), or with x_i f - m f for the first factor (`centre`).
//              Running moments (moments_schedule.hpp) are divided by n: variance=welford moments.lanes=8
//              moments.chunk=16
//   wht        butterflies of neighbours first or of halves first (`stages`), and where the factor stands
//              (`scale`)
// All steps are in f32, each rounded, but where a word says otherwise; a sum in f64 is divided as it is. The
// store rounds last.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/replay/moments_schedule.hpp"
#include "reference/replay/schedule.hpp"

namespace assay {

// `ops`: the ops whose schedules have the key. Its first word is the fallback; a fallback of none is a step
// that most calls do not have, and is not printed.
struct RowScheduleKey : KeySpec {
  std::string_view ops;
};
constexpr RowScheduleKey row_key(std::string_view name, std::string_view ops, std::string_view words,
                                 std::string_view meaning, std::string_view needs = {}) {
  return {{name, KeyKind::word, words.substr(0, words.find('|')), words, meaning, {}, needs}, ops};
}
inline constexpr std::array kRowScheduleKeys = {
    row_key("variance", "layernorm", "two_pass|one_pass|welford",
            "squares of x - m; of x, less m^2 and held at 0; running, as moments say"),
    row_key("exp", "softmax|logsumexp", "libm|taylor7|taylor7_mul|sleef|degree5|arm|nearest|cuda_expf|ex2",
            "the exponential: exponentials.hpp"),
    row_key("temperature", "softmax", "none|division|reciprocal", "x / t, or x times a rounded 1 / t"),
    row_key("cap", "softmax", "none|libm|libm_reciprocal|nearest|nearest_reciprocal",
            "tanh by this machine's C library or rounded once; of x / c, or of x times a rounded 1 / c"),
    row_key("hidden", "softmax", "none|closed|zero", "logits behind a mask take no lane, or a 0 in theirs"),
    row_key("sink", "softmax", "none|libm|own|libm_keys|own_keys",
            "its exp by this machine's C library or as the others; keys: the maximum is that of the keys"),
    row_key("quotient", "softmax", "reciprocal|division|approx", "e (1 / sum), e / sum, e rcp.approx(sum)"),
    row_key("log", "logsumexp", "libm|nearest", "this machine's C library's, or rounded once"),
    row_key("mean", "rmsnorm|layernorm", "division|reciprocal|approx|approx_fma",
            "sum / n; the sum times a rounded 1 / n, or times rcp.approx(n), and of squares eps in "
            "the same rounding"),
    row_key("root", "rmsnorm|layernorm", "inverse|quotient|nearest|rsqrt|approx",
            "1 / sqrt(v) in two roundings; x / sqrt(v); 1 / sqrt(v) in one rounding; "
            "rsqrt.approx(v); rcp.approx(sqrt.approx(v))"),
    row_key("product", "rmsnorm|layernorm", "x_inv_gamma|x_gamma_inv|inv_gamma_x",
            "(x f) gamma, (x gamma) f, x (f gamma)"),
    row_key("centre", "layernorm", "difference|product|product_fma",
            "x - m first, or x f - m f, fma: in one rounding behind that of m f",
            "product=x_inv_gamma root!=quotient"),
    row_key("shift", "layernorm", "add|fma", "whether the last product and beta are one rounding"),
    row_key("stages", "wht", "ascending|descending", "butterflies over 1, 2, 4, ... or over n/2, ..., 1"),
    row_key("scale", "wht", "last|first|each",
            "a factor 1 / sqrt(n) behind or before the stages, or 1 / sqrt(2) in each"),
};

struct RowSchedule {
  std::string op = "softmax";
  std::array<std::uint8_t, kRowScheduleKeys.size()> choice{};  // index of each key's word
  Schedule sum;                                                // of the exponentials; of x
  Schedule squares;                                            // of x^2 or (x - m)^2
  MomentsSchedule moments = {};                                // of variance=welford
  bool operator==(const RowSchedule&) const = default;

  std::string_view word(std::string_view key) const;
  // The same with another word. Throws InputError unknown_name or bad_value.
  RowSchedule with(std::string_view key, std::string_view word) const;
  bool has_sum() const;
  bool has_squares() const;
  bool has_moments() const;
  // Whether its words go together: a centre of products is a step of x f alone.
  bool is_possible() const;
};

bool has_row_schedule(std::string_view op);
std::vector<std::string_view> row_words(const RowScheduleKey& key);
// The keys of one op.
std::vector<const RowScheduleKey*> row_keys(std::string_view op);

// Keys that are left out have their fallbacks. Throws InputError unknown_name or bad_value.
RowSchedule parse_row_schedule(std::string_view op, std::string_view text);
// Canonical: every word of the op but none, then its sums. parse(print(s)) == s.
std::string print_schedule(const RowSchedule& schedule);

}  // namespace assay
