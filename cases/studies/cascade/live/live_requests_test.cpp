// Waiting, storing, a baseline, and tokens that are written alike.
#include "cases/studies/cascade/live/live_testing.hpp"

namespace assay::live {
namespace {

// llama.cpp writes each partial character as U+FFFD and special tokens as nothing.
TEST(Distances, of_equal_answers_are_0_whatever_their_tokens_are_written_as) {
  const Answer a{"x", {{"?", -0.5, {{"?", -0.5}, {"?", -1.5}, {"", -2.0}, {"", -3.0}, {"?", -4.0}}}}, "", -1};
  EXPECT_EQ(distance(a, a).value, 0);
  Answer b = a;
  b.steps[0].top[3].second = -3.25;
  EXPECT_EQ(distance(a, b).value, 0.25);
}

TEST(Answers, tokens_that_are_written_alike_are_told_apart_by_their_ids) {
  bool bare = false;
  const Answer a = read_answer(
      R"({"content":"","completion_probabilities":[{"id":5,"token":"\ufffd","logprob":-0.1,
          "top_logprobs":[{"id":5,"token":"\ufffd","logprob":-0.1},{"id":6,"token":"\ufffd","logprob":-3},{"id":7,"token":"a","logprob":-4}]}]})",
      bare);
  EXPECT_NE(a.steps[0].top[0].first, a.steps[0].top[1].first);
  EXPECT_EQ(a.steps[0].token, a.steps[0].top[0].first);
  EXPECT_EQ(a.steps[0].top[2].first, "a");
}

// Recorded from llama.cpp's llama-server with a model of byte tokens: behind "q" one run chose byte E1, the
// other byte D3, at nearly equal probability. No row tells of them; the next row's text does, as U+FFFD.
TEST(Distances, end_where_the_server_withheld_different_tokens) {
  bool bare = false;
  const auto answer = [&](const char* second) {
    return read_answer(R"({"content":"q","completion_probabilities":[{"id":7,"token":"q","logprob":-1.5,
        "top_logprobs":[{"id":7,"token":"q","logprob":-1.5},{"id":8,"token":"7","logprob":-1.75}]},)" +
                           std::string(second) + "]}",
                       bare);
  };
  const Answer one = answer(R"({"id":22,"token":"\ufffd\u0013","logprob":-2.25,
      "top_logprobs":[{"id":22,"token":"\u0013","logprob":-2.25},{"id":47,"token":",","logprob":-2.36}]})");
  const Answer other = answer(R"({"id":47,"token":"\ufffd,","logprob":-1.33,
      "top_logprobs":[{"id":47,"token":",","logprob":-1.33},{"id":9,"token":"1","logprob":-2.85}]})");
  EXPECT_TRUE(one.steps[1].after_withheld);
  EXPECT_EQ(distance(one, other).value, 0);
  EXPECT_TRUE(distance(one, other).forked);
  EXPECT_FALSE(distance(one, one).forked);
  // A whole character is the same bytes in both: what comes with it is compared.
  const char* whole =
      R"({"id":22,"token":"\u00e9","logprob":-2.25,"top_logprobs":[{"id":22,"token":"\ufffd","logprob":-2.25}]})";
  const char* moved =
      R"({"id":22,"token":"\u00e9","logprob":-1.25,"top_logprobs":[{"id":22,"token":"\ufffd","logprob":-1.25}]})";
  EXPECT_EQ(distance(answer(whole), answer(moved)).value, 1);
}

TEST(Requests, a_server_that_is_loading_is_waited_for_and_for_no_longer_than_asked) {
  StubOptions s = with(Fault::none);
  s.loading = 3;
  EXPECT_EQ(run(s).code, 0);
  s.loading = 1000000;
  LiveOptions o = quick();
  o.wait_seconds = 0.5;
  EXPECT_EQ(run(s, o).code, 125);
}

TEST(Requests, every_exchange_is_on_the_disk_before_the_next_one) {
  const Ran r = run(with(Fault::none));
  ASSERT_EQ(r.streamed.size(), r.report["exchanges"].size() + 1);  // a header in front
  for (std::size_t i = 1; i < r.streamed.size(); ++i)
    EXPECT_EQ(r.streamed[i], r.report["exchanges"][i - 1]) << i;
}

TEST(Baseline, the_same_server_is_at_distance_0_and_another_model_is_a_finding) {
  run_at(StubServer(with(Fault::none, 1)).endpoint(), quick(), "baseline");
  LiveOptions o = quick();
  o.baseline = report_path("baseline");
  const Ran same = run(with(Fault::none, 1), o), other = run(with(Fault::none, 2), o);
  std::remove(o.baseline.c_str());
  EXPECT_EQ(same.findings, Names{}) << same.console;
  EXPECT_EQ(other.findings, Names{"baseline"}) << other.console;
}

}  // namespace
}  // namespace assay::live
