// The probes of attention. They are put to the same kernel (variant, formats as far as it needs them) at a plain shape, and
// each leaves all stages but few with nothing to do wrong, so that what fails names them:
//
//   equal     q = 0, V one-hot       every key weighs 1/n: addressing, mask; the quotient
//   values    q = 0, V of many bits  PV
//   first     logits of one product, falling, in the first tile alone, V one-hot: scale, exp, cast of weights, row sum
//   ones      the same logits, V = 1 whether sum above and below the bar of the quotient are of the same weights
//   parts     one key in each part of a split: the merge
//   rising    a new maximum in every tile: maximum, rescale
//   spread    logits of many products: QK
//
// Then what the case has besides (sinks, slopes, softcap, mask, pages, formats, rotation) is added to the plain shape, one at
// a time; and at last logits far from 0, and the data as given. A one-hot V has V[j, c] = 1 where j mod dv = c, so that column
// c of the output is the weight of key c.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cases/attribution/attention_questions.hpp"
#include "cases/attribution/conclusion.hpp"

namespace assay::attribution {
namespace {

class Attention {
 public:
  Attention(Bench& bench, Attribution& a) : bench_(bench), a_(a), questions_(bench), g_(questions_.g) {}

  void run() {
    const Status status = bench_.first().verdict.status;
    if (bench_.original().got.empty() || (status != Status::wrong && status != Status::distrust))
      return early();
    if (!questions_.find_plain()) return;
    if (plain()) return;
    support("at a plain shape every stage is right");
    if (features()) return;
    // Two blocks of q and more tell the codec of one from their sum.
    if (questions_.converts_q)
      (void)questions_.ask({{"k", g_.k_format}, {"d", "128"}, AttentionQuestions::few_keys()}, Logits::spread,
                           Rows::one_hot);
    if (status == Status::distrust) return;  // its own data show nothing
    if (extremes()) return;
    attention_as_given(bench_, questions_, a_);
  }

 private:
  bool plain() {
    const Answer equal = questions_.ask({}, Logits::equal, Rows::one_hot);
    if (equal.ran && equal.bad) return equal_weights(equal), true;
    const Answer values = questions_.ask({AttentionQuestions::few_keys()}, Logits::equal, Rows::many_bits);
    if (values.ran && values.bad) {
      if (look_at_weights(values).other_row)
        return name("addressing", "a row is the mean of another head's V"), true;
      return name("pv", "equal weights: sums of V of many bits are wrong"), true;
    }
    const Answer first = questions_.ask({AttentionQuestions::few_keys(), questions_.own_width()},
                                        Logits::first, Rows::one_hot);
    if (first.ran && first.bad) return first_tile(first), true;
    if (questions_.split > 1) {
      const Answer parts = questions_.ask({AttentionQuestions::few_keys()}, Logits::parts, Rows::one_hot);
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
      return name("qk", "logits of one product give right weights, logits of many do not"), true;
    }
    Answer rising =
        questions_.ask({{"len", fmt::format("{}", std::min<std::int64_t>(100, questions_.tile + 3))}},
                       Logits::rising, Rows::one_hot);
    if (!rising.bad) rising = questions_.ask({}, Logits::rising, Rows::one_hot);
    if (rising.ran && rising.bad) {
      where_keys(look_at_weights(rising));
      return name("rescale",
                  "a maximum that rises in every tile gives wrong weights, one that does not right ones"),
             true;
    }
    const Answer low = questions_.ask({AttentionQuestions::few_keys()}, Logits::low, Rows::one_hot);
    if (low.ran && low.bad)
      return name(questions_.split > 1 ? "merge" : "max", "equal logits far below 0 give wrong weights"),
             true;
    return false;
  }

  // A kernel that is wrong in another way with K and V in formats of their own: its codec is what differs.
  bool codec_differs(const Weights& w) {
    if (!questions_.stored_in_codes()) return false;
    const Answer own =
        questions_.ask({{"k", g_.k_format}, {"v", g_.v_format}, {"d", "64"}}, Logits::equal, Rows::one_hot);
    if (!own.ran || own.got.empty()) return false;
    const Weights o = look_at_weights(own);
    if (w.uniform == o.uniform && w.missing == o.missing && w.extra == o.extra &&
        w.keys.size() == o.keys.size())
      return false;
    column_range(own);
    name("codec", "with K and V in their own formats it is wrong in another way");
    return true;
  }

  void equal_weights(const Answer& equal) {
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
      if (one.ran && !one.bad)
        return name("merge", "a single part of the split is right, equal ones are not");
    }
    const Answer parts = questions_.split > 1
                             ? questions_.ask({AttentionQuestions::few_keys()}, Logits::parts, Rows::one_hot)
                             : Answer{};
    if (w.missing || w.extra) {
      where_keys(w);
      const Answer values = questions_.ask({}, Logits::equal, Rows::many_bits);
      if (values.ran && some_columns_right(values))
        return name("pv", "some columns of V are summed rightly, others are not");
      if (w.missing && std::cmp_equal(w.keys.size(), 100))
        return name("mask", "no key has a weight: all are hidden, or all numbers lost");
      return w.at_edge ? name("mask", "keys at an end of the sequence have no weight")
                       : name("addressing", "with equal logits other keys have the weights");
    }
    if (parts.ran && parts.bad) {
      const Answer one = questions_.ask({AttentionQuestions::few_keys()}, Logits::first, Rows::one_hot);
      if (one.ran && (!one.bad || look_at_weights(one).uniform))
        return name("merge", "one key in each part of the split is weighed wrongly");
    }
    if (!w.uniform) {
      a_.against.push_back("equal weights are off, and not by one factor");
      return name("addressing", "with equal logits some keys count more than once");
    }
    const Answer ones = questions_.ask({}, Logits::equal, Rows::ones);
    if (ones.ran && !ones.bad) return name("output", "1/n is wrong, and n times it is right");
    if (w.gross) return name("row_sum", "equal weights are off by one factor");
    name("output", "equal weights of an exact sum are off by one small factor");
  }
  static bool some_columns_right(const Answer& a) {
    if (a.got.empty()) return false;
    std::vector<bool> off(128, false);
    for (std::size_t i = 0; i < a.got[0].size(); ++i)
      if (!(std::fabs(a.got[0][i] - a.truths[0].value[i]) <= a.truths[0].limit[i])) off[i % 128] = true;
    const auto wrong = std::ranges::count(off, true);
    return wrong > 0 && wrong < 120;
  }

  void first_tile(const Answer& first) {
    if (first.got.empty()) return;
    const Weights w = look_at_weights(first);
    where_keys(w);
    if (w.other_row) return name("addressing", "a row has the weights of another head");
    if (!w.finite) return name("qk", "falling logits leave no finite weight");
    constexpr double kBase2 = -0.30685281944;  // exp2(x) = exp(x)^(1 - 0.307)
    if (w.sloped) {
      a_.what = fmt::format("scale: logits are {:.6g} times what they are", 1 + w.slope);
      if (std::fabs(w.slope - kBase2) < kGross) return name("exp", "weights are powers of 2, not of e");
      if (w.slope < -0.999) return name("qk", "falling logits give equal weights");
      return name("scale", "the error of log(weight) grows with the logit");
    }
    if (questions_.casts_weights && !w.gross)
      return name("p_cast", "weights are off by roundings, and the contract casts them");
    if (questions_.converts_q && !w.uniform)
      return name("qk", "logits of one product give wrong weights, and q is converted");
    const Answer ones =
        questions_.ask({AttentionQuestions::few_keys(), questions_.own_width()}, Logits::first, Rows::ones);
    if (ones.ran && !ones.bad)
      return w.uniform ? name("output", "small weights are off, their sum is not")
                       : name("exp", "weights are off, and so is their sum");
    if (w.uniform) {
      const Answer parts = questions_.split > 1 ? questions_.ask({AttentionQuestions::few_keys()},
                                                                 Logits::parts, Rows::one_hot)
                                                : Answer{};
      if (parts.ran && parts.bad)
        return name("merge", "one key in each part of the split is weighed wrongly");
      return name("row_sum", "all weights of a row are off by one factor");
    }
    name("pv", "weights enter PV otherwise than they enter the sum");
  }

  // What the case has besides, one at a time. The first that is wrong is it.
  bool features() {
    const auto& all = bench_.the_case().attributes;
    const auto own = [&](const char* key) { return Change{key, all.text(key)}; };
    const auto bad = [&](const std::vector<Change>& changes, Logits logits, Rows rows) {
      const Answer a = questions_.ask(changes, logits, rows);
      return a.ran && a.bad;
    };
    if (g_.sinks && bad({{"sinks", "yes"}, AttentionQuestions::few_keys()}, Logits::first, Rows::one_hot))
      return name("sink", "sinks added to the plain shape make it wrong"), true;
    if (g_.alibi && bad({{"alibi", "yes"}, AttentionQuestions::few_keys()}, Logits::equal, Rows::one_hot))
      return name("scale", "slopes added to the plain shape make it wrong"), true;
    if (g_.softcap > 0 && bad({own("softcap"), AttentionQuestions::few_keys()}, Logits::first, Rows::one_hot))
      return name("scale", "the softcap added to the plain shape makes it wrong"), true;
    if (all.text("scale") != "0" &&
        bad({own("scale"), AttentionQuestions::few_keys()}, Logits::first, Rows::one_hot))
      return name("scale", "the scale added to the plain shape makes it wrong"), true;
    if ((g_.mask != MaskKind::none || g_.ragged || g_.batch > 1) && masked()) return true;
    if (g_.page > 0) {
      const std::vector<Change> paged = {own("page"), own("len"), own("d"), own("dv"), {"q", "1"}};
      if (bad(paged, Logits::first, Rows::many_bits)) return name("addressing", "pages make it wrong"), true;
    }
    if (g_.k_format != "f32" &&
        bad({own("k"), {"d", "64"}, AttentionQuestions::few_keys()}, Logits::spread, Rows::one_hot))
      return name("codec", "K in its format makes it wrong"), true;
    if (g_.v_format != "f32") {
      const Answer values = questions_.ask({own("v")}, Logits::equal, Rows::many_bits);
      if (values.ran && values.bad) {
        column_range(values);
        return name("codec", "V in its format makes it wrong"), true;
      }
    }
    if (g_.rotate != RotateKind::none && bad({own("rotate"), {"d", "64"}}, Logits::spread, Rows::many_bits))
      return name("output", "the rotation makes it wrong"), true;
    if (g_.dtype != "f32" && bad({own("dtype")}, Logits::equal, Rows::many_bits))
      return name("output", "the output's format makes it wrong"), true;
    return false;
  }

  bool masked() {
    const auto& all = bench_.the_case().attributes;
    std::vector<Change> changes;
    for (const char* key : {"mask", "window", "lengths", "batch", "q", "len"})
      changes.emplace_back(key, all.text(key));
    const Answer equal = questions_.ask(changes, Logits::equal, Rows::one_hot);
    if (!equal.ran || !equal.bad) return false;
    const Weights w = look_at_weights(equal);
    if (w.seen && w.dead_rows && w.finite && w.extra)
      return name("mask", "rows that see no key have the weights of some"), true;
    if (w.seen && w.dead_rows)
      return name("output", "only rows that see no key are wrong: their sum is 0"), true;
    if (!w.finite) return name("max", "what a mask hides leaves no finite number"), true;
    if (w.missing && w.extra && !w.at_edge && g_.mask != MaskKind::random && g_.length <= 128 &&
        all_elsewhere(equal))
      return name("addressing",
                  "with a mask, keys have weights that should have none, and none that should have some"),
             true;
    where_keys(w);
    return name("mask", "with equal logits, mask or lengths make the weights wrong"), true;
  }
  // Whether, in a row that is wrong, no key that should has a weight, and as many others have one.
  static bool all_elsewhere(const Answer& a) {
    const auto &want = a.truths[0].value, &got = a.got[0];
    for (std::size_t row = 0; row < want.size(); row += 128) {
      std::size_t kept = 0, gained = 0;
      for (std::size_t c = row; c < row + 128; ++c) {
        if (want[c] > 0 && got[c] > 0) ++kept;
        if (want[c] == 0 && got[c] > 0) ++gained;
      }
      if (gained > 0 && kept == 0) return true;
    }
    return false;
  }

  bool extremes() {
    double most = 0;
    for (const char* tensor : {"q", "k"}) {
      double largest = 0;
      for (const double x : decode_tensor(bench_.original().set.at(tensor)))
        if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
      most = most == 0 ? largest : most * largest;
    }
    if (!(most * g_.scale > 80)) return false;
    const Answer steep = questions_.ask({}, Logits::steep, Rows::one_hot);
    if (steep.ran && steep.bad)
      return name("rescale", "a maximum that rises by hundreds gives wrong weights"), true;
    return false;
  }

  // Crash, overrun, unwritten, leak: an index, unless it needs a mask or lengths.
  void early() {
    if (g_.ragged && bench_.first().verdict.status == Status::leak) {
      const Answer full = bench_.ask({{"lengths", "full"}}, Edit{});
      if (full.ran && !full.bad) return name("mask", "it reads what lies behind a sequence's end");
    }
    if (g_.mask != MaskKind::random && bench_.first().verdict.status == Status::crash) {
      const Answer masked = bench_.ask({{"mask", "random"}}, Edit{});
      if (masked.ran && masked.status == RunStatus::done)
        return name("mask", "it ends with a mask, and not without one");
    }
    name("addressing", fmt::format("verdict {}", to_string(bench_.first().verdict.status)));
  }

  void column_range(const Answer& answer) {
    constexpr auto columns = static_cast<std::size_t>(kColumns);
    std::vector<bool> off(columns, false);
    for (std::size_t i = 0; i < answer.got.at(0).size(); ++i)
      if (!(std::fabs(answer.got[0][i] - answer.truths[0].value[i]) <= answer.truths[0].limit[i]))
        off[i % columns] = true;
    const auto first = std::ranges::find(off, true);
    if (first == off.end()) return;
    const auto from = first - off.begin();
    const auto to = off.rend() - std::find(off.rbegin(), off.rend(), true) - 1;
    if (from != 0 || to + 1 != static_cast<std::ptrdiff_t>(columns))
      a_.where = fmt::format("v columns {}..{} of {}", from, to, columns);
  }
  void where_keys(const Weights& w) {
    if (!w.keys.empty() && w.keys.size() < 100)
      a_.where = fmt::format("keys {}..{}", w.keys.front(), w.keys.back());
  }
  void support(const std::string& text) { a_.support.push_back(text); }
  void name(const std::string& stage, const std::string& why) {
    a_.stage = stage;
    support(why);
  }

  Bench& bench_;
  Attribution& a_;
  AttentionQuestions questions_;
  const AttentionGeometry& g_;
};

}  // namespace

void attribute_attention(Bench& bench, Attribution& a) { Attention(bench, a).run(); }

}  // namespace assay::attribution
