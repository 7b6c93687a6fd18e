// assay cascade --endpoint against the stub, over real HTTP: each fault has its finding, correct servers have
// none.
#include "cases/studies/cascade/live/live_testing.hpp"

namespace assay::live {
namespace {

TEST(Correct, a_server_without_fault_is_clean_in_every_dialect) {
  for (const Speaks what : kSpeaks)
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      const Ran r = run(speaking(what, with(Fault::none, seed)));
      EXPECT_EQ(r.findings, Names{}) << r.console << "seed " << seed;
      EXPECT_EQ(r.code, 0);
      EXPECT_EQ(r.not_run, (Names{"baseline", "order_dependence"}));
    }
}

TEST(Correct, rounding_that_differs_over_the_cache_is_no_finding) {
  for (const Speaks what : kSpeaks)
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      const Ran r = run(speaking(what, with(Fault::rounding, seed)));
      EXPECT_EQ(r.findings, Names{}) << r.console << "seed " << seed;
      EXPECT_EQ(r.code, 0);
    }
}

TEST(Correct, without_log_probabilities_and_without_salt_what_cannot_be_judged_is_not_run) {
  StubOptions s = speaking(Speaks::openai, with(Fault::none));
  s.logprobs = s.salt = false;
  const Ran r = run(s);
  EXPECT_EQ(r.code, 0) << r.console;
  EXPECT_EQ(r.not_run,
            (Names{"baseline", "collapse", "greedy_choice", "nonfinite_logprobs", "order_dependence"}));
  EXPECT_FALSE(r.report["server"]["fresh"].get<bool>());
}

// Which detectors a fault must set off, and which others it may (a fault has more than one face).
struct Expected {
  Fault fault;
  Names must;
  Names may;
};
const std::vector<Expected> kExpected = {
    {Fault::scale_lock, {"collapse"}, {}},
    {Fault::cascade, {"nonfinite_logprobs", "repetition", "changed_answer"}, {"poisoned_prefix"}},
    {Fault::poisoned_prefix,
     {"poisoned_prefix"},
     {"collapse"}},  // behind a prefix of zeros prompts are alike
    {Fault::state_leak, {"changed_answer"}, {"poisoned_prefix"}},
    {Fault::nan_logprobs, {"nonfinite_logprobs"}, {}},
    {Fault::repetition, {"repetition"}, {}},
    {Fault::nondeterminism, {"nondeterminism"}, {}},
    {Fault::not_greedy, {"greedy_choice"}, {"nonfinite_logprobs"}},
    {Fault::empty, {"empty_output"}, {}},
};

TEST(Faults, each_of_the_model_has_its_finding_in_both_dialects) {
  for (const auto& expected : kExpected)
    for (const Speaks what : {Speaks::llama, Speaks::openai})
      for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        const Ran r = run(speaking(what, with(expected.fault, seed)));
        EXPECT_EQ(r.code, 1);
        for (const auto& must : expected.must)
          EXPECT_TRUE(r.findings.contains(must)) << must << " seed " << seed << "\n" << r.console;
        for (const auto& found : r.findings)
          EXPECT_TRUE(expected.must.contains(found) || expected.may.contains(found))
              << found << " seed " << seed << "\n"
              << r.console;
      }
}

TEST(Faults, of_the_text_alone_are_found_without_log_probabilities) {
  for (const auto& [fault, must] :
       std::vector<std::pair<Fault, std::string>>{{Fault::cascade, "repetition"},
                                                  {Fault::repetition, "repetition"},
                                                  {Fault::poisoned_prefix, "poisoned_prefix"},
                                                  {Fault::state_leak, "changed_answer"},
                                                  {Fault::nondeterminism, "nondeterminism"}}) {
    StubOptions s = with(fault);
    s.logprobs = false;
    const Ran r = run(s);
    EXPECT_TRUE(r.findings.contains(must)) << must << "\n" << r.console;
  }
}

TEST(Faults, the_cascade_ends_in_exclamation_marks_and_reaches_small_prompts) {
  const Ran r = run(with(Fault::cascade));
  bool reached = false;
  for (const auto& e : r.report["exchanges"])
    reached =
        reached || (e["phase"] == "after" && e["prompt"] == "small1" && e["text"] == std::string(32, '!'));
  EXPECT_TRUE(reached) << r.console;
}

TEST(Faults, numbers_that_are_none_are_found_however_the_server_writes_them) {
  StubOptions s = speaking(Speaks::openai, with(Fault::nan_logprobs));
  s.bare_nan = true;
  EXPECT_EQ(run(s).findings, Names{"nonfinite_logprobs"});
  s.bare_nan = false;
  s.nan_is_500 = true;
  EXPECT_EQ(run(s).findings, Names{"nonfinite_logprobs"});
}

TEST(Faults, of_transport_are_findings_with_their_kind) {
  for (const auto& [fault, kind] :
       std::vector<std::pair<Fault, std::string>>{{Fault::slow, "timeout"},
                                                  {Fault::hang, "timeout"},
                                                  {Fault::malformed, "malformed"},
                                                  {Fault::http_500, "http_error"},
                                                  {Fault::disconnect, "disconnect"}}) {
    StubOptions s = with(fault);
    s.from = 9;
    LiveOptions o = quick();
    o.timeout_seconds = 0.3;
    const Ran r = run(s, o);
    EXPECT_EQ(r.code, 1);
    EXPECT_EQ(r.findings, Names{"server_failure"}) << r.console;
    EXPECT_NE(r.console.find(" " + kind), std::string::npos) << r.console;
  }
}

TEST(Order, a_locked_scale_shows_between_two_starts_of_the_server_and_a_correct_one_does_not) {
  for (const Fault fault : {Fault::none, Fault::rounding, Fault::scale_lock}) {
    LiveOptions o = quick();
    o.order = "large_first";
    Ran first, second;
    {
      const StubServer server(with(fault));
      first = run_at(server.endpoint(), o, "earlier");
    }
    EXPECT_EQ(first.findings, Names{}) << first.console;  // a scale that fits everything collapses nothing
    o.order = "small_first";
    o.against = report_path("earlier");
    o.nonce.clear();  // taken from the earlier run
    const StubServer restarted(with(fault));
    second = run_at(restarted.endpoint(), o);
    EXPECT_EQ(second.findings.contains("order_dependence"), fault == Fault::scale_lock) << second.console;
    EXPECT_EQ(second.code, fault == Fault::scale_lock ? 1 : 0) << second.console;
    std::remove(o.against.c_str());
  }
}

TEST(Order, a_dummy_request_comes_first_when_asked_for) {
  LiveOptions o = quick();
  o.order = "dummy_first";
  const Ran r = run(with(Fault::none), o);
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.report["exchanges"][0]["prompt"], "dummy");
}

TEST(Requests, are_bounded_greedy_seeded_and_start_with_a_completion_that_is_meant) {
  const StubServer server(with(Fault::none));
  const Ran r = run_at(server.endpoint(), quick());
  EXPECT_EQ(r.report["requests"], 66);
  EXPECT_EQ(server.completions(), static_cast<int>(r.report["exchanges"].size()));
  for (const auto& body : server.bodies()) {
    const auto j = nlohmann::json::parse(body);
    EXPECT_EQ(j["temperature"], 0);
    EXPECT_EQ(j["seed"], 1);
  }
  EXPECT_TRUE(nlohmann::json::parse(server.bodies()[0])["cache_prompt"].get<bool>());
  LiveOptions o = quick();
  o.max_requests = 10;
  const StubServer other(with(Fault::none));
  EXPECT_EQ(run_at(other.endpoint(), o).report["requests"], 10);
  EXPECT_EQ(other.completions(), 7);  // three GET tell the dialect
}

TEST(Requests, carry_token_ids_where_given) {
  const StubServer server(with(Fault::scale_lock));
  LiveOptions o = quick();
  for (int i = 0; i < 40; ++i) o.large_ids.push_back(128 + 3 * i);
  EXPECT_TRUE(run_at(server.endpoint(), o).findings.contains("collapse"));
  EXPECT_EQ(server.bodies()[30].find("cache_salt"), std::string::npos);
}

TEST(Exit, nothing_executed_is_3) {
  LiveOptions o = quick();
  o.max_requests = 3;
  EXPECT_EQ(run(with(Fault::none), o).code, 3);
}

TEST(Exit, an_endpoint_that_cannot_be_used_is_125) {
  LiveOptions o = quick();
  o.retries = 1;
  EXPECT_EQ(run_at("http://127.0.0.1:1", o).code, 125);
  StubOptions locked = with(Fault::none);
  locked.api_key = "sesame-4711";
  EXPECT_EQ(run(locked).code, 125);
}

TEST(Exit, an_option_that_makes_no_sense_is_an_input_error) {
  for (const char* endpoint :
       {"", "127.0.0.1:80", "ftp://x", "http://", "http://:80", "http://h:99999", "http://key@h:1"})
    EXPECT_THROW(run_at(endpoint, quick()), InputError) << endpoint;
  LiveOptions o = quick();
  o.order = "backwards";
  EXPECT_THROW(run_at("http://127.0.0.1:1", o), InputError);
  o = quick();
  o.against = "/nowhere/report.json";
  EXPECT_THROW(run_at("http://127.0.0.1:1", o), InputError);
}

TEST(Key, is_sent_and_never_shown) {
  StubOptions locked = with(Fault::none);
  locked.api_key = "sesame-4711";
  setenv("ASSAY_API_KEY", "sesame-4711", 1);
  LiveOptions o = quick();
  o.quiet = false;
  const Ran r = run(locked, o);
  unsetenv("ASSAY_API_KEY");
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.console.find("sesame"), std::string::npos);
  EXPECT_EQ(r.report.dump().find("sesame"), std::string::npos);
}

TEST(Answers, of_every_known_shape_are_read) {
  bool bare = false;
  const Answer old = read_answer(
      R"({"content":"hi","stopped_eos":true,"tokens_cached":3,"completion_probabilities":[{"content":"hi","probs":[{"tok_str":"hi","prob":0.5},{"tok_str":"ho","prob":0.25}]}]})",
      bare);
  EXPECT_EQ(old.finish, "stop");
  EXPECT_EQ(old.cached_tokens, 3);
  EXPECT_EQ(old.steps[0].logprob, std::log(0.5));
  EXPECT_FALSE(bare);
  const Answer nan = read_answer(
      R"({"choices":[{"text":"NaN \"NaN","logprobs":{"tokens":["a"],"token_logprobs":[NaN],"top_logprobs":[{"a":-Infinity}]}}]})",
      bare);
  EXPECT_TRUE(bare);
  EXPECT_EQ(nan.text, "NaN \"NaN");  // words in a text stay
  EXPECT_TRUE(std::isnan(nan.steps[0].logprob));
  EXPECT_THROW(read_answer("<html>", bare), std::exception);
  EXPECT_THROW(read_answer("{\"choices\":[]}", bare), std::exception);
}

TEST(Loops, are_the_shortest_period_at_the_end) {
  EXPECT_EQ(tail_loop({"a", "b", "!", "!", "!"}).repeated, 2U);
  const Loop l = tail_loop({"x", "a", "b", "a", "b", "a", "b"});
  EXPECT_EQ(l.repeated, 4U);
  EXPECT_EQ(l.tokens, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(tail_loop({"a", "b", "c"}).repeated, 0U);
}

TEST(Loops, that_are_a_habit_of_the_model_are_no_finding) {
  int looping = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const Ran r = run(with(Fault::habit, seed));
    EXPECT_EQ(r.findings, Names{}) << r.console << "seed " << seed;
    const std::string text = r.report["exchanges"][0]["text"];
    looping += text.substr(16) == std::string(16, text.back()) ? 1 : 0;
  }
  EXPECT_GT(looping, 0);  // else this test shows nothing
}

TEST(Distances, grow_with_the_change_and_survive_a_token_that_is_not_listed) {
  const Answer a{"ab", {{"a", -0.1, {{"a", -0.1}, {"b", -2.5}}}}, "", -1};
  Answer b = a;
  EXPECT_EQ(distance(a, b).value, 0);
  b.steps[0].top[1].second = -2.0;
  EXPECT_EQ(distance(a, b).value, 0.5);
  const Answer other{"zb", {{"z", -0.2, {{"z", -0.2}, {"y", -1.8}}}}, "", -1};
  EXPECT_TRUE(distance(a, other).forked);
  EXPECT_EQ(distance(a, other).value, 2.5 - 0.2);  // z is at most as probable as b was: -2.5
  Answer nan = a;
  nan.steps[0].logprob = std::nan("");
  EXPECT_TRUE(std::isinf(distance(a, nan).value));
}

}  // namespace
}  // namespace assay::live
