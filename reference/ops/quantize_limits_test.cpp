// The limits of quantisers against kernels simulated bit for bit: each correct one passes as what it declares, a
// defect beside it does not.
#include <bit>
#include <cstring>
#include <functional>

#include "reference/formats/scaled.hpp"
#include "reference/ops/op_testing.hpp"

namespace assay::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// How a kernel quantises, step by step in f32.
struct Steps {
  std::string scale = "divide", scale_format = "f32", code = "divide", code_scale = "stored",
              quotient = "f32";
  int ulps = 0;                                     // the scale moved by so many
  double least = -1e30;                             // of the codes
  std::function<float(float, float)> maximum = {};  // (running, next) of magnitudes; the finite ones' without
  float largest_absmax = kInf;                      // clamped to this
  std::string contract() const {
    return "scale=" + scale + " scale_format=" + scale_format + " code=" + code +
           " code_scale=" + code_scale + " quotient=" + quotient;
  }
};
struct Stored {
  Values codes, scales;
  std::vector<double> y;
};
Stored quantised(const Format& to, const Shape& shape, const Values& x, const Steps& k) {
  const ScalarFormat& element = scalar_format(to.element);
  const float d = static_cast<float>(to.scale_divisor);
  const Axes axes = axes_of(shape);
  Stored out;
  Values absmax(element_count(scale_shape(to, shape)), 0.0F);
  for (std::size_t i = 0; i < x.size(); ++i) {
    float& running = absmax[scale_index(to.axis, axes, i)];
    const float next = std::fabs(x[i]);
    running = k.maximum ? k.maximum(running, next) : std::isfinite(next) ? std::max(running, next) : running;
  }
  Values exact, multiplier;
  for (float a : absmax) {
    a = std::min(a, k.largest_absmax);
    float s = k.scale == "divide" ? a / d : k.scale == "reciprocal" ? a * (1.0F / d) : 1.0F / (d / a);
    for (int n = 0; n < std::abs(k.ulps); ++n) s = std::nextafter(s, k.ulps > 0 ? kInf : 0.0F);
    if (a == 0) s = 1;
    exact.push_back(s);
    multiplier.push_back(d / a);
    out.scales.push_back(Arithmetic{k.scale_format}(s));
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto g = static_cast<std::size_t>(scale_index(to.axis, axes, i));
    const float s = k.code_scale == "stored" ? out.scales[g] : exact[g];
    const float q = k.code == "divide"       ? x[i] / s
                    : k.code == "reciprocal" ? x[i] * (1.0F / s)
                                             : x[i] * multiplier[g];
    out.codes.push_back(static_cast<float>(std::max(round_to(element, Arithmetic{k.quotient}(q)), k.least)));
    out.y.push_back(static_cast<double>(out.codes.back()) * out.scales[g]);
  }
  return out;
}

TEST(QuantiseLimits, every_combination_of_declared_steps_is_exact_and_another_is_caught_where_it_differs) {
  std::size_t outputs = 0, others = 0, differences = 0, f = 0;
  const char* const names[] = {"int8_tok", "e4m3fn_tok", "int4_g32", "e5m2_row", "int8_tensor", "e4m3fn_ch"};
  const Shape1 shapes[] = {Shape1::gaussian, Shape1::peaked, Shape1::alternating, Shape1::offset};
  const Shape shape{16, 512};
  for (const char* scale : {"divide", "reciprocal", "inverse"})
    for (const char* scale_format : {"f32", "f16", "bf16"})
      for (const char* code : {"divide", "reciprocal", "direct"})
        for (const char* code_scale : {"stored", "exact"})
          for (const char* quotient : {"f32", "f16", "bf16"}) {
            const char* name = names[f % 6];
            OpCase c("quantize", {{"rows", "16"}, {"cols", "512"}, {"to", name}});
            const Values x = c.put("x", draw(shapes[f % 4], 8192, 100 + f));
            ++f;
            const Steps own{scale, scale_format, code, code_scale, quotient};
            const Truth t = c.truth(own.contract());
            const std::vector<double> y = quantised(format(name), shape, x, own).y;
            for (std::size_t i = 0; i < y.size(); ++i) {
              ASSERT_EQ(y[i], t.value[i]) << own.contract();
              ASSERT_EQ(t.limit[i], 0) << own.contract();
            }
            const std::string formats =
                std::string(" scale_format=") + scale_format + " quotient=" + quotient;
            expect_pass(c.truth("scale=any code=any code_scale=any" + formats), y);
            expect_pass(c.truth(std::string("scale=") + scale + " code=any" + formats), y);
            outputs += 3 * y.size();
            for (const auto& [key, value] :
                 std::initializer_list<std::pair<std::string Steps::*, const char*>>{
                     {&Steps::scale, "inverse"},
                     {&Steps::scale_format, "bf16"},
                     {&Steps::quotient, "bf16"},
                     {&Steps::code, "reciprocal"},
                     {&Steps::code_scale, "exact"}}) {
              Steps other = own;
              other.*key = value;
              const std::vector<double> z = quantised(format(name), shape, x, other).y;
              std::size_t different = 0;
              for (std::size_t i = 0; i < y.size(); ++i) different += z[i] == y[i] ? 0 : 1;
              EXPECT_EQ(judge(t, z).bad, different) << own.contract() << " met " << other.contract();
              differences += different;
              others += different > 0 ? 1 : 0;
            }
          }
  EXPECT_GE(outputs, 1000000U);
  EXPECT_GE(others, 200U);
  std::printf("%zu outputs of correct kernels, %zu of others caught in %zu runs\n", outputs, differences,
              others);
}

TEST(QuantiseLimits, an_approximate_division_passes_where_its_ulps_are_declared) {
  OpCase c("quantize", {{"rows", "16"}, {"cols", "256"}, {"to", "e4m3fn_tok"}});
  const Values x = c.put("x", draw(Shape1::gaussian, 4096, 3));
  for (const int ulps : {-2, -1, 1, 2}) {
    const std::vector<double> y = quantised(format("e4m3fn_tok"), {16, 256}, x, {.ulps = ulps}).y;
    expect_pass(c.truth("scale_ulp=2 code=divide"), y);
    expect_pass(c.truth("scale_ulp=2 code=any"), y);
    expect_caught(c.truth("code=any"), y);
  }
  expect_caught(c.truth("scale_ulp=2"), quantised(format("e4m3fn_tok"), {16, 256}, x, {.ulps = 3}).y);
  EXPECT_EQ(kind_of([&] { c.truth("scale_ulp=9"); }), InputErrorKind::bad_value);
  EXPECT_EQ(kind_of([&] { c.truth("scale_ulp=1.5"); }), InputErrorKind::bad_value);
}

// A cache whose scale was locked by an earlier request meets numbers beyond its largest code.
TEST(QuantiseLimits, int8_ends_at_minus_128_or_minus_127_as_declared) {
  for (const auto& [op, more] : std::map<std::string, std::map<std::string, std::string>>{
           {"kv_write", {{"tokens", "4"}, {"heads", "1"}, {"d", "64"}, {"policy", "fixed"}}},
           {"requantize", {{"rows", "4"}, {"cols", "64"}, {"from", "f32"}, {"scale", "one"}}}})
    for (const auto& [to, top] : std::map<std::string, double>{{"int8_tensor", 127}, {"int4_ch", 7}}) {
      std::map<std::string, std::string> given = more;
      given["to"] = to;
      OpCase c(op, given);
      const Values x = c.put("x", draw(Shape1::gaussian, 256, 5, static_cast<float>(top)));
      Values placed = x;
      if (op == "kv_write") {
        const Values slots = c.read("slots");
        for (std::size_t t = 0; t < 4; ++t)
          std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(64 * t), 64,
                      placed.begin() + static_cast<std::ptrdiff_t>(64 * static_cast<std::size_t>(slots[t])));
      }
      std::vector<double> full, symmetric, wrapped;
      for (const float v : placed) {
        const double code = std::nearbyint(static_cast<double>(v));
        full.push_back(std::clamp(code, -top - 1, top));
        symmetric.push_back(std::clamp(code, -top, top));
        wrapped.push_back(code < -top - 1 ? code + 2 * (top + 1) : std::min(code, top));
      }
      ASSERT_NE(full, symmetric);
      expect_pass(c.truth("int_range=full"), full);
      expect_caught(c.truth("int_range=full"), symmetric);
      expect_pass(c.truth("int_range=symmetric"), symmetric);
      expect_caught(c.truth("int_range=symmetric"), full);
      for (const std::vector<double>& y : {full, symmetric}) expect_pass(c.truth(""), y);
      expect_caught(c.truth(""), wrapped);
      for (const char* range : {"full", "symmetric"})
        for (const double limit : c.truth(std::string("code=divide int_range=") + range).limit)
          EXPECT_EQ(limit, 0);
    }
}

// The scale of an OCP MX block on the bits of an f32, as torchao forms it.
int e8m0_of(const std::string& rule, float absmax, int fraction_bits, int emax, float largest) {
  const auto bits = std::bit_cast<std::uint32_t>(absmax);
  const auto exponent_of = [](std::uint32_t b) { return static_cast<int>(b >> 23) - 127; };
  const auto up_to_power = [](float v) {
    const auto b = std::bit_cast<std::uint32_t>(v);
    const std::uint32_t rest = b & 0x7FFFFFU;
    return static_cast<int>(b >> 23) + ((b >> 23) == 0 ? (rest > 0x400000U ? 1 : 0) : (rest != 0 ? 1 : 0));
  };
  if (rule == "rceil") return up_to_power(absmax / largest);
  if (rule == "rceil scale=reciprocal") return up_to_power(absmax * (1.0F / largest));
  int exponent = exponent_of(bits) - emax;
  if (rule == "ceil") exponent += (bits & 0x7FFFFFU) != 0 ? 1 : 0;
  if (rule == "even") exponent = exponent_of(bits + (1U << (23 - fraction_bits - 1))) - emax;
  return std::max(exponent, -127) + 127;
}

TEST(QuantiseLimits, every_rule_of_an_mx_scale_passes_as_itself_and_as_no_other) {
  const std::string rules[] = {"floor", "ceil", "even", "rceil", "rceil scale=reciprocal"};
  std::size_t outputs = 0;
  for (const auto& [name, element] :
       std::map<std::string, std::string>{{"mxfp4", "e2m1"}, {"mxfp8", "e4m3fn"}, {"mxfp8_e5m2", "e5m2"}}) {
    const ScalarFormat& e = scalar_format(element);
    const int emax = std::ilogb(e.max_finite);
    for (const Shape1 shape : kShapes) {
      if (shape == Shape1::equal) continue;
      OpCase c("quantize", {{"rows", "64"}, {"cols", "256"}, {"to", name}});
      const Values x = c.put("x", draw(shape, 16384, 40));
      std::map<std::string, std::vector<double>> made;
      for (const std::string& rule : rules)
        for (std::size_t first = 0; first < x.size(); first += 32) {
          float absmax = 0;
          for (std::size_t i = first; i < first + 32; ++i) absmax = std::max(absmax, std::fabs(x[i]));
          const int exponent =
              e8m0_of(rule, absmax, e.fraction_bits, emax, static_cast<float>(e.max_finite)) - 127;
          for (std::size_t i = first; i < first + 32; ++i)
            made[rule].push_back(
                std::ldexp(round_to(e, std::ldexp(static_cast<double>(x[i]), -exponent)), exponent));
        }
      for (const std::string& rule : rules) {
        const Truth t = c.truth("mx_scale=" + rule);
        expect_pass(t, made[rule]);
        outputs += x.size();
        for (const std::string& other : rules) {
          std::size_t apart = 0;
          for (std::size_t i = 0; i < x.size(); ++i) apart += made[other][i] == made[rule][i] ? 0 : 1;
          // Both forms of rceil differ in a last bit that 2^-21 covers; the others by a binade.
          if (other.substr(0, 5) == rule.substr(0, 5) || apart < x.size() / 20) continue;
          EXPECT_GT(judge(t, made[other]).bad, apart / 2) << name << ' ' << rule << " met " << other;
        }
      }
    }
  }
  EXPECT_GE(outputs, 1000000U);
}

// Four tokens; the second holds a NaN or an Inf.
struct Special {
  OpCase c;
  Values x;
  Special(float value, const char* to, const char* dtype = "f32")
      : c("quantize", {{"rows", "4"}, {"cols", "64"}, {"to", to}, {"dtype", dtype}}) {
    Values drawn = draw(Shape1::gaussian, 256, 77);
    drawn[64 + 40] = value;
    x = c.put("x", drawn);
  }
  std::vector<double> made(const Steps& k) const {
    return quantised(format(c.attributes.text("to")), {4, 64}, x, k).y;
  }
};
std::vector<double> with_zero_token(std::vector<double> y, std::size_t token) {
  for (std::size_t i = 0; i < 64; ++i)
    if (!std::isnan(y[64 * token + i])) y[64 * token + i] = 0;
  return y;
}

TEST(QuantiseLimits, a_nan_or_inf_unclaims_no_more_than_its_own_group) {
  const auto restarted = [](float running, float next) { return running > next ? running : next; };  // maxps
  const auto plain = [](float running, float next) { return std::max(running, next); };
  for (const char* to : {"e4m3fn_tok", "int8_tok", "e5m2_tok"})
    for (const float value : {kNan, kInf, -kInf}) {
      const Special s(value, to);
      const Truth finite = s.c.truth("absmax=finite"), any = s.c.truth("");
      const std::vector<double> good = s.made({});
      expect_pass(finite, good);
      expect_pass(any, good);
      // The reported one: a token of zeros.
      expect_caught(finite, with_zero_token(good, 1));
      for (const std::size_t beside : {0U, 2U, 3U}) expect_caught(any, with_zero_token(good, beside));
      // What other maxima make of it.
      if (std::isnan(value)) expect_pass(any, s.made({.maximum = restarted}));
      if (std::isinf(value))
        expect_pass(any, s.made({.maximum = plain, .largest_absmax = std::numeric_limits<float>::max()}));
      // Wrong under any scale: a sign, three times as much, NaN.
      for (const double factor : {-1.0, 3.0, static_cast<double>(kNan)}) {
        std::vector<double> bad = good;
        bad[64 + 3] *= factor;
        expect_caught(any, bad);
        expect_caught(finite, bad);
      }
      if (std::isnan(value) && std::string(to) != "int8_tok") {
        std::vector<double> hidden = good;
        hidden[64 + 40] = 0;
        expect_caught(any, hidden);
      }
      if (std::isnan(value)) {
        std::vector<double> zeroed = good;
        zeroed[64 + 40] = 0;
        expect_pass(s.c.truth("nan=zero absmax=finite"), zeroed);
      }
      for (std::size_t i = 0; i < 256; i += i == 63 ? 65 : 1) EXPECT_EQ(any.limit[i], finite.limit[i]);
    }
}

TEST(QuantiseLimits, a_block_with_a_nan_or_inf_leaves_the_blocks_beside_it_claimed) {
  for (const char* to : {"mxfp8", "mxfp4", "q8_0", "q4_0"})
    for (const float value : {kNan, kInf}) {
      const Special s(value, to);
      const std::vector<double> good = decode_tensor(encode_tensor(format(to), {4, 64}, s.x));
      expect_pass(s.c.truth("absmax=finite"), good);
      expect_pass(s.c.truth(""), good);
      std::vector<double> zeros = good;
      for (std::size_t i = 0; i < 32; ++i) zeros[64 + i] = 0;  // the token's other block
      expect_caught(s.c.truth(""), zeros);
      std::vector<double> own = good;
      for (std::size_t i = 32; i < 64; ++i) own[64 + i] = 0;
      expect_caught(s.c.truth("absmax=finite"), own);
      if (std::isnan(value) && std::string(to) == "mxfp8") expect_caught(s.c.truth(""), own);
    }
}

TEST(QuantiseLimits, a_row_of_zeros_may_store_the_scale_zero_and_no_other_row_may) {
  OpCase c("quantize", {{"rows", "3"}, {"cols", "32"}, {"to", "int8_tok"}});
  Values x = draw(Shape1::gaussian, 96, 8);
  std::fill_n(x.begin() + 32, 32, 0.0F);
  x = c.put("x", x);
  const Truth t = c.truth("code=divide");
  const Encoded good = encode_tensor(format("int8_tok"), {3, 32}, x);
  for (const std::size_t row : {0U, 1U, 2U}) {
    Encoded stored = good;
    const float zero = 0;
    std::memcpy(stored.planes[1].bytes.data() + 4 * row, &zero, 4);
    if (row == 1) {
      expect_pass(t, decode_tensor(stored));
    } else {
      expect_caught(t, decode_tensor(stored));
    }
  }
}

}  // namespace
}  // namespace assay::testing
