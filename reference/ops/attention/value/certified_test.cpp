// The certified value and its moments against the referee, over all fills, formats, masks and layouts.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdlib>

#include "reference/ops/attention/test_problem.hpp"
#include "reference/ops/attention/value/certified.hpp"
#include "reference/ops/attention/value/oracle_mp.hpp"

namespace assay {
namespace {

using mp::Real200;

struct Tally {
  std::int64_t outputs = 0, violations = 0, loose = 0;
  double worst = 0;  // error / certificate
};

// Every row at night, one in three by day.
std::int64_t step_of(std::int64_t nightly) {
  return std::getenv("ASSAY_NIGHTLY") != nullptr ? nightly : 3 * nightly;
}

double magnitude(const Real200& x) { return std::fabs(static_cast<double>(x)); }

// Every `step`-th row of the case.
void compare(const AttentionCase& c, const std::string& what, std::int64_t step, Tally& tally) {
  const AttentionProblem& p = *c.problem;
  const AttentionGeometry& g = p.geometry();
  const CertifiedAttention got = certified_attention(p);
  for (std::int64_t n = 0; n < g.batch * g.rows * g.heads; n += step) {
    const std::int64_t h = n % g.heads, i = n / g.heads % g.rows, b = n / g.heads / g.rows;
    const OracleRow<Real200> want = attention_oracle(p, b, i, h);
    for (std::size_t col = 0; col < static_cast<std::size_t>(g.dv); ++col) {
      const std::size_t at = static_cast<std::size_t>(p.out_index(b, i, h)) + col;
      const double error = magnitude(Real200(Real200(got.value[at]) - want.value[col]));
      const double a = static_cast<double>(want.absolute[col]);
      ++tally.outputs;
      if (!(error <= got.certificate[at])) {
        ++tally.violations;
        ADD_FAILURE() << what
                      << fmt::format(" out[{},{},{},{}] = {} error {} certificate {}", b, i, h, col,
                                     got.value[at], error, got.certificate[at]);
        if (tally.violations > 5) return;
      }
      const double eta = static_cast<double>(g.length) * 0x1p-171 * (1 + got.value_max);
      // What the certificate may be: 2^-46 A and eta.
      if (!(got.certificate[at] <= 0x1p-46 * a + eta)) {
        ++tally.loose;
        ADD_FAILURE() << what << " certificate " << got.certificate[at] << " exceeds 2^-46 A, A = " << a;
        if (tally.loose > 5) return;
      }
      if (got.certificate[at] > 0) tally.worst = std::max(tally.worst, error / got.certificate[at]);
      EXPECT_GE(got.absolute[at] * (1 + 0x1p-52), a) << what;
      EXPECT_GE(got.deviation[at] * (1 + 0x1p-52), static_cast<double>(want.deviation[col])) << what;
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(CertifiedAttention, certificate_holds_for_every_fill_and_format) {
  Tally tally;
  const char* const formats[] = {"f16",      "bf16",        "e4m3fn", "e5m2", "e4m3fnuz",
                                 "int8_tok", "e4m3fn_head", "q8_0",   "f32"};
  int n = 0;
  for (const Design fill : kDesigns)
    for (const char* kv : formats) {
      const std::int64_t length = 113 + 61 * (n % 7);
      const char* dtype = n % 3 == 0 ? "bf16" : n % 3 == 1 ? "f16" : "f32";
      ++n;
      compare(attention_case({{"heads", "4"},
                              {"kv_heads", "2"},
                              {"d", "32"},
                              {"dv", "64"},
                              {"q", "2"},
                              {"kv", kv},
                              {"len", std::to_string(length)},
                              {"dtype", dtype}},
                             fill, static_cast<std::uint64_t>(n)),
              fmt::format("fill {} kv {} q {} len {}", to_string(fill), kv, dtype, length), step_of(1),
              tally);
      if (HasFailure()) return;
    }
  RecordProperty("outputs", static_cast<int>(tally.outputs));
  fmt::print("{} outputs, worst error / certificate {:.3g}\n", tally.outputs, tally.worst);
}

TEST(CertifiedAttention, certificate_holds_for_every_mask_layout_and_variant) {
  const AttributeMap variants[] = {
      {{"mask", "causal"}},
      {{"mask", "window"}, {"window", "37"}},
      {{"mask", "random"}},
      {{"softcap", "50"}},
      {{"softcap", "5"}, {"mask", "causal"}},
      {{"sinks", "yes"}},
      {{"alibi", "yes"}, {"mask", "causal"}},
      {{"alibi", "yes"}},
      {{"page", "16"}, {"batch", "3"}, {"lengths", "ragged"}, {"mask", "causal"}},
      {{"page", "24"},
       {"sinks", "yes"},
       {"softcap", "30"},
       {"alibi", "yes"},
       {"mask", "window"},
       {"window", "100"}},
      {{"heads", "14"}, {"kv_heads", "2"}},
      {{"d", "40"}, {"dv", "72"}},
      {{"d", "192"}, {"dv", "128"}, {"heads", "3"}, {"kv_heads", "3"}},
      {{"d", "576"}, {"dv", "512"}, {"kv_heads", "1"}, {"heads", "5"}, {"q", "1"}},
      {{"scale", "0.3"}}};
  Tally tally;
  int n = 0;
  for (const AttributeMap& variant : variants)
    for (const Design fill : {Design::gaussian, Design::ramp, Design::huge_logits, Design::needle}) {
      AttributeMap a = {{"heads", "6"}, {"kv_heads", "2"}, {"d", "48"},
                        {"q", "5"},     {"len", "150"},    {"kv", "f16"}};
      for (const auto& [key, value] : variant) a[key] = value;
      if (n % 2 == 1) a["kv"] = "e4m3fn_tok";
      std::string what = fmt::format("fill {}", to_string(fill));
      for (const auto& [key, value] : a) what += " " + key + "=" + value;
      compare(attention_case(a, fill, static_cast<std::uint64_t>(++n)), what, step_of(2), tally);
      if (HasFailure()) return;
    }
  fmt::print("{} outputs, worst error / certificate {:.3g}\n", tally.outputs, tally.worst);
}

TEST(CertifiedAttention, certificate_holds_on_long_rows) {
  Tally tally;
  for (const Design fill : {Design::gaussian, Design::ramp, Design::needle})
    compare(attention_case({{"heads", "1"}, {"d", "8"}, {"dv", "16"}, {"len", "40000"}, {"kv", "e4m3fn"}},
                           fill, 3),
            fmt::format("fill {}", to_string(fill)), 1, tally);
  EXPECT_EQ(tally.outputs, 48);
}

TEST(CertifiedAttention, certificate_holds_on_every_target_of_this_machine) {
  std::int64_t targets = hwy::SupportedTargets();
  int tried = 0;
  for (const std::int64_t target : {HWY_SCALAR, HWY_AVX2, HWY_AVX3}) {
    if ((targets & target) == 0 && target != HWY_SCALAR) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    Tally tally;
    for (const char* kv : {"f16", "e4m3fn", "bf16", "int8_tok", "f32", "q8_0"})
      compare(attention_case({{"heads", "3"},
                              {"kv_heads", "1"},
                              {"d", "64"},
                              {"dv", "96"},
                              {"q", "2"},
                              {"len", "150"},
                              {"mask", "causal"},
                              {"softcap", "20"},
                              {"alibi", "yes"},
                              {"kv", kv}},
                             Design::gaussian, 5),
              fmt::format("target {} kv {}", hwy::TargetName(target), kv), 2, tally);
    EXPECT_EQ(tally.outputs, 6 * 3 * 96);
    ++tried;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  EXPECT_GE(tried, 1);
}

// Sums are added in one order: vectors of other widths change no bit of what limits and reports are made of.
// (Targets without a fused multiply-add round elsewhere.) The soft cap, ALiBi, sliced and paired dots, and
// every way to decode a row are among these.
TEST(CertifiedAttention, every_width_of_a_vector_gives_the_same_bits) {
  const std::int64_t supported = hwy::SupportedTargets();
  std::vector<std::int64_t> targets;
  for (const std::int64_t target : {HWY_AVX2, HWY_AVX3})
    if ((supported & target) != 0) targets.push_back(target);
  if (targets.size() < 2) GTEST_SKIP() << "this machine has vectors of one width";
  for (const char* kv : {"f16", "e4m3fn_tok", "bf16", "int8_tok", "f32", "q8_0"})
    for (const Design fill : {Design::gaussian, Design::huge_logits})
      for (const char* capped : {"0", "20"}) {
        const AttentionCase c = attention_case({{"heads", "3"},
                                                {"kv_heads", "1"},
                                                {"d", kv == std::string("q8_0") ? "96" : "72"},
                                                {"dv", "96"},
                                                {"q", "2"},
                                                {"len", "150"},
                                                {"mask", "causal"},
                                                {"softcap", capped},
                                                {"dtype", "f32"},
                                                {"kv", kv}},
                                               fill, 5);
        std::vector<CertifiedAttention> got;
        for (const std::int64_t target : targets) {
          hwy::SetSupportedTargetsForTest(target);
          hwy::GetChosenTarget().Update(hwy::SupportedTargets());
          got.push_back(certified_attention(*c.problem));
        }
        hwy::SetSupportedTargetsForTest(0);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        const std::string what = fmt::format("kv {} fill {} softcap {}", kv, to_string(fill), capped);
        EXPECT_EQ(got[0].value, got[1].value) << what;
        EXPECT_EQ(got[0].certificate, got[1].certificate) << what;
        EXPECT_EQ(got[0].absolute, got[1].absolute) << what;
        EXPECT_EQ(got[0].deviation, got[1].deviation) << what;
        EXPECT_EQ(got[0].key_sum, got[1].key_sum) << what;
        ASSERT_EQ(got[0].rows.size(), got[1].rows.size());
        for (std::size_t r = 0; r < got[0].rows.size(); ++r) {
          EXPECT_EQ(got[0].rows[r].weight_sum, got[1].rows[r].weight_sum) << what;
          EXPECT_EQ(got[0].rows[r].norm_product, got[1].rows[r].norm_product) << what;
          EXPECT_EQ(got[0].rows[r].k_norm, got[1].rows[r].k_norm) << what;
        }
      }
}

// A wrong weight in the last place of a double is far below any kernel's error, and still seen: a certificate
// that could not fail would prove nothing.
TEST(CertifiedAttention, plain_double_arithmetic_leaves_the_certificate) {
  const AttentionCase c = attention_case(
      {{"heads", "1"}, {"d", "64"}, {"len", "500"}, {"kv", "f16"}, {"scale", "0.3"}}, Design::huge_logits, 1);
  CertifiedOptions plain;
  plain.plain = true;
  const CertifiedAttention wrong = certified_attention(*c.problem, plain),
                           right = certified_attention(*c.problem);
  int outside = 0;
  for (std::size_t i = 0; i < right.value.size(); ++i)
    outside += !(std::fabs(wrong.value[i] - right.value[i]) <= 2 * right.certificate[i]);
  EXPECT_GT(outside, 0);
}

}  // namespace
}  // namespace assay
