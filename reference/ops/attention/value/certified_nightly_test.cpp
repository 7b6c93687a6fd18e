// The certificate at 2^20 keys, every fill, against the referee. Minutes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reference/ops/attention/test_problem.hpp"
#include "reference/ops/attention/value/certified.hpp"
#include "reference/ops/attention/value/oracle_mp.hpp"

namespace assay {
namespace {

TEST(CertifiedAttentionNightly, certificate_holds_at_a_million_keys) {
  for (const Design fill : kDesigns) {
    const AttentionCase c = attention_case({{"heads", "1"},
                                            {"d", "8"},
                                            {"dv", "8"},
                                            {"len", "1048576"},
                                            {"kv", fill == Design::cancel ? "f32" : "e4m3fn"}},
                                           fill, 11);
    const CertifiedAttention got = certified_attention(*c.problem);
    const OracleRow<mp::Real200> want = attention_oracle(*c.problem, 0, 0, 0);
    for (std::size_t e = 0; e < 8; ++e) {
      const double error =
          std::fabs(static_cast<double>(mp::Real200(mp::Real200(got.value[e]) - want.value[e])));
      EXPECT_LE(error, got.certificate[e]) << "fill " << fill;
      // What certified.hpp promises: 2^-46 A, and what vanishes.
      EXPECT_LE(got.certificate[e], 0x1p-46 * static_cast<double>(want.absolute[e]) + 0x1p-150)
          << "fill " << fill;
      EXPECT_GE(got.deviation[e] * (1 + 0x1p-52), static_cast<double>(want.deviation[e])) << "fill " << fill;
    }
    fmt::print("fill {} done\n", to_string(fill));
  }
}

}  // namespace
}  // namespace assay
