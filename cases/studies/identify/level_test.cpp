// level=replay: healthy kernels pass in every bit, over ops, fills and formats; one changed step is wrong,
// and named; a schedule that is none or does not fit is a contract that cannot be judged by.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cases/lists.hpp"
#include "harness/judge.hpp"

namespace assay {
namespace {

class Level : public testing::Test {
 protected:
  std::vector<CaseResult> judge(const std::string& line, const std::string& backend) {
    std::vector<CaseResult> results;
    for (Case& c : expand(parse_case(line))) {
      c.backend = backend;
      results.push_back(judge_alone(c, input_lists(), workers_));
    }
    return results;
  }
  void expect_pass(const std::string& line, const std::string& backend) {
    for (const CaseResult& r : judge(line, backend)) {
      EXPECT_EQ(r.verdict.status, Status::pass) << r.c.line() << "\n"
                                                << r.verdict.summary << r.verdict.detail;
      EXPECT_EQ(r.verdict.worst_ratio, 0) << r.c.line();
      EXPECT_NE(r.contract.find("level=replay schedule="), std::string::npos) << r.contract;
      outputs_ += r.verdict.elements;
    }
  }
  void expect_wrong(const std::string& line, const std::string& backend, const std::string& step) {
    for (const CaseResult& r : judge(line, backend)) {
      EXPECT_EQ(r.verdict.status, Status::wrong) << r.c.line() << "\n" << r.verdict.summary;
      EXPECT_NE(r.verdict.detail.find("first  " + step), std::string::npos) << r.c.line() << "\n"
                                                                            << r.verdict.detail;
    }
  }
  void expect_refused(const std::string& line, const std::string& backend, const std::string& why) {
    for (const CaseResult& r : judge(line, backend)) {
      EXPECT_EQ(r.verdict.status, Status::failed) << r.c.line();
      EXPECT_NE(r.verdict.summary.find(why), std::string::npos) << r.verdict.summary;
    }
  }
  std::size_t outputs_ = 0;

 private:
  static BackendInfo info(const char* name, const char* file) {
    BackendInfo b;
    b.name = name, b.file = file;
    return b;
  }
  std::vector<BackendInfo> known_{info("scheduled", SCHEDULED), info("cpu", CPU), info("emulated", EMULATED)};
  Workers workers_{known_};
};

TEST_F(Level, healthy_kernels_pass_in_every_bit) {
  expect_pass(
      "matmul m=5 n=9 k=31,256,1000 a=f32 dtype=f32 fill=gaussian,cancel,wide,outlier variant=healthy",
      "scheduled");
  expect_pass("matmul m=3,4,6,8 n=9 k=300 a=f32 dtype=f32 fill=gaussian,cancel variant=fours", "scheduled");
  expect_pass("matmul m=1,3 n=3,4,9 k=300 a=f32 dtype=f32 fill=gaussian,cancel variant=column_fours",
              "scheduled");
  expect_pass("rmsnorm rows=3 cols=33,500 dtype=f32 fill=gaussian,outlier,offset variant=healthy",
              "scheduled");
  expect_pass(
      "matmul m=3,4,6 n=9 k=33,300 a=f32,bf16,e4m3fn_tok dtype=f32,bf16 fill=gaussian,cancel "
      "variant=replay.scalar,replay",
      "cpu");
  expect_pass("matmul m=4 n=9 k=64 a=bf16 b=nvfp4,q8_0,int4_g32 path=bf16,e4m3fn variant=replay", "cpu");
  expect_pass(
      "attention heads=4 kv_heads=2 d=32 q=3 len=152 kv=f16,q8_0,e4m3fn_tok dtype=f32,bf16 "
      "fill=gaussian,needle,deep,ramp "
      "variant=decode_replay,prefill_replay,convert_f16_replay.scalar",
      "cpu");
  expect_pass(
      "attention batch=2 heads=2 d=32 q=2 len=70 page=16 mask=causal lengths=ragged kv=f16 fill=ramp "
      "variant=decode_replay.scalar",
      "cpu");
  expect_pass(
      "attention heads=4 kv_heads=2 d=32 q=2,40 len=90,230 kv=f16 dtype=f32 mask=window window=33 softcap=30 "
      "sinks=yes alibi=yes "
      "fill=gaussian,steps "
      "variant=decode_replay.scalar,prefill_replay.scalar,convert_f16_replay.scalar,split_replay.scalar",
      "cpu");
  expect_pass(
      "attention batch=2 heads=2 d=8 q=3 len=70 kv=f32 dtype=f32 mask=random lengths=full,ragged "
      "sinks=no,yes fill=ramp "
      "variant=decode_replay,prefill_p_f16_replay,split_replay",
      "cpu");
  expect_pass("attention heads=2 d=64 len=2100 kv=q8_0 dtype=bf16 fill=gaussian,descent variant=split_replay",
              "cpu");
  expect_pass(
      "attention heads=4 kv_heads=2 d=64 q=2 len=70 k=q8_0,q4_0 v=q8_0,f16 dtype=f32 mask=window window=33 "
      "fill=gaussian,value_mean,ties variant=decode_q8_replay,decode_q8_replay.scalar",
      "cpu");
  expect_pass(
      "attention heads=4 kv_heads=2 d=64 q=2 len=72 k=q8_0 v=tq3_0_c2,tq3_0_c2s1 dtype=f32 "
      "fill=gaussian,constant variant=deferred_replay,deferred_replay.scalar",
      "cpu");
  expect_pass(
      "attention heads=4 kv_heads=2 d=32 q=2 len=72 kv=f16 dtype=f32 rotate=qk,qkv sinks=yes fill=outlier "
      "variant=decode_replay,split_replay.scalar",
      "cpu");
  expect_pass(
      "matmul m=4 n=8 k=256 a=e4m3fn_tensor dtype=f32,bf16 fill=gaussian,wide "
      "variant=hopper_fp8.replay,hopper_fp8_promote4.replay",
      "emulated");
  expect_pass(
      "attention heads=2 d=64 q=4 len=200 kv=f16 dtype=f16 mask=none,causal fill=gaussian,deep "
      "variant=hopper_f16.replay",
      "emulated");
  expect_pass(
      "moe tokens=5 hidden=64 inter=48 experts=4 topk=3 a=f32 dtype=f32 fill=gaussian,outlier "
      "variant=healthy",
      "scheduled");
  expect_pass(
      "moe tokens=5 hidden=65 inter=33 experts=4 topk=2 a=f32,bf16,f16,e4m3fn_tok dtype=f32,bf16 "
      "fill=gaussian,outlier variant=replay.scalar",
      "cpu");
  expect_pass(
      "matmul m=3,9 n=9 k=33,2000 a=int8_tok b=int8_tok dtype=f32,bf16 fill=gaussian,outlier,constant "
      "variant=replay,replay.scalar",
      "cpu");
  expect_pass(
      "matmul m=5 n=9 k=64,512 a=int8_tok b=int4_ch dtype=f32,bf16 fill=gaussian,uniform variant=replay",
      "cpu");
  expect_pass(
      "moe tokens=9 hidden=64 inter=96 experts=3 topk=2 a=int8_tok w=int8_tok,int4_ch "
      "w2=int8_tok,int4_ch,bf16 dtype=f32,bf16 "
      "fill=gaussian,outlier variant=replay,replay.scalar",
      "cpu");
  expect_pass("moe tokens=13 hidden=352 inter=128 experts=4 topk=2 a=bf16 w=bf16,int4_g32 variant=replay",
              "cpu");
  expect_pass("moe tokens=9 hidden=64 inter=96 experts=3 topk=2 a=e4m3fn_tok w2=bf16 variant=replay", "cpu");
  EXPECT_GT(outputs_, 30'000U);
}

// Of rows that are not finite the rest of the contract says what is right.
TEST_F(Level, a_nan_reaches_its_row_and_the_other_rows_are_replayed) {
  for (const char* line :
       {"matmul m=3 n=5 k=33 a=f32 dtype=f32 fault=nan_value,inf_value fill=uniform variant=replay",
        "attention heads=2 d=32 q=3 len=40 mask=causal kv=f16 fault=nan_visible_key fill=uniform "
        "variant=prefill_replay.scalar"})
    for (const CaseResult& r : judge(line, "cpu"))
      EXPECT_EQ(r.verdict.status, Status::pass) << r.c.line() << "\n" << r.verdict.summary;
}

TEST_F(Level, one_changed_step_is_wrong_and_named) {
  const std::string gemm = "matmul m=4 n=16 k=512 a=f32 dtype=f32 variant=";
  // The blocks change places: their sums are right, and the sum behind the first of them is not.
  expect_wrong(gemm + "block_order", "scheduled", "the bits first differ when term ");
  for (const CaseResult& r : judge(gemm + "block_order", "scheduled"))
    EXPECT_TRUE(r.verdict.detail.find("chunk 4 of 16") != std::string::npos) << r.verdict.detail;
  for (const CaseResult& r : judge(gemm + "promotion", "scheduled"))
    EXPECT_TRUE(r.verdict.detail.find("chunk 6 of 16") != std::string::npos) << r.verdict.detail;
  for (const CaseResult& r : judge(gemm + "rounding", "scheduled"))
    EXPECT_TRUE(r.verdict.detail.find("chunk 7 of 16") != std::string::npos) << r.verdict.detail;
  // Rows that are left, summed as the fours are; of eight rows none are left, and the kernel is right.
  expect_wrong("matmul m=6 n=16 k=512 a=f32 dtype=f32 variant=fours_alike", "scheduled",
               "the bits first differ when term ");
  expect_pass("matmul m=8 n=16 k=512 a=f32 dtype=f32 variant=fours_alike", "scheduled");
  expect_wrong("matmul m=3 n=19 k=512 a=f32 dtype=f32 variant=column_fours_alike", "scheduled",
               "the bits first differ when term ");
  expect_pass("matmul m=3 n=16 k=512 a=f32 dtype=f32 variant=column_fours_alike", "scheduled");
  expect_wrong("rmsnorm rows=8 cols=500 dtype=f32 variant=reversed", "scheduled",
               "the bits first differ when term ");
  const std::string moe = "moe tokens=4 hidden=64 inter=48 experts=4 topk=3 a=f32 dtype=f32 variant=";
  expect_wrong(moe + "slots_reversed", "scheduled",
               "the bits first differ when the output of the expert in slot 2 is made or added");
  expect_wrong(moe + "down_reversed", "scheduled", "the bits first differ when of w2 h term ");
  expect_wrong(moe + "up_reversed", "scheduled", "the bits first differ when of w13 x term ");
  const std::string few = "moe tokens=9 hidden=65 inter=48 experts=8 topk=3 a=f32 dtype=f32 variant=";
  expect_pass(few + "few_reversed", "scheduled");
  expect_wrong(few + "few_alike", "scheduled", "the bits first differ when of w13 x term ");
  expect_wrong(moe + "sigmoid", "scheduled", "the bits first differ when of w13 x term ");
  expect_wrong("matmul m=8 n=16 k=512 a=e4m3fn_tensor dtype=f32 variant=hopper_fp8.replay.as_promote4",
               "emulated",
               "the bits first differ when terms 128..159 are added: block 5 of 16, chunk 2 of 4");
  expect_wrong(
      "matmul m=8 n=16 k=512 a=e4m3fn_tensor dtype=f32 variant=hopper_fp8.replay.as_order:descending",
      "emulated", "the bits first differ when terms 32..63 are added: block 2 of 16");
  expect_wrong("matmul m=8 n=16 k=512 a=e4m3fn_tensor dtype=f32 variant=hopper_fp8.replay.as_scales:b_a",
               "emulated", "the bits first differ when terms 0..31 are added: block 1 of 16");
  expect_wrong(
      "attention heads=2 d=64 q=4 len=200 kv=f16 dtype=f16 "
      "variant=hopper_f16.replay.as_order:descending,hopper_f16.replay.as_tile:128",
      "emulated", "the bits first differ when of q.k terms 0..15 are added");
  expect_wrong(
      "attention heads=4 d=32 q=100 len=200 kv=f16 dtype=f16 variant=hopper_f16.replay.as_argument:fma",
      "emulated", "the bits first differ when of q.k ");
}

TEST_F(Level, a_schedule_that_is_none_or_does_not_fit_is_refused_with_what_is_allowed) {
  const std::string gemm = "matmul m=2 n=2 k=64 a=f32 dtype=f32 variant=";
  expect_refused(gemm + "no_schedule", "scheduled", "level=replay needs schedule!=none, not schedule=none");
  expect_refused(gemm + "no_level", "scheduled", "needs level=replay, not level=limit");
  expect_refused(gemm + "unreadable", "scheduled", "did you mean 'chunk'");
  expect_refused(gemm + "misfit", "scheduled", "acc=f32 is declared, the bits are those of acc=f64");
  expect_refused(gemm + "no_order", "scheduled", "order=sequential is declared");
  expect_refused("moe tokens=4 hidden=64 inter=48 experts=4 topk=3 a=f32 dtype=f32 variant=no_word",
                 "scheduled", "combine=tree: allowed: experts|slots");
  expect_refused("matmul m=2 n=2 k=64 a=e4m3fn_tensor dtype=f32 variant=hopper_fp8.replay.as_scales:none",
                 "emulated", "allowed: a_b|b_a|product");
  expect_refused("attention heads=2 d=64 len=20 kv=f16 dtype=f16 sinks=yes variant=hopper_f16.replay",
                 "emulated", "the schedule has no step for sinks");
}

}  // namespace
}  // namespace assay
