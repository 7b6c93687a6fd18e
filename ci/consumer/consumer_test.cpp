#include <assay/gtest.hpp>
#include <cmath>
#include <cstdint>

namespace {

void softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t r = 0; r < rows; ++r, x += cols, y += cols) {
    float largest = x[0], sum = 0;
    for (std::int64_t i = 1; i < cols; ++i) largest = std::fmax(largest, x[i]);
    for (std::int64_t i = 0; i < cols; ++i) sum += y[i] = std::exp(x[i] - largest);
    for (std::int64_t i = 0; i < cols; ++i) y[i] /= sum;
  }
}

constexpr auto kCases = "softmax rows=4 cols=3,1000 dtype=f32 fill=gaussian,peaked,deep";
constexpr auto kContract = "acc=f32 exp_ulp=1 out=f32";

TEST(Consumer, a_correct_kernel_keeps_its_contract) {
  EXPECT_ASSAY(kCases, kContract, [](const assay::Subject& s) {
    softmax(s.input<float>("x"), s.output<float>("y"), 4, s.integer("cols"));
  });
}

TEST(Consumer, a_kernel_that_is_off_by_a_millionth_does_not) {
  EXPECT_FALSE(assay::keeps_contract(kCases, kContract, [](const assay::Subject& s) {
    const auto cols = s.integer("cols");
    softmax(s.input<float>("x"), s.output<float>("y"), 4, cols);
    for (std::int64_t i = 0; i < 4 * cols; ++i) s.output<float>("y")[i] *= 1.00001F;
  }));
}

TEST(Consumer, a_row_that_is_left_unwritten_is_noticed) {
  const auto result = assay::keeps_contract(kCases, kContract, [](const assay::Subject& s) {
    softmax(s.input<float>("x"), s.output<float>("y"), 3, s.integer("cols"));
  });
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find("unwritten"), std::string::npos) << result.message();
}

TEST(Consumer, an_input_that_is_written_to_is_noticed_and_judges_nothing) {
  const auto result = assay::keeps_contract(kCases, kContract, [](const assay::Subject& s) {
    const std::int64_t cols = s.integer("cols");
    float* x = const_cast<float*>(s.input<float>("x"));
    for (std::int64_t i = 0; i < 4 * cols; ++i)
      x[i] = 0, s.output<float>("y")[i] = 1.0F / static_cast<float>(cols);
  });
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find("input_changed: wrote to x"), std::string::npos)
      << result.message();
}

TEST(Consumer, a_kernel_with_commas_is_one_argument) {
  const int rows = 4, unused = 0;
  EXPECT_ASSAY(kCases, kContract, [rows, unused](const assay::Subject& s) {
    softmax(s.input<float>("x"), s.output<float>("y"), rows + unused, s.integer("cols"));
  });
}

TEST(Consumer, a_misspelt_case_says_what_is_allowed) {
  const auto result = assay::keeps_contract("sofmax rows=1 cols=2", kContract, [](const assay::Subject&) {});
  EXPECT_NE(std::string(result.message()).find("did you mean 'softmax'"), std::string::npos)
      << result.message();
}

}  // namespace
