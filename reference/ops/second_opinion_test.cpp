#include "reference/ops/second_opinion.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "reference/arithmetic/rounding.hpp"
#include "reference/error.hpp"

namespace assay {
namespace {

struct MatmulCase {
  static constexpr std::size_t kRows = 2, kColumns = 32;
  const Op& o = op("matmul");
  Attributes attributes;
  TensorSet inputs;

  explicit MatmulCase(std::int64_t k, bool few_values = false) {
    attributes = Attributes::complete(
        o.attributes, {{"m", "2"}, {"n", "32"}, {"k", std::to_string(k)}, {"a", "f32"}, {"dtype", "f32"}});
    std::mt19937_64 random(3);
    std::normal_distribution<float> normal;
    for (const TensorSpec& spec : o.tensors(attributes)) {
      if (spec.role != TensorRole::data) continue;
      std::vector<float> values(static_cast<std::size_t>(element_count(spec.shape)));
      for (float& x : values) x = few_values ? (random() % 2 == 0 ? 0.1F : -0.3F) : normal(random);
      inputs[spec.name] = encode_tensor(format(spec.format), spec.shape, values);
    }
  }
  std::optional<Contract> ask(const char* contract) const {
    return second_opinion(o, attributes, inputs, Contract::parse(contract, o.contract));
  }
};

// A kernel that keeps its partial sums in f32, and one that keeps 15 bits of their fraction and says f32.
TEST(SecondOpinion, stands_between_the_proof_and_a_right_kernel) {
  constexpr std::size_t kTerms = 4096;
  const MatmulCase c(kTerms);
  const std::optional<Contract> likely = c.ask("acc=f32");
  ASSERT_TRUE(likely);
  EXPECT_EQ(likely->text("order"), "likely");
  const Truth proof = c.o.truth(c.attributes, c.inputs, Contract::parse("acc=f32", c.o.contract)).front();
  const Truth opinion = c.o.truth(c.attributes, c.inputs, *likely).front();
  const std::vector<double> a = decode_tensor(c.inputs.at("a")), b = decode_tensor(c.inputs.at("b"));
  std::size_t suspects = 0;
  for (std::size_t i = 0; i < MatmulCase::kRows; ++i)
    for (std::size_t j = 0; j < MatmulCase::kColumns; ++j) {
      float right = 0;
      double coarse = 0;
      for (std::size_t k = 0; k < kTerms; ++k) {
        const auto product = static_cast<float>(a[i * kTerms + k] * b[j * kTerms + k]);
        right += product;
        coarse = std::ldexp(std::floor(std::ldexp(coarse + static_cast<double>(product), 15)), -15);
      }
      const std::size_t at = i * MatmulCase::kColumns + j;
      EXPECT_LT(8 * opinion.limit[at], proof.limit[at]);
      EXPECT_LE(std::fabs(static_cast<double>(right) - opinion.value[at]), opinion.limit[at]);
      EXPECT_LE(std::fabs(coarse - proof.value[at]), proof.limit[at]);
      if (!(std::fabs(coarse - opinion.value[at]) <= opinion.limit[at])) ++suspects;
    }
  EXPECT_EQ(suspects, MatmulCase::kRows * MatmulCase::kColumns);
}

TEST(SecondOpinion, is_refused_where_errors_are_not_independent) {
  const MatmulCase gaussian(256), few(256, true);
  EXPECT_TRUE(gaussian.ask("acc=f32"));
  EXPECT_FALSE(gaussian.ask("acc=f32 order=sequential"));  // its order is declared
  EXPECT_FALSE(few.ask("acc=f32"));
  EXPECT_FALSE(gaussian.ask("acc=hopper_f16"));  // a unit that cuts its sums off
}

// 16,384 positive terms in f16: a running sum stands still where they are less than half of its step.
TEST(SecondOpinion, is_silent_where_sums_stand_still) {
  constexpr std::size_t kTerms = 16384;
  const MatmulCase c(kTerms);
  TensorSet inputs;
  for (const auto& [name, tensor] : c.inputs) {
    std::vector<double> values = decode_tensor(tensor);
    std::vector<float> positive(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      positive[i] = static_cast<float>(round_f16(0.25 + std::fabs(values[i]) / 16));
    inputs[name] = encode_tensor(format("f32"), tensor.shape, positive);
  }
  const Contract contract = Contract::parse("acc=f16", c.o.contract);
  const std::optional<Contract> likely = second_opinion(c.o, c.attributes, inputs, contract);
  ASSERT_TRUE(likely);
  std::vector<Truth> opinion = c.o.truth(c.attributes, inputs, *likely);
  const std::vector<double> a = decode_tensor(inputs.at("a")), b = decode_tensor(inputs.at("b"));
  double sum = 0;
  for (std::size_t k = 0; k < kTerms; ++k) sum = round_f16(sum + round_f16(a[k] * b[k]));
  EXPECT_GT(std::fabs(sum - opinion[0].value[0]), opinion[0].limit[0]);  // the model alone accuses it
  keep_silent_with(c.o.truth(c.attributes, inputs, contract), opinion);
  EXPECT_EQ(opinion[0].limit[0], std::numeric_limits<double>::infinity());
}

TEST(SecondOpinion, cannot_be_declared) {
  EXPECT_THROW(Contract::parse("acc=f32 order=likely", op("matmul").contract), InputError);
}

}  // namespace
}  // namespace assay
