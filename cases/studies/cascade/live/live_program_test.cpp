// assay cascade --endpoint as a user meets it: the program, a server on loopback, exit codes and words.
#include <gtest/gtest.h>

#include <string>

#include "cases/studies/cascade/live/stub_server.hpp"
#include "harness/testing/command.hpp"

namespace assay::live {
namespace {

Outcome cascade(const std::string& arguments, const std::string& environment = "") {
  return run_command(environment + " " ASSAY_PROGRAM " cascade " + arguments);
}

Outcome against(Fault fault, const std::string& arguments = "", bool llama = true) {
  StubOptions options;
  options.fault = fault;
  options.llama = llama;
  const StubServer server(options);
  return cascade("--endpoint " + server.endpoint() + " --nonce 0badcafe " + arguments);
}

bool has(const Outcome& o, const std::string& text) { return o.text.find(text) != std::string::npos; }

TEST(Program, says_clean_of_a_correct_server_in_both_dialects) {
  for (const bool llama : {true, false}) {
    const Outcome o = against(Fault::rounding, "", llama);
    EXPECT_EQ(o.code, 0) << o.text;
    EXPECT_TRUE(has(o, llama ? "llama dialect" : "openai dialect")) << o.text;
    EXPECT_TRUE(has(o, "0 findings, 9 detectors clean, 2 not run")) << o.text;
  }
}

TEST(Program, names_the_finding_and_its_limit) {
  for (const bool llama : {true, false}) {
    const Outcome o = against(Fault::cascade, "-q", llama);
    EXPECT_EQ(o.code, 1) << o.text;
    for (const char* part : {"FINDING  nonfinite_logprobs", "FINDING  repetition", "FINDING  changed_answer",
                             "(a) not chosen by probability", "'!'", "limit"})
      EXPECT_TRUE(has(o, part)) << part << "\n" << o.text;
  }
}

TEST(Program, refuses_what_makes_no_sense_with_2) {
  EXPECT_EQ(cascade("--endpoint 127.0.0.1:80").code, 2);
  EXPECT_EQ(cascade("--endpoint").code, 2);
  const Outcome o = against(Fault::none, "--order backwards");
  EXPECT_EQ(o.code, 2);
  EXPECT_TRUE(has(o, "small_first, large_first, dummy_first")) << o.text;
  EXPECT_EQ(against(Fault::none, "--json /nowhere/x.json").code, 2);
}

TEST(Program, says_3_when_no_completion_was_sent_and_125_when_nobody_is_there) {
  EXPECT_EQ(against(Fault::none, "--max-requests 3").code, 3);
  const Outcome o = cascade("--endpoint http://127.0.0.1:1 --retries 0");
  EXPECT_EQ(o.code, 125);
  EXPECT_TRUE(has(o, "cannot be reached")) << o.text;
}

TEST(Program, takes_the_key_from_the_environment_and_keeps_it) {
  StubOptions options;
  options.api_key = "sesame-4711";
  const StubServer server(options);
  const std::string at = "--endpoint " + server.endpoint();
  EXPECT_EQ(cascade(at).code, 125);
  const Outcome wrong = cascade(at, "ASSAY_API_KEY=wrong-0815");
  EXPECT_EQ(wrong.code, 125);
  EXPECT_FALSE(has(wrong, "wrong-0815")) << wrong.text;
  const Outcome right = cascade(at, "ASSAY_API_KEY=sesame-4711");
  EXPECT_EQ(right.code, 0) << right.text;
  EXPECT_FALSE(has(right, "sesame")) << right.text;
}

}  // namespace
}  // namespace assay::live
