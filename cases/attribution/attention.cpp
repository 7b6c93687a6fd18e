// The probes of attention. They are put to the same kernel (variant, formats as far as it needs them) at a
// plain shape, and each leaves all stages but few with nothing to do wrong, so that what fails names them:
//
//   equal     q = 0, V one-hot       every key weighs 1/n: addressing, mask; the quotient
//   values    q = 0, V of many bits  PV
//   first     logits of one product, falling, in the first tile alone, V one-hot: scale, exp, cast of
//             weights, row sum
//   ones      the same logits, V = 1 whether sum above and below the bar of the quotient are of the same
//             weights
//   parts     one key in each part of a split: the merge
//   rising    a new maximum in every tile: maximum, rescale
//   spread    logits of many products: QK
//
// Then what the case has besides (sinks, slopes, softcap, mask, pages, formats, rotation) is added to the
// plain shape, one at a time; and at last logits far from 0, and the data as given. A one-hot V has V[j, c] =
// 1 where j mod dv = c, so that column c of the output is the weight of key c.
#include "cases/attribution/attention_probes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace assay::attribution {

void Attention::run() {
  const Status status = bench_.first().verdict.status;
  if (bench_.original().got.empty() || (status != Status::wrong && status != Status::distrust))
    return early();
  if (!questions_.find_plain()) return;
  if (plain()) return;
  support("at a plain shape every stage is right");
  if (features()) {
    a_.decided = true;
    return;
  }
  if (status == Status::wrong && bench_.the_case().fault == "none" && attention_reads_others(bench_, g_)) {
    a_.decided = true;
    return name("addressing", "the worst row is right where all rows, heads and sequences have its numbers");
  }
  // Two blocks of q and more tell the codec of one from their sum.
  if (questions_.converts_q)
    (void)questions_.ask({{"k", g_.k_format}, {"d", "128"}, AttentionQuestions::few_keys()}, Logits::spread,
                         Rows::one_hot);
  if (status == Status::distrust) return;  // its own data show nothing
  if (extremes()) return;
  const auto left_out = attention_simplified(bench_, questions_, a_);
  if (!left_out) return;
  questions_.at_own_shape(*left_out);
  if (plain()) return support("so at the case's own shape");
  if (questions_.split > 1 && bad({}, Logits::spread, Rows::one_hot))
    return name("merge", "few keys, one part: every stage is right; all of them, in parts: not");
  attention_as_given(bench_, questions_, *left_out, a_);
}

bool Attention::plain() {
  const Answer equal = questions_.ask({}, Logits::equal, Rows::one_hot);
  if (equal.ran && equal.bad && questions_.own_shape() &&
      (equal.attributes.text("mask") != "none" || equal.attributes.text("lengths") != "full"))
    return masked_weights(equal), true;
  if (equal.ran && equal.bad && wrong_alone())
    return name("codec", "the kernel takes V in codes alone, and a single key's V is wrong"), true;
  if (equal.ran && equal.bad) return equal_weights(equal), true;
  const Answer values = questions_.ask({AttentionQuestions::few_keys()}, Logits::equal, Rows::many_bits);
  if (values.ran && values.bad) {
    if (look_at_weights(values).other_row)
      return name("addressing", "a row is the mean of another head's V"), true;
    if (wrong_alone())
      return name("codec", "the kernel takes V in codes alone, and a single key's V is wrong"), true;
    const Answer ones = questions_.ask({AttentionQuestions::few_keys()}, Logits::equal, Rows::ones);
    if (ones.ran && ones.bad && !some_columns_right(ones))
      return questions_.split > 3 && right({}, Logits::equal, Rows::ones)
                 ? name("merge",
                        "a part without keys weighs something: where each has some, weights add up to 1")
                 : name("row_sum", "equal weights of three keys do not add up to 1"),
             true;
    if (questions_.own_shape() && g_.v_format != "f32" &&
        right({{"v", "f32"}, AttentionQuestions::few_keys()}, Logits::equal, Rows::many_bits))
      return name("codec", "equal weights: with V in f32 it is right"), true;
    return name("pv", "equal weights: sums of V of many bits are wrong"), true;
  }
  const Answer first =
      questions_.ask({AttentionQuestions::few_keys(), questions_.own_width()}, Logits::first, Rows::one_hot);
  if (first.ran && first.bad) return first_tile(first), true;
  if (questions_.split > 1) {
    const Answer parts = questions_.ask({questions_.parted_keys()}, Logits::parts, Rows::one_hot);
    if (parts.ran && parts.bad)
      return name("merge", "one key in each part of the split is weighed wrongly"), true;
  }
  const Answer spread = questions_.ask({AttentionQuestions::few_keys()}, Logits::spread, Rows::one_hot);
  if (spread.ran && spread.bad) {
    if (look_at_weights(spread).other_row)
      return name("addressing", "a row has the weights of another head"), true;
    if (questions_.split > 1) {
      const Answer alike = questions_.ask({{"len", "4"}}, Logits::spread_alike, Rows::one_hot);
      if (alike.ran && !alike.bad)
        return name("merge", "parts that are alike are merged rightly, others are not"), true;
    }
    if (questions_.converts_q) {
      const Answer codes =
          questions_.ask({AttentionQuestions::few_keys()}, Logits::spread_of_codes, Rows::one_hot);
      if (codes.ran && !codes.bad)
        return name("codec", "a q that is its own codes is right, another is not"), true;
    }
    if (questions_.own_shape() && g_.k_format != "f32" &&
        right({{"k", "f32"}, AttentionQuestions::few_keys()}, Logits::spread, Rows::one_hot))
      return name("codec", "with K in f32 it is right"), true;
    if (wrong_at_last())
      return name("codec", "K is stored in codes, and a logit of one product at the last dimension is wrong"),
             true;
    return name("qk", "logits of one product give right weights, logits of many do not"), true;
  }
  Answer rising =
      questions_.ask({{"len", fmt::format("{}", std::min<std::int64_t>(100, questions_.tile + 3))}},
                     Logits::rising, Rows::one_hot);
  if (!rising.bad) rising = questions_.ask({}, Logits::rising, Rows::one_hot);
  if (rising.ran && rising.bad && only_small(rising))
    return left_out_below_a_format(rising)
               ? name("p_cast",
                      "weights below the smallest number of a format are left out, others are right")
               : name("pv", "small weights are left out, others are right"),
           true;
  if (rising.ran && rising.bad && look_at_weights(rising).exchanged)
    return name("addressing", "the weights are right, and meet other keys' V"), true;
  if (rising.ran && !rising.bad && questions_.own_shape())
    rising = questions_.ask({}, Logits::rising, Rows::many_bits);
  if (rising.ran && rising.bad && off_by_part(rising))
    return name("merge", "the weights are off by factors that are alike for neighbours, one for each part"),
           true;
  if (rising.ran && rising.bad)
    return name("rescale",
                "a maximum that rises in every tile gives wrong weights, one that does not right ones"),
           true;
  const Answer low = questions_.ask({AttentionQuestions::few_keys()}, Logits::low, Rows::one_hot);
  if (low.ran && low.bad)
    return name(questions_.split > 1 ? "merge" : "max", "equal logits far below 0 give wrong weights"), true;
  return false;
}

bool Attention::bad(const std::vector<Change>& changes, Logits logits, Rows rows) {
  const Answer a = questions_.ask(changes, logits, rows);
  return a.ran && a.bad;
}

bool Attention::right(const std::vector<Change>& changes, Logits logits, Rows rows) {
  const Answer a = questions_.ask(changes, logits, rows);
  return a.ran && !a.bad;
}

bool Attention::wrong_alone() {
  return questions_.in_codes("v") && (bad({{"len", "1"}}, Logits::equal, Rows::many_bits) ||
                                      bad({AttentionQuestions::few_keys()}, Logits::alone, Rows::many_bits));
}

// Codes of K are read one by one right at the first dimension and wrong at the last, which a sum of them
// would not lose.
bool Attention::wrong_at_last() {
  if (!questions_.in_codes("k")) return false;
  const Answer last = questions_.ask({AttentionQuestions::few_keys()}, Logits::first_at_last, Rows::one_hot);
  return last.ran && last.bad && !AttentionQuestions::all_alike(last);
}

bool Attention::codec_differs(const Weights& w) {
  if (!questions_.stored_in_codes()) return false;
  const Answer own =
      questions_.ask({{"k", g_.k_format}, {"v", g_.v_format}, {"d", "64"}}, Logits::equal, Rows::one_hot);
  if (!own.ran || own.got.empty()) return false;
  const Weights o = look_at_weights(own);
  if (w.uniform == o.uniform && w.missing == o.missing && w.extra == o.extra &&
      w.keys.size() == o.keys.size())
    return false;
  name("codec", "with K and V in their own formats it is wrong in another way");
  return true;
}

void Attention::equal_weights(const Answer& equal) {
  if (equal.got.empty())
    return questions_.stored_in_codes() ? name("codec", "with plain K and V the kernel does not end")
                                        : name("addressing", "at a plain shape the kernel does not end");
  const Weights w = look_at_weights(equal);
  if (codec_differs(w)) return;
  if (!w.finite) {
    const Answer values = questions_.ask({AttentionQuestions::few_keys()}, Logits::equal, Rows::many_bits);
    if (values.ran && !values.not_finite)
      return name("pv", "zeros in V leave no finite number, other numbers do");
    const Answer spread = questions_.ask({AttentionQuestions::few_keys()}, Logits::spread, Rows::one_hot);
    if (spread.ran && !spread.not_finite)
      return questions_.all_alike(spread)
                 ? name("scale", "q = 0 leaves no finite number, another q equal weights: a softcap of 0")
                 : name("qk", "q = 0 leaves no finite number, another q does");
    return;
  }
  if (questions_.split > 1 && (w.missing || w.gross)) {
    const Answer one = questions_.ask({AttentionQuestions::few_keys()}, Logits::first, Rows::one_hot);
    if (one.ran && !one.bad) return name("merge", "a single part of the split is right, equal ones are not");
  }
  const Answer parts = questions_.split > 1
                           ? questions_.ask({questions_.parted_keys()}, Logits::parts, Rows::one_hot)
                           : Answer{};
  if (w.missing || w.extra) {
    const Answer values = questions_.ask({}, Logits::equal, Rows::many_bits);
    if (!questions_.own_shape() && values.ran && some_columns_right(values))
      return name("pv", "some columns of V are summed rightly, others are not");
    const auto& got = equal.got[0];
    const bool none = std::ranges::none_of(got, [](double x) { return std::fabs(x) > kGross / kKeys; });
    if (none) return name("mask", "no key has a weight: all are hidden, or all numbers lost");
    if (w.at_edge && some_twice_for_others(equal))
      return name("addressing",
                  "keys at an end have no weight, and others theirs twice: V is read elsewhere");
    if (w.at_edge && w.kept_right && !w.extra && questions_.split == 1) return lost_from_values(equal);
    return w.at_edge ? name("mask", "keys at an end of the sequence have no weight")
                     : name("addressing", "with equal logits other keys have the weights");
  }
  if (parts.ran && parts.bad) {
    const Answer one = questions_.ask({AttentionQuestions::few_keys()}, Logits::first, Rows::one_hot);
    if (one.ran && (!one.bad || look_at_weights(one).uniform))
      return name("merge", "one key in each part of the split is weighed wrongly");
  }
  if (!w.uniform) {
    const Answer one = questions_.ask({AttentionQuestions::few_keys()}, Logits::first, Rows::one_hot);
    if (one.ran && one.bad && !counted_twice(equal)) return first_tile(one);
    if (off_by_part(equal))
      return name("merge", "equal weights are off by factors, one for each part of the split");
    a_.against.push_back("equal weights are off, and not by one factor");
    return name("addressing", "with equal logits some keys count more than once");
  }
  const Answer ones = questions_.ask({}, Logits::equal, Rows::ones);
  if (ones.ran && !ones.bad) return name("output", "1/n is wrong, and n times it is right");
  if (!w.gross && counts_more(equal))
    return name("row_sum", "equal weights are 1 / (n + k), with one whole k");
  if (w.gross) {
    const Answer low = questions_.ask({AttentionQuestions::few_keys()}, Logits::low, Rows::one_hot);
    if (low.ran && low.bad && look_at_weights(low).missing)
      return name("mask", "logits of 0 beside the keys' own take part: far below them nothing is left");
    return name("row_sum", "equal weights are off by one factor");
  }
  name("output", "equal weights of an exact sum are off by one small factor");
}

void Attention::first_tile(const Answer& first) {
  if (first.got.empty()) return;
  const Weights w = look_at_weights(first);
  if (w.other_row) return name("addressing", "a row has the weights of another head");
  if (!w.finite) return name("qk", "falling logits leave no finite weight");
  constexpr double kBase2 = -0.30685281944;  // exp2(x) = exp(x)^(1 - 0.307)
  if (w.sloped) {
    a_.what = fmt::format("scale: logits are {:.6g} times what they are", 1 + w.slope);
    if (std::fabs(w.slope - kBase2) < kGross) return name("exp", "weights are powers of 2, not of e");
    if (w.slope < -0.999) return name("qk", "falling logits give equal weights");
    return name("scale", "the error of log(weight) grows with the logit");
  }
  if (questions_.casts_weights && (!w.gross || within_a_cast(first)))
    return name("p_cast", "weights are off by roundings, and the contract casts them");
  if (questions_.converts_q && !w.uniform)
    return name("qk", "logits of one product give wrong weights, and q is converted");
  const Answer ones =
      questions_.ask({AttentionQuestions::few_keys(), questions_.own_width()}, Logits::first, Rows::ones);
  if (ones.ran && !ones.bad) {
    if (w.uniform) return name("output", "small weights are off, their sum is not");
    if (right({AttentionQuestions::few_keys(), questions_.own_width()}, Logits::first_of_few_bits,
              Rows::one_hot))
      return name("qk", "with K of eight bits the weights are right: an operand is rounded");
    return name("exp", "weights are off, and so is their sum");
  }
  if (w.uniform) {
    const Answer parts = questions_.split > 1
                             ? questions_.ask({questions_.parted_keys()}, Logits::parts, Rows::one_hot)
                             : Answer{};
    if (parts.ran && parts.bad) return name("merge", "one key in each part of the split is weighed wrongly");
    return name("row_sum", "all weights of a row are off by one factor");
  }
  name("pv", "weights enter PV otherwise than they enter the sum");
}

void attribute_attention(Bench& bench, Attribution& a) { Attention(bench, a).run(); }

}  // namespace assay::attribution
