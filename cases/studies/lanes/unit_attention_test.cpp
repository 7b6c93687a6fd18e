// AMD's attention kernels, lane by lane on a CPU: the kernels' own source around the matrix unit, with the
// unit replaced by the reference's model of it in the same layout of lanes. The result is judged as a
// backend's is, by the limit that is proven for the declared arithmetic. What only hardware can show, that
// the builtin is that unit in that layout, is not shown here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/hip/unit_attention.cuh"
#include "cases/studies/lanes/modelled_unit.hpp"
#include "reference/formats/plane.hpp"
#include "reference/ops/attention/test_problem.hpp"

namespace assay {
namespace {

// A kernel, and the contract that the backend declares for it.
struct Wmma8 {
  using Unit = ModelledUnit<assay_gpu::LayoutWmma8, assay_gpu::Element::e4m3fn, Rdna4Fp8>;
  using Operand = assay_gpu::OperandE4m3fn;
  static constexpr const char *kElement = "e4m3fn",
                              *kContract = "qk=rdna4_fp8 pv=rdna4_fp8 p=e4m3fn q=e4m3fn p_shift=8";
};
struct Mfma8 {
  using Unit = ModelledUnit<assay_gpu::LayoutMfma8, assay_gpu::Element::e4m3fnuz, Cdna3Fp8>;
  using Operand = assay_gpu::OperandE4m3fnuz;
  static constexpr const char *kElement = "e4m3fnuz",
                              *kContract = "qk=cdna3_fp8 pv=cdna3_fp8 p=e4m3fnuz q=e4m3fnuz p_shift=7";
};
struct Wmma16 {
  using Unit = ModelledUnit<assay_gpu::LayoutWmma16, assay_gpu::Element::f16, Rdna4F16>;
  using Operand = assay_gpu::OperandF16;
  static constexpr const char *kElement = "f16", *kContract = "qk=f32 pv=f32 p=f16";
};
struct Decoded8 {  // what a kernel falls back to where an architecture lacks the unit
  using Unit = assay_gpu::DecodedUnit<assay_gpu::LayoutWmma8, assay_gpu::Element::e4m3fn>;
  using Operand = assay_gpu::OperandE4m3fn;
  static constexpr const char *kElement = "e4m3fn", *kContract = "qk=f32 pv=f32 p=e4m3fn q=e4m3fn p_shift=8";
};

assay_gpu::View view_of(Encoded& tensor, std::size_t plane = 0) {
  assay_gpu::View view;
  if (plane >= tensor.planes.size()) return view;
  const PlaneSpec& spec = tensor.planes[plane].spec;
  view.data = reinterpret_cast<unsigned char*>(tensor.planes[plane].bytes.data());
  view.rank = static_cast<std::int32_t>(spec.shape.size());
  std::int64_t stride = scalar_format(spec.format).storage_bytes;
  for (int a = view.rank - 1; a >= 0; --a) {
    view.shape[a] = spec.shape[static_cast<std::size_t>(a)];
    view.stride[a] = stride;
    stride *= view.shape[a];
  }
  return view;
}

assay_gpu::AttentionArgs arguments(const AttentionGeometry& g, TensorSet& inputs) {
  assay_gpu::AttentionArgs a{};
  a.batch = static_cast<int>(g.batch), a.heads = static_cast<int>(g.heads),
  a.kv_heads = static_cast<int>(g.kv_heads);
  a.group = static_cast<int>(g.group()), a.d = static_cast<int>(g.d), a.dv = static_cast<int>(g.dv);
  a.q = static_cast<int>(g.rows), a.len = static_cast<int>(g.length), a.page = static_cast<int>(g.page);
  a.causal = g.mask == MaskKind::causal || g.mask == MaskKind::window;
  a.window = g.mask == MaskKind::window ? static_cast<int>(g.window) : 0;
  a.scale = static_cast<float>(g.scale), a.softcap = static_cast<float>(g.softcap);
  a.dtype = g.dtype == "f32"    ? assay_gpu::Element::f32
            : g.dtype == "bf16" ? assay_gpu::Element::bf16
                                : assay_gpu::Element::f16;
  a.queries = view_of(inputs.at("q"));
  if (g.page != 0) a.page_table = view_of(inputs.at("page_table"));
  if (g.ragged) a.lengths = view_of(inputs.at("lengths"));
  if (g.mask == MaskKind::random) a.mask = view_of(inputs.at("mask"));
  if (g.alibi) a.slopes = view_of(inputs.at("slopes"));
  return a;
}

// The kernel over all blocks, and the merge of its parts in f32 as attention_merge does it.
template <class Kernel, int kD>
std::vector<float> run(AttentionCase& c, int part_keys) {
  const AttentionGeometry& g = c.problem->geometry();
  assay_gpu::UnitAttentionArgs args{};
  args.a = arguments(g, c.inputs);
  args.keys = view_of(c.inputs.at("k")), args.values = view_of(c.inputs.at("v"));
  args.k_scale = view_of(c.inputs.at("k"), 1);
  const assay_gpu::View v_scale = view_of(c.inputs.at("v"), 1);
  args.part_keys = part_keys;
  const auto parts = static_cast<std::size_t>((g.length + part_keys - 1) / part_keys);
  const auto rows = static_cast<std::size_t>(g.batch * g.rows * g.heads);
  std::vector<float> tops(rows * parts), sums(rows * parts), outputs(rows * parts * kD, std::nanf(""));
  args.partials = {tops.data(), sums.data(), outputs.data(), static_cast<int>(parts)};
  const auto blocks =
      static_cast<unsigned>((g.rows * g.group() + assay_gpu::kUnitRows - 1) / assay_gpu::kUnitRows);
  lanes::launch({static_cast<unsigned>(parts), static_cast<unsigned>(g.kv_heads) * blocks,
                 static_cast<unsigned>(g.batch)},
                Kernel::Unit::Layout::kWave, [&] {
                  assay_gpu::attend_on_unit<typename Kernel::Unit, typename Kernel::Operand, kD>(args);
                });
  std::vector<float> out(rows * kD);
  for (std::size_t r = 0; r < rows; ++r) {
    const float top = *std::max_element(tops.begin() + r * parts, tops.begin() + (r + 1) * parts);
    float sum = 0;
    const auto weight = [&](std::size_t slot) { return std::exp2(tops[slot] - top); };
    for (std::size_t slot = r * parts; slot < (r + 1) * parts; ++slot)
      if (sums[slot] != 0) sum += weight(slot) * sums[slot];
    const std::size_t kv_head = r % static_cast<std::size_t>(g.heads) / static_cast<std::size_t>(g.group());
    const float scale =
        v_scale.data == nullptr
            ? 1.0F
            : reinterpret_cast<const float*>(v_scale.data)[v_scale.shape[0] > 1 ? kv_head : 0];
    for (std::size_t e = 0; e < kD; ++e) {
      float total = 0;
      for (std::size_t slot = r * parts; slot < (r + 1) * parts; ++slot)
        if (sums[slot] != 0) total += weight(slot) * outputs[slot * kD + e];
      const float result = sum == 0 ? 0.0F : total * (1.0F / sum) * scale;
      out[r * kD + e] = static_cast<float>(round_to(scalar_format(g.dtype), static_cast<double>(result)));
    }
  }
  return out;
}

struct Judged {
  std::size_t bad = 0, zeros_seen = 0, elements = 0;
};
template <class Kernel, int kD>
Judged judge(AttributeMap given, Design fill, int part_keys,
             const std::function<void(AttentionCase&)>& change = {}) {
  given["d"] = std::to_string(kD);
  if (!given.contains("kv")) given["kv"] = Kernel::kElement;
  AttentionCase c = attention_case(given, fill, 3);
  if (change) change(c);
  const std::int64_t parts = (c.problem->geometry().length + part_keys - 1) / part_keys;
  const std::string contract = std::string(Kernel::kContract) +
                               " tile=64 promote=64 exp_ulp=2 order=any split=" + std::to_string(parts);
  const Truth truth =
      kAttention.truth(c.attributes, c.inputs, Contract::parse(contract, attention_contract())).front();
  const std::vector<float> got = run<Kernel, kD>(c, part_keys);
  Judged r;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool nan = std::isnan(truth.value[i]);
    const bool ok =
        nan ? std::isnan(got[i]) : std::fabs(static_cast<double>(got[i]) - truth.value[i]) <= truth.limit[i];
    r.bad += ok ? 0 : 1;
    r.zeros_seen += nan || std::fabs(truth.value[i]) <= truth.limit[i] ? 0 : 1;
    ++r.elements;
  }
  return r;
}

template <class Kernel>
class UnitAttention : public ::testing::Test {};
using Kernels = ::testing::Types<Wmma8, Mfma8, Wmma16>;
TYPED_TEST_SUITE(UnitAttention, Kernels);

TYPED_TEST(UnitAttention, decodes_within_the_proven_limit) {
  for (const Design fill : {Design::needle, Design::equal_onehot, Design::window_onehot}) {
    const Judged r = judge<TypeParam, 64>({{"heads", "4"}, {"kv_heads", "2"}, {"len", "200"}}, fill, 128);
    EXPECT_EQ(r.bad, 0u) << fill;
    EXPECT_GT(r.zeros_seen, 0u) << fill;
  }
  EXPECT_EQ((judge<TypeParam, 128>({{"heads", "2"}, {"len", "70"}}, Design::gaussian, 64).bad), 0u);
}

TYPED_TEST(UnitAttention, prefill_masks_pages_and_ragged_lengths_hide_what_they_should) {
  const AttributeMap base = {{"heads", "6"}, {"kv_heads", "2"}, {"len", "100"}, {"q", "7"}};
  for (const AttributeMap& more :
       {AttributeMap{{"mask", "causal"}},
        {{"mask", "window"}, {"window", "9"}},
        {{"mask", "random"}},
        {{"batch", "2"}, {"lengths", "ragged"}, {"page", "16"}, {"mask", "causal"}},
        {{"alibi", "yes"}, {"softcap", "20"}}}) {
    AttributeMap given = base;
    given.insert(more.begin(), more.end());
    EXPECT_EQ((judge<TypeParam, 64>(given, Design::needle, 64).bad), 0u)
        << more.begin()->first << '=' << more.begin()->second;
  }
}

TYPED_TEST(UnitAttention, nan_in_v_reaches_the_rows_that_see_its_key_and_no_other) {
  const auto poison = [](AttentionCase& c) {
    Encoded& v = c.inputs.at("v");
    const ScalarFormat& f = scalar_format(v.planes[0].spec.format);
    // Key 60 of 64, the third element: rows of a causal chunk of 8 that end before it do not see it.
    store_code(f, v.planes[0].bytes, 60 * 64 + 2, nan_code(f));
    c.problem = std::make_unique<AttentionProblem>(c.attributes, c.inputs);
  };
  const Judged r = judge<TypeParam, 64>({{"heads", "1"}, {"len", "64"}, {"q", "8"}, {"mask", "causal"}},
                                        Design::needle, 64, poison);
  EXPECT_EQ(r.bad, 0u);
  EXPECT_GT(r.zeros_seen, 0u);
}

TEST(UnitAttention, the_fallback_gives_right_numbers_too) {
  const Judged r = judge<Decoded8, 64>({{"heads", "2"}, {"len", "64"}}, Design::needle, 64);
  EXPECT_EQ(r.bad, 0u);
  EXPECT_GT(r.zeros_seen, 0u);
}

// The planted fault of each test above: the other kind of FP8 in the cache, and in the contract.
struct Wmma8ForMfma8 : Wmma8 {
  static constexpr const char* kContract = Mfma8::kContract;
};
struct Mfma8ForWmma8 : Mfma8 {
  static constexpr const char* kContract = Wmma8::kContract;
};
TEST(UnitAttention, a_cache_of_the_other_kind_is_caught) {
  const auto taken_for = [](const char* format) {
    return [format](AttentionCase& c) {  // the judge decodes by `format`, the kernel by its own
      for (const char* side : {"k", "v"}) {
        Encoded& tensor = c.inputs.at(side);
        tensor.format = format;
        tensor.planes[0].spec.format = format;
      }
      auto given = c.attributes.all();
      given["kv"] = given["k"] = given["v"] = format;
      c.attributes = Attributes::complete(attention_attributes(), given);
      c.problem = std::make_unique<AttentionProblem>(c.attributes, c.inputs);
    };
  };
  const AttributeMap given = {{"heads", "2"}, {"len", "64"}};
  EXPECT_GT((judge<Wmma8ForMfma8, 64>(given, Design::needle, 64, taken_for("e4m3fnuz")).bad), 0u);
  EXPECT_GT((judge<Mfma8ForWmma8, 64>(given, Design::needle, 64, taken_for("e4m3fn")).bad), 0u);
  EXPECT_EQ((judge<Mfma8, 64>(given, Design::needle, 64, taken_for("e4m3fnuz")).bad), 0u);
}

}  // namespace
}  // namespace assay
