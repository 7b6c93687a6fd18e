#include "reference/ops/admissible.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "reference/arithmetic/rule.hpp"
#include "reference/error.hpp"
#include "reference/formats/block.hpp"
#include "reference/formats/factors.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

constexpr double kUlpF16 = 0x1p-10;  // relative
constexpr double kUnit32 = 0x1p-24;
constexpr double kMoved = 4;  // u, a quotient from ours: the header derives it
constexpr float kLargest = std::numeric_limits<float>::max();

void admit_scalar(Truth& truth, const Format& to, std::span<const float> values, const Contract& contract) {
  const Coder coder(to, contract);
  parallel_rows(values.size(), 1, [&](std::size_t i) {
    bool first = true, either = false;  // either: NaN and a number are both right
    truth.limit[i] = 0;
    coder.codes(values[i], std::isnan(values[i]), [&](double code) {
      if (first) truth.value[i] = code;
      first = false;
      either |= std::isnan(code) != std::isnan(truth.value[i]);
      if (!either && !std::isnan(code) && code != truth.value[i])
        truth.limit[i] = std::max(truth.limit[i], std::fabs(code - truth.value[i]));
    });
    if (either) set_unclaimed(truth, i);
    if (std::isnan(values[i]) && !std::isnan(truth.value[i]) && coder.policy().nan == NanPolicy::propagate)
      set_unclaimed(truth, i);
  });
}

// What single moves do to a block format's numbers: see the head of admissible.hpp.
class BlockMoves {
 public:
  BlockMoves(const Format& to, std::span<const float> values, std::span<const double> radius,
             const EncodePolicy& policy, double scale_ulp, std::string_view ties)
      : to_(to),
        policy_(policy),
        knows_ties_(scale_ulp == 0 && radius.empty()),
        ties_(ties),
        reach_((kMoved + 2 * scale_ulp + 1) * kUnit32),
        values_(values.begin(), values.end()),
        radius_(radius.begin(), radius.end()),
        value_(stored(values_)),
        size_(blocks()),
        least_(blocks(), HUGE_VAL) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      size_[i / block_] = std::max(size_[i / block_], static_cast<double>(std::fabs(values_[i])));
      least_[i / block_] = std::min(least_[i / block_], static_cast<double>(values_[i]));
    }
  }

  // The limits of each element around `value`, which is set: its own change, and those of others' moves
  // added, which may come together.
  std::vector<double> limits(std::vector<double>& value) const {
    value = value_;
    std::vector<double> own(values_.size()), first(values_.size()), second(values_.size()),
        all(values_.size());
    const std::vector<std::size_t> every = every_block();
    for_each_move(values_, value_, every, [&](std::size_t i, std::size_t p, double change) {
      all[i] += change;
      if (i % block_ == p) {
        own[i] = std::max(own[i], change);
      } else if (change > first[i]) {
        second[i] = std::exchange(first[i], change);
      } else {
        second[i] = std::max(second[i], change);
      }
    });
    if (rotated()) return all;
    const std::vector<double> together = changes_of_shifts();
    for (std::size_t i = 0; i < first.size(); ++i) first[i] = std::max(first[i], together[i]);
    const std::vector<ScaleChange> scale = scale_changes(own, first);
    std::vector<double> limit(values_.size());
    for (std::size_t i = 0; i < limit.size(); ++i) {
      const auto& [by, farthest] = scale[i / block_];
      const double size = std::fabs(value_[i]), moved_by = size > 0 ? size * by : 0,  // by may be Inf
          by_first = first[i] + (has_minimum() ? second[i] : 0);
      // The extreme's own move is the scale's.
      const double apart = !has_one_scale()   ? own[i] + by_first
                           : size == farthest ? std::max(own[i], moved_by)
                                              : own[i] + moved_by;
      limit[i] = apart + rule(Rule::block_step, own[i] > 0 ? own[i] * by : 0);
      // By more than an ulp of f16 a scale changes where another element is the extreme: other signs, other
      // codes.
      if (by > 2 * kUlpF16) limit[i] = std::max(limit[i], own[i] + by_first);
    }
    add_shifted(limit);
    if (ties_ != "rule") admit_ties(limit);
    decide_ties(limit, value);
    return limit;
  }

 private:
  // D of a format whose scale is an extreme, or a range, over D; 0: of another.
  float divisor() const {
    for (const auto& [name, d] : {std::pair{"q8_0", 127.0F},
                                  {"q8_1", 127.0F},
                                  {"q4_0", -8.0F},
                                  {"q5_0", -16.0F},
                                  {"q4_1", 15.0F},
                                  {"q5_1", 31.0F}})
      if (to_.name == name) return d;
    return 0;
  }
  double largest_code() const { return divisor() < 0 ? -divisor() - 1 : divisor(); }
  // The scale of a block that every way of the header finds, where it is a power of two; 0: there is none.
  double decided_scale(std::span<const float> x) const {
    const auto [low, high] = std::ranges::minmax(x);
    double range = static_cast<double>(high) - low;
    if (!has_minimum()) {
      range = -low > high ? low : high;
      if (divisor() > 0) range = std::fabs(range);
      if (divisor() < 0 && -low == high) return 0;  // either sign
    } else if (round_f16(low) != low) {
      return 0;
    }
    const auto f32 = static_cast<float>(range);
    const float d = f32 / divisor(), inverse = divisor() / f32;
    const bool same = f32 == range && d == f32 * (1 / divisor()) && d == 1 / inverse && d * inverse == 1;
    int exponent = 0;
    return same && std::fabs(std::frexp(d, &exponent)) == 0.5F && round_f16(d) == d ? d : 0;
  }
  // The scales of OCP MX's blocks that a moved absmax keeps.
  std::vector<double> kept_scales() const {
    const auto scales = [&](std::span<const float> x) {
      std::vector<Factors> parts(x.size());
      factors(encoded(x), 0, parts);
      std::vector<double> each;
      for (std::size_t i = 0; i < parts.size(); i += block_) each.push_back(parts[i].scale);
      return each;
    };
    std::vector<double> kept = scales(values_);
    for_each_shift([&](const std::vector<float>& x) {
      const std::vector<double> other = scales(x);
      for (std::size_t b = 0; b < kept.size(); ++b)
        if (other[b] != kept[b]) kept[b] = 0;
    });
    return kept;
  }
  // Of elements half-way between two codes under a scale that is known, limit 0, or a step: see the head of
  // admissible.hpp.
  void decide_ties(std::vector<double>& limit, std::vector<double>& value) const {
    const ScalarFormat* const element = to_.name == "mxfp8"             ? &scalar_format("e4m3fn")
                                        : to_.name == "mxfp8_e5m2"      ? &scalar_format("e5m2")
                                        : to_.name.starts_with("mxfp4") ? &scalar_format("e2m1")
                                                                        : nullptr;
    if (!knows_ties_ || (element == nullptr && divisor() == 0)) return;
    const std::vector<double> kept = element != nullptr ? kept_scales() : std::vector<double>();
    for (std::size_t b = 0; b < blocks(); ++b) {
      const std::span<const float> x(values_.data() + b * block_, block_);
      const double scale = element != nullptr ? kept[b] : decided_scale(x);
      if (!(std::fabs(scale) > 0)) continue;
      const double least = has_minimum() ? *std::ranges::min_element(x) : 0;
      for (std::size_t i = b * block_; i < (b + 1) * block_; ++i) {
        const double code = (value_[i] - least) / scale, quotient = (values_[i] - least) / scale,
                     across = 2 * quotient - code;  // as far from the quotient, on its other side
        const bool is_code =
            element != nullptr ? round_to(*element, across) == across : across == std::nearbyint(across);
        if (across == code || !is_code || !std::isfinite(code)) continue;
        if (ties_ == "any") {
          limit[i] = std::max(limit[i], std::fabs((across - code) * scale));
          continue;
        }
        const bool is_other = ties_ == "even"   ? std::fmod(code, 2) != 0
                              : ties_ == "away" ? std::fabs(across) > std::fabs(code)
                                                : false;
        if (is_other && across <= largest_code()) value[i] += (across - code) * scale;
        limit[i] = 0;
      }
    }
  }

  // Another word than the rule's: where the quotient may be half-way a kernel may round it as it is, though
  // the rule adds -D + 1/2 to it in f32 first, which no move of a small one outlasts.
  void admit_ties(std::vector<double>& limit) const {
    for (std::size_t b = 0; divisor() != 0 && b < blocks(); ++b) {
      const std::span<const float> x(values_.data() + b * block_, block_);
      const auto [low, high] = std::ranges::minmax(x);
      const double least = has_minimum() ? low : 0;
      const double range = has_minimum() ? static_cast<double>(high) - low : std::max<double>(high, -low);
      const double scale = range / std::fabs(divisor()), step = round_f16(scale);
      if (!(scale > 0)) continue;
      for (std::size_t i = b * block_; i < (b + 1) * block_; ++i) {
        const double more = radius_.empty() ? 0 : radius_[i];
        const double size = has_minimum() ? std::max<double>(std::fabs(values_[i]), values_[i] - least)
                                          : std::fabs(values_[i]);
        const double quotient = (values_[i] - least) / scale,
                     off = (rule(Rule::block_move, reach_ * size) + more) / scale;
        const bool may_be_half = std::fabs(quotient - std::floor(quotient) - 0.5) <= off;
        if (may_be_half && limit[i] < step) limit[i] += step;
      }
    }
  }

  std::size_t blocks() const { return values_.size() / block_; }
  bool rotated() const { return to_.name.starts_with("tq3"); }
  // Two numbers are stored besides the codes, and x less the least element is what is divided.
  bool has_minimum() const { return to_.name == "q4_1" || to_.name == "q5_1"; }
  // An f16 scale stands alone beside the codes, and of exact elements their own moves say all of the codes.
  bool has_one_scale() const {
    return radius_.empty() && (to_.name == "q8_0" || to_.name == "q4_0" || to_.name == "q5_0");
  }
  std::vector<std::size_t> every_block() const {
    std::vector<std::size_t> every(blocks());
    std::iota(every.begin(), every.end(), std::size_t{0});
    return every;
  }
  Encoded encoded(std::span<const float> x) const {
    return encode_tensor(to_, {static_cast<std::int64_t>(x.size())}, x, policy_);
  }
  std::vector<double> stored(std::span<const float> x) const { return decode_tensor(encoded(x)); }
  bool same_block(const Encoded& a, const Encoded& b, std::size_t block) const {
    for (std::size_t p = 0; p < a.planes.size(); ++p) {
      const std::size_t n = a.planes[p].bytes.size() / blocks();
      const auto bytes = [&](const Encoded& e) { return std::span(e.planes[p].bytes).subspan(block * n, n); };
      if (!std::ranges::equal(bytes(a), bytes(b))) return false;
    }
    return true;
  }
  float moved(std::size_t i, double sign) const {
    const float x = values_[i];
    const bool mirrored = x < 0 && !rotated() && !has_minimum();  // `by` is then of x's sign
    const double more = radius_.empty() ? 0 : mirrored ? -radius_[i] : radius_[i];
    const double divided = has_minimum() ? std::max<double>(std::fabs(x), x - least_[i / block_]) : 0;
    const double by = rule(Rule::block_move, rotated()       ? 0x1p-20 * size_[i / block_]
                                             : has_minimum() ? reach_ * divided
                                                             : reach_ * x) +
                      more;
    // A finite number is read as a finite one: moved to Inf it would poison its block, which no kernel does.
    const auto to = static_cast<float>(x + sign * by);
    return std::isfinite(x) ? std::clamp(to, -kLargest, kLargest) : to;
  }

  // Every element of `x`, which are the elements of the blocks `of`, is moved alone, from its own value, or
  // by an ulp from where it is; see(element, position that moved, change from `base`).
  template <typename See>
  void for_each_move(std::vector<float> x, const std::vector<double>& base,
                     const std::vector<std::size_t>& of, See see, bool by_an_ulp = false) const {
    const std::vector<float> kept = x;
    for (std::size_t p = 0; p < block_; ++p)
      for (const double sign : {-1.0, 1.0}) {
        for (std::size_t i = p; i < x.size(); i += block_)
          x[i] = by_an_ulp ? std::clamp(std::nextafterf(x[i], static_cast<float>(sign) * HUGE_VALF),
                                        -kLargest, kLargest)
                           : moved(of[i / block_] * block_ + p, sign);
        const std::vector<double> changed = stored(x);
        for (std::size_t i = 0; i < x.size(); ++i) see(i, p, std::fabs(changed[i] - base[i]));
        for (std::size_t i = p; i < x.size(); i += block_) x[i] = kept[i];
      }
  }

  // All elements, or all of a sign, are moved together: extremes that several share.
  template <typename See>
  void for_each_shift(See see) const {
    for (const int signs : {-1, 0, 1})
      for (const double sign : {-1.0, 1.0}) {
        std::vector<float> x = values_;
        for (std::size_t i = 0; i < x.size(); ++i)
          if (signs == 0 || (signs < 0) == std::signbit(x[i])) x[i] = moved(i, sign);
        see(x);
      }
  }
  std::vector<double> changes_of_shifts() const {
    std::vector<double> most(values_.size());
    for_each_shift([&](const std::vector<float>& x) {
      const std::vector<double> changed = stored(x);
      for (std::size_t i = 0; i < x.size(); ++i)
        most[i] = std::max(most[i], std::fabs(changed[i] - value_[i]));
    });
    return most;
  }
  // Where a shift changes a block, codes that were decided may be no longer, and each element is moved again.
  void add_shifted(std::vector<double>& limit) const {
    const Encoded before = encoded(values_);
    for_each_shift([&](const std::vector<float>& x) {
      const Encoded after = encoded(x);
      std::vector<std::size_t> of;
      std::vector<float> some;
      std::vector<double> base;
      for (std::size_t b = 0; b < blocks(); ++b) {
        if (same_block(before, after, b)) continue;
        of.push_back(b);
        for (std::size_t i = b * block_; i < (b + 1) * block_; ++i)
          some.push_back(x[i]), base.push_back(value_[i]);
      }
      if (of.empty()) return;
      // By an ulp: which of several extremes is taken is another question than what a kernel's scale of it
      // is.
      for (const bool by_an_ulp : {false, true})
        for_each_move(
            some, base, of,
            [&](std::size_t i, std::size_t, double change) {
              double& own = limit[of[i / block_] * block_ + i % block_];
              own = std::max(own, change);
            },
            by_an_ulp);
    });
  }

  // By how much of itself a block's scale changes, as its element shows that is farthest from the least
  // number, or from 0, and how far that is.
  struct ScaleChange {
    double by = 0, farthest = 0;
  };
  std::vector<ScaleChange> scale_changes(const std::vector<double>& own,
                                         const std::vector<double>& first) const {
    std::vector<ScaleChange> changes(blocks());
    for (std::size_t b = 0; b < blocks(); ++b) {
      const std::span<const double> block(value_.data() + b * block_, block_);
      const double from = has_minimum() ? *std::ranges::min_element(block) : 0;
      auto& [by, farthest] = changes[b];
      for (std::size_t i = b * block_; i < (b + 1) * block_; ++i) {
        const double size = std::fabs(value_[i] - from);
        if (size < farthest || size == 0 || !std::isfinite(size)) continue;
        const double change = std::max(own[i], first[i]) / size;
        by = size > farthest ? change : std::max(by, change);
        farthest = size;
      }
    }
    return changes;
  }

  const Format& to_;
  EncodePolicy policy_;
  bool knows_ties_;
  std::string_view ties_;
  std::size_t block_ = static_cast<std::size_t>(to_.block_elements);
  double reach_;
  std::vector<float> values_;
  std::vector<double> radius_;  // how far the values may be off; empty: not at all
  std::vector<double> value_;
  std::vector<double> size_, least_;  // the absmax and the least element of each block
};

// ggml's formats of one scale, or of one and a minimum: their rule says where halves go.
bool has_ties(const Format& to) {
  return to.kind == FormatKind::block && !to.block->searched && to.name.starts_with("q");
}
// Where halves of these go: as ties= says, or round=, which is the same word for them.
std::string_view ties_of(const Format& to, const Contract& contract) {
  const std::string_view ties = contract.text("ties"), round = contract.text("round");
  if (ties != "rule" || !has_ties(to)) return ties;
  return round == "nearest_even" ? "even" : round == "nearest_away" ? "away" : "rule";
}

// Of a block format's own searches and sums nothing is known under drawn codes.
void check_rounding(const Format& to, const Contract& contract) {
  const bool groups = to.name.starts_with("int4_g32") || to.name == "int4_ch_tensor";
  const bool ruled = to.kind == FormatKind::block && !groups && !to.block->searched;
  const std::string_view ties = contract.text("ties"), round = contract.text("round");
  const bool nearest = round == "nearest_even" || round == "nearest_away";
  if (ties != "rule" && (!ruled || to.name == "iq4_nl" || to.name.starts_with("tq3")))
    throw InputError(InputErrorKind::bad_contract,
                     fmt::format("ties={} with to={}, where no rule decides them", ties, to.name));
  if ((ties == "even" || ties == "away") && !has_ties(to))
    throw InputError(
        InputErrorKind::bad_contract,
        fmt::format("ties={} with to={}, whose elements are rounded as round= says; allowed: rule|any", ties,
                    to.name));
  if (has_ties(to) && nearest && ties != "rule" && !round.ends_with(ties))
    throw InputError(
        InputErrorKind::bad_contract,
        fmt::format("round={} ties={}: two words of where the halves of {} go", round, ties, to.name));
  // Where halves go is a part of these rules as well, and no part of a search: a word that says so would
  // change nothing.
  const bool is_search = to.kind == FormatKind::block && (to.block->searched || to.name.starts_with("tq3"));
  const bool says_halves = to.name == "iq4_nl" || to.name == "mxfp4_ggml";
  if ((is_search || says_halves) && nearest)
    throw InputError(InputErrorKind::bad_contract,
                     fmt::format("round={} with to={}, whose rule says where halves go; allowed: rule{}",
                                 round, to.name, is_search ? "" : "|toward_zero"));
  if (is_search && round == "toward_zero")
    throw InputError(
        InputErrorKind::bad_contract,
        fmt::format("round=toward_zero with to={}, whose codes are searched for; allowed: rule", to.name));
  if (contract.text("round") == "stochastic" && to.kind == FormatKind::block && !groups)
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("round=stochastic with to={}: allowed are scalar formats, those with f32 scales and int4",
                    to.name));
  if ((to.name == "int4_g32_bf16" || to.name == "int4_g32_packed") && contract.text("scale_format") == "f16")
    throw InputError(
        InputErrorKind::bad_contract,
        fmt::format("scale_format=f16 with to={}, whose scales are bf16; allowed: f32|bf16, which "
                    "say the same there",
                    to.name));
  // Nor of words that these formats' own rules do not have. nvfp4's, OCP MX's elements have subnormal codes,
  // integers none.
  const bool has_subnormals = to.name.starts_with("mx") || to.name.starts_with("nvfp4");
  if (to.kind != FormatKind::block || groups) return;
  for (const auto& [word, usual, applies] : {std::tuple{"quotient", "f32", true},
                                             {"scale_format", "f32", true},
                                             {"subnormals", "keep", has_subnormals}})
    if (applies && contract.text(word) != usual)
      throw InputError(
          InputErrorKind::bad_contract,
          fmt::format("{}={} with to={}, whose rule has it {}; allowed are scalar formats, those with "
                      "f32 scales and int4",
                      word, contract.text(word), to.name, usual));
}

}  // namespace

EncodePolicy quantise_policy(const Contract& contract) {
  EncodePolicy policy;
  const std::string_view round = contract.text("round"), mx = contract.text("mx_scale");
  policy.rounding = round == "rule" || round == "nearest_even" ? Rounding::nearest_even
                    : round == "nearest_away"                  ? Rounding::nearest_away
                    : round == "stochastic"                    ? Rounding::stochastic
                                                               : Rounding::toward_zero;
  policy.overflow = contract.text("overflow") == "saturate" ? Overflow::saturate : Overflow::ieee;
  policy.nan = contract.text("nan") == "propagate" ? NanPolicy::propagate : NanPolicy::zero;
  policy.mx_scale = mx == "ceil"    ? MxScale::ceil
                    : mx == "even"  ? MxScale::even
                    : mx == "rceil" ? MxScale::rceil
                                    : MxScale::floor;
  policy.mx_reciprocal = contract.text("scale") == "reciprocal";
  return policy;
}

namespace {

// Blocks in which something else stands for what is not finite: 0, or in a format with a minimum a finite
// element.
std::vector<float> finite_alone(const Format& to, std::span<const float> values) {
  std::vector<float> x(values.begin(), values.end());
  const bool has_minimum = to.name == "q4_1" || to.name == "q5_1";
  const auto block = static_cast<std::size_t>(to.block_elements);
  for (std::size_t first = 0; first < x.size(); first += block) {
    const std::span<float> one(x.data() + first, block);
    const auto finite = std::ranges::find_if(one, [](float e) { return std::isfinite(e); });
    const float instead = has_minimum && finite != one.end() ? *finite : 0.0F;
    std::ranges::replace_if(one, [](float e) { return !std::isfinite(e); }, instead);
  }
  return x;
}

}  // namespace

void admit_block(Truth& truth, const Format& to, std::span<const float> given, std::span<const double> radius,
                 const Contract& contract) {
  EncodePolicy policy = quantise_policy(contract);
  const std::size_t block = static_cast<std::size_t>(to.block_elements);
  const bool finite_absmax = contract.text("absmax") == "finite", is_mxfp8 = to.name.starts_with("mxfp8");
  const std::vector<float> replaced = is_mxfp8 ? std::vector<float>() : finite_alone(to, given);
  const std::span<const float> values = is_mxfp8 ? given : replaced;
  const double scale_ulp = contract.number("scale_ulp");
  const std::string_view ties = ties_of(to, contract);
  if (to.name == "iq4_nl") {
    truth.value =
        decode_tensor(encode_tensor(to, {static_cast<std::int64_t>(values.size())}, values, policy));
    limit_least_squares(values, radius, policy.rounding, scale_ulp, truth.value, truth.limit);
  } else {
    truth.limit = BlockMoves(to, values, radius, policy, scale_ulp, ties).limits(truth.value);
  }
  if (to.name == "mxfp4_ggml" && rule(Rule::mx_logarithm, 1) > 0) {
    policy.mx_exact = true;
    std::vector<double> value;
    const std::vector<double> limit = BlockMoves(to, values, radius, policy, scale_ulp, ties).limits(value);
    for (std::size_t i = 0; i < values.size(); ++i)
      truth.limit[i] = std::max(truth.limit[i], std::fabs(value[i] - truth.value[i]) + limit[i]);
  }
  std::vector<char> finite(values.size() / block, 1), overflows(values.size() / block, 0);
  // ggml's exponent of an absmax whose logarithm rounds to 128: the code 4 stands for 2^128.
  if (to.name == "mxfp4_ggml")
    for (std::size_t i = 0; i < values.size(); ++i)
      if (static_cast<float>(std::log2(std::fabs(static_cast<double>(values[i])))) >= 128)
        overflows[i / block] = 1;
  for (std::size_t i = 0; i < given.size(); ++i)
    finite[i / block] = static_cast<char>(finite[i / block] != 0 && std::isfinite(given[i]));
  const bool holds_nan = is_mxfp8 && policy.nan == NanPolicy::propagate;
  const bool is_known = finite_absmax && !to.name.starts_with("tq3");  // beside what is not finite
  for (std::size_t i = 0; i < values.size(); ++i) {
    truth.limit[i] = up(truth.limit[i]);
    const double value = truth.value[i];
    if (std::isnan(given[i]) && holds_nan) {
      set_special(truth, i, std::nan(""));  // by the element or by the scale
    } else if (finite[i / block] == 0 && (!is_known || (!is_mxfp8 && !std::isfinite(given[i])))) {
      set_unclaimed(truth, i);
    } else if (finite[i / block] != 0 || !is_mxfp8) {
      if (!std::isfinite(value) || overflows[i / block] != 0) set_unclaimed(truth, i);
    } else if (!std::isfinite(value)) {
      set_special(truth, i, value);
    }
  }
}

void admit_quantised(Truth& truth, const Format& to, const Shape& shape, std::span<const float> values,
                     const Contract& contract) {
  check_rounding(to, contract);
  if (to.kind == FormatKind::scalar) return admit_scalar(truth, to, values, contract);
  if (to.name == "int4_ch_tensor" || to.name == "int4_g32_tensor")
    return admit_two_scales(truth, to, shape, values, values, contract);
  if (to.name == "int4_g32_bf16" || to.name == "int4_g32_packed")  // where a code stands is the codec's
    return admit_scaled(truth, format("int4_g32"), shape, values, contract.with("scale_format", "bf16"));
  if (to.name.starts_with("nvfp4")) return admit_nvfp4(truth, values, contract);
  if (to.kind == FormatKind::block && to.block->searched) return admit_searched(truth, to, values);
  if (to.kind == FormatKind::block) return admit_block(truth, to, values, {}, contract);
  admit_scaled(truth, to, shape, values, contract);
}

}  // namespace assay
