// The suite that is made for a plug-in: what it costs to make, what is in it, how early, and what is not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <set>

#include "cases/lists.hpp"
#include "harness/model_shapes.hpp"
#include "harness/strangers.hpp"
#include "harness/suites.hpp"

namespace assay {
namespace {

const std::vector<BackendInfo>& known() {
  static const auto list = known_backends();
  return list;
}
GeneratedSuite made_for(const std::string& backend, std::size_t most, std::uint64_t seed = 1) {
  Workers workers(known());
  return generate_suite(stranger_factors(), {backend, seed, most}, input_lists(), workers);
}
// The cases of a suite of 3,000 for the kernels of this project, which take most of what can be asked.
const GeneratedSuite& of_cpu() {
  static const auto suite = made_for(CPU, 3000);
  return suite;
}
// How many cases stand before the first that has all of the patterns; as many as there are when none has.
std::size_t before(const GeneratedSuite& suite, const std::vector<std::string>& patterns) {
  std::vector<std::regex> all;
  for (const std::string& p : patterns) all.emplace_back(p);
  const auto at = std::ranges::find_if(suite.lines, [&](const SuiteLine& line) {
    return std::ranges::all_of(all, [&](const std::regex& p) { return std::regex_search(line.text, p); });
  });
  return static_cast<std::size_t>(at - suite.lines.begin());
}

// One by one, a declaration takes the time of two switches between processes; many in one go do not.
TEST(MadeSuite, declarations_are_asked_in_few_goes) {
  constexpr std::size_t kAtOnce = 8;  // on the average, at least
  for (const char* plugin : {SHORT_SIGHTED, EXAMPLE}) {
    const auto suite = made_for(plugin, 3000);
    EXPECT_GT(suite.asked, kAtOnce * suite.waits) << plugin;
    EXPECT_GT(suite.lines.size(), 500U) << plugin;
  }
  constexpr std::size_t kOfEach =
      9;  // declarations for a case of a backend that takes most of what can be asked
  EXPECT_LT(of_cpu().asked, kOfEach * of_cpu().lines.size());
}

TEST(MadeSuite, a_suite_of_fewer_cases_is_the_beginning_of_one_of_more) {
  const auto few = made_for(SHORT_SIGHTED, 300), many = made_for(SHORT_SIGHTED, 900);
  ASSERT_EQ(few.lines.size(), 300U);
  for (std::size_t i = 0; i < few.lines.size(); ++i) EXPECT_EQ(few.lines[i].text, many.lines[i].text);
  EXPECT_NE(made_for(SHORT_SIGHTED, 300, 2).lines.back().text, few.lines.back().text);
}

TEST(MadeSuite, what_was_found_only_by_a_line_made_by_hand_is_asked_early) {
  // Within what a slow machine judges of the suite in 20 s (reports/results/made_suite.md).
  constexpr std::size_t kEarly = 1000;
  const std::map<std::string, std::vector<std::string>> wanted = {
      {"powers of two, 256", {"^attention", " len=256 "}},
      {"powers of two, 512", {"^attention", " len=512 "}},
      {"powers of two, 128", {"^attention", " len=128 "}},
      {"of a row too", {"^softmax", " cols=(16|32|128) "}},
      {"one less", {"^attention", " len=511 | len=1023 "}},
      {"wide heads in pages", {"^attention", " d=256 ", " len=(1\\d{3}|2049) ", " page="}},
      {"page ids beyond 16 bits", {"^attention batch=2", " len=[34]\\d{4} ", " page=1 "}},
      {"sinks, and a window from key 1 to 4 on", {"^attention", " len=64 ", " window=6[0-3] ", " sinks=yes"}},
      {"a product of more than 32,768 rows in codes", {"^matmul m=3[23]\\d{3} ", " b=(q8_0|q4_0|int8_ch)"}},
      {"one term over several tiles of rows", {"^matmul m=(130|257|300) ", " k=1 "}},
      {"the hidden size of gpt-oss", {"^(rms|layer)norm", " cols=2880 "}},
      {"the inner size of Qwen2.5-7B", {"^matmul", " n=18944 "}},
      {"a NaN of ones to bf16", {"^quantize", " to=bf16 ", " fault=nan_all_ones "}},
      {"a NaN with its sign among FP8 weights", {"^matmul", " b=e4m3fn", " fault=negative_nan "}},
      {"and in what is decoded", {"^dequantize", " from=e4m3fn ", " fault=negative_nan "}},
      {"a wide row of a quantiser, no whole vectors",
       {"^quantize", " to=int8_row ", " cols=(1025|4099) ", " fill=last_element "}},
      {"whole vectors in rows that are not aligned",
       {"^softmax", " cols=(64|256|1024) ", " layout=unaligned"}},
      {"and of keys", {"^attention", " d=(64|128) ", " layout=unaligned"}},
      {"a soft cap where it is flat", {"^attention", " softcap=(0.5|2|5) ", " fill=(ramp|huge_logits) "}},
      {"the vocabulary of Llama 3", {"^softmax", " cols=128256 "}},
      {"a vocabulary of more than 17 bits",
       {"^softmax", " cols=(151936|152064|20[12]\\d{3}|256000|262144) "}},
      {"and its logsumexp", {"^logsumexp", " cols=(151936|152064|20[12]\\d{3}|256000|262144) "}},
      {"and its argmax", {"^argmax", " cols=(151936|152064|20[12]\\d{3}|256000|262144) "}},
      {"a decimal width", {"^softmax rows=32 cols=1000 ", " fill=roll_call "}},
      {"a row of nothing but -Inf", {"^logsumexp ", " fault=infinite_row "}},
      {"256 experts, 8 of each token", {"^moe", " experts=256 ", " topk=8 "}},
      {"n and k of a layer", {"^matmul", " n=(1024|1030|4096) ", " k=(1024|1030|4096) "}},
      {"rows of a prompt by a layer's width", {"^rmsnorm rows=(520|600) cols=10[23]\\d "}},
      {"and its softmax", {"^softmax rows=(520|600) cols=10[23]\\d "}},
      {"eps of most models", {"^rmsnorm", " eps=1e-06 "}},
      {"a prompt by many heads", {"^attention heads=(8|32) ", " q=(130|200) ", " len=(300|400) "}},
      {"thousands of keys by many heads", {"^attention heads=(8|32) ", " len=(4096|4100|5000) ", " d=128 "}},
      {"the look of trained weights", {"^matmul", " fill=trained "}},
      {"of residual streams", {"^rmsnorm", " fill=trained "}},
      {"of logits", {"^softmax", " fill=trained "}},
      {"of keys with a mean", {"^attention", " fill=trained "}},
      {"of what is quantised", {"^quantize", " fill=trained "}}};
  for (const auto& [what, patterns] : wanted) EXPECT_LT(before(of_cpu(), patterns), kEarly) << what;
}

// A kernel that has a constant in the place of an attribute, or takes positions for independent, or rows for
// dense.
TEST(MadeSuite, a_formula_is_asked_at_other_values_than_its_examples_and_with_gaps) {
  const GeneratedSuite suite = made_for("formula", 4000);
  for (const char* pattern : {" base=80000 ", " base=5000 ", " factor=8 ", " layout=gaps", " fill=trained "})
    EXPECT_LT(before(suite, {"^rope ", pattern}), suite.lines.size()) << pattern;
  std::size_t runs = 0, small = 0, apart = 0;
  for (std::int64_t tokens = 3; tokens < 60; ++tokens) {
    const Case c = expand(parse_case(fmt::format("rope tokens={} heads=1 d=64", tokens)))[0];
    const std::vector<double> pos = decode_tensor(make_inputs(c, input_lists()).set.at("pos"));
    const bool run =
        std::ranges::adjacent_find(pos, [](double a, double b) { return b != a + 1; }) == pos.end();
    runs += run, apart += !run, small += run && pos.back() < 4096;
  }
  EXPECT_GT(runs, 8U);
  EXPECT_GT(small, 2U);
  EXPECT_GT(apart, 20U);
}

TEST(MadeSuite, each_round_begins_with_what_costs_least) {
  EXPECT_LT(before(of_cpu(), {" window=6[0-3] ", " sinks=yes"}),
            before(of_cpu(), {" len=[34]\\d{4} ", " page=1 "}));
}

// Elements of x whose quotient by the scale of their own block lies half-way between two codes, where that
// scale is 1.
std::size_t ties_of(const std::string& block_format, const std::string& fill) {
  const Case c =
      expand(parse_case("quantize rows=4 cols=64 to=" + block_format + " dtype=f32 fill=" + fill))[0];
  const std::vector<double> x = decode_tensor(make_inputs(c, input_lists()).set.at("x"));
  const std::vector<float> values(x.begin(), x.end());
  const std::vector<double> y = decode_tensor(encode_tensor(format(block_format), {4, 64}, values));
  std::size_t ties = 0;
  for (std::size_t i = 0; i < x.size(); ++i) ties += std::fabs(y[i] - x[i]) == 0.5;
  return ties;
}
TEST(Ties, of_a_quantiser_lie_half_way_between_its_codes_under_its_own_scale) {
  for (const char* block_format : {"q8_0", "q8_1", "q4_0", "q5_0", "q4_1", "q5_1", "int8_tok", "int4_g32"}) {
    EXPECT_GT(ties_of(block_format, "ties"), 64U) << block_format;  // of 256: every second one is made one
    EXPECT_EQ(ties_of(block_format, "gaussian"), 0U) << block_format;
  }
}

TEST(ModelShapes, twelve_models_each_with_its_source) {
  const ModelShapes shapes = ModelShapes::known();
  EXPECT_EQ(shapes.models(), 12U);
  const Op& attention = op("attention");
  const std::vector<std::string> keys{"heads", "kv_heads", "d", "dv"};
  const auto together = shapes.together(attention, keys, keys);
  const std::set<std::vector<std::string>> all(together.begin(), together.end());
  EXPECT_EQ(all.size(), together.size());
  EXPECT_TRUE(all.contains({"128", "1", "576", "512"}));  // MLA: its dv beside the others' default
  EXPECT_TRUE(all.contains({"28", "4", "128", ""}));
}

TEST(ModelShapes, what_cannot_be_read_is_refused_with_what_is_allowed) {
  for (const char* row : {"model", "model x heads=3", "model x heads= source=s",
                          "model x heads=3 heads=4 source=s", "shape x heads=3 source=s", "list page=16"}) {
    try {
      (void)ModelShapes(std::vector<SuiteLine>{{row, "models.list:7"}});
      ADD_FAILURE() << row;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find("models.list:7"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("source="), std::string::npos) << e.what();
    }
  }
  const ModelShapes shapes(std::vector<SuiteLine>{{"list page=16,32 source=s", "here"}});
  EXPECT_EQ(shapes.list("page", "x:1"), (std::vector<std::string>{"16", "32"}));
  EXPECT_THROW((void)shapes.list("pages", "x:1"), InputError);
}

}  // namespace
}  // namespace assay
