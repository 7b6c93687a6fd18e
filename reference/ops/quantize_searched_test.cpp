// Quantisers whose scales are searched for, against what all of them keep to (admissible_searched.cpp):
// searches that are made here step by step pass, and a defect of each kind does not.
#include <fmt/format.h>

#include "reference/formats/block.hpp"
#include "reference/ops/quantize_testing.hpp"

namespace assay::testing {
namespace {

struct Quantiser {
  int tries = 9;  // candidates either side of the plain step; 0: the plain step as it is
  bool least_squares = true;
  float round_by = 0.5F;  // 0 truncates
  float step_by = 1;      // the stored scales are wrong by this factor
  int neighbour = 0;      // codes are made under the scale of the group so many places on
};

class Searched {
 public:
  Searched(const Format& to, const Quantiser& how) : search_(*to.block->search), how_(how) {}

  std::vector<double> block(std::span<const float> x) const {
    const auto group = static_cast<std::size_t>(search_.group), groups = x.size() / group;
    std::vector<float> steps;
    float extreme = 0;
    for (std::size_t g = 0; g < groups; ++g) {
      steps.push_back(step(x.subspan(g * group, group)));
      if (std::fabs(steps.back()) > std::fabs(extreme)) extreme = steps.back();
    }
    const float d = extreme / static_cast<float>(-search_.top_scale - 1);
    const auto stored = static_cast<float>(round_to(scalar_format("f16"), d * how_.step_by));
    std::vector<double> y;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto scale = [&](std::size_t g) {
        return std::clamp<float>(std::nearbyint(d == 0 ? 0 : steps[g] / d),
                                 static_cast<float>(-search_.top_scale - 1),
                                 static_cast<float>(search_.top_scale));
      };
      const std::size_t g = i / group;
      const float of_code = scale((g + static_cast<std::size_t>(how_.neighbour)) % groups) *
                            (search_.entries.empty() ? stored / how_.step_by : d);
      y.push_back(double{scale(g)} * stored * code(of_code == 0 ? 0 : x[i] / of_code));
    }
    return y;
  }

 private:
  float code(float q) const {
    if (!search_.entries.empty())
      return *std::ranges::min_element(search_.entries, {}, [&](float c) { return std::fabs(q - c); });
    return std::clamp(how_.round_by == 0 ? std::trunc(q) : std::floor(q + how_.round_by),
                      static_cast<float>(search_.far_code), static_cast<float>(search_.top_code));
  }
  // The candidate that explains most of sum x^4.
  float step(std::span<const float> x) const {
    float extreme = 0, best = -1, chosen = 0;
    for (const float v : x)
      if (std::fabs(v) > std::fabs(extreme)) extreme = v;
    // ggml takes a group below 1e-15 for zeros: about 2^-50.
    if (std::fabs(extreme) < 0x1p-50F) return 0;
    const auto far = static_cast<float>(search_.far_code);
    if (how_.tries == 0 && !how_.least_squares) return extreme / far;
    for (int t = -how_.tries; t <= how_.tries; ++t) {
      const float inverse = (far + (search_.entries.empty() ? 0.1F : 1.0F) * static_cast<float>(t)) / extreme;
      float product = 0, square = 0;
      for (const float v : x) {
        const float c = code(v * inverse);
        product += v * v * v * c;
        square += v * v * c * c;
      }
      if (square > 0 && product * product > best * square) {
        chosen = product / square;
        best = chosen * product;
      }
    }
    return chosen;
  }

  const ScaleSearch& search_;
  Quantiser how_;
};

struct Trial {
  std::string to;
  Values x;
  Truth truth;

  Trial(std::string_view name, Shape1 shape, std::size_t seed, float size = 1, float some = 1) : to(name) {
    OpCase c("quantize", {{"rows", "4"}, {"cols", "512"}, {"to", to}});
    Values drawn = draw(shape, 2048, seed);
    for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i] *= i % 256 / 64 == 1 ? size * some : size;
    x = c.put("x", drawn);
    truth = c.truth("");
  }
  std::vector<double> output(const Quantiser& how) const {
    const Searched searched(format(to), how);
    std::vector<double> y;
    for (std::size_t first = 0; first < x.size(); first += 256)
      for (const double v : searched.block(std::span(x).subspan(first, 256))) y.push_back(v);
    return y;
  }
};

constexpr std::string_view kNames[] = {"q3_K", "q6_K", "iq4_xs"};
constexpr Shape1 kShapes[] = {Shape1::gaussian, Shape1::peaked, Shape1::alternating, Shape1::offset};

TEST(SearchedScales, no_search_that_keeps_to_the_rule_is_accused) {
  std::size_t outputs = 0, seed = 0;
  for (const std::string_view to : kNames)
    for (const Shape1 shape : kShapes)
      for (const float size : {1.0F, 1e-3F, 1e-13F, 1e4F}) {
        ++seed;
        const Trial trial(to, shape, seed, size, seed % 2 == 0 ? 0.01F : 1);
        expect_pass(trial.truth, decode_tensor(encode_tensor(format(to), {4, 512}, trial.x)));
        for (const Quantiser& how : {Quantiser{}, Quantiser{.tries = 0},
                                     Quantiser{.tries = 0, .least_squares = false}, Quantiser{.tries = 4}})
          expect_pass(trial.truth, trial.output(how));
        outputs += 5 * trial.x.size();
      }
  EXPECT_GE(outputs, 400000U);
}

TEST(SearchedScales, a_defect_of_each_kind_is_seen) {
  for (const std::string_view to : kNames) {
    const Trial trial(to, Shape1::gaussian, 7, 1, 0.5F);
    std::vector<Quantiser> wrong = {{.step_by = 1.25F}, {.step_by = 0.8F}, {.step_by = -1}, {.neighbour = 4}};
    if (to != "iq4_xs") wrong.push_back({.round_by = 0});
    for (const Quantiser& how : wrong)
      EXPECT_GT(judge(trial.truth, trial.output(how)).bad, 20U)
          << to << " round " << how.round_by << " step " << how.step_by << " neighbour " << how.neighbour;
  }
}

// In units of the plain step of its group: no correct quantiser is better than a half throughout.
TEST(SearchedScales, a_limit_is_about_a_step) {
  for (const std::string_view to : kNames) {
    const Trial trial(to, Shape1::gaussian, 11);
    const ScaleSearch& search = *format(to).block->search;
    double sum = 0;
    for (std::size_t i = 0; i < trial.x.size(); ++i) {
      const auto group = static_cast<std::size_t>(search.group);
      double absmax = 0;
      for (std::size_t j = i / group * group; j < (i / group + 1) * group; ++j)
        absmax = std::max(absmax, std::fabs(double{trial.x[j]}));
      sum += trial.truth.limit[i] * std::abs(search.far_code) / absmax / (search.entries.empty() ? 1 : 16);
    }
    const double mean = sum / static_cast<double>(trial.x.size());
    std::printf("%s: %.2f of a step\n", trial.to.c_str(), mean);
    EXPECT_LT(mean, 1.5) << to;
  }
}

TEST(SearchedScales, zeros_are_zeros_and_of_what_is_not_finite_nothing_is_said) {
  for (const std::string_view to : kNames) {
    OpCase c("quantize", {{"rows", "1"}, {"cols", "512"}, {"to", std::string(to)}});
    Values x = draw(Shape1::gaussian, 512, 3);
    std::fill_n(x.begin(), 64, 0.0F);
    x[300] = kInf;
    c.put("x", x);
    const Truth t = c.truth("");
    EXPECT_EQ(t.limit[0], 0) << to;
    EXPECT_TRUE(std::isfinite(t.limit[255])) << to;
    EXPECT_FALSE(std::isfinite(t.limit[256])) << to;
  }
}

}  // namespace
}  // namespace assay::testing
