// Each fill that aims at one defect catches it where the customary inputs do not, and passes the kernel
// without it.
#include <gtest/gtest.h>

#include <string>

#include "cases/lists.hpp"
#include "harness/judge.hpp"

namespace assay {
namespace {

Status judged(const std::string& line) {
  BackendInfo info;
  info.name = "short_sighted", info.file = SHORT_SIGHTED;
  const std::vector<BackendInfo> known{info};
  Workers workers(known);
  Case c = expand(parse_case(line)).at(0);
  c.backend = "short_sighted";
  return judge_alone(c, input_lists(), workers).verdict.status;
}

struct Sight {
  const char* line;
  const char* defect;
  const char* shows;
  std::vector<const char*> hide;
};

TEST(FillsSee, what_customary_inputs_hide) {
  const std::vector<Sight> all = {
      {"quantize rows=4 cols=128 to=e4m3fn dtype=f32",
       "half_up",
       "output_ties",
       {"gaussian", "codes", "uniform", "outlier"}},
      {"rmsnorm rows=29 cols=8189 dtype=f32 seed=3", "drops_last", "last_element", {"uniform", "integers"}},
      {"rmsnorm rows=29 cols=8189 dtype=f32 seed=3", "drops_lane", "carrier", {"uniform", "integers"}},
      {"rmsnorm rows=4 cols=256 dtype=f32",
       "skips_tile",
       "one_per_tile",
       {"gaussian", "uniform", "sparse", "outlier"}},
      {"softmax rows=4 cols=300 dtype=f32",
       "starts_high",
       "negative_extreme",
       {"gaussian", "deep", "offset", "ramp", "cancel"}},
  };
  for (const Sight& s : all) {
    const std::string line = s.line, variant = std::string(" variant=") + s.defect;
    EXPECT_EQ(judged(line + " fill=" + s.shows), Status::pass) << line << " " << s.shows;
    EXPECT_EQ(judged(line + " fill=" + s.shows + variant), Status::wrong) << line << " " << s.shows;
    for (const char* fill : s.hide) {
      EXPECT_EQ(judged(line + " fill=" + fill + variant), Status::pass)
          << line << " fill=" << fill << ": " << s.defect << " shows without " << s.shows;
    }
  }
}

// What a cast to e4m3fn may do to a weight is 1/16, and a largest weight that is clipped is 1/16 too small:
// but that one is exact.
TEST(FillsSee, weights_in_fp8_that_are_clipped_or_were_not_scaled_up) {
  const std::string line = "attention heads=2 d=64 len=300 kv=f32 dtype=f32 variant=";
  for (const char* fill : {"onehot_attention", "crowd", "gaussian", "needle"})
    EXPECT_EQ(judged(line + "fp8_right fill=" + fill), Status::pass) << fill;
  for (const std::string embedded : {"", "embedded_"}) {
    EXPECT_EQ(judged(line + "fp8_right fill=" + embedded + "onehot_attention"), Status::pass);
    EXPECT_EQ(judged(line + "fp8_right fill=" + embedded + "crowd"), Status::pass);
    EXPECT_EQ(judged(line + "fp8_clips_at_240 fill=" + embedded + "onehot_attention"), Status::wrong);
    EXPECT_EQ(judged(line + "fp8_unshifted fill=" + embedded + "crowd"), Status::wrong);
  }
  for (const char* fill : {"gaussian", "needle", "value_mean", "roll_call"})
    for (const char* variant : {"fp8_clips_at_240", "fp8_unshifted"})
      EXPECT_EQ(judged(line + variant + " fill=" + fill), Status::pass) << fill << " " << variant;
}

// A kernel that is right where a tensor has the look of a probe, and loses a key elsewhere; and the opposite.
TEST(FillsSee, a_kernel_that_recognises_a_probe_by_its_look) {
  const std::string line = "attention heads=2 d=64 len=257 kv=f32 dtype=f32 fill=";
  for (const char* probe : {"equal_onehot", "window_onehot", "constant", "roll_call", "front_load", "needle",
                            "distractors", "low_logits"}) {
    const std::string bare = line + probe, embedded = line + "embedded_" + probe;
    EXPECT_EQ(judged(bare), Status::pass) << probe;
    EXPECT_EQ(judged(embedded), Status::pass) << probe;
    EXPECT_EQ(judged(bare + " variant=honest_on_probes"), Status::pass) << probe;
    EXPECT_EQ(judged(embedded + " variant=wrong_on_probes"), Status::pass) << probe;
  }
  for (const char* probe : {"equal_onehot", "roll_call", "front_load", "distractors", "low_logits"}) {
    EXPECT_EQ(judged(line + "embedded_" + probe + " variant=honest_on_probes"), Status::wrong) << probe;
    if (std::string(probe) == "front_load") continue;  // made for bits of the sum
    EXPECT_EQ(judged(line + probe + " variant=wrong_on_probes"), Status::wrong) << probe;
  }
}

}  // namespace
}  // namespace assay
