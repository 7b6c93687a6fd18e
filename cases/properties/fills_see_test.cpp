// Each fill that aims at one defect catches it where the customary inputs do not, and passes the kernel without it.
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

}  // namespace
}  // namespace assay
