// The kernel sweep: its lines, what it plants, and that its readings see what they are meant to see.
#include <gtest/gtest.h>

#include <cmath>

#include "cases/studies/sweep/measure.hpp"
#include "cases/studies/sweep/planting.hpp"
#include "reference/ops/attention/attention.hpp"

namespace assay::sweep {
namespace {

Cell cell(const std::string& line) { return parse_cells(line, {}).at(0); }

std::vector<double> exact(const Cell& c, const Planted& p) {
  const Case op = c.attention();
  return kAttention.truth(op.attributes, p.inputs.set, Contract::parse("level=detap", kAttention.contract))
      .at(0)
      .value;
}

int right(const Planted& p, const std::vector<double>& out) {
  const Reading r = read_fingerprints(p, out);
  int n = 0;
  for (std::size_t i = 0; i < p.needles.size(); ++i) n += r.label[i] == p.needles[i].label ? 1 : 0;
  return n;
}

TEST(Sweep, a_line_is_a_fixed_point_and_sets_multiply) {
  const auto cells = parse_cells("qk len=64,0128 k=q8_0,q4_0 needles=8 seed=1,2", {"cpu", "emulated"});
  EXPECT_EQ(cells.size(), 16U);
  EXPECT_EQ(cells.back().line(), "qk len=128 needles=8 k=q4_0 seed=2 backend=emulated");
  for (const Cell& c : cells) EXPECT_EQ(cell(c.line()).line(), c.line());
}

TEST(Sweep, a_line_that_is_none_is_refused) {
  for (const char* line :
       {"", "niah len=64", "qk", "qk len=8", "qk len=64 needles=32", "qk len=64 needles=9",
        "qk len=64 needles=8 near=9", "qk len=64 needles=8 depth=0.3", "qk len=64 needles=8 len=64",
        "pv len=64 needles=8 delta=0.1", "qk len=64 needles=8 k=q9_1",
        "qk len=64 needles=8 k=", "qk len=64 needles=8 scales=locked", "qk len=64 needles=8 d=48"})
    EXPECT_THROW(parse_cells(line, {}), InputError) << line;
}

TEST(Sweep, planting_is_a_pure_function_of_the_line) {
  const Cell a = cell("pv len=256 needles=8 seed=3 backend=cpu"),
             b = cell("pv len=256 needles=8 seed=3 backend=emulated"),
             other = cell("pv len=256 needles=8 seed=4");
  const Planted p = plant(a), q = plant(b), r = plant(other);
  for (const char* name : {"q", "k", "v"}) {
    EXPECT_TRUE(p.inputs.set.at(name).planes[0].bytes == q.inputs.set.at(name).planes[0].bytes) << name;
    EXPECT_FALSE(p.inputs.set.at(name).planes[0].bytes == r.inputs.set.at(name).planes[0].bytes) << name;
  }
}

TEST(Sweep, codes_are_orthonormal) {
  const auto rows = orthonormal(1, "test", 32);
  for (int i = 0; i < 32; ++i)
    for (int j = 0; j < 32; ++j) {
      double sum = 0;
      for (int e = 0; e < 32; ++e)
        sum += rows[static_cast<std::size_t>(i * 32 + e)] * rows[static_cast<std::size_t>(j * 32 + e)];
      // gamma of 32 products and the square root, twice.
      EXPECT_LE(std::fabs(sum - (i == j ? 1.0 : 0.0)), 128 * 0x1p-53) << i << ' ' << j;
    }
}

// f32 keys tell neighbours apart down to 2^-14, wherever they lie, stored in pages or not, rotated or not,
// drifted or not.
TEST(Sweep, exact_attention_over_f32_finds_every_needle) {
  for (const char* line :
       {"qk len=512 needles=64 k=f32", "qk len=515 needles=64 k=f32 near=8 page=16",
        "qk len=512 needles=64 k=f32 rotate=qk", "qk len=512 needles=64 k=f32 drift=8 outlier=4",
        "qk len=512 needles=64 k=f32 depth=0.5 near=2 delta=0.0001", "pv len=512 needles=32 k=f32 mean=0.5",
        "pv len=512 needles=32 k=f32 page=16 spread=2 score=14"}) {
    const Cell c = cell(line);
    const Planted p = plant(c);
    EXPECT_EQ(right(p, exact(c, p)), c.integer("needles")) << line;
  }
}

TEST(Sweep, a_coarser_format_finds_fewer_and_wide_gaps_hide_nothing) {
  int last = 1 << 20;
  for (const char* k : {"f32", "q8_0", "q4_0"}) {
    const Cell c = cell(std::string("qk len=1024 needles=224 k=") + k);
    const Planted p = plant(c);
    const int n = right(p, exact(c, p));
    EXPECT_LT(n, last) << k;
    last = n;
  }
  const Cell wide = cell("qk len=1024 needles=224 k=q4_0 delta=0.5");
  const Planted p = plant(wide);
  EXPECT_EQ(right(p, exact(wide, p)), 224);
}

TEST(Sweep, a_scale_locked_before_the_activations_grew_costs_retrieval) {
  const auto found = [](const char* line) {
    const Cell c = cell(line);
    const Planted p = plant(c);
    return right(p, exact(c, p));
  };
  EXPECT_LT(found("qk len=1024 needles=224 k=e4m3fn_tensor scales=locked drift=8"),
            found("qk len=1024 needles=224 k=e4m3fn_tensor scales=locked"));
}

TEST(Sweep, a_page_that_is_swapped_loses_the_needles_on_it_and_no_others) {
  const Cell c = cell("pv len=256 needles=16 k=f32 page=16 score=12");
  Planted p = plant(c);
  auto* table = reinterpret_cast<std::int32_t*>(p.inputs.set.at("page_table").planes[0].bytes.data());
  table[3] = table[5];  // the second needle of each page of 16 keys lies at 8: needle 3 is gone
  const Reading r = read_fingerprints(p, exact(c, p));
  for (std::size_t n = 0; n < p.needles.size(); ++n)
    EXPECT_EQ(r.label[n] == p.needles[n].label, p.needles[n].position / 16 != 3) << n;
}

TEST(Sweep, an_output_of_nan_is_read_as_nothing) {
  const Planted p = plant(cell("pv len=256 needles=8"));
  const Reading r = read_fingerprints(p, std::vector<double>(8 * 128, std::nan("")));
  for (const int label : r.label) EXPECT_EQ(label, -1);
}

TEST(Sweep, counts_add_up_by_depth_and_by_rung) {
  const Cell c = cell("qk len=512 needles=56 k=q8_0");
  const Planted p = plant(c);
  const auto j = counts(p, read_fingerprints(p, exact(c, p)), 512);
  int by_depth = 0, by_rung = 0;
  for (const auto& part : j["depth"]) by_depth += part[1].get<int>();
  for (const auto& [rung, part] : j["rungs"].items()) by_rung += part[1].get<int>();
  EXPECT_EQ(by_depth, 56);
  EXPECT_EQ(by_rung, 56);
  EXPECT_EQ(j["rungs"].size(), 14U);
}

}  // namespace
}  // namespace assay::sweep
