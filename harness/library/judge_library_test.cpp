// The library through its header alone: what `assay judge` says, in the caller's arithmetic, threads and
// memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cases/lists.hpp"
#include "harness/case_file.hpp"
#include "harness/library/assay_judge.h"
#include "harness/testing/command.hpp"

namespace {

struct Said {
  int code;
  std::string text;
};

using Tensors = std::vector<assay_array>;

Said judge(const char* line, const char* contract, const Tensors& tensors, unsigned flags = 0) {
  char* text = nullptr;
  const int code = assay_judge(line, contract, flags, tensors.data(), tensors.size(), &text);
  Said said{code, text == nullptr ? "" : text};
  assay_free(text);
  return said;
}

template <typename T>
assay_array tensor(const char* name, const char* type, const std::vector<std::int64_t>& shape,
                   const std::vector<T>& data) {
  return {name,         type,
          shape.data(), static_cast<std::int32_t>(shape.size()),
          data.data(),  data.size() * sizeof(T)};
}

// Softmax of {0, 0} and {0, ln 3}.
const std::vector<std::int64_t> kShape = {2, 2};
const std::vector<float> kX = {0, 0, 0, 1.0986123F}, kY = {0.5F, 0.5F, 0.25F, 0.75F};
constexpr const char* kLine = "softmax rows=2 cols=2 dtype=f32";
constexpr const char* kContract = "acc=f32 exp_ulp=2";
Tensors softmax(const std::vector<float>& y) {
  return {tensor("x", "F32", kShape, kX), tensor("y", "F32", kShape, y)};
}

TEST(JudgeLibrary, finds_a_wrong_element_and_passes_the_right_ones) {
  const Said right = judge(kLine, kContract, softmax(kY));
  EXPECT_EQ(right.code, ASSAY_GREEN) << right.text;
  EXPECT_TRUE(right.text.starts_with("pass these tensors: softmax")) << right.text;
  for (const float wrong : {0.5001F, std::nanf(""), 0.0F}) {
    const std::vector<float> y = {0.5F, wrong, 0.25F, 0.75F};
    const Said found = judge(kLine, kContract, softmax(y));
    EXPECT_EQ(found.code, ASSAY_FINDING) << found.text;
    EXPECT_NE(found.text.find("y[0,1] of [2,2]"), std::string::npos) << found.text;
  }
  EXPECT_EQ(judge(kLine, nullptr, softmax(kY)).code, ASSAY_GREEN);  // the op's own contract
  EXPECT_EQ(assay_judge(kLine, kContract, 0, softmax(kY).data(), 2, nullptr), ASSAY_GREEN);
}

TEST(JudgeLibrary, tells_what_cannot_be_judged_and_what_is_allowed) {
  const Tensors right = softmax(kY);
  struct Row {
    const char* line;
    const char* contract;
    Tensors tensors;
    const char* word;
  };
  const assay_array no_data = {"x", "F32", kShape.data(), 2, nullptr, 16};
  const assay_array no_name = {nullptr, "F32", kShape.data(), 2, kX.data(), 16};
  const assay_array axes = {"x", "F32", kShape.data(), 100, kX.data(), 16};
  const std::vector<Row> rows = {
      {nullptr, kContract, right, "no case line was given"},
      {"sofmax rows=2 cols=2", kContract, right, "softmax"},
      {"softmax rows=2,3 cols=2", kContract, right, "2 cases"},
      {"softmax rows=2 cols=2 fault=nan", kContract, right, "fault"},
      {kLine, "acc=f33", right, "acc"},
      {kLine, kContract, {right[0]}, "there is no 'y'"},
      {kLine, kContract, {right[1]}, "there is no 'x'"},
      {kLine, kContract, {right[0], right[1], right[1]}, "'y' is there twice"},
      {"softmax rows=2 cols=3 dtype=f32", kContract, right, "16 bytes"},
      {kLine, kContract, {no_data, right[1]}, "'x' has no data"},
      {kLine, kContract, {no_name, right[1]}, "no name of a tensor was given"},
      {kLine, kContract, {axes, right[1]}, "100 axes; allowed: 0..16"},
  };
  for (const Row& row : rows) {
    const Said said = judge(row.line, row.contract, row.tensors);
    EXPECT_EQ(said.code, ASSAY_USAGE) << said.text;
    EXPECT_NE(said.text.find(row.word), std::string::npos) << row.word << " in: " << said.text;
  }
  EXPECT_EQ(judge(kLine, kContract, right, 6).code, ASSAY_USAGE);
  // A shape is one of the elements that are there; how many axes they are cut into is the caller's.
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{-2, -2}, {0, 4}, {INT64_MAX, 4}, {4, 4}, {}})
    EXPECT_EQ(judge(kLine, kContract, {tensor("x", "F32", shape, kX), right[1]}).code, ASSAY_USAGE)
        << shape.size();
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{4}, {1, 2, 2}})
    EXPECT_EQ(judge(kLine, kContract, {tensor("x", "F32", shape, kX), right[1]}).code, ASSAY_GREEN);
  EXPECT_EQ(judge(kLine, kContract, {tensor("x", "FLOAT", kShape, kX), right[1]}).code, ASSAY_USAGE);
  char* text = nullptr;
  EXPECT_EQ(assay_judge(kLine, kContract, 0, nullptr, 2, &text), ASSAY_USAGE);
  EXPECT_NE(std::string(text).find("no tensors were given"), std::string::npos) << text;
  assay_free(text);
}

TEST(JudgeLibrary, says_what_the_bytes_of_a_format_stand_for) {
  // Two elements to a byte, the earlier one in the low nibble; the second row's scale is none.
  const std::array<std::uint8_t, 2> codes = {0x7F, 0x81};
  const std::array<float, 2> scales = {0.5F, std::numeric_limits<float>::quiet_NaN()};
  const std::array<std::int64_t, 2> shape = {2, 2}, bytes = {2, 1};
  const std::int64_t two = 2;
  const Tensors planes = {{"", "U8", bytes.data(), 2, codes.data(), codes.size()},
                          {".scale", "F32", &two, 1, scales.data(), sizeof scales}};
  std::array<double, 4> values{};
  char* text = nullptr;
  EXPECT_EQ(assay_decode("int4_ch", shape.data(), 2, planes.data(), 2, values.data(), &text), ASSAY_GREEN)
      << text;
  assay_free(text);
  EXPECT_EQ(values[0], -0.5);  // code 15 is -1
  EXPECT_EQ(values[1], 3.5);   // code 7
  EXPECT_TRUE(std::isnan(values[2]) && std::isnan(values[3]));
  const auto refused = [&](const char* format, std::int32_t rank, std::size_t count, double* into) {
    char* why = nullptr;
    EXPECT_EQ(assay_decode(format, shape.data(), rank, planes.data(), count, into, &why), ASSAY_USAGE);
    std::string said = why;
    assay_free(why);
    return said;
  };
  EXPECT_NE(refused("int4_chh", 2, 2, values.data()).find("int4_ch"), std::string::npos);
  EXPECT_NE(refused("int4_ch", 0, 2, values.data()).find("0 axes"), std::string::npos);
  EXPECT_NE(refused("int4_ch", 2, 1, values.data()).find("plane '.scale'"), std::string::npos);
  EXPECT_NE(refused("int8_row", 2, 2, values.data()).find("2 bytes were given"), std::string::npos);
  EXPECT_NE(refused("int4_ch", 2, 2, nullptr).find("place for numbers"), std::string::npos);
}

TEST(JudgeLibrary, says_what_a_format_leaves_of_numbers) {
  const std::array<std::int64_t, 1> shape = {4};
  const std::array<float, 4> x = {1.03F, 464, -449, 0.0009765625F};
  std::array<double, 4> rounded{};
  EXPECT_EQ(assay_round_to("e4m3fn", shape.data(), 1, x.data(), rounded.data(), nullptr), ASSAY_GREEN);
  EXPECT_EQ(rounded, (std::array<double, 4>{1, 448, -448, 0}));  // 2^-10 is a tie between 0 and 2^-9
  EXPECT_EQ(assay_round_to("q4_0", shape.data(), 1, x.data(), rounded.data(), nullptr), ASSAY_USAGE);
  EXPECT_EQ(assay_round_to("e4m3fn", shape.data(), 1, nullptr, rounded.data(), nullptr), ASSAY_USAGE);
}

TEST(JudgeLibrary, a_pass_that_shows_little_is_a_finding_when_strict) {
  const char* wide = "acc=bf16 exp_ulp=2";
  EXPECT_EQ(judge(kLine, wide, softmax(kY)).code, ASSAY_GREEN);
  EXPECT_EQ(judge(kLine, kContract, softmax(kY), ASSAY_STRICT).code, ASSAY_GREEN);
  const std::vector<std::int64_t> shape = {1, 32};
  const std::vector<float> x(32, 0), y(32, 1.0F / 32);
  const Tensors tensors = {tensor("x", "F32", shape, x), tensor("y", "F32", shape, y)};
  const char* line = "softmax rows=1 cols=32 dtype=f32";
  EXPECT_EQ(judge(line, wide, tensors).code, ASSAY_GREEN);
  const Said strict = judge(line, wide, tensors, ASSAY_STRICT);
  EXPECT_EQ(strict.code, ASSAY_FINDING) << strict.text;
  EXPECT_NE(strict.text.find("blind"), std::string::npos) << strict.text;
}

// What a test or an engine leaves behind: rounding towards zero, subnormals flushed, exceptions unmasked.
TEST(JudgeLibrary, neither_takes_nor_leaves_the_callers_arithmetic) {
  const Said plain = judge(kLine, kContract, softmax(kY));
  std::fenv_t before{};
  std::fegetenv(&before);
  std::fesetround(FE_TOWARDZERO);
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040U);
  const unsigned set = __builtin_ia32_stmxcsr();
#endif
  const Said otherwise = judge(kLine, kContract, softmax(kY));
  EXPECT_EQ(std::fegetround(), FE_TOWARDZERO);
#if defined(__x86_64__)
  EXPECT_EQ(__builtin_ia32_stmxcsr(), set);
#endif
  std::fesetenv(&before);
  EXPECT_EQ(otherwise.code, ASSAY_GREEN) << otherwise.text;
  EXPECT_EQ(otherwise.text, plain.text);
}

TEST(JudgeLibrary, threads_get_the_same_verdict_whatever_their_number) {
  const std::vector<std::int64_t> shape = {64, 4096}, axis = {4096};
  std::vector<float> x(64 * 4096), gamma(4096, 1), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  for (std::size_t r = 0; r < 64; ++r) {
    double sum = 0;
    for (std::size_t i = 0; i < 4096; ++i) sum += double{x[r * 4096 + i]} * x[r * 4096 + i];
    for (std::size_t i = 0; i < 4096; ++i)
      y[r * 4096 + i] = static_cast<float>(x[r * 4096 + i] / std::sqrt(sum / 4096 + 1e-5));
  }
  const Tensors tensors = {tensor("x", "F32", shape, x), tensor("gamma", "F32", axis, gamma),
                           tensor("y", "F32", shape, y)};
  const auto said = [&] { return judge("rmsnorm rows=64 cols=4096 dtype=f32 eps=1e-5", "acc=f32", tensors); };
  assay_set_threads(1);
  const Said one = said();
  EXPECT_EQ(one.code, ASSAY_GREEN) << one.text;
  assay_set_threads(0);
  std::vector<Said> all(8);
  {
    std::vector<std::jthread> threads;
    for (Said& mine : all) threads.emplace_back([&mine, &said] { mine = said(); });
  }
  for (const Said& mine : all) EXPECT_EQ(mine.text, one.text);
}

TEST(JudgeLibrary, makes_the_inputs_that_a_run_of_the_case_has) {
  for (const char* line : {"softmax rows=3 cols=33 dtype=bf16 fill=peaked seed=7",
                           "attention heads=2 kv_heads=1 d=32 len=40 kv=e4m3fn_tok fill=needle page=16"}) {
    assay_case* made = nullptr;
    ASSERT_EQ(assay_make_case(line, &made, nullptr), ASSAY_GREEN);
    std::size_t inputs = 0, outputs = 0;
    const assay_array* first = assay_case_inputs(made, &inputs);
    const assay_array* asked = assay_case_outputs(made, &outputs);
    const assay::Inputs expected = assay::make_inputs(assay::one_case_of(line, "test"), assay::input_lists());
    std::size_t planes = 0;
    for (const auto& [name, tensor] : expected.set)
      for (const assay::Plane& plane : tensor.planes) {
        ++planes;
        const auto* found = std::find_if(
            first, first + inputs, [&](const assay_array& t) { return t.name == name + plane.spec.suffix; });
        ASSERT_NE(found, first + inputs) << name;
        ASSERT_EQ(found->bytes, plane.bytes.size());
        EXPECT_EQ(std::memcmp(found->data, plane.bytes.data(), found->bytes), 0) << line << " " << name;
      }
    EXPECT_EQ(planes, inputs);
    ASSERT_EQ(outputs, 1U);
    EXPECT_EQ(asked->data, nullptr);
    EXPECT_EQ(asked->bytes, line[0] == 's' ? 3U * 33 * 2 : 2U * 32 * 2);
    EXPECT_STREQ(assay_case_attribute(made, line[0] == 's' ? "cols" : "len"), line[0] == 's' ? "33" : "40");
    EXPECT_EQ(assay_case_attribute(made, "no_such"), nullptr);
    assay_free_case(made);
  }
  assay_free_case(nullptr);
  std::size_t of_none = 7;
  EXPECT_EQ(assay_case_inputs(nullptr, &of_none), nullptr);
  EXPECT_EQ(of_none, 0U);
  EXPECT_EQ(assay_truth_limits(nullptr, nullptr), nullptr);
  EXPECT_EQ(assay_case_attribute(nullptr, "cols"), nullptr);
  for (const auto& [line, word] :
       {std::pair{"softmax rows=3", "cols"}, {"softmax rows=3 cols=4 fault=nan", "two runs"}}) {
    assay_case* made = nullptr;
    char* why = nullptr;
    EXPECT_EQ(assay_make_case(line, &made, &why), ASSAY_USAGE);
    EXPECT_EQ(made, nullptr);
    EXPECT_NE(std::string(why).find(word), std::string::npos) << why;
    assay_free(why);
  }
  char* listed = nullptr;
  EXPECT_EQ(assay_list_cases("softmax rows=1,2 cols=4", &listed), ASSAY_GREEN);
  EXPECT_STREQ(listed, "softmax rows=1 cols=4 seed=1\nsoftmax rows=2 cols=4 seed=1\n");
  assay_free(listed);
  for (const auto& [line, word] : {std::pair{"softmax rows=1 cols=4 fill=gausian", "did you mean 'gaussian'"},
                                   {"softmax rows=1 cols=4 fault=nann", "no fault 'nann'"},
                                   {"softmax rows=1 cols=4 fill=nosuch.safetensors", "nosuch.safetensors"}}) {
    EXPECT_EQ(assay_list_cases(line, &listed), ASSAY_USAGE) << line;
    EXPECT_NE(std::string(listed).find(word), std::string::npos) << listed;
    assay_free(listed);
  }
}

TEST(JudgeLibrary, tells_the_exact_value_and_the_limit_of_each_element) {
  const Tensors tensors = softmax(kY);
  assay_truths* made = nullptr;
  ASSERT_EQ(assay_make_truths(kLine, kContract, tensors.data(), 1, &made, nullptr), ASSAY_GREEN);
  std::size_t count = 0;
  const assay_array* values = assay_truth_values(made, &count);
  ASSERT_EQ(count, 1U);
  EXPECT_STREQ(values->name, "y");
  EXPECT_STREQ(values->type, "F64");
  ASSERT_EQ(values->bytes, 4 * sizeof(double));
  EXPECT_EQ(std::vector<std::int64_t>(values->shape, values->shape + values->rank), kShape);
  const auto* value = static_cast<const double*>(values->data);
  const auto* limit = static_cast<const double*>(assay_truth_limits(made, nullptr)->data);
  const double large = std::exp(double{kX[3]});
  EXPECT_EQ(value[0], 0.5);
  EXPECT_EQ(static_cast<float>(value[3]), static_cast<float>(large / (1 + large)));
  const double least = 0x1p-26;  // what the store alone of a number from 1/4 on may cost
  const double most =
      0x1p-20;  // y <= 3/4, two functions of 2 ulps, a sum, a quotient of 2 ulps and a store: at most 16 of 2^-24
  // What is just inside of a limit is green, and what is outside of it is not.
  for (std::size_t i = 0; i < 4; ++i)
    for (const auto& [share, code] : {std::pair{0.9, ASSAY_GREEN}, {1.1, ASSAY_FINDING}}) {
      EXPECT_GE(limit[i], least);
      EXPECT_LE(limit[i], most);
      std::vector<float> y = kY;
      const float away = static_cast<float>(value[i] + share * limit[i]);
      if ((std::fabs(away - value[i]) <= limit[i]) != (code == ASSAY_GREEN))
        continue;  // no f32 number is there
      y[i] = away;
      EXPECT_EQ(judge(kLine, kContract, softmax(y)).code, static_cast<int>(code)) << i << " " << share;
    }
  assay_free_truths(made);
  char* why = nullptr;
  EXPECT_EQ(assay_make_truths(kLine, "acc=f33", tensors.data(), 1, &made, &why), ASSAY_USAGE);
  EXPECT_EQ(made, nullptr);
  assay_free(why);
}

TEST(JudgeLibrary, a_formula_is_an_op_from_then_on) {
  const std::string formula =
      "op twice_the_row          # y = 2 x\n"
      "sizes rows, cols\n"
      "in  x[rows,cols] dtype\n"
      "out y[r,i] dtype = 2 * x[r,i]\n";
  const char* line = "twice_the_row rows=2 cols=2 dtype=f32";
  const std::vector<float> twice = {0, 0, 0, 2 * kX[3]};
  EXPECT_EQ(judge(line, nullptr, softmax(twice)).code, ASSAY_USAGE);  // not yet
  char* text = nullptr;
  EXPECT_EQ(assay_add_formula("op twice_the_row\nsizes rows\nout y[r] dtype = x[r]\n", &text), ASSAY_USAGE);
  EXPECT_NE(std::string(text).find("line "), std::string::npos) << text;
  assay_free(text);
  EXPECT_EQ(assay_add_formula(formula.c_str(), nullptr), ASSAY_GREEN);
  EXPECT_EQ(assay_add_formula(formula.c_str(), nullptr), ASSAY_GREEN);
  EXPECT_EQ(assay_add_formula((formula + "# another\n").c_str(), nullptr), ASSAY_USAGE);
  const Said right = judge(line, nullptr, softmax(twice));
  EXPECT_EQ(right.code, ASSAY_GREEN) << right.text;
  EXPECT_EQ(judge(line, nullptr, softmax(kX)).code, ASSAY_FINDING);
}

TEST(JudgeLibrary, shows_its_own_functions_and_nothing_else) {
  const assay::Outcome names =
      assay::run_command("nm -D --defined-only -P " JUDGE_LIBRARY " | cut -d' ' -f1 | sort");
  EXPECT_EQ(names.text,
            "assay_add_formula\nassay_case_attribute\nassay_case_inputs\nassay_case_outputs\nassay_decode\n"
            "assay_free\nassay_free_case\nassay_free_truths\nassay_judge\nassay_list_cases\nassay_make_case\n"
            "assay_make_truths\nassay_round_to\nassay_set_threads\nassay_truth_limits\nassay_truth_"
            "values\nassay_version\n");
  EXPECT_STREQ(assay_version(), ASSAY_VERSION);
}

}  // namespace
