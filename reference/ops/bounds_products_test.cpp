// Correct kernels of products that a limit once accused, each beside a wrong one that stays caught.
#include <cmath>
#include <cstring>

#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/arithmetic/rule.hpp"
#include "reference/ops/moe_testing.hpp"

namespace assay::testing {
namespace {

OpCase product(int k, const char* a, const char* path, const char* dtype = "f32") {
  return {"matmul",
          {{"m", "1"},
           {"n", "1"},
           {"k", std::to_string(k)},
           {"a", a},
           {"b", a},
           {"dtype", dtype},
           {"path", path}}};
}

TEST(BoundsOfProducts, parts_of_one_product_are_a_kernel_of_any_order) {
  OpCase c = product(128, "f16", "f16");
  Values v(128, 0x1p-12F);
  v[0] = 1;
  c.put("a", v), c.put("b", v);
  const Values parts{1};  // 127 products of 2^-24, each added to 1 in f32
  for (const char* unit : {"hopper_f16", "cdna1_f16", "a100_f16"})
    expect_pass(c.truth(std::string("acc=") + unit), parts);
  expect_caught(c.truth("acc=cdna1_f16 block=4 split=2"), parts);
  expect_caught(c.truth("acc=hopper_f16 order=sequential"), parts);
  // The head dropped, the tail counted twice: caught in any order.
  expect_caught(c.truth("acc=cdna1_f16"), Values{0x1p-18F});
  expect_caught(c.truth("acc=cdna1_f16"), Values{1 + 0x1p-14F});
}

TEST(BoundsOfProducts,
     block_and_split_say_something_of_a_unit_in_an_order_that_is_not_told_and_of_nothing_else) {
  OpCase c = product(64, "f16", "f16");
  const Values v(64, 1.5F);
  c.put("a", v), c.put("b", v);
  for (const char* idle : {"acc=f32 block=16", "acc=hopper_f16 order=sequential split=2", "acc=f16 split=1"})
    EXPECT_NE(message_of([&] { c.truth(idle); }).find("block="), std::string::npos) << idle;
  EXPECT_EQ(c.truth("acc=hopper_f16 block=16 split=1").limit[0], 0);  // and nothing is rounded
}

// e2m1 times a block scale of four bits: a product of two has twelve, and bf16 keeps eight.
TEST(BoundsOfProducts, of_nvfp4_in_bf16_round_each_product) {
  OpCase c = product(16, "nvfp4", "blocks");
  Values v(16, 0);
  v[0] = 6 * 1.875F * 1.0F, v[1] = 3 * 1.875F;
  c.put("a", v), c.put("b", v);
  const Values a = c.read("a"), b = c.read("b");
  const Arithmetic bf16{"bf16"};
  // Both orders, products rounded and fused.
  const double p = double(a[0]) * b[0], q = double(a[1]) * b[1];
  ASSERT_NE(static_cast<double>(bf16(p)), p);
  const Truth t = c.truth("acc=bf16 order=sequential epilogue_roundings=2");
  for (const float got : {bf16(double(bf16(p)) + bf16(q)), bf16(p + bf16(q)), bf16(double(bf16(p)) + q)})
    expect_pass(t, Values{got});
  expect_caught(t, Values{bf16(p)});
}

// One over the product of two global scales that f32 cannot hold.
TEST(BoundsOfProducts, of_block_formats_may_apply_one_over_the_product_of_both_global_scales) {
  for (const float global : {0x1p70F, 0x1p-70F}) {
    OpCase c = product(16, "nvfp4", "blocks");
    Values v(16, 6 * 448 / global);
    c.put("a", v), c.put("b", v);
    for (const char* name : {"a", "b"}) {
      Encoded& t = c.set.at(name);
      for (Plane& plane : t.planes)
        if (plane.spec.suffix == ".global_scale") std::memcpy(plane.bytes.data(), &global, sizeof global);
    }
    const Values a = c.read("a");
    float codes = 0;
    for (const float x : a) codes += (x * global) * (x * global);
    const float at_once = codes * (1.0F / (global * global));  // 0, or Inf
    const Truth t = c.truth("acc=f32");
    expect_pass(t, Values{at_once});
    expect_pass(t, Values{codes / global / global});
  }
}

// A block's own result may be flushed, though no operand is subnormal.
TEST(BoundsOfProducts, of_a_unit_under_ftz_may_lose_a_subnormal_block) {
  OpCase c = product(32, "bf16", "bf16");
  Values a(32, 0), b(32, 0);
  a[0] = b[0] = 0x1p-65F, a[16] = 0x1p-60F, b[16] = 0x1p-62F;
  c.put("a", a), c.put("b", b);
  const Values kept{0x1p-130F + 0x1p-122F}, lost{0x1p-122F};
  const char* unit = "acc=hopper_bf16 order=sequential";
  expect_pass(c.truth(unit), kept);
  expect_caught(c.truth(unit), lost);
  const std::string flushing = std::string(unit) + " ftz=yes";
  expect_pass(c.truth(flushing), kept);
  expect_pass(c.truth(flushing), lost);
  expect_caught(c.truth(flushing), Values{0x1p-122F + 0x1p-123F});
  const Unsound weak(Rule::sum_flush);
  expect_caught(c.truth(flushing), lost);
}

// One scale that may be flushed, and behind it products that overflow: what follows an undecided operand
// counts in full.
TEST(BoundsOfProducts, of_blocks_behind_one_that_may_be_flushed_overflow_as_before) {
  OpCase c = product(64, "mxfp8", "blocks");
  Values a(64, 1), b(64, 0x1p120F);
  for (std::size_t i = 0; i < 32; ++i) b[i] = 0x1p-127F;
  for (std::size_t i = 32; i < 64; ++i) a[i] = 1024;
  c.put("a", a), c.put("b", b);
  for (const char* acc : {"acc=f32", "acc=blackwell_mxfp8"})
    for (const char* ftz : {" ftz=no", " ftz=yes"})
      expect_pass(c.truth(std::string(acc) + ftz + " round=toward_zero"), Values{INFINITY});
  b.assign(64, 1), b[0] = 0x1p-130F;
  c.put("b", b);
  expect_caught(c.truth("acc=f32 ftz=yes"), Values{INFINITY});
}

// ftz=yes costs nothing where nothing can be flushed.
TEST(BoundsOfProducts, of_operands_that_cannot_be_flushed_have_the_same_limit_under_ftz) {
  OpCase c = product(64, "f16", "f16");
  Values a = draw(Shape1::gaussian, 64, 1), b = draw(Shape1::gaussian, 64, 2);
  for (Values* v : {&a, &b})
    for (float& x : *v) x = std::copysign(std::max(std::fabs(x), 0x1p-6F), x);
  c.put("a", a), c.put("b", b);
  for (const char* contract :
       {"acc=f32", "acc=f32 order=tree", "acc=f32 order=sequential", "acc=hopper_f16"}) {
    const double without = c.truth(contract).limit[0],
                 with = c.truth(std::string(contract) + " ftz=yes").limit[0];
    EXPECT_LE(with, without) << contract;
  }
  EXPECT_LT(c.truth("acc=f16 ftz=yes").limit[0], 4 * c.truth("acc=f16").limit[0]);
}

TEST(BoundsOfMoe, the_weight_in_front_of_h_is_in_front_of_its_rounding) {
  using namespace mixture;
  const Moe m("f16", "f16", "f32");
  const Values rounded_last = kernel(m, "f16", "", 0, "f32", {.weight_before = true, .h = "bf16"});
  const Values weighted_last =
      kernel(m, "f16", "", 0, "f32", {.weight_before = true, .weight_last = true, .h = "bf16"});
  const Truth t = m.c.truth("order=lanes:8 weight=before h=bf16");
  expect_pass(t, rounded_last);
  expect_caught(t, weighted_last);
}

// A product in f64 that no f32 holds, and gate_up=f32.
TEST(BoundsOfMoe, a_declared_rounding_of_gate_and_up_may_overflow) {
  OpCase c("moe", {{"tokens", "1"},
                   {"hidden", "2"},
                   {"inter", "1"},
                   {"experts", "1"},
                   {"topk", "1"},
                   {"a", "f32"},
                   {"w", "f32"},
                   {"dtype", "f32"}});
  c.put("x", {0x1p100F, 0x1p100F});
  c.put("w13", {-0x1p-100F, 0, 0x1p27F, 0x1p27F});  // gate -1, up 2^128
  c.put("w2", {0x1p-100F, 0x1p-100F});
  c.put("topk_weights", {1});
  const Truth t = c.truth("acc=f64");
  expect_pass(t, Values{-INFINITY, -INFINITY});
}

}  // namespace
}  // namespace assay::testing
