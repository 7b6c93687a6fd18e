// Quantising: kernels within their contract whose reciprocals overflow, whose exponents are exact, whose
// decoded inputs are rounded twice, each simulated in plain arithmetic, and beside each a wrong one near it.
#include "reference/ops/operand.hpp"
#include "reference/ops/quantised_testing.hpp"

namespace assay::testing {
namespace {

void attack(const char* what, const Truth& t, const std::vector<double>& within,
            const std::vector<double>& wrong) {
  std::printf("%s: error/limit %.3g, of the wrong kernel %.3g\n", what, worst_ratio(t, within),
              worst_ratio(t, wrong));
  EXPECT_LE(worst_ratio(t, within), 1) << what;
  EXPECT_GT(worst_ratio(t, wrong), 1) << what;
}
float code_of(float q) { return static_cast<float>(round_to(scalar_format("e4m3fn"), q)); }

TEST(QuantisedBounds, a_reciprocal_of_activations_that_overflows_is_not_held_against_a_kernel) {
  const Encoded b =
      Handmade("nvfp4", {1, 16}).put("", 0, 1).put(".block_scale", 0, 1).put(".global_scale", 0, 1).tensor;
  const auto product = [&](float x) {
    return with("matmul",
                {{"m", "1"},
                 {"n", "1"},
                 {"k", "16"},
                 {"a", "f32"},
                 {"b", "nvfp4"},
                 {"path", "e4m3fn"},
                 {"dtype", "f32"}},
                {{"a", plain("f32", {1, 16}, {x, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})}, {"b", b}});
  };
  for (const float x : {0x1.8p-125F, 0x1.8p-140F}) {
    const float direct = 448.0F / x, scale = 1.0F / direct;  // Inf and 0
    const float by_inverse = code_of(x * direct) * scale;
    for (const char* how : {"scale=any code=any", "scale=inverse code=direct", "scale=inverse code=any",
                            "scale=any code=direct"}) {
      std::printf("%a by %s: error/limit %.3g\n", static_cast<double>(x), how,
                  worst_ratio(product(x).truth(how), Values{by_inverse}));
      EXPECT_LE(worst_ratio(product(x).truth(how), Values{by_inverse}), 1) << how;
    }
    const float divided = x / 448.0F;
    EXPECT_LE(
        worst_ratio(product(x).truth("scale=divide code=divide"), Values{code_of(x / divided) * divided}), 1);
  }
  // Where nothing leaves the normal numbers all forms are claimed.
  const float x = 0x1.8p-116F, good = code_of(x * (448.0F / x)) * (1.0F / (448.0F / x));
  attack("matmul path=e4m3fn", product(x).truth("scale=any code=any"), {good}, {good * 0.9});
  expect_caught(product(0x1.8p-125F).truth("scale=divide code=divide"), Values{0});
}

TEST(QuantisedBounds, a_block_of_q8_K_whose_reciprocal_overflows_is_zeros) {
  const Encoded b = plain("f32", {1, 256}, Values(256, 0x1p40F));
  Values a(256, 0.0F);
  a[0] = 0x1p-125F;
  OpCase c = with(
      "matmul",
      {{"m", "1"}, {"n", "1"}, {"k", "256"}, {"a", "f32"}, {"b", "f32"}, {"path", "q8_K"}, {"dtype", "f32"}},
      {{"a", plain("f32", {1, 256}, a)}, {"b", b}});
  const float inverse = -127.0F / a[0], d = 1.0F / inverse;
  ASSERT_EQ(d, 0);
  attack("matmul path=q8_K", c.truth(""), {0}, {-0x1p-70});
}

TEST(QuantisedBounds, the_exponent_of_mxfp4_ggml_is_ggmls_or_exact) {
  // Just below 2^100: the logarithm in f32 is 100, the exact floor 99.
  const float top = std::nextafter(0x1p100F, 0.0F) - 20 * 0x1p76F;
  Values x(32);
  for (std::size_t i = 0; i < 32; ++i) x[i] = top * static_cast<float>(i + 1) / 32;
  x[31] = top;
  ASSERT_EQ(std::log2(top), 100.0F);
  OpCase c("quantize", {{"rows", "1"}, {"cols", "32"}, {"to", "mxfp4_ggml"}});
  c.put("x", x);
  const auto stored = [&](int exponent) {
    std::vector<double> y;
    for (const float each : x)
      y.push_back(std::ldexp(
          round_to(scalar_format("e2m1"), std::ldexp(static_cast<double>(each), -exponent)), exponent));
    return y;
  };
  // Ties aside: none of these is one.
  EXPECT_LE(worst_ratio(c.truth(""), decode_tensor(encode_tensor(format("mxfp4_ggml"), {1, 32}, x))), 1);
  attack("quantise mxfp4_ggml", c.truth(""), stored(97), stored(96));
}

TEST(QuantisedBounds, a_locked_constant_is_the_decimal_or_its_f32) {
  const auto attempt = [](float first) {
    OpCase c("kv_write", {{"tokens", "1"},
                          {"heads", "1"},
                          {"d", "2"},
                          {"to", "e4m3fn_tensor"},
                          {"policy", "locked"},
                          {"constant", "0.3"}});
    c.put("first", {first, -first});
    c.put("x", {first, first / 4});
    return c.truth("");
  };
  bool differed = false;
  for (int i = 0; i < 64; ++i) {
    const float a = 1 + static_cast<float>(i) * 0x1p-7F;
    const float one = a / 0.3F, other = static_cast<float>(static_cast<double>(a) / 0.3);
    differed |= one != other;
    for (const float s : {one, other}) {
      const std::vector<double> y = {code_of(a / s) * static_cast<double>(s),
                                     code_of(a / 4 / s) * static_cast<double>(s)};
      EXPECT_LE(worst_ratio(attempt(a), y), 1) << a;
    }
    const float far = std::nextafter(std::nextafter(one, 0.0F), 0.0F);
    EXPECT_GT(worst_ratio(attempt(a), std::vector<double>{code_of(a / far) * static_cast<double>(far), 0}),
              1);
  }
  EXPECT_TRUE(differed);
}

// Decoded with two roundings, an element may lie on the other side of a tie though absmax does not move with
// it: 192 / g and 576 / g are half a code and one and a half under 2688 / g / 7.
TEST(QuantisedBounds, decoded_numbers_that_are_rounded_twice_move_apart) {
  std::size_t crossed = 0, codes_apart = 0;
  double worst = 0;
  for (int seed = 0; seed < 200; ++seed) {
    const float g = 1.1F + static_cast<float>(seed) * 0x1p-10F;
    Handmade h("nvfp4", {1, 32});
    h.put(".global_scale", 0, g).put(".block_scale", 0, 448).put(".block_scale", 1, 192);
    const double elements[] = {6, 0.5, 1, 1.5, 2, 3, 4};
    Values x(32, 0.0F), once(32, 0.0F);
    for (int i = 0; i < 32; ++i) {
      const double code = elements[i % 7] * (i % 3 == 0 ? -1 : 1), number = code * (i < 16 ? 448 : 192);
      h.put("", i, code);
      x[static_cast<std::size_t>(i)] = static_cast<float>(number) * (1.0F / g);
      once[static_cast<std::size_t>(i)] = static_cast<float>(number) / g;
    }
    OpCase c = with("requantize", {{"rows", "1"}, {"cols", "32"}, {"from", "nvfp4"}, {"to", "int4_ch"}},
                    {{"x", h.tensor}});
    const auto stored = [](const Values& from) {
      float absmax = 0;
      for (const float each : from) absmax = std::max(absmax, std::fabs(each));
      const float s = absmax / 7.0F;
      std::vector<double> y;
      for (const float each : from)
        y.push_back(round_to(scalar_format("int4"), static_cast<double>(each / s)) * static_cast<double>(s));
      return y;
    };
    const Truth t = c.truth("roundings=2 code=divide");
    const std::vector<double> y = stored(x), exact = stored(once);
    worst = std::max(worst, worst_ratio(t, y));
    crossed += worst_ratio(t, y) > 1 ? 1 : 0;
    for (std::size_t i = 0; i < y.size(); ++i) codes_apart += std::fabs(y[i] - exact[i]) > 1 ? 1 : 0;
    std::vector<double> wrong = y;
    wrong[0] *= 1.01;
    EXPECT_GT(worst_ratio(t, wrong), 1);
  }
  std::printf("requantise, two roundings: worst error/limit %.3g, %zu of 200 beyond, %zu codes apart\n",
              worst, crossed, codes_apart);
  EXPECT_LE(worst, 1);
  EXPECT_GT(codes_apart, 0U);
}

// The same through FP8 to int4, both absmax a number decoded twice.
TEST(QuantisedBounds, decoded_numbers_that_are_rounded_twice_go_to_int4_by_fp8) {
  for (int seed = 0; seed < 200; ++seed) {
    const float g = 1.1F + static_cast<float>(seed) * 0x1p-10F;
    Handmade h("nvfp4", {1, 32});
    h.put(".global_scale", 0, g).put(".block_scale", 0, 448).put(".block_scale", 1, 192);
    const double elements[] = {6, 0.5, 1, 1.5, 2, 3, 4};
    Values x(32, 0.0F), fp8(32, 0.0F);
    float absmax = 0, second_absmax = 0;
    for (std::size_t i = 0; i < 32; ++i) {
      const double code = elements[i % 7] * (i % 3 == 0 ? -1 : 1), number = code * (i < 16 ? 448 : 192);
      h.put("", static_cast<std::int64_t>(i), code);
      x[i] = static_cast<float>(number) * (1.0F / g);
      absmax = std::max(absmax, std::fabs(x[i]));
    }
    const float second = absmax / 448.0F;
    for (std::size_t i = 0; i < 32; ++i) {
      fp8[i] = code_of(x[i] / second);
      second_absmax = std::max(second_absmax, std::fabs(fp8[i]));
    }
    const float first = second_absmax / 7.0F;
    std::vector<double> y, wrong;
    for (const float e : fp8) {
      const double code = round_to(scalar_format("int4"), static_cast<double>(e / first));
      y.push_back(code * first * static_cast<double>(second));
      wrong.push_back((code + 1) * first * static_cast<double>(second));
    }
    OpCase c =
        with("requantize", {{"rows", "1"}, {"cols", "32"}, {"from", "nvfp4"}, {"to", "int4_ch_tensor"}},
             {{"x", h.tensor}});
    EXPECT_LE(worst_ratio(c.truth("roundings=2 code=divide"), y), 1) << seed;
    EXPECT_GT(worst_ratio(c.truth("roundings=2 code=divide"), wrong), 1) << seed;
  }
}

// Bits from the leading to the last one that is set.
int bits_of(double x) {
  int exponent = 0;
  auto whole = static_cast<std::int64_t>(std::ldexp(std::frexp(std::fabs(x), &exponent), 53));
  int bits = x == 0 || !std::isfinite(x) ? 0 : 53;
  for (; bits > 0 && whole % 2 == 0; whole /= 2) --bits;
  return bits;
}

TEST(OperandBits, no_operand_has_more_than_are_said_and_some_have_as_many) {
  const std::map<std::string, std::vector<std::string>> formats_of = {
      {"f32", {"f32", "nvfp4", "q4_K"}},
      {"tf32", {"f32"}},
      {"bf16", {"f32", "nvfp4"}},
      {"f16", {"bf16"}},
      {"codes", {"e4m3fn_tok", "int8_tok", "int4_ch_tensor", "e5m2"}},
      {"e4m3fn", {"bf16", "nvfp4"}},
      {"blocks", {"nvfp4", "mxfp4", "mxfp8"}},
      {"q8", {"f32", "q8_0"}},
      {"q8_K", {"f32"}}};
  for (const auto& [path, names] : formats_of)
    for (const std::string& name : names)
      for (const Side side : {Side::activations, Side::weights}) {
        const Encoded x = plain(name, {32, 256}, draw(Shape1::gaussian, 8192, 6));
        const Operands operands(x, path, side, 1,
                                {.scale = "divide", .code = "divide", .tf32 = "toward_zero", .ties = "even"});
        int most = 0;
        for (std::int64_t r = 0; r < 32; ++r)
          for (const double each : operands.row(r).center) most = std::max(most, bits_of(each));
        EXPECT_LE(most, operands.significand_bits()) << path << ' ' << name;
        if (operands.significand_bits() < 53 && name != "bf16" && name != "q4_K") {
          EXPECT_GE(most, operands.significand_bits() - 1) << path << ' ' << name;
        }
      }
}

// TensorRT-LLM's order: x times 1 / (s (1 / g)), which overflows where s / g is subnormal.
TEST(QuantisedBounds, a_multiplier_of_nvfp4_that_overflows_is_not_held_against_a_kernel) {
  Values x(32, 0.0F);
  for (std::size_t i = 0; i < 16; ++i) x[i] = static_cast<float>(i + 1) * 0x1p-112F / 16;
  for (std::size_t i = 16; i < 32; ++i) x[i] = static_cast<float>(i - 15) * 0x1p-127F / 16;
  OpCase c("quantize", {{"rows", "1"}, {"cols", "32"}, {"to", "nvfp4"}});
  c.put("x", x);
  float absmax = 0;
  for (const float each : x) absmax = std::max(absmax, each);
  const float g = 2688.0F / absmax;
  std::vector<double> y;
  for (std::size_t first = 0; first < 32; first += 16) {
    float a = 0;
    for (std::size_t i = first; i < first + 16; ++i) a = std::max(a, x[i]);
    const float s = code_of(a * (1.0F / 6.0F) * g);
    const float reciprocal = s * (1.0F / g);
    const float multiplier = s != 0 ? 1.0F / (reciprocal < 0x1p-126F ? 0.0F : reciprocal) : 0.0F;
    for (std::size_t i = first; i < first + 16; ++i)
      y.push_back(s == 0 ? 0
                         : round_to(scalar_format("e2m1"), static_cast<double>(x[i] * multiplier)) * s / g);
  }
  std::printf("quantise nvfp4: error/limit %.3g\n", worst_ratio(c.truth("scale=any code=any"), y));
  EXPECT_LE(worst_ratio(c.truth("scale=any code=any"), y), 1);
}

}  // namespace
}  // namespace assay::testing
