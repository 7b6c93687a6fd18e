// Products of bf16 pairs by the instructions that read subnormal operands as zero and flush subnormal results
// (vdpbf16ps, tdpbf16ps): right where ftz=yes is declared, wrong where it is not.
#include "reference/ops/op_testing.hpp"

namespace assay::testing {
namespace {

float flushed(float x) { return std::fabs(x) < 0x1p-126F ? 0.0F : x; }

TEST(FlushLimits, subnormal_operands_beside_large_ones_are_lost_only_where_that_is_declared) {
  constexpr std::size_t kM = 4, kN = 8, kK = 64;
  OpCase c("matmul", {{"m", "4"}, {"n", "8"}, {"k", "64"}, {"a", "bf16"}, {"b", "bf16"}, {"dtype", "f32"}});
  // Halves of the smallest normal number against 2^126, in four columns of eight: products of 1/2 vanish when
  // flushed.
  Values a = draw(Shape1::gaussian, kM * kK, 4), b = draw(Shape1::gaussian, kN * kK, 5);
  for (std::size_t i = 0; i < kM * kK; i += 16) a[i] = 0x1p-127F;
  for (std::size_t i = 0; i < kN / 2 * kK; i += 16) b[i] = 0x1p126F;
  a = c.put("a", a), b = c.put("b", b);
  const auto product = [&](auto read) {
    Values y(kM * kN);
    for (std::size_t i = 0; i < kM; ++i)
      for (std::size_t j = 0; j < kN; ++j)
        for (std::size_t k = 0; k < kK; ++k)
          y[i * kN + j] = read(y[i * kN + j] + read(a[i * kK + k]) * read(b[j * kK + k]));
    return y;
  };
  const Values kept = product([](float x) { return x; }), lost = product(flushed);
  ASSERT_NE(kept, lost);
  expect_pass(c.truth("acc=f32 ftz=no"), kept);
  expect_caught(c.truth("acc=f32 ftz=no"), lost);
  expect_pass(c.truth("acc=f32 ftz=yes"), kept);
  expect_pass(c.truth("acc=f32 ftz=yes"), lost);
  std::printf("flushed: %.3g limits without ftz, %.3g with it\n",
              judge(c.truth("acc=f32 ftz=no"), lost).worst, judge(c.truth("acc=f32 ftz=yes"), lost).worst);
  // Declared, it excuses nothing else: the product of every other k dropped.
  Values half(kM * kN);
  for (std::size_t i = 0; i < kM; ++i)
    for (std::size_t j = 0; j < kN; ++j)
      for (std::size_t k = 0; k < kK; k += 2) half[i * kN + j] += a[i * kK + k] * b[j * kK + k];
  expect_caught(c.truth("acc=f32 ftz=yes"), half);
}

}  // namespace
}  // namespace assay::testing
