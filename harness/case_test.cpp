#include "harness/case.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "harness/backend_names.hpp"
#include "reference/inputs/fill.hpp"

namespace assay {
namespace {

std::string refusal(const std::string& line) {
  try {
    (void)expand(parse_case(line));
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(CaseGrammar, sets_multiply_and_the_last_key_turns_fastest) {
  const auto cases = expand(parse_case("softmax rows=1,2 cols=3 dtype=f32,f16"));
  ASSERT_EQ(cases.size(), 4U);
  EXPECT_EQ(cases[0].line(), "softmax rows=1 cols=3 seed=1");
  EXPECT_EQ(cases[1].line(), "softmax rows=1 cols=3 dtype=f16 seed=1");
  EXPECT_EQ(cases[2].line(), "softmax rows=2 cols=3 seed=1");
}

TEST(CaseGrammar, a_comma_in_front_of_key_equals_value_belongs_to_the_options_of_the_backend) {
  const auto names = [](const char* text) { return split_backends(text); };
  EXPECT_EQ(names("cpu,onednn"), (std::vector<std::string>{"cpu", "onednn"}));
  EXPECT_EQ(names("python:mine.py,device=cpu"), (std::vector<std::string>{"python:mine.py,device=cpu"}));
  EXPECT_EQ(names("cpu,python:./a.py,device=cpu,./b.so,onednn:threads=2"),
            (std::vector<std::string>{"cpu", "python:./a.py,device=cpu", "./b.so", "onednn:threads=2"}));
  EXPECT_THROW(names("cpu,device=cpu"), InputError);  // cpu has no options that this could belong to
  EXPECT_THROW(names("device=cpu"), InputError);
  EXPECT_THROW(names("cpu,,onednn"), InputError);
  EXPECT_THROW(names(""), InputError);
}

TEST(CaseGrammar, a_backend_with_options_is_one_value_of_a_case_and_prints_as_it_was_read) {
  const std::string line = "softmax rows=1 cols=2 seed=1 backend=python:mine.py,device=cpu";
  const auto cases = expand(parse_case(line));
  ASSERT_EQ(cases.size(), 1U);
  EXPECT_EQ(cases[0].backend, "python:mine.py,device=cpu");
  EXPECT_EQ(cases[0].line(), line);
  EXPECT_EQ(expand(parse_case("softmax rows=1 cols=2 backend=cpu,onednn")).size(), 2U);
}

TEST(CaseGrammar, a_default_that_names_another_attribute_follows_it) {
  const auto cases = expand(parse_case("attention heads=4 d=64 len=32 kv=q8_0"));
  EXPECT_EQ(cases[0].attributes.text("k"), "q8_0");
  EXPECT_EQ(cases[0].attributes.integer("dv"), 64);
  EXPECT_EQ(cases[0].line(), "attention heads=4 d=64 len=32 kv=q8_0 seed=1");
  EXPECT_EQ(expand(parse_case("attention heads=4 d=64 len=32 kv=q8_0 v=f16"))[0].line(),
            "attention heads=4 d=64 len=32 kv=q8_0 v=f16 seed=1");
}

TEST(CaseGrammar, mistakes_are_named_with_what_is_allowed) {
  EXPECT_NE(refusal("sofmax rows=1 cols=2").find("did you mean 'softmax'"), std::string::npos);
  EXPECT_NE(refusal("softmax rows=1 colz=2").find("did you mean 'cols'"), std::string::npos);
  EXPECT_NE(refusal("softmax rows=1 cols=0").find("1..16777216"), std::string::npos);
  EXPECT_NE(refusal("softmax rows=1 cols=2 cols=3").find("given twice"), std::string::npos);
  EXPECT_NE(refusal("softmax rows=1 cols=2,2").find("repeats"), std::string::npos);
  EXPECT_NE(refusal("softmax rows=1 cols=2,").find("empty value"), std::string::npos);
  EXPECT_NE(refusal("softmax rows=1 cols").find("not key=value"), std::string::npos);
  EXPECT_NE(refusal("softmax cols=2").find("rows"), std::string::npos);
  EXPECT_NE(refusal("softmax rows=1 cols=2 seed=-1").find("seed"), std::string::npos);
  EXPECT_NE(refusal("softmax rows=1 cols=2 layout=holes").find("dense gaps unaligned far"),
            std::string::npos);
  EXPECT_NE(refusal("dequantize rows=1 cols=33 from=q8_0").find("33"), std::string::npos);
  EXPECT_NE(refusal("* cols=2").find("*"), std::string::npos);
  EXPECT_NE(refusal("").find("empty"), std::string::npos);
}

TEST(CaseGrammar, a_gap_matches_the_cases_in_its_set_only) {
  Case c = expand(parse_case("softmax rows=1 cols=2 dtype=f16"))[0];
  c.backend = "onednn";
  EXPECT_TRUE(matches(parse_case("* backend=onednn"), c));
  EXPECT_TRUE(matches(parse_case("softmax backend=onednn dtype=f16,bf16"), c));
  EXPECT_FALSE(matches(parse_case("softmax backend=onednn dtype=f32"), c));
  EXPECT_FALSE(matches(parse_case("logsumexp backend=onednn"), c));
  EXPECT_FALSE(matches(parse_case("* backend=cpu"), c));
  EXPECT_TRUE(matches(parse_case("* backend=onednn dtype=!f32,!bf16"), c));
  EXPECT_FALSE(matches(parse_case("* backend=onednn dtype=!f32,!f16"), c));
}

// Printing an expanded case and parsing it again is the identity, for any op and any attribute values that it
// takes.
RC_GTEST_PROP(CaseGrammar, parse_and_print_are_a_fixed_point, ()) {
  static const std::vector<std::string> kLines = {
      "softmax rows=1,7 cols=1,64 dtype=f32,bf16 mask=none,causal sinks=no,yes softcap=0,30.5",
      "attention heads=4,12 kv_heads=2,4 d=32,64 len=64,128 kv=f16,q8_0 v=q4_0,f16 q=1,5 mask=causal,none "
      "page=0,16",
      "matmul m=1,2 n=32 k=64 a=f32,bf16 b=q8_0,f32 dtype=f32,bf16",
      "layernorm rows=2 cols=5,9 eps=1e-5,1e-12 dtype=f32,f16"};
  const auto& all = *rc::gen::elementOf(kLines);
  const auto cases = expand(parse_case(all));
  Case c = *rc::gen::elementOf(cases);
  c.seed = *rc::gen::arbitrary<std::uint64_t>();
  c.fill = *rc::gen::element<std::string>("gaussian", "ramp", "codes");
  c.layout = *rc::gen::elementOf(std::vector<std::string>(std::begin(kLayouts), std::end(kLayouts)));
  c.backend = *rc::gen::element<std::string>("", "cpu", "./x.so:threads=2");
  const auto again = expand(parse_case(c.line()));
  RC_ASSERT(again.size() == 1U);
  RC_ASSERT(again[0].line() == c.line());
  RC_ASSERT(again[0].attributes.all() == c.attributes.all());
  RC_ASSERT(again[0].seed == c.seed);
}

TEST(CaseGrammar, a_set_is_a_fixed_point_too) {
  const std::string text = "softmax rows=1,2 cols=3 fill=gaussian,ramp";
  EXPECT_EQ(parse_case(text).print(), text);
}

}  // namespace
}  // namespace assay
