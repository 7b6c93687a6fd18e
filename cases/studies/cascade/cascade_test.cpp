// The cascade through the in-process arithmetic: published numbers, each link, each remedy, each exhibit.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "cases/studies/cascade/chain.hpp"
#include "cases/studies/cascade/e4m3.hpp"
#include "cases/studies/cascade/exhibits.hpp"
#include "reference/error.hpp"
#include "reference/ops/variance.hpp"

namespace assay::scenarios {
namespace {

CascadeReport cascade(Policy policy, Variance variance = Variance::one_pass,
                      const std::string& traffic = "published", std::uint64_t seed = 1) {
  CascadeOptions o;
  o.seed = seed;
  o.variance = variance;
  o.traffic = traffic;
  o.settings.policy = policy;
  o.remedies = o.compare = false;
  return run_cascade(o, host_arithmetic);
}
std::set<int> fired(const CascadeReport& r) {
  std::set<int> numbers;
  for (const auto& l : r.links)
    if (l.fired) numbers.insert(l.number);
  return numbers;
}
std::set<int> up_to(int last) {
  std::set<int> numbers;
  for (int i = 1; i <= last; ++i) numbers.insert(i);
  return numbers;
}

Written stored(const std::vector<float>& x, float first, double constant) {
  return host_arithmetic(Variance::two_pass)
      ->kv_write(x, 1, 1, static_cast<int>(x.size()), {"e4m3fn_tensor", "locked", constant, {first}});
}

TEST(Published, a_first_request_of_5_locks_0_025_and_11_2_is_the_largest_storable) {
  const Written w = stored({15, 20, 50, -20}, 5, 200);
  EXPECT_EQ(w.scale[0], 0.025F);
  const float top = e4m3_decode(w.codes[0]) * w.scale[0];
  EXPECT_EQ(top, 11.2F);
  EXPECT_EQ(static_cast<double>(top), 11.19999980926513671875);
  for (const std::size_t i : {1U, 2U}) EXPECT_EQ(w.codes[i], w.codes[0]);
  EXPECT_EQ(e4m3_decode(w.codes[3]), -448);
  const auto lost = [&](double x) { return std::round(1000 * (1 - static_cast<double>(top) / x)) / 10; };
  EXPECT_EQ(lost(15), 25.3);
  EXPECT_EQ(lost(20), 44.0);
  EXPECT_EQ(lost(50), 77.6);
}

TEST(Published, the_other_way_round_8_of_448_are_used) {
  const Written w = stored({2, -2, 0.5F}, 50, 200);
  EXPECT_EQ(w.scale[0], 0.25F);
  EXPECT_EQ(e4m3_decode(w.codes[0]), 8);
}

TEST(Published, one_pass_variance_of_equal_elements_of_11_2_is_negative_and_its_root_is_nan) {
  const std::vector<float> row(40, 11.2F);
  constexpr float kEps = 1e-12F;  // of the model's norms: a variance below -eps has no root
  EXPECT_LT(moments_f32(row, VarianceKind::one_pass).variance, -kEps);
  std::vector<float> y(40);
  host_arithmetic(Variance::one_pass)->layernorm(row, 1, 40, kEps, y);
  for (const float v : y) EXPECT_TRUE(std::isnan(v));
  for (const Variance sound : {Variance::one_pass_clamped, Variance::welford, Variance::two_pass}) {
    host_arithmetic(sound)->layernorm(row, 1, 40, kEps, y);
    for (const float v : y) EXPECT_TRUE(std::isfinite(v));
  }
}

TEST(Chain, fires_all_fourteen_links_in_order_for_every_seed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const CascadeReport r = cascade(Policy::locked, Variance::one_pass, "published", seed);
    EXPECT_EQ(fired(r), up_to(14)) << "seed " << seed;
    EXPECT_TRUE(r.in_order) << "seed " << seed;
    EXPECT_EQ(r.first_cause, "scale locked on the first request");
    EXPECT_EQ(r.last_line(), "14 of 14 links");
  }
}

TEST(Chain, one_of_four_tokens_nan_becomes_four_of_four_in_one_layer) {
  const CascadeReport r = cascade(Policy::locked);
  EXPECT_EQ(r.links[10].evidence, "1 of 4 tokens NaN before the layer, 4 of 4 after");
  EXPECT_EQ(r.pictures[1].layers[0].substr(0, 4), "Ncc.");
  EXPECT_EQ(r.pictures[1].layers[1].substr(0, 4), "NNNN");
}

TEST(Chain, the_nan_outlives_its_request_and_spares_those_that_do_not_share_its_prefix) {
  const CascadeReport r = cascade(Policy::locked);
  for (const std::size_t poisoned : {1U, 2U, 4U}) EXPECT_EQ(r.answers[poisoned].second, "!!!!");
  for (const std::size_t sound : {0U, 3U, 5U})
    EXPECT_EQ(r.answers[sound].second.find('!'), std::string::npos);
  EXPECT_EQ(r.answers[0].second, r.answers[5].second);
}

TEST(Chain, fails_every_later_request_where_pages_are_read_whole_and_padding_goes_to_the_null_block) {
  CascadeOptions o;
  o.remedies = o.compare = false;
  o.settings.defects.null_block = true;
  for (o.seed = 1; o.seed <= 5; ++o.seed) {
    o.settings.policy = Policy::locked;
    const CascadeReport r = run_cascade(o, host_arithmetic);
    EXPECT_EQ(r.answers[0].second.find('!'), std::string::npos);
    for (std::size_t i = 1; i < r.answers.size(); ++i) EXPECT_EQ(r.answers[i].second, "!!!!") << i;
    // Its twin: the same book-keeping, and nothing that is NaN.
    o.settings.policy = Policy::per_token;
    const CascadeReport sound = run_cascade(o, host_arithmetic);
    EXPECT_EQ(sound.fired(), 0);
    EXPECT_EQ(sound.answers, cascade(Policy::per_token, Variance::one_pass, "published", o.seed).answers);
  }
}

TEST(Chain, stops_behind_link_5_with_rmsnorm_and_says_why) {
  CascadeOptions o;
  o.remedies = o.compare = false;
  EXPECT_EQ(run_cascade(o, host_arithmetic).note, "");
  o.settings.norm = NormKind::rmsnorm;
  const CascadeReport r = run_cascade(o, host_arithmetic);
  EXPECT_EQ(fired(r), up_to(5));
  EXPECT_NE(r.note.find("RMSNorm"), std::string::npos) << r.note;
  for (const auto& [name, text] : r.answers) EXPECT_EQ(text.find('!'), std::string::npos) << name;
}

// Wider or narrower rows, and a larger eps: the variance must be below -eps, or the chain ends.
TEST(Chain, goes_as_far_as_the_eps_and_the_width_of_the_norm_allow) {
  CascadeOptions whole;
  whole.remedies = false;
  const CascadeReport r = run_cascade(whole, host_arithmetic);
  ASSERT_FALSE(r.variances.empty());
  constexpr double kEps = 1e-12F;  // of the model's norms: a variance below -eps has no root
  for (const auto& v : r.variances) {
    const std::vector<float> row(static_cast<std::size_t>(v.width), 11.2F);
    const auto own = static_cast<double>(moments_f32(row, VarianceKind::one_pass).variance);
    EXPECT_EQ(v.variance < 0, own < -kEps) << v.width;
  }
  for (const int heads : {1, 5}) {
    CascadeOptions o;
    o.remedies = o.compare = false;
    o.shape.heads = heads;
    // E[x^2] and E[x]^2 are each off by (n + 2) 2^-24 of 11.2^2 at most: together by 6.3e-4 at 40 elements.
    o.shape.eps = 0.1F;
    const CascadeReport stopped = run_cascade(o, host_arithmetic);
    EXPECT_LT(stopped.fired(), 7) << heads;
    EXPECT_NE(stopped.note, "");
  }
}

TEST(Vocabulary, begins_with_the_bytes_that_print) {
  EXPECT_EQ(text_of(0), "!");
  EXPECT_EQ(text_of(32), "A");
  EXPECT_EQ(text_of(93), "~");
  EXPECT_EQ(text_of(94), "\u00A1");
  EXPECT_EQ(text_of(187), "\u00FF");
  EXPECT_EQ(text_of(188 + 32), "\u0120");  // the blank
  EXPECT_THROW(text_of(256), InputError);
  std::set<std::string> all;
  for (int t = 0; t < 256; ++t) all.insert(text_of(t));
  EXPECT_EQ(all.size(), 256U);
}

TEST(Remedies, each_stops_the_chain_where_it_should_and_the_report_says_so) {
  CascadeOptions o;
  o.compare = false;
  const CascadeReport r = run_cascade(o, host_arithmetic);
  ASSERT_EQ(r.remedies.size(), 11U);
  for (const auto& m : r.remedies) {
    const int expected = m.name.starts_with("policy")     ? 1
                         : m.name.starts_with("variance") ? 7
                         : m.name == "scrub=on"           ? 12
                                                          : 14;
    EXPECT_EQ(m.stopped_at, expected) << m.name;
    const std::set<int> left(m.links.begin(), m.links.end());
    std::set<int> wanted = up_to(expected - 1);
    if (m.name == "scrub=on") wanted.insert(14);  // the image request itself still ends in NaN
    EXPECT_EQ(left, wanted) << m.name;
    EXPECT_EQ(m.answers == "no \"!\"", m.name != "scrub=on") << m.name << ": " << m.answers;
  }
}

TEST(Policies, that_are_sound_fire_nothing) {
  for (const Policy p : {Policy::per_token, Policy::per_request, Policy::per_head, Policy::calibrated,
                         Policy::split, Policy::none, Policy::checkpoint})
    for (const char* traffic : {"published", "text"}) {
      const CascadeReport r = cascade(p, Variance::one_pass, traffic);
      EXPECT_EQ(r.fired(), 0) << to_string(p);
      EXPECT_TRUE(r.observations.empty())
          << to_string(p) << ": " << (r.observations.empty() ? "" : r.observations[0].detail);
    }
}

TEST(Policies, the_opposite_failure_loses_resolution_and_no_crash) {
  const CascadeReport r = cascade(Policy::locked, Variance::one_pass, "opposite");
  EXPECT_EQ(fired(r), up_to(2));
  EXPECT_EQ(r.first_cause, "scale locked too large");
  for (const auto& o : r.observations)
    if (o.watch == "resolution_lost") {
      EXPECT_LT(o.value, 12);
      EXPECT_EQ(o.request, 1);
    }
  for (const auto& [name, tokens] : r.answers) EXPECT_EQ(tokens.find('!'), std::string::npos) << name;
}

TEST(Divergence, the_reference_beside_it_finds_the_clip_and_the_root) {
  CascadeOptions o;
  o.remedies = false;
  const CascadeReport r = run_cascade(o, host_arithmetic);
  // Bisected from above, to a factor of 1.001.
  const double variance =
      static_cast<double>(moments_f32(std::vector<float>(40, 11.2F), VarianceKind::one_pass).variance);
  EXPECT_LE(r.links[5].value, variance);
  EXPECT_GT(r.links[5].value, 1.001 * variance);
  ASSERT_EQ(r.divergences.size(), 2U);
  EXPECT_EQ(r.divergences[0].stage, "subnorm");
  EXPECT_EQ(r.divergences[1].stage, "cache");
  for (const auto& d : r.divergences) {
    EXPECT_EQ(d.request, 1);
    EXPECT_EQ(d.layer, 0);
    EXPECT_EQ(d.token, 0);
  }
  o.settings.policy = Policy::per_token;
  for (const auto& d : run_cascade(o, host_arithmetic).divergences) EXPECT_EQ(d.stage, "") << d.what;
}

TEST(Exhibits, accuse_the_defect_and_leave_the_correct_twin_alone) {
  const Model model = make_model(3, 3);
  for (const Exhibit& e : exhibits()) {
    const auto traffic = traffic_named(std::string(e.traffic), 3);
    const auto math = host_arithmetic(Variance::one_pass);
    const auto bad = run_engine(model, traffic, e.defective, *math);
    const auto good = run_engine(model, traffic, e.counterpart, *math);
    EXPECT_EQ(first_cause(bad.monitors.observations()), e.cause) << e.name;
    EXPECT_EQ(first_cause(good.monitors.observations()), "") << e.name;
    std::size_t changed = 0;  // a defect that moves no number would be no exhibit
    for (std::size_t i = 0; i < traffic.size(); ++i)
      changed += bad.answers[i].logits != good.answers[i].logits ? 1 : 0;
    EXPECT_GT(changed, 0U) << e.name;
  }
}

TEST(Pages, are_evicted_oldest_first_and_given_out_again) {
  Pages pages(2, 4);
  const std::vector<int> tokens = {1, 2, 3, 4};
  const int a = pages.allocate(), b = pages.allocate();
  EXPECT_THROW(pages.allocate(), std::runtime_error);
  const std::uint64_t first = Pages::hash(0, tokens), second = Pages::hash(first, tokens);
  pages.commit(a, first);
  pages.commit(b, second);
  pages.release(b);
  pages.release(a);
  EXPECT_EQ(pages.find(first), a);
  EXPECT_EQ(pages.allocate(), b);  // released first
  EXPECT_EQ(pages.find(second), -1);
  pages.retain(a);
  EXPECT_THROW(pages.allocate(), std::runtime_error);
  EXPECT_EQ(pages.evictions(), 1);
}

TEST(Pages, a_small_pool_evicts_and_answers_the_same) {
  const Model model = make_model(2, 2);
  Settings s;
  s.policy = Policy::per_token;
  const auto math = host_arithmetic(Variance::two_pass);
  const auto traffic = published_traffic(2);
  const auto large = run_engine(model, traffic, s, *math);
  s.pages = 5;
  const auto small = run_engine(model, traffic, s, *math);
  EXPECT_GT(small.evictions, 0);
  for (std::size_t i = 0; i < traffic.size(); ++i)
    EXPECT_EQ(small.answers[i].logits, large.answers[i].logits) << i;
}

// 1,200 runs: seed x traffic x what is wrong. The monitors' first cause is the injected one, in every run.
TEST(Property, the_first_cause_is_the_injected_one_and_clean_runs_are_silent) {
  struct Injection {
    Policy policy;
    const char* traffic;
    const char* cause;
  };
  constexpr Injection kInjections[] = {
      {Policy::locked, "published", "scale locked on the first request"},
      {Policy::locked, "opposite", "scale locked too large"},
      {Policy::locked, "text", ""},
      {Policy::locked_dummy, "published", "scale locked on a dummy pass"},
      {Policy::locked_zero, "text", "scale locked on an all-zero request"},
      {Policy::fixed, "published", "fixed scale too large"},
      {Policy::checkpoint_dropped, "published", "checkpoint scales dropped"},
      {Policy::checkpoint_swapped, "published", "checkpoint scales of K and V swapped"},
      {Policy::diverging, "text", "host and device copies of the scale diverge"},
      {Policy::per_token, "published", ""},
      {Policy::per_request, "published", ""},
      {Policy::per_head, "published", ""},
      {Policy::calibrated, "published", ""},
      {Policy::split, "published", ""},
      {Policy::none, "published", ""},
      {Policy::checkpoint, "text", ""},
  };
  constexpr Variance kForms[] = {Variance::one_pass, Variance::one_pass_clamped, Variance::welford,
                                 Variance::two_pass};
  constexpr std::uint64_t kSeeds = 62;
  int runs = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Model model = make_model(1000 + seed, 2);
    for (const Injection& injection : kInjections) {
      Settings s;
      s.policy = injection.policy;
      const auto math = host_arithmetic(kForms[(seed + static_cast<std::uint64_t>(runs)) % 4]);
      const auto run = run_engine(model, traffic_named(injection.traffic, seed), s, *math);
      ASSERT_EQ(first_cause(run.monitors.observations()), injection.cause)
          << "seed " << seed << " policy " << to_string(injection.policy) << " traffic " << injection.traffic;
      ++runs;
    }
    for (const Exhibit& e : exhibits().subspan(2, 5)) {
      const auto math = host_arithmetic(kForms[seed % 4]);
      const auto traffic = traffic_named(std::string(e.traffic), seed);
      ASSERT_EQ(first_cause(run_engine(model, traffic, e.defective, *math).monitors.observations()), e.cause)
          << e.name << " seed " << seed;
      ASSERT_EQ(first_cause(run_engine(model, traffic, e.counterpart, *math).monitors.observations()), "")
          << e.name << " seed " << seed;
      runs += 2;
    }
  }
  EXPECT_GE(runs, 1000);
  RecordProperty("runs", runs);
}

}  // namespace
}  // namespace assay::scenarios
