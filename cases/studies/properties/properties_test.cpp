// Each property holds for the kernels as they are, finds the violations that are planted behind their back,
// and leaves a draw of a handful of values, which shows the violation in a process of its own and nothing
// without it.
#include "cases/studies/properties/properties.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "cases/studies/properties/report.hpp"

namespace assay::properties {
namespace {

BackendInfo info(const char* file) {
  BackendInfo b;
  b.name = "cpu", b.file = file;
  return b;
}
// "": the kernels as they are.
Subject subject(const std::string& violation) {
  return Subject(violation.empty() ? "cpu" : "cpu:" + violation,
                 {info(violation.empty() ? ASSAY_CPU_PLUGIN : ASSAY_VIOLATING_PLUGIN)});
}

struct Planted {
  const char* violation;
  const char* property;
  std::size_t steps;  // that at most are left of a sequence: what the violation takes, and what makes it show
};
constexpr Planted kPlanted[] = {
    {"wraps", "clipping", 1},       {"overflow_nan", "clipping", 1}, {"sticky_scale", "clipping", 1},
    {"sticky_scale", "locked", 6},  {"running_max", "locked", 3},    {"stale_page", "locked", 6},
    {"zero_times", "nan", 6},       {"smear_one_bit", "nan", 6},     {"stale_page", "nan", 6},
    {"sticky_scale", "cascade", 3}, {"norm_nan", "cascade", 3},      {"dropped", "fallbacks", 1},
    {"refuses", "fallbacks", 1},    {"one_way", "fallbacks", 1},     {"divides", "scales", 1},
    {"first_scale", "scales", 1},   {"merges_badly", "scales", 1},   {"layout", "scales", 1},
    {"policy", "scales", 1},
};
constexpr std::uint64_t kDraws = 100;  // of the default run, which has to find them

PropertyResult asked(const Planted& p, std::uint64_t seed) {
  Subject s = subject(p.violation);
  return check_property(property(p.property), s, {.draws = kDraws, .seed = seed, .shrink_seconds = 60});
}
constexpr std::uint64_t kShrunk =
    5;  // seeds of the long test whose draws are shrunk; all others are found alone

TEST(Steps, are_text_and_back) {
  const std::string text = "cache to=e4m3fn_tok page=4; write row=0 tokens=3; reset";
  EXPECT_EQ(print(parse_steps(text)), text);
  EXPECT_EQ(print(parse_steps(" a  b=1 ;c ")), "a b=1; c");
  for (const char* bad : {"", "; a", "a b", "a =1", "a b=", "x=1", "a b=1 b=2"})
    EXPECT_THROW((void)parse_steps(bad), InputError) << bad;
  const Step s = parse_steps("a n=12 x=0.5 w=12x").at(0);
  EXPECT_EQ(s.integer("n", 1, 12), 12);
  EXPECT_EQ(s.real("x", 0, 1), 0.5);
  EXPECT_THROW((void)s.integer("n", 1, 11), InputError);
  EXPECT_THROW((void)s.integer("w", 0, 99), InputError);
  EXPECT_THROW((void)s.integer("m", 0, 99), InputError);
  EXPECT_THROW((void)parse_steps("a x=nan").at(0).real("x", -1e9, 1e9), InputError);
}

TEST(Steps, that_cannot_be_are_refused) {
  Subject s = subject("");
  const std::string cache =
      "cache to=e4m3fn_tok policy=token heads=1 kv_heads=1 d=32 page=4 rows=2 len=4 reads=yes; ";
  for (const char* bad : {"read seed=1", "evict row=0", "write row=2 tokens=1 range=1 seed=1 nan=no",
                          "write row=0 tokens=5 range=1 seed=1 nan=no", "calibrate range=1", "sing"})
    EXPECT_THROW((void)check_draw(property("locked"), s, parse_steps(cache + bad)), InputError) << bad;
  EXPECT_THROW((void)check_draw(property("clipping"), s, parse_steps("clop to=int8_tensor")), InputError);
  EXPECT_THROW((void)check_draw(property("scales"), s, parse_steps("divide by=zero")), InputError);
  EXPECT_THROW((void)check_draw(property("cascade"), s, parse_steps("model policy=none")), InputError);
  EXPECT_THROW((void)property("cliping"), InputError);
}

TEST(Properties, hold_for_the_kernels_as_they_are) {
  for (const Property& p : properties()) {
    Subject s = subject("");
    const auto r = check_property(p, s, {.draws = 20, .whole = false});
    EXPECT_EQ(r.outcome, Outcome::holds) << describe(r, s.backend(), 1);
    EXPECT_GE(r.draws, 15U) << describe(r, s.backend(), 1);
  }
}

TEST(Properties, find_what_is_planted_and_leave_a_handful_of_it) {
  for (const Planted& p : kPlanted) {
    const auto r = asked(p, 1);
    ASSERT_EQ(r.outcome, Outcome::broken) << p.violation << " " << describe(r, p.violation, 1);
    EXPECT_LE(r.shrunk.size(), p.steps) << p.violation << " " << describe(r, p.violation, 1);
    EXPECT_FALSE(r.history) << p.violation << " " << describe(r, p.violation, 1);
    // Its text, in a process of its own: broken there, and not where nothing is planted.
    Subject again = subject(p.violation), sound = subject("");
    const Steps steps = parse_steps(print(r.shrunk));
    EXPECT_EQ(check_draw(property(p.property), again, steps).outcome, Outcome::broken) << print(steps);
    EXPECT_EQ(check_draw(property(p.property), sound, steps).outcome, Outcome::holds) << print(steps);
  }
}

TEST(Properties, hold_where_the_promise_of_pairs_is_kept) {
  Subject s = subject("two_ways");
  const auto r = check_property(property("fallbacks"), s, {.draws = 1});
  EXPECT_EQ(r.outcome, Outcome::holds) << describe(r, s.backend(), 1);
}

TEST(Properties, the_same_seed_finds_and_leaves_the_same) {
  const Planted p{"wraps", "clipping", 1};
  const auto one = asked(p, 3), two = asked(p, 3);
  EXPECT_EQ(print(one.found), print(two.found));
  EXPECT_EQ(print(one.shrunk), print(two.shrunk));
}

// The table of reports/results/properties.md.
TEST(PropertiesNightly, find_each_violation_in_99_of_100_seeds) {
  if (std::getenv("ASSAY_NIGHTLY") == nullptr) GTEST_SKIP() << "nightly";
  constexpr int kSeeds = 100, kFound = 99;
  std::printf(
      "| violation | property | found | draws | steps | values | the smallest draw of seed 1 "
      "|\n|---|---|--:|--:|--:|--:|---|\n");
  for (const Planted& p : kPlanted) {
    int found = 0, shrunk = 0;
    double draws = 0, steps = 0, values = 0;
    std::string shown;
    Subject s = subject(p.violation);
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      s.restart();
      const double seconds = seed <= kShrunk ? Effort{}.shrink_seconds : 0;
      const auto r =
          check_property(property(p.property), s, {.draws = kDraws, .seed = seed, .shrink_seconds = seconds});
      if (r.outcome != Outcome::broken) continue;
      ++found;
      draws += static_cast<double>(r.draws);
      if (seed > kShrunk) continue;
      ++shrunk;
      steps += static_cast<double>(r.shrunk.size()), values += static_cast<double>(values_of(r.shrunk));
      if (shown.empty()) shown = print(r.shrunk);
    }
    std::printf("| %s | %s | %d of %d | %.1f | %.1f | %.1f | `%s` |\n", p.violation, p.property, found,
                kSeeds, draws / std::max(found, 1), steps / std::max(shrunk, 1), values / std::max(shrunk, 1),
                shown.c_str());
    std::fflush(stdout);
    EXPECT_GE(found, kFound) << p.violation << " by " << p.property;
  }
}

}  // namespace
}  // namespace assay::properties
