// Inputs that no fill of a healthy model makes: every op answers, and no limit is negative or NaN.
#include "reference/ops/op_io.hpp"
#include "reference/ops/op_testing.hpp"

namespace assay::testing {
namespace {

struct Row {
  const char* op;
  std::map<std::string, std::string> given;
  const char* contract;
};
const Row kRows[] = {
    {"softmax", {{"rows", "3"}, {"cols", "64"}, {"mask", "random"}, {"sinks", "yes"}, {"softcap", "30"}}, ""},
    {"softmax", {{"rows", "3"}, {"cols", "64"}}, "rescales=9 exp=base2 ftz=yes order=tree"},
    {"softmax", {{"rows", "3"}, {"cols", "64"}, {"dtype", "f16"}}, "acc=f16 order=sequential"},
    {"logsumexp", {{"rows", "3"}, {"cols", "64"}}, ""},
    {"layernorm", {{"rows", "3"}, {"cols", "64"}}, "variance=two_pass"},
    {"layernorm", {{"rows", "3"}, {"cols", "64"}}, "variance=one_pass ftz=yes"},
    {"layernorm", {{"rows", "3"}, {"cols", "64"}, {"dtype", "bf16"}}, "variance=welford acc=bf16"},
    {"rmsnorm", {{"rows", "3"}, {"cols", "64"}, {"dtype", "f16"}}, "acc=f16 mid=f16"},
    {"rmsnorm", {{"rows", "3"}, {"cols", "64"}, {"dtype", "bf16"}}, "mid=bf16 gamma=bf16 ftz=yes"},
    {"layernorm", {{"rows", "3"}, {"cols", "64"}}, "variance=welford order=lanes:128 product=x_gamma_inv"},
    {"softmax", {{"rows", "3"}, {"cols", "64"}}, "weights=f16 order=depth:9"},
    {"wht", {{"rows", "3"}, {"cols", "64"}, {"signs", "random"}}, "ftz=yes"},
    {"matmul", {{"m", "3"}, {"n", "3"}, {"k", "64"}, {"a", "f32"}, {"dtype", "f32"}}, ""},
    {"matmul", {{"m", "3"}, {"n", "3"}, {"k", "64"}, {"a", "f16"}, {"dtype", "f16"}}, "acc=f16 ftz=yes"},
    {"matmul", {{"m", "3"}, {"n", "3"}, {"k", "64"}, {"a", "int8_tok"}, {"b", "int4_ch"}}, "acc=i32"},
    {"matmul", {{"m", "3"}, {"n", "3"}, {"k", "64"}, {"a", "e4m3fn_tok"}}, "acc=hopper_fp8 promote=2"},
    {"matmul", {{"m", "3"}, {"n", "3"}, {"k", "64"}, {"a", "bf16"}, {"b", "nvfp4"}, {"path", "e4m3fn"}}, ""},
    {"matmul", {{"m", "3"}, {"n", "3"}, {"k", "64"}, {"a", "f32"}, {"b", "q4_0"}, {"path", "q8"}}, ""},
    {"moe", {{"tokens", "2"}, {"hidden", "32"}, {"inter", "32"}, {"experts", "2"}}, ""},
    {"moe",
     {{"tokens", "2"}, {"hidden", "32"}, {"inter", "32"}, {"experts", "2"}, {"a", "int8_tok"}},
     "acc=i32"},
    {"quantize", {{"rows", "3"}, {"cols", "64"}, {"to", "e4m3fn"}}, ""},
    {"quantize", {{"rows", "3"}, {"cols", "64"}, {"to", "int4_g32"}}, "scale=any"},
    {"quantize", {{"rows", "3"}, {"cols", "64"}, {"to", "q8_0"}}, ""},
    {"quantize", {{"rows", "3"}, {"cols", "64"}, {"to", "mxfp4"}}, ""},
    {"dequantize", {{"rows", "3"}, {"cols", "64"}, {"from", "e5m2"}, {"dtype", "f16"}}, "ftz=yes"},
    {"dequantize", {{"rows", "3"}, {"cols", "64"}, {"from", "mxfp8"}, {"dtype", "bf16"}}, "roundings=3"},
    {"requantize",
     {{"rows", "3"}, {"cols", "64"}, {"from", "e4m3fn_tensor"}, {"to", "int4_ch"}},
     "roundings=2"},
    {"kv_write",
     {{"tokens", "3"}, {"heads", "1"}, {"d", "64"}, {"to", "e4m3fn_tensor"}, {"policy", "locked"}},
     ""},
    {"argmax", {{"rows", "3"}, {"cols", "64"}}, ""},
    {"argmax", {{"rows", "3"}, {"cols", "64"}}, "nan=wins"},
};

TEST(Hostile, every_op_answers_every_input_with_a_usable_limit) {
  const float nan = NAN, inf = INFINITY;
  const std::vector<Values> patterns = {
      {0},        {nan},           {inf},    {-inf},         {3.4e38F, -3.4e38F},
      {1e-45F},   {-1e-40F, 1},    {nan, 1}, {1, inf, -inf}, {65504, -65504, 1e-7F},
      {1e30F, 1}, {448, 464, 480}, {11.2F},  {1, -1}};
  for (const Row& row : kRows)
    for (std::size_t p = 0; p < patterns.size(); ++p) {
      OpCase c(row.op, row.given);
      for (const TensorSpec& spec : c.op_row->tensors(c.attributes)) {
        if (spec.role != TensorRole::data) continue;
        Values x(static_cast<std::size_t>(element_count(spec.shape)));
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = patterns[p][i % patterns[p].size()];
        c.put(spec.name, x);
      }
      for (const Truth& t : c.truths(row.contract)) {
        ASSERT_EQ(t.value.size(), t.limit.size());
        for (std::size_t i = 0; i < t.value.size(); ++i)
          ASSERT_GE(t.limit[i], 0) << row.op << " pattern " << p << " element " << i << " value "
                                   << t.value[i];
      }
    }
}

TEST(Matmul, an_infinite_block_scale_claims_nothing_where_codes_are_summed_first) {
  OpCase c(
      "matmul",
      {{"m", "1"}, {"n", "2"}, {"k", "32"}, {"a", "f32"}, {"b", "q4_0"}, {"dtype", "f32"}, {"path", "q8"}});
  c.put("a", Values(32, 1));
  c.put("b", Values(64, 1));
  Plane& weights = c.set.at("b").planes.at(0);
  weights.bytes[0] = std::byte{0x00}, weights.bytes[1] = std::byte{0x7c};  // the f16 scale of row 0
  weights.bytes[2] = std::byte{0x98};                                      // codes 0 and 1
  const Truth t = c.truth("");
  EXPECT_EQ(t.limit[0], kInfinity);
  EXPECT_TRUE(std::isfinite(t.value[1]) && std::isfinite(t.limit[1]));
}

TEST(Store, the_fast_roundings_are_the_codecs) {
  std::mt19937_64 engine(5);
  const EncodePolicy ieee{.overflow = Overflow::ieee};
  for (const char* name : {"f32", "f16", "bf16"}) {
    const ScalarFormat& f = scalar_format(name);
    for (int i = 0; i < 200000; ++i) {
      const double x = std::ldexp(static_cast<double>(static_cast<std::int64_t>(engine())),
                                  static_cast<int>(engine() % 330) - 230);
      for (const double each :
           {x, static_cast<double>(static_cast<float>(x)) * (1 + 0x1p-9), round_to(f, x, ieee) * 1.5})
        ASSERT_EQ(round_number(f, each, ieee), round_to(f, each, ieee)) << name << " " << each;
    }
    for (const double each : {0.0, -0.0, 65519.9, 65520.0, 3.4028235677973366e38, 0x1p-149, 0x1p-150,
                              0x1.8p-150, 0x1p-25, double(INFINITY)})
      EXPECT_EQ(round_number(f, each, ieee), round_to(f, each, ieee)) << name << " " << each;
    EXPECT_TRUE(std::isnan(round_number(f, NAN, ieee)));
  }
}

}  // namespace
}  // namespace assay::testing
