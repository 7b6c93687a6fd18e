// The attention kernels against the textbook formula in double, for every kernel and target. The judgement
// with proven bounds is the harness's; here stands what must hold bit for bit, and a plain comparison that a
// wrong mask, head, page or scale cannot survive.
#include <gtest/gtest.h>

#include "backends/cpu/attention_testing.hpp"

namespace assay_cpu_test {
namespace {

TEST(AttentionKernels, agree_with_the_formula_on_every_mask) {
  for (const char* mask : {"none", "causal", "window", "random"}) {
    Problem problem;
    problem.mask = mask;
    if (problem.mask == "window") problem.window = 11;
    expect_near_everywhere(problem);
  }
}

TEST(AttentionKernels, agree_with_the_formula_on_every_scalar_format) {
  for (const char* kv : {"f32", "f16", "bf16", "e4m3fn"}) {
    Problem problem;
    problem.kv = kv;
    problem.mask = "causal";
    expect_near_everywhere(problem);
  }
}

TEST(AttentionKernels, honour_pages_lengths_sinks_slopes_and_soft_caps) {
  Problem problem;
  problem.page = 16;
  problem.lengths = "ragged";
  problem.sinks = "yes";
  problem.alibi = "yes";
  problem.softcap = 3;
  problem.mask = "causal";
  expect_near_everywhere(problem);
}

TEST(AttentionKernels, give_the_same_bits_twice) {
  Problem problem;
  problem.len = 300;
  problem.dtype = "f16";
  Made made = make(problem);
  for (const char* variant : {"decode", "prefill", "split", ""}) {
    ASSERT_EQ(made.call.run(variant), ASSAY_OK) << made.call.reason;
    const auto first = made.call.result<std::uint16_t>("out");
    ASSERT_EQ(made.call.run(variant), ASSAY_OK);
    EXPECT_EQ(made.call.result<std::uint16_t>("out"), first);
  }
}

TEST(AttentionKernels, choose_like_an_engine_and_say_so) {
  Problem problem;
  problem.q = 1;
  Made decode = make(problem);
  ASSERT_EQ(decode.call.run(""), ASSAY_OK);
  EXPECT_EQ(decode.call.kernels, std::vector<std::string>{"attention_decode_run"});
  problem.q = 5;
  Made prefill = make(problem);
  ASSERT_EQ(prefill.call.run("scalar"), ASSAY_OK);
  EXPECT_EQ(prefill.call.kernels, std::vector<std::string>{"attention_prefill_run"});
  EXPECT_EQ(prefill.call.notes["target"], "scalar");
  assay_declaration declaration;
  ASSERT_EQ(prefill.call.declare(declaration), ASSAY_OK);
  EXPECT_STREQ(declaration.path, "attention_prefill_run");
}

// K and V are f16 already, so that conversion changes no number: only the path and the memory tell.
TEST(AttentionKernels, convert_first_under_a_name_of_its_own_and_declare_the_memory) {
  Problem problem;
  Made made = make(problem);
  expect_near(made, "convert_f16");
  EXPECT_EQ(made.call.kernels, std::vector<std::string>{"attention_convert_f16_run"});
  const std::int64_t elements = problem.batch * problem.len * problem.kv_heads * (problem.d + problem.dv);
  EXPECT_EQ(made.call.notes["temporary_bytes"], std::to_string(2 * elements));
}

// |weight - f16(weight)| <= 2^-12 of weights up to 1, which sum to `sum`: the output moves by at most 2^-12
// max|v|, and it does move.
TEST(AttentionKernels, round_the_weights_only_where_they_declare_it) {
  Made made = make(Problem{});
  assay_declaration declaration;
  ASSERT_EQ(made.call.declare(declaration, "prefill_p_f16"), ASSAY_OK);
  EXPECT_NE(std::string(declaration.contract).find(" p=f16 "), std::string::npos);
  ASSERT_EQ(made.call.run("prefill_p_f16"), ASSAY_OK) << made.call.reason;
  const std::vector<float> rounded = made.call.result<float>("out");
  ASSERT_EQ(made.call.run("prefill"), ASSAY_OK);
  const std::vector<float> exact = made.call.result<float>("out");
  EXPECT_NE(rounded, exact);
  for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_TRUE(std::fabs(rounded[i] - exact[i]) <= 0x1p-11 * 5);
}

TEST(AttentionKernels, multiply_blocks_only_where_there_are_blocks) {
  Made made = make(Problem{});
  assay_declaration declaration;
  EXPECT_EQ(made.call.declare(declaration, "decode_q8"), ASSAY_UNSUPPORTED);
  EXPECT_NE(std::string(declaration.reason).find("k=f16"), std::string::npos);
}

// K in q8_0 with power-of-two scales, q of integers whose largest is 127: both are exact in blocks of int8,
// so that the block kernel must agree with the one that decodes.
TEST(AttentionKernels, agree_between_block_products_and_decoded_rows_where_both_are_exact) {
  constexpr std::int64_t kLen = 50;
  constexpr std::int64_t kWidth = 64;
  std::mt19937 random(3);
  std::vector<float> q(kWidth);
  for (float& x : q) x = static_cast<float>(static_cast<int>(random() % 255) - 127);
  q[0] = 127;
  q[32] = -127;
  std::vector<std::uint8_t> k(kLen * 2 * 34);
  for (std::size_t block = 0; block < kLen * 2; ++block) {
    const std::uint16_t scale = assay_cpu::f16_code(0x1p-14F);
    std::memcpy(&k[block * 34], &scale, sizeof scale);
    for (std::size_t i = 2; i < 34; ++i) k[block * 34 + i] = static_cast<std::uint8_t>(random());
  }
  const std::vector<float> v = values(random, kLen * kWidth);
  TestCall call("attention");
  for (const auto& [name, value] : std::map<std::string, std::string>{{"batch", "1"},
                                                                      {"heads", "1"},
                                                                      {"kv_heads", "1"},
                                                                      {"d", "64"},
                                                                      {"dv", "64"},
                                                                      {"q", "1"},
                                                                      {"len", "50"},
                                                                      {"k", "q8_0"},
                                                                      {"v", "f32"},
                                                                      {"dtype", "f32"},
                                                                      {"mask", "none"},
                                                                      {"window", "0"},
                                                                      {"softcap", "0"},
                                                                      {"sinks", "no"},
                                                                      {"alibi", "no"},
                                                                      {"page", "0"},
                                                                      {"scale", "0.0625"},
                                                                      {"rotate", "none"},
                                                                      {"lengths", "full"}}) {
    call.set(name, value);
  }
  call.in("q", "f32", {1, 1, 1, kWidth}, q).in("k", "q8_0", {1, kLen, 1, kWidth}, k);
  call.in("v", "f32", {1, kLen, 1, kWidth}, v).out("out", "f32", {1, 1, 1, kWidth}, kWidth * 4);
  for (const std::string& target : targets()) {
    ASSERT_EQ(call.run("decode." + target), ASSAY_OK) << call.reason;
    const std::vector<float> decoded = call.result<float>("out");
    ASSERT_EQ(call.run("decode_q8." + target), ASSAY_OK) << call.reason;
    EXPECT_EQ(call.kernels, std::vector<std::string>{"attention_decode_q8_run"});
    EXPECT_EQ(call.result<float>("out"), decoded) << target;
  }
}

TEST(AttentionKernels, refuse_what_they_lack_with_a_reason) {
  Made made = make(Problem{});
  assay_declaration declaration;
  made.call.set("k", "nf3");
  EXPECT_EQ(made.call.declare(declaration), ASSAY_UNSUPPORTED);
  EXPECT_NE(std::string(declaration.reason).find("nf3"), std::string::npos);
  made.call.set("k", "f16");
  EXPECT_EQ(made.call.declare(declaration, "decode.avx1024"), ASSAY_UNSUPPORTED);
  EXPECT_NE(std::string(declaration.reason).find("avx1024"), std::string::npos);
}

}  // namespace
}  // namespace assay_cpu_test
