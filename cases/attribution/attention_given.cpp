// The data that showed it: without what the case has besides, with fewer keys than f16 counts, with V one-hot, with their own V.
#include <algorithm>

#include "cases/attribution/attention_questions.hpp"
#include "cases/attribution/conclusion.hpp"

namespace assay::attribution {

void attention_as_given(Bench& bench, const AttentionQuestions& questions, Attribution& a) {
  const AttentionGeometry& g = questions.g;
  const auto name = [&](const char* stage, const char* why) { a.stage = stage, a.support.emplace_back(why); };
  const auto right = [&](const Change& change) {
    const Answer answer = bench.ask({change}, Edit{});
    return answer.ran && !answer.bad;
  };
  if (g.alibi && right({"alibi", "no"})) return name("scale", "without slopes the case is right");
  if (g.softcap > 0 && right({"softcap", "0"})) return name("scale", "without a softcap the case is right");
  if (g.sinks && right({"sinks", "no"})) return name("sink", "without sinks the case is right");
  constexpr std::int64_t kF16Largest = 65504;  // where a sum of weights of 1 may end
  if (g.length > kF16Largest && right({"len", "60000"}))
    return name(questions.split > 1 ? "merge" : "row_sum", "with 60000 keys the case is right");
  const Answer scores = bench.ask(Edit([&](const TensorSpec& t, std::vector<float>& x) {
    if (t.name == "v")
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<std::int64_t>(i) / g.dv / g.kv_heads % g.dv == static_cast<std::int64_t>(i) % g.dv;
  }));
  if (g.dv > 1 && scores.ran && scores.bad && scores.worst > 100 && bench.the_case().fault == "none")
    return name("qk", "q and K as given, V one-hot: the weights are wrong");
  const Answer sums = bench.ask(Edit([](const TensorSpec& t, std::vector<float>& x) {
    if (t.name == "q") std::fill(x.begin(), x.end(), 0.0F);
  }));
  if (sums.ran && sums.bad && sums.worst > 2 && !g.sinks && !g.alibi && questions.split == 1)
    return name("pv", "equal weights, V as given: the sums are wrong");
  a.against.emplace_back("no probe is wrong: what the case's own data have is not among them");
}

}  // namespace assay::attribution
