// Answers that a model with a fault gives: whether the fault's stage is found again, and that nothing is
// where there is no fault.
#include "cases/attribution/hypotheses.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cases/attribution/fault_list.hpp"
#include "cases/lists.hpp"
#include "harness/inputs.hpp"

namespace assay::attribution {
namespace {

void judge(Answer& a) {
  for (std::size_t i = 0; i < a.got[0].size(); ++i) {
    const double far = std::fabs(a.got[0][i] - a.truths[0].value[i]) / a.truths[0].limit[i];
    a.worst = std::max(a.worst, far), a.bad = a.bad || !(far <= 1);
  }
}

// An answer whose outputs are those of the op's model with this fault, as f32.
Answer answer(const std::string& line, const std::string& fault) {
  const Case c = expand(parse_case(line)).front();
  const Inputs inputs = make_inputs(c, input_lists());
  Answer a;
  a.ran = true, a.status = RunStatus::done;
  a.tensors = inputs.tensors, a.set = inputs.set, a.attributes = c.attributes;
  a.contract = Contract::parse("", c.op->contract);
  a.truths = c.op->truth(c.attributes, inputs.set, *a.contract);
  a.got = {a.truths[0].value};
  const auto model = model_of(*c.op, a);
  const auto all = faults(model->nodes());
  const auto found = std::ranges::find_if(all, [&](const Fault& f) {
    return in_words(model->nodes()[static_cast<std::size_t>(f.node)], f) == fault;
  });
  EXPECT_EQ(found == all.end(), fault.empty()) << fault;
  const std::vector<double> y = model->run(found == all.end() ? Fault{} : *found);
  for (std::size_t i = 0; i < y.size(); ++i) a.got[0][model->elements()[i]] = static_cast<float>(y[i]);
  judge(a);
  return a;
}

std::string softmax(int seed) {
  return "softmax rows=6 cols=7 dtype=f32 fill=gaussian seed=" + std::to_string(seed);
}
std::string attention(int d, int seed) {
  return "attention heads=2 d=" + std::to_string(d) +
         " len=5 kv=f32 dtype=f32 fill=uniform seed=" + std::to_string(seed);
}
std::vector<Answer> answers(const std::string& fault, int count) {
  std::vector<Answer> all;
  for (int seed = 1; seed <= count; ++seed) all.push_back(answer(softmax(seed), fault));
  return all;
}
std::optional<Explanation> explained(const std::vector<Answer>& all, const std::string& op = "softmax",
                                     std::string_view probed = "unknown") {
  return explain(*expand(parse_case(op == "softmax" ? softmax(1) : attention(1, 1))).front().op, all, probed);
}

TEST(Hypotheses, every_width_is_found_and_no_fault_is_none) {
  for (const char* how : {"in 9 bits", "in 12 bits", "cut to 13 bits", "in 16 bits"}) {
    const auto e = explained(answers(std::string("the exponential: ") + how, 4));
    ASSERT_TRUE(e) << how;
    EXPECT_EQ(e->stage, "exp");
    EXPECT_EQ(e->what, std::string("the exponential: ") + how);
  }
  EXPECT_FALSE(explained(answers("", 4)));
}

TEST(Hypotheses, an_answer_that_is_right_refutes_what_says_otherwise) {
  std::vector<Answer> all = answers("the exponential: in 9 bits", 4);
  ASSERT_TRUE(explained(all));
  const std::vector<Answer> right = answers("", 4);
  all[1] = right[1], all[2] = right[2], all[3] = right[3];
  const auto e = explained(all);
  EXPECT_TRUE(!e || e->stage != "exp") << e->what;
}

// A number that lies half way between two of a fault's few bits falls either way.
TEST(Hypotheses, of_many_answers_one_may_be_left_out_and_not_two) {
  std::vector<Answer> all = answers("the exponential: in 9 bits", 6);
  all[3].got[0][0] *= 1.5, judge(all[3]);
  const auto one = explained(all);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->stage, "exp");
  all[4].got[0][0] *= 1.5, judge(all[4]);
  const auto two = explained(all);
  EXPECT_TRUE(!two || two->stage != "exp") << two->what;
}

// Where the scale is 1, q.k in few bits is q.k times scale in few bits; another width of a head tells them
// apart.
TEST(Hypotheses, what_explains_alike_is_tied_until_an_answer_lies_at_one_of_both) {
  for (const auto& [fault, stage] :
       {std::pair{"q.k: in 12 bits", "qk"}, {"q.k times scale: in 12 bits", "scale"}}) {
    std::vector<Answer> all = {answer(attention(1, 1), fault), answer(attention(1, 2), fault)};
    const auto tied = explained(all, "attention");
    ASSERT_TRUE(tied) << fault;
    EXPECT_TRUE(tied->tied) << fault;
    all.push_back(answer(attention(37, 1), fault));
    const auto e = explained(all, "attention", stage == std::string("qk") ? "scale" : "qk");
    ASSERT_TRUE(e) << fault;
    EXPECT_EQ(e->stage, stage);
  }
}

// What is read elsewhere, what an exponential is held above, and what hides a key and does not.
TEST(Hypotheses, other_heads_sequences_and_numbers_put_in_place_of_others_are_found) {
  struct Row {
    const char *line, *fault, *stage;
  };
  constexpr Row kRows[] = {
      {"attention heads=6 kv_heads=2 d=24 len=5 kv=f32 dtype=f32 fill=uniform",
       "which head of K and V: the one's of that number modulo their count", "addressing"},
      {"attention batch=3 heads=2 d=24 len=5 kv=f32 dtype=f32 fill=uniform",
       "which sequence of V: the first's", "addressing"},
      {"attention heads=2 d=24 q=4 len=5 kv=f32 dtype=f32 fill=uniform", "which row of q: the one's before",
       "addressing"},
      {"attention heads=4 d=24 q=2 len=7 kv=f32 dtype=f32 fill=uniform",
       "which head's maximum and sum: the first one's of each two", "addressing"},
      {"attention heads=4 d=24 len=5 kv=f32 dtype=f32 alibi=yes fill=uniform",
       "which head's slope: the next one's", "scale"},
      {"attention heads=2 d=24 len=40 kv=f32 dtype=f32 fill=deep",
       "the exponential: its argument no less than -8", "exp"},
      {"attention heads=2 d=24 q=4 len=9 mask=random kv=f32 dtype=f32 fill=abyss",
       "which keys are visible: -10000 where a key is hidden", "mask"},
      {"softmax rows=6 cols=40 dtype=f32 fill=wide", "the exponential: its argument no less than -8", "exp"},
      {"softmax rows=6 cols=40 dtype=f32 softcap=2 temperature=0.6 fill=wide",
       "the temperature behind the softcap: done where there is none", "scale"},
      {"attention heads=2 d=24 len=5 kv=f32 dtype=f32 sinks=yes fill=uniform",
       "sink times scale: done where there is none", "sink"},
      {"logsumexp rows=6 cols=40 fill=gaussian", "the maximum as it is taken off: in f16", "max"}};
  for (const Row& row : kRows) {
    const std::string line = std::string(row.line) + " seed=";
    const Op& op = *expand(parse_case(line + "1")).front().op;
    const std::vector<Answer> all = {answer(line + "1", row.fault), answer(line + "2", row.fault)};
    const auto e = explain(op, all, "unknown");
    ASSERT_TRUE(e) << row.fault;
    EXPECT_EQ(e->stage, row.stage) << row.fault << " | " << e->what;
    EXPECT_FALSE(explain(op, {answer(line + "1", ""), answer(line + "2", "")}, "unknown")) << row.line;
  }
}

}  // namespace
}  // namespace assay::attribution
