// Correct kernels that limits of attention once accused, each beside a faulty one that is still caught.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "reference/ops/attention/limits/plain_rows.hpp"

namespace assay {
namespace {

using namespace plain;

struct Accused {
  std::string name;
  Row row;
  std::string contract;
  Choice kernel, faulty;
};

// An exp whose every result below the normal numbers is `x`.
Choice subnormal(float x, const std::string& p) {
  return with([&](Choice& c) { c.p = p, c.exp = [=](float t) { return t == 0 ? 1.0F : x; }; });
}

std::vector<Accused> accused() {
  std::vector<Accused> all;
  const auto add = [&](const std::string& name, const Row& row, const std::string& contract,
                       const auto& kernel, const auto& fault) {
    Choice faulty = with(kernel);
    fault(faulty);
    all.push_back({name, row, contract, with(kernel), faulty});
  };
  const auto doubled = [](Choice& c) { c.doubles = true; };
  const std::string tiles = "order=tiles argument=rounded ", flash = tiles + "scaling=scores tiles=aligned ";
  for (const std::string level : {"detord", "ca"})
    all.push_back(
        {"a subnormal weight errs by ulps of its own, " + level,
         row_of(2, [](std::int64_t j) { return Key{j == 0 ? 0.0F : -104.0F, j == 0 ? 0.0F : 1e38F}; }),
         "exp_ulp=16 " + flash + "level=" + level, subnormal(0x1p-145F, "f32"), subnormal(0x1p-120F, "f32")});
  for (const std::string p : {"bf16", "e4m3fn"})
    add(
        "maximum and sum begin as the sink, p=" + p, with_sink(gaussian(256, 2), 7.3F),
        "tile=16 p_shift=6 p=" + p + " " + tiles,
        [=](Choice& c) { c.sink_first = true, c.p = p, c.p_factor = 64, c.tile = 16; }, doubled);
  Row masked = row_of(4096, [](std::int64_t j) { return Key{j == 0 ? 0.0F : -7.7F, 1.0F}; });
  masked.seen.assign(4096, 0);
  for (std::size_t j = 0; j < 4096; j += 32) masked.seen[j] = 1;
  add(
      "masked keys take their places in lanes", masked, "rowsum=f16 tile=4096 rowsum_order=lanes:32",
      [](Choice& c) { c.tile = 4096, c.lanes = 32, c.rowsum = "f16"; }, doubled);
  add(
      "a sink rescales the register of a single tile",
      with_sink(row_of(1, [](std::int64_t) { return Key{0.0F, 0x1.00db52p+0F}; }), 0.68975F), "pv=f16",
      [](Choice& c) { c.pv = "f16"; }, [](Choice& c) { c.pv = "bf16"; });
  // Maxima whose products with log2 e are rounded up by half a unit, nearly: each rescale begins with the
  // number that the last one subtracted rounded.
  Row climbs = row_of(256, [](std::int64_t j) { return Key{120.0F, j < 128 ? 1.0F : -1.0F}; });
  float next = 120;
  for (float& each : climbs.k) {
    for (;; next = std::nextafter(next, 1000.0F)) {
      const double exact = double{next} * 0x1.715476p+0;
      if (static_cast<double>(static_cast<float>(exact)) - exact > 0x1.cp-18) break;
    }
    each = next, next = std::nextafter(next, 1000.0F);
  }
  for (const std::string level : {"detap", "ca"})
    add(
        "a fused rescale errs by the rounding of each maximum, " + level, climbs,
        "tile=1 exp_ulp=1 order=tiles scaling=scores tiles=aligned level=" + level,
        [](Choice& c) { c.tile = 1, c.fused = true; }, doubled);
  const Row rising =
      row_of(256, [](std::int64_t j) { return Key{static_cast<float>(j) * 1e-5F, j < 128 ? 1.0F : -1.0F}; });
  for (const char* merge : {"any", "states"})
    add(
        fmt::format("256 parts, merged one after the other, merge={}", merge), rising,
        fmt::format("split=256 exp_ulp=16 part=1 tile=1 merge={}", merge),
        [](Choice& c) { c.split = 256, c.tile = 1, c.exp = exp_over(16); },
        [](Choice& c) { c.exp = exp_over(1600); });
  add(
      "tiles begin where the window does", with_window(gaussian(250, 2), 100), "p=e4m3fn " + tiles,
      [](Choice& c) { c.p = "e4m3fn", c.first_tile = 150; }, doubled);
  Row crossing =
      with_window(row_of(65, [](std::int64_t j) { return Key{j == 64 ? 0x1.3d70a4p-3F : 0.0F, 1.0F}; }), 2);
  crossing.v[63] = 0x1.33ap+0F, crossing.v[64] = 0x1.2cp-7F;
  add(
      "a window of fewer keys than a tile crosses into the next", crossing, "pv=f16",
      [](Choice& c) { c.pv = "f16"; }, doubled);
  Row cancels = row_of(64, [](std::int64_t j) { return Key{0.0F, j % 2 == 0 ? 1.0F : -1.0F}; });
  cancels.q = {3974, 3186}, cancels.scale = 0.68F, cancels.k.clear();
  for (std::int64_t j = 0; j < 64; ++j)
    for (const float each : {3186.0F, -3974.0F}) cancels.k.push_back(j % 2 == 0 ? each * 0x1p-8F : 0.0F);
  for (const std::string level : {"detord", "ca"})
    add(
        "q times the scale comes first, " + level, cancels, tiles + "level=" + level,
        [](Choice& c) { c.scales_q = true; }, [](Choice& c) { c.scaled_q = "bf16"; });
  for (const std::string p : {"bf16", "e4m3fn"})
    add(
        "a maximum is raised late, p=" + p, gaussian(256, 1.5, 0.02), "tile=16 lag=5.5 p=" + p + " " + flash,
        [=](Choice& c) { c.tile = 16, c.lag = 5.5F, c.p = p; }, doubled);
  add(
      "shares are rounded", row_of(302295, [](std::int64_t) { return Key{0.0F, 1.0F}; }),
      "p=f16 weights=shares p_shift=0.4 pv_order=tree rowsum_order=tree",
      [](Choice& c) { c.p = "f16", c.shares = true, c.p_factor = std::exp2(0.4F); },
      [](Choice& c) { c.p = "e5m2"; });
  return all;
}

TEST(AttentionHolds, kernels_within_their_contract_are_not_accused_and_faulty_ones_are) {
  for (const Accused& a : accused()) {
    const double inside = ratio(a.row, a.kernel, a.contract), outside = ratio(a.row, a.faulty, a.contract);
    fmt::print("{:55} {:10.4g} {:10.4g}\n", a.name, inside, outside);
    EXPECT_LE(inside, 1) << a.name;
    EXPECT_GT(outside, 1) << a.name;
  }
}

// The contract says that exp(0) is 1, on which the levels above detap build; where no order is declared none
// is built on it.
TEST(AttentionHolds, exp_of_0_is_1_by_the_manual) {
  bool said = false;
  for (const KeySpec& key : attention_contract())
    said |= key.name == "exp_ulp" && key.meaning.find("exp(0) is 1") != std::string_view::npos;
  EXPECT_TRUE(said);
  const Row two =
      row_of(2, [](std::int64_t j) { return Key{static_cast<float>(-j), static_cast<float>(j)}; });
  const auto bias = [&](double ulps) {
    return with([&](Choice& c) {
      c.exp = [=](float t) {
        const double off = (t == 0 ? -1 : 1) * kInside * ulps * kUlp;
        return static_cast<float>(std::exp(static_cast<double>(t)) * (1 + off));
      };
    });
  };
  EXPECT_LE(ratio(two, bias(16), "exp_ulp=16"), 1);
  EXPECT_GT(ratio(two, bias(64), "exp_ulp=16"), 1);
}

// Errors that grow with the size of a logit, of keys that weigh nothing, and a largest key that is the
// output.
TEST(AttentionHolds, a_key_far_below_the_others_does_not_widen_the_limit) {
  const Row far =
      row_of(2, [](std::int64_t j) { return Key{j == 0 ? 0.0F : -3000.0F, j == 0 ? 1.0F : -1.0F}; });
  for (const char* contract : {"", "order=tiles level=detord scaling=scores tiles=aligned"}) {
    const plain::Claim c = plain::claim(far, contract);
    EXPECT_EQ(c.value, 1);
    EXPECT_LE(c.limit, 20 * 0x1p-24) << contract;
    EXPECT_LE(ratio(far, Choice{}, contract), 1);
  }
}

TEST(AttentionHolds, what_a_row_without_a_key_gives_is_declared) {
  Row none = row_of(3, [](std::int64_t) { return Key{0.0F, 1.0F}; });
  none.seen.assign(3, 0);
  for (const std::string order : {"", "order=tiles scaling=scores tiles=aligned "}) {
    EXPECT_EQ(plain::claim(none, order).value, 0);
    EXPECT_EQ(plain::claim(none, order).limit, 0);
    EXPECT_TRUE(std::isnan(plain::claim(none, order + "empty=nan").value));
    EXPECT_TRUE(std::isinf(plain::claim(none, order + "empty=any").limit));
  }
}

}  // namespace
}  // namespace assay
