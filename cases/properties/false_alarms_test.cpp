// Correct kernels are never accused: every kernel and instruction set of the CPU backend (scalar and each
// SIMD target, with and without FMA, decode, prefill, split, convert) over the fills, shapes around tile
// edges, and layouts; and attention and matmul on every modelled matrix unit, with and without promotion.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "cases/lists.hpp"
#include "harness/plan.hpp"
#include "harness/runner.hpp"

namespace assay {
namespace {

struct Count {
  std::size_t cases = 0, passed = 0, outputs = 0, alarms = 0, shows_nothing = 0, unsupported = 0;
};

Count judge(const std::vector<std::string>& lines, const char* plugin, const std::string& options = "") {
  BackendInfo info;
  info.name = "subject", info.file = plugin;
  const std::vector<BackendInfo> known{info};
  const std::string name = options.empty() ? "subject" : "subject:" + options;
  std::vector<SuiteLine> suite;
  for (const auto& line : lines) suite.push_back({line, "false alarms"});
  PlanOptions plan_options;
  plan_options.backends = {name};
  const auto variants = [&](const std::string& backend) {
    Workers workers(known);
    return workers.open(backend).variants;
  };
  const Plan plan = make_plan(suite, plan_options, known, input_lists(), variants);
  Count count;
  RunEvents events;
  events.in_order = [&](CaseResult& r) {
    ++count.cases;
    count.outputs += r.verdict.elements;
    const Status s = r.verdict.status;
    if (s == Status::pass) ++count.passed;
    if (s == Status::distrust) ++count.shows_nothing;
    if (s == Status::unsupported) ++count.unsupported;
    if (s == Status::pass || s == Status::distrust || s == Status::unsupported) return;
    ++count.alarms;
    if (options.empty())
      ADD_FAILURE() << "assay run '" << r.c.line() << "'\n" << r.verdict.summary << "\n" << r.verdict.detail;
  };
  run_plan(plan, known, {}, events);
  std::cout << "false alarms " << count.alarms << " of " << count.outputs << " outputs; " << count.cases
            << " cases, " << count.shows_nothing << " show nothing, " << count.unsupported
            << " unsupported\n";
  return count;
}

const std::vector<std::string> kSmall = {
    "attention heads=4 kv_heads=2 d=64 q=1,9 len=33,130 mask=causal kv=f16,e4m3fn,q8_0 variant=all "
    "fill=gaussian,needle,ramp,value_mean",
    "softmax rows=3 cols=7,257 dtype=f32,f16 fill=gaussian,deep,extreme variant=all",
    "logsumexp rows=3 cols=257 dtype=f32 fill=gaussian,deep variant=all",
    "layernorm rows=3 cols=33,770 dtype=f32,bf16 fill=gaussian,offset variant=all",
    "rmsnorm rows=3 cols=33,770 dtype=f32,f16 fill=gaussian,outlier variant=all",
    "wht rows=3 cols=256 points=32,256 dtype=f32 fill=gaussian,cancel variant=all",
    "matmul m=3 n=20 k=65,515 a=f32 b=f32 dtype=f32 fill=gaussian,cancel variant=all",
};

TEST(FalseAlarms, correct_variants_are_never_accused) {
  const Count c = judge(kSmall, ASSAY_CPU_PLUGIN);
  EXPECT_EQ(c.alarms, 0U);
  EXPECT_GE(c.outputs, 1'000'000U);
  EXPECT_GE(c.passed, 500U);
}

// Every unit in the formats that it takes; the rest are refused by name and not counted.
#define ASSAY_FP8_UNITS                                                                               \
  "ada_fp8,ada_fp8_promote4,hopper_fp8,hopper_fp8_promote1,hopper_fp8_promote4,hopper_fp8_promote16," \
  "hopper_fp8_mma_sync,blackwell_fp8,cdna4_fp8,rdna4_fp8"
const std::vector<std::string> kUnits = {
    "attention heads=2 kv_heads=1 d=64 len=70 kv=f16,bf16,e4m3fn,e4m3fnuz variant=all "
    "fill=gaussian,value_mean,ramp",
    "matmul m=3 n=8 k=128 a=f16 b=f16 dtype=f32 variant=all fill=gaussian,uniform,cancel",
    "matmul m=3 n=8 k=128 a=bf16 b=bf16 dtype=f32 variant=all fill=gaussian,uniform",
    // Not on units that keep f16: codes up to 448 overflow there, and nothing is claimed.
    "matmul m=3 n=8 k=128 a=e4m3fn_tok b=e4m3fn_tok dtype=f32 fill=gaussian,uniform variant=" ASSAY_FP8_UNITS,
    "matmul m=3 n=8 k=128 a=e4m3fnuz_tok b=e4m3fnuz_tok dtype=f32 variant=all fill=gaussian,uniform",
    "matmul m=3 n=8 k=128 a=int8_tok b=int8_tok dtype=f32 variant=all fill=gaussian",
    "matmul m=3 n=8 k=256 a=nvfp4 b=nvfp4 path=blocks dtype=f32 variant=all fill=gaussian,outlier",
    "matmul m=3 n=8 k=256 a=mxfp4,mxfp8 b=mxfp8 path=blocks dtype=f32 variant=all fill=gaussian,outlier",
};

TEST(FalseAlarms, modelled_units_are_never_accused) {
  const Count c = judge(kUnits, ASSAY_EMULATED_PLUGIN);
  EXPECT_EQ(c.alarms, 0U);
  EXPECT_GE(c.outputs, 10'000U);
  EXPECT_GE(c.passed, 100U);
}

TEST(FalseAlarms, the_count_can_count) {
  const Count c =
      judge({"softmax rows=3 cols=7,257 dtype=f32 fill=gaussian"}, ASSAY_VIOLATING_PLUGIN, "gain");
  EXPECT_EQ(c.alarms, 2U);
}

TEST(FalseAlarmsNightly, not_one_in_twenty_million_outputs) {
  if (std::getenv("ASSAY_NIGHTLY") == nullptr) GTEST_SKIP() << "runs nightly";
  std::vector<std::string> lines = kSmall;
  lines.insert(
      lines.end(),
      {"attention heads=4 kv_heads=2 d=64 q=1,35 len=300 mask=causal seed=1,2 variant=all "
       "kv=f16,bf16,e4m3fn,q8_0,q4_0 fill=gaussian,needle,ramp,value_mean,outlier,constant,cancel,deep",
       "softmax rows=16 cols=129,4099 dtype=f32,bf16,f16 seed=1,2 fill=gaussian,peaked,deep,ramp variant=all",
       "matmul m=16 n=64 k=129,2048 a=f32 b=f32 dtype=f32 fill=gaussian,uniform,cancel variant=all",
       "layernorm rows=16 cols=768,4099 dtype=f32,bf16 fill=gaussian,offset,outlier variant=all",
       "rmsnorm rows=16 cols=768,4099 dtype=f32,f16 fill=gaussian,offset,outlier variant=all"});
  const Count c = judge(lines, ASSAY_CPU_PLUGIN);
  EXPECT_EQ(c.alarms, 0U);
  EXPECT_GE(c.outputs, 20'000'000U);
}

TEST(FalseAlarmsNightly, not_one_on_any_modelled_unit) {
  if (std::getenv("ASSAY_NIGHTLY") == nullptr) GTEST_SKIP() << "runs nightly";
  std::vector<std::string> lines = kUnits;
  lines.insert(
      lines.end(),
      {"attention heads=4 kv_heads=2 d=64 len=200,513 q=1,3 mask=causal variant=all "
       "kv=f16,bf16,e4m3fn,e4m3fnuz fill=gaussian,needle,ramp,value_mean,outlier",
       "matmul m=16 n=64 k=128,1024 a=f16 b=f16 dtype=f32 variant=all fill=gaussian,uniform,cancel",
       "matmul m=16 n=64 k=128,1024 a=bf16 b=bf16 dtype=f32 variant=all fill=gaussian,uniform,cancel",
       "matmul m=16 n=64 k=128,1024 a=e4m3fn_tok b=e4m3fn_tok dtype=f32 fill=gaussian,uniform,outlier "
       "variant=" ASSAY_FP8_UNITS,
       "matmul m=16 n=64 k=1024 a=nvfp4 b=nvfp4 path=blocks dtype=f32 variant=all fill=gaussian,outlier"});
  const Count c = judge(lines, ASSAY_EMULATED_PLUGIN);
  EXPECT_EQ(c.alarms, 0U);
  EXPECT_GE(c.outputs, 1'000'000U);
}

}  // namespace
}  // namespace assay
