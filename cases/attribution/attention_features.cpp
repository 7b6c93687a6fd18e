// What a case of attention has besides a plain shape, put to the kernel one at a time; and cases that end
// early.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/attribution/attention_probes.hpp"

namespace assay::attribution {

bool Attention::features() {
  const auto& all = bench_.the_case().attributes;
  const auto own = [&](const char* key) { return Change{key, all.text(key)}; };
  if (g_.sinks && bad({{"sinks", "yes"}, AttentionQuestions::few_keys()}, Logits::first, Rows::one_hot))
    return name("sink", "sinks added to the plain shape make it wrong"), true;
  if (g_.alibi && bad({{"alibi", "yes"}, AttentionQuestions::few_keys()}, Logits::equal, Rows::one_hot)) {
    const Answer same = questions_.ask({AttentionQuestions::few_keys()}, Logits::as_slopes, Rows::one_hot);
    if (same.ran && same.bad) return first_tile(same), true;
    return name("scale", "slopes added to the plain shape make it wrong"), true;
  }
  if (g_.softcap > 0 && bad({own("softcap"), AttentionQuestions::few_keys()}, Logits::first, Rows::one_hot))
    return name("scale", "the softcap added to the plain shape makes it wrong"), true;
  if (all.text("scale") != "0" &&
      bad({own("scale"), AttentionQuestions::few_keys()}, Logits::first, Rows::one_hot))
    return name("scale", "the scale added to the plain shape makes it wrong"), true;
  if ((g_.mask != MaskKind::none || g_.ragged || g_.batch > 1) && masked()) return true;
  if (g_.page > 0) {
    const std::vector<Change> paged = {own("page"), own("len"), own("d"), own("dv"), {"q", "1"}};
    for (const Logits logits : {Logits::equal, Logits::first})
      if (bad(paged, logits, Rows::many_bits)) return name("addressing", "pages make it wrong"), true;
  }
  if (g_.k_format != "f32" &&
      bad({own("k"), {"d", "64"}, AttentionQuestions::few_keys()}, Logits::spread, Rows::one_hot))
    return name("codec", "K in its format makes it wrong"), true;
  if (g_.k_format != "f32" && g_.v_format != "f32" &&
      bad({own("k"), own("v"), {"d", "64"}, AttentionQuestions::few_keys()}, Logits::equal, Rows::many_bits))
    return name("codec", "K and V in their formats together make it wrong"), true;
  if (g_.v_format != "f32" && bad({own("v")}, Logits::equal, Rows::many_bits))
    return name("codec", "V in its format makes it wrong"), true;
  if (g_.rotate != RotateKind::none && bad({own("rotate"), {"d", "64"}}, Logits::spread, Rows::many_bits))
    return name("output", "the rotation makes it wrong"), true;
  if (g_.dtype != "f32" && bad({own("dtype")}, Logits::equal, Rows::many_bits))
    return name("output", "the output's format makes it wrong"), true;
  return false;
}

bool Attention::masked() {
  const auto& all = bench_.the_case().attributes;
  std::vector<Change> changes;
  for (const char* key : {"mask", "window", "lengths", "batch", "q", "len"})
    changes.emplace_back(key, all.text(key));
  const Answer equal = questions_.ask(changes, Logits::equal, Rows::one_hot);
  if (!equal.ran || !equal.bad) return false;
  masked_weights(equal);
  return true;
}

void Attention::masked_weights(const Answer& equal) {
  const Weights w = look_at_weights(equal);
  if (w.seen && w.dead_rows && w.finite && w.extra)
    return name("mask", "rows that see no key have the weights of some");
  if (w.seen && w.dead_rows) return name("output", "only rows that see no key are wrong: their sum is 0");
  if (!w.finite) return name("max", "what a mask hides leaves no finite number");
  if (w.missing && w.extra && !w.at_edge && g_.mask != MaskKind::random && g_.mask != MaskKind::window &&
      g_.length <= 128 && all_elsewhere(equal))
    return name("addressing",
                "with a mask, keys have weights that should have none, and none that should have some");
  name("mask", "with equal logits, mask or lengths make the weights wrong");
}

bool Attention::all_elsewhere(const Answer& a) {
  if (a.got.empty()) return false;  // it ended early
  const auto &want = a.truths[0].value, &got = a.got[0];
  for (std::size_t row = 0; row < want.size(); row += columns_of(a)) {
    std::size_t kept = 0, gained = 0;
    for (std::size_t c = row; c < row + columns_of(a); ++c) {
      if (want[c] > 0 && got[c] > 0) ++kept;
      if (want[c] == 0 && got[c] > 0) ++gained;
    }
    if (gained > 0 && kept == 0) return true;
  }
  return false;
}

bool Attention::extremes() {
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

void Attention::early() {
  if (bench_.the_case().layout != "dense" && bench_.first().verdict.status == Status::leak) {
    const Answer dense = bench_.ask({{"layout", "dense"}}, Edit{});
    if (dense.ran && !dense.bad) return name("addressing", "it reads what lies between rows");
  }
  if (g_.ragged && bench_.first().verdict.status == Status::leak) {
    const Answer full = bench_.ask({{"lengths", "full"}}, Edit{});
    if (full.ran && !full.bad) return name("mask", "it reads what lies behind a sequence's end");
  }
  if (g_.mask == MaskKind::window && bench_.first().verdict.status == Status::leak) {
    const Answer all = bench_.ask({{"mask", "none"}, {"window", "0"}}, Edit{});
    if (all.ran && !all.bad) return name("mask", "it reads what a window hides");
  }
  if (g_.mask != MaskKind::random && bench_.first().verdict.status == Status::crash) {
    const Answer masked = bench_.ask({{"mask", "random"}}, Edit{});
    if (masked.ran && masked.status == RunStatus::done)
      return name("mask", "it ends with a mask, and not without one");
  }
  name("addressing", fmt::format("verdict {}", to_string(bench_.first().verdict.status)));
}

}  // namespace assay::attribution
