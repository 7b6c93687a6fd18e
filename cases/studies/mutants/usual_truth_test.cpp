// The usual rules' reference: the formula, within every limit of a kernel that converts nothing; what a
// kernel declares moves the truth that assay judges by, and not this.
#include "cases/studies/mutants/usual_truth.hpp"

#include <gtest/gtest.h>

#include <string>

#include "cases/lists.hpp"
#include "harness/inputs.hpp"
#include "reference/ops/judged.hpp"

namespace assay::mutants {
namespace {

struct Values {
  std::vector<double> usual;
  Truth truth;
  std::size_t beyond() const {  // how many of the usual values lie outside of the limit
    std::size_t count = 0;
    for (std::size_t i = 0; i < usual.size(); ++i)
      count += judge(usual[i], truth.value[i], truth.limit[i]).ok ? 0 : 1;
    return count;
  }
};

Values of(const std::string& line, const std::string& contract) {
  const Case c = expand(parse_case(line, "test"), "test").at(0);
  const Inputs inputs = make_inputs(c, input_lists());
  const std::vector<Truth> truths =
      c.op->truth(c.attributes, inputs.set, Contract::parse(contract, c.op->contract));
  return {usual_truth(c, inputs.set, truths).at(0), truths.at(0)};
}

TEST(UsualTruth, the_formula_is_within_the_limits_of_a_kernel_that_converts_nothing) {
  for (const char* line :
       {"matmul m=3 n=5 k=64 a=f32 b=q8_0 path=f32 dtype=f32",
        "matmul m=3 n=4 k=32 a=int8_tok b=int4_ch dtype=f32",
        "moe tokens=5 hidden=64 inter=32 experts=4 topk=2 a=f32 w=f32 dtype=f32", "softmax rows=3 cols=40"})
    EXPECT_EQ(of(line, "").beyond(), 0U) << line;
}

TEST(UsualTruth, a_declared_quantiser_moves_the_truth_alone) {
  const std::string line = "matmul m=3 n=5 k=64 a=f32 b=f32 dtype=f32 path=";
  const Values plain = of(line + "f32", ""), quantised = of(line + "e4m3fn", "scale=divide code=divide");
  EXPECT_EQ(plain.usual, quantised.usual);
  EXPECT_GT(quantised.beyond(), 0U);
}

TEST(UsualTruth, a_store_in_16_bits_moves_the_truth_alone) {
  const std::string line = "matmul m=3 n=5 k=64 a=f32 b=f32 path=f32 dtype=";
  const Values wide = of(line + "f32", ""), narrow = of(line + "bf16", "");
  EXPECT_EQ(wide.usual, narrow.usual);
  EXPECT_NE(narrow.truth.value, narrow.usual);
}

}  // namespace
}  // namespace assay::mutants
