// The adversary itself: no op is without a family, its arithmetic is the machine's, it finds what is planted,
// and on the limits as they are it finds nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "cases/studies/adversary/corpus.hpp"
#include "cases/studies/adversary/search.hpp"
#include "cases/studies/adversary/sums.hpp"

namespace assay::adversary {
namespace {

bool nightly() { return std::getenv("ASSAY_NIGHTLY") != nullptr; }

TEST(Adversary, every_op_has_a_family) {
  for (const Op& op : ops())
    EXPECT_TRUE(std::ranges::any_of(families(), [&](const Family& f) { return f.op == op.name; })) << op.name;
}

TEST(Adversary, operations_are_rounded_once) {
  Draw draw(1);
  const Arithmetic f32("f32"), f16("f16");
  for (int i = 0; i < 100000; ++i) {
    const float a = static_cast<float>(std::ldexp(draw.gaussian(), static_cast<int>(draw.below(40)) - 20)),
                b = static_cast<float>(draw.gaussian()), c = static_cast<float>(draw.gaussian());
    EXPECT_EQ(f32.add(a, b), static_cast<double>(a + b));
    EXPECT_EQ(f32.mul(a, b), static_cast<double>(a * b));
    EXPECT_EQ(f32.div(a, b), static_cast<double>(a / b));
    EXPECT_EQ(f32.fma(a, b, c), static_cast<double>(std::fmaf(a, b, c)));
    const double x = f16.round(b), y = f16.round(c), z = f16.round(std::ldexp(a, -12));
    EXPECT_EQ(f16.add(x, y), round_f16(x + y));  // exact in f64 before it is rounded
    EXPECT_LE(std::fabs(f16.fma(x, y, z) - (x * y + z)), 0x1.00001p-11 * std::fabs(x * y + z) + 0x1p-25);
  }
  // 1 + 2^-11 + 2^-60 lies above the tie: f64 alone would round it twice, to 1.
  EXPECT_EQ(Arithmetic("f16").fma(0x1p-30, 0x1p-30, 1 + 0x1p-11), 1 + 0x1p-10);
}

TEST(Adversary, a_function_errs_by_no_more_than_its_ulps) {
  Draw draw(2);
  for (const char* type : {"f32", "f16", "bf16"}) {
    const Arithmetic m(type);
    double worst = 0;
    for (int i = 0; i < 20000; ++i) {
      const double exact = std::exp(draw.gaussian()), ulp = std::ldexp(2 * m.unit(), std::ilogb(exact));
      for (const int side : {-1, 1}) {
        const double error = std::fabs(m.within(exact, 2, side) - exact) / ulp;
        EXPECT_LE(error, 2);
        worst = std::max(worst, error);
      }
    }
    EXPECT_GT(worst, 1.9) << type;
  }
}

TEST(Adversary, a_function_errs_by_its_steps_where_its_result_is_subnormal) {
  for (const char* type : {"f32", "f16", "bf16"}) {
    const Arithmetic m(type), flush(type, true);
    const double step = 2 * m.unit() * m.least_normal();
    for (const double steps : {0.3, 1.7, 26.547}) {
      EXPECT_EQ(m.within(steps * step, 3, 1), std::floor(steps + 3) * step) << type << " " << steps;
      EXPECT_EQ(m.within(steps * step, 3, -1), std::ceil(steps - 3) * step) << type << " " << steps;
      EXPECT_EQ(flush.within(steps * step, 3, 1), 0) << type;
    }
    EXPECT_EQ(m.within(0, 3, 1), 0);
  }
}

TEST(Adversary, every_order_adds_every_term) {
  const Arithmetic m("f32");
  std::vector<double> x;
  for (int i = 1; i <= 100; ++i) x.push_back(i);
  for (const std::string& sum : words_of(kSums)) EXPECT_EQ(ordered_sum(m, x, sum, 3), 5050) << sum;
}

TEST(Adversary, a_point_is_the_text_that_runs_it_again) {
  for (const KnownPoint& each : read_corpus(ASSAY_KNOWN_POINTS))
    EXPECT_EQ(print(parse_point(print(parse_point(each.point)))), print(parse_point(each.point)));
}

TEST(Adversary, finds_every_planted_defect) {
  for (const Family& family : families())
    for (const std::string& defect : words_of(family.defects)) {
      SearchOptions options;
      options.defect = defect, options.stop_at_violation = true, options.seconds = 20;
      EXPECT_GT(search(family, options).at("").violations, 0U) << family.name << " " << defect;
    }
}

TEST(Adversary, what_was_repaired_stays_repaired) {
  for (const KnownPoint& each : read_corpus(ASSAY_KNOWN_POINTS)) {
    const Shown shown = show(parse_point(each.point));
    EXPECT_TRUE(shown.possible) << each.name << ": " << shown.refusal;
    EXPECT_LE(shown.ratio, 1) << each.name << ": " << shown.where << "\n" << shown.contract;
  }
}

// So many outputs of each family, the same on every machine; at night ten million and a quarter of an hour at
// the least.
TEST(Adversary, finds_no_violation) {
  const std::map<std::string, std::size_t> few = {{"attention", 10'000},
                                                  {"attention_unit", 2'000},
                                                  {"attention_stored", 5'000},
                                                  {"matmul", 7'500},
                                                  {"matmul_unit", 5'000},
                                                  {"matmul_tf32", 5'000},
                                                  {"matmul_e4m3fn", 2'500},
                                                  {"matmul_blocks", 2'500},
                                                  {"matmul_q8", 5'000},
                                                  {"logsumexp", 5'000},
                                                  {"moe", 25'000}};
  std::size_t outputs = 0;
  for (const Family& family : families()) {
    SearchOptions options;
    options.seconds = nightly() ? 900 / static_cast<double>(families().size()) : 1e9;
    const auto own = few.find(std::string(family.name));
    if (!nightly()) options.outputs = own == few.end() ? 75'000 : own->second;
    int shown = 0;
    options.found = [&](const Finding& f) {
      if (++shown <= 3)
        ADD_FAILURE() << f.shown.ratio << " " << f.shown.where << "\n"
                      << f.shown.contract << "\nassay adversary --point '" << print(f.point) << "'";
    };
    outputs += search(family, options).at("").outputs;
  }
  if (nightly()) {
    EXPECT_GE(outputs, 10'000'000U);
  }
}

}  // namespace
}  // namespace assay::adversary
