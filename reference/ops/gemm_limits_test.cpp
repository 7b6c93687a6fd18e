// What the limits of matmul and moe still see where engines run: the smallest uniform relative error shown in
// half of the elements, pinned from above for each declaration, k = 4096, hidden 4096, inter 1536.
#include "reference/ops/op_testing.hpp"
#include "reference/ops/sharpness.hpp"

namespace assay::testing {
namespace {

using Given = std::map<std::string, std::string>;

double half_of(const OpCase& c, const Truth& truth) {
  return sharpness(std::span(&truth, 1), c.op_row->tensors(c.attributes)).half;
}

// FP8 with a scale per token and one per channel; dtype f32, so that the accumulation alone is seen.
OpCase gemm(const Given& formats) {
  Given given{{"m", "16"}, {"n", "64"}, {"k", "4096"}, {"dtype", "f32"}};
  given.insert(formats.begin(), formats.end());
  OpCase c("matmul", given);
  c.put("a", draw(Shape1::gaussian, 16 * 4096, 1));
  c.put("b", draw(Shape1::gaussian, 64 * 4096, 2));
  return c;
}

struct Row {
  const char* contract;
  double before;  // limit / |value| in the middle when every cast cost half a step and no unit was replayed
  double most;    // what it may be now
};

void expect_sharp(const OpCase& c, const Row& row) {
  const double half = half_of(c, c.truth(row.contract));
  std::printf(
      "  %-28s %-55s %9.3g %% -> %9.3g %%\n",
      (std::string(c.op_row->name) + " " + c.attributes.text(c.op_row->name == "moe" ? "w" : "b")).c_str(),
      row.contract, 100 * row.before, 100 * half);
  EXPECT_LE(half, row.most) << c.op_row->name << ' ' << row.contract;
}

TEST(GemmLimits, fp8_with_the_unit_and_its_promotion_declared_sees_a_percent) {
  const OpCase c = gemm({{"a", "e4m3fn_tok"}, {"b", "e4m3fn_tok"}});
  for (const Row& row : {Row{"acc=hopper_fp8 promote=4 order=sequential epilogue_roundings=2", 1.09, 1e-6},
                         Row{"acc=hopper_fp8 order=sequential epilogue_roundings=2", 34.7, 1e-6},
                         Row{"acc=hopper_fp8_mma_sync order=sequential epilogue_roundings=2", 5.61e-4, 1e-6},
                         Row{"acc=f32 order=sequential epilogue_roundings=2", 0.0149, 5e-4},
                         Row{"acc=f32 order=lanes:32 epilogue_roundings=2", 4.85e-4, 5e-4},
                         Row{"acc=f32 order=any epilogue_roundings=2", 0.0149, 0.015}})
    expect_sharp(c, row);
}

TEST(GemmLimits, nvfp4_by_the_fp8_path_sees_a_percent) {
  const OpCase c = gemm({{"a", "bf16"}, {"b", "nvfp4"}, {"path", "e4m3fn"}});
  for (const Row& row : {Row{"acc=hopper_fp8 promote=4 order=sequential epilogue_roundings=1", 1.15, 1e-6},
                         Row{"acc=f32 order=lanes:32 epilogue_roundings=1", 0.0438, 5e-4}})
    expect_sharp(c, row);
}

OpCase mixture(const char* a, const char* w) {
  OpCase c("moe", {{"tokens", "2"},
                   {"hidden", "4096"},
                   {"inter", "1536"},
                   {"experts", "1"},
                   {"a", a},
                   {"w", w},
                   {"dtype", "f32"}});
  for (const char* tensor : {"x", "w13", "w2", "topk_weights"})
    c.put(tensor, draw(Shape1::gaussian, static_cast<std::size_t>(element_count(c.spec(tensor).shape)),
                       static_cast<std::uint64_t>(tensor[1]) + 3));
  return c;
}

TEST(GemmLimits, moe_w4a8_with_nothing_declared_sees_a_fifth_of_a_percent) {
  const OpCase c = mixture("int8_tok", "int4_ch");
  for (const Row& row : {Row{"", 1.96, 1e-5}, Row{"acc=i32 epilogue_roundings=3 silu_ulp=2", 1.96, 1e-5}})
    expect_sharp(c, row);
}

TEST(GemmLimits, moe_fp8_with_depths_declared_sees_a_percent) {
  const OpCase c = mixture("e4m3fn_tok", "e4m3fn_tok");
  for (const Row& row :
       {Row{"acc=f32 order=lanes:256 epilogue_roundings=2 silu_ulp=2", 1.25, 0.01},
        Row{"acc=f32 order=lanes:32 epilogue_roundings=2 silu_ulp=2", 1.28, 0.04},
        Row{"acc=f32 order=tree epilogue_roundings=2 silu_ulp=2", 1.25, 0.01},
        Row{"acc=f32 order=sequential epilogue_roundings=2 silu_ulp=2", 2.08, 0.02},
        Row{"acc=hopper_fp8 promote=4 order=sequential epilogue_roundings=2 silu_ulp=2", 107, 1e-5}})
    expect_sharp(c, row);
}

}  // namespace
}  // namespace assay::testing
