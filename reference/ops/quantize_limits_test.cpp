// The limits of quantisers against kernels simulated bit for bit: each correct one passes as what it
// declares, a defect beside it does not.
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "reference/formats/block.hpp"
#include "reference/ops/quantize_testing.hpp"

namespace assay::testing {
namespace {

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

// Where scales, their reciprocals and 16-bit scales underflow or overflow, each kernel still passes as
// itself.
TEST(QuantiseLimits, no_combination_is_accused_at_the_ends_of_the_ranges) {
  std::size_t outputs = 0, claimed = 0;
  const Shape shape{8, 128};
  for (const char* scale : {"divide", "reciprocal", "inverse"})
    for (const char* scale_format : {"f32", "f16", "bf16"})
      for (const char* code : {"divide", "reciprocal", "direct"})
        for (const char* code_scale : {"stored", "exact"})
          for (const char* quotient : {"f32", "f16", "bf16"})
            for (const char* name : {"e4m3fn_tok", "int8_row"})
              for (const float size : {1e-41F, 1e-38F, 3e-36F, 1e-5F, 1e8F, 5e37F}) {
                OpCase c("quantize", {{"rows", "8"}, {"cols", "128"}, {"to", name}});
                Values drawn = draw(Shape1::gaussian, 1024, 60);
                for (std::size_t i = 0; i < drawn.size(); ++i) {
                  drawn[i] *= size;
                  if (i % 9 == 0 || i / 128 == 5) drawn[i] = 0;
                }
                const Values x = c.put("x", drawn);
                const Steps own{scale, scale_format, code, code_scale, quotient};
                const std::vector<double> y = quantised(format(name), shape, x, own).y;
                const Truth t = c.truth(own.contract());
                expect_pass(t, y);
                expect_pass(c.truth(std::string("scale=any code=any scale_format=") + scale_format +
                                    " quotient=" + quotient),
                            y);
                outputs += 2 * y.size();
                for (const double limit : t.limit) claimed += std::isfinite(limit) ? 1 : 0;
              }
  EXPECT_GE(outputs, 1000000U);
  EXPECT_GT(claimed, outputs / 4);  // more than half of those judged by their own contract
  std::printf("%zu outputs at the ends of the ranges, %zu of %zu claimed\n", outputs, claimed, outputs / 2);
}

// v_scale rounded to bf16 before it multiplies, or the product afterwards: each is its own declaration.
TEST(QuantiseLimits, a_scale_rounded_before_it_multiplies_is_told_from_a_product_rounded_after) {
  for (const char* name : {"e4m3fn_tok", "int8_tensor", "e5m2_head"}) {
    OpCase c("dequantize", {{"rows", "16"}, {"cols", "256"}, {"from", name}, {"dtype", "bf16"}});
    c.put("x", draw(Shape1::gaussian, 4096, 21));
    Encoded narrow = c.set.at("x");
    for (std::size_t at = 0; at < narrow.planes[1].bytes.size(); at += sizeof(float)) {
      float scale;
      std::memcpy(&scale, narrow.planes[1].bytes.data() + at, sizeof scale);
      scale = Arithmetic{"bf16"}(scale);
      std::memcpy(narrow.planes[1].bytes.data() + at, &scale, sizeof scale);
    }
    const auto stored = [](const std::vector<double>& w) {
      Values y;
      for (const double each : w) y.push_back(Arithmetic{"bf16"}(static_cast<float>(each)));
      return y;
    };
    const Values after = stored(decode_tensor(c.set.at("x"))), before = stored(decode_tensor(narrow));
    ASSERT_NE(after, before);
    expect_pass(c.truth(""), after);
    expect_caught(c.truth(""), before);
    expect_pass(c.truth("scale_format=bf16"), before);
    Values dropped = before;
    for (float& each : dropped) each *= 1.0625F;
    expect_caught(c.truth("scale_format=bf16"), dropped);
  }
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
        if (shape == Shape1::gaussian) {
          const Judgement floor = judge(c.truth(""), made[rule]);
          std::printf("%s, %s judged by floor: %zu of %zu wrong\n", name.c_str(), rule.c_str(), floor.bad,
                      x.size());
        }
        const Truth t = c.truth("mx_scale=" + rule);
        expect_pass(t, made[rule]);
        outputs += x.size();
        for (const std::string& other : rules) {
          std::size_t apart = 0;
          for (std::size_t i = 0; i < x.size(); ++i) apart += made[other][i] == made[rule][i] ? 0 : 1;
          // Both forms of rceil differ in a last bit that 2^-21 covers; the others by a binade.
          if (other.substr(0, 5) == rule.substr(0, 5) || apart < 16) continue;
          EXPECT_GT(judge(t, made[other]).bad, apart / 2) << name << ' ' << rule << " met " << other;
        }
      }
    }
  }
  EXPECT_GE(outputs, 1000000U);
}

// Kernels whose numbers are off by a rounding here and there, all at once, on values that lie half-way
// between codes under scales that lie half-way between stored ones: each correct one passes, and one whose
// codes are cut toward zero does not.
bool has_ruled_ties(std::string_view name) {
  return name.starts_with("q") || name.starts_with("mx") || name.starts_with("nvfp4");
}

// How a kernel of a block format scales, divides and rounds, in f32. D: the extreme, or the range, over the
// scale.
struct BlockWay {
  int scale, code;  // divide, reciprocal, inverse; divide, reciprocal, direct, fl(x D) / extreme
  bool by_rule;     // or, in q8_0 and q8_1, halves to even, and in the others down
};
std::vector<double> quantised_block(std::string_view name, std::span<const float> x, const BlockWay& way) {
  const bool minimum = name == "q4_1" || name == "q5_1", q8 = name.starts_with("q8");
  const float top = q8 ? 127 : name == "q4_0" ? -8 : name == "q5_0" ? -16 : name == "q4_1" ? 15 : 31;
  const float least = minimum ? *std::ranges::min_element(x) : 0;
  float range = 0;
  for (const float each : x)
    if (std::fabs(each - least) > std::fabs(range)) range = each - least;
  if (q8) range = std::fabs(range);
  const float d = way.scale == 0 ? range / top : way.scale == 1 ? range * (1 / top) : 1 / (top / range);
  std::vector<double> y;
  for (const float each : x) {
    const float from = each - least;
    const float q = way.code == 0   ? from / d
                    : way.code == 1 ? from * (1 / d)
                    : way.code == 2 ? from * (top / range)
                                    : from * top / range;
    const float offset = minimum ? 0 : -top;
    const float code =
        q8 ? (way.by_rule ? std::round(q) : std::nearbyint(q))
           : std::clamp(way.by_rule ? std::trunc(q + (offset + 0.5F)) : std::ceil(q + (offset - 0.5F)), 0.0F,
                        minimum ? top : 2 * offset - 1) -
                 offset;
    y.push_back(code * static_cast<double>(round_f16(d)) + static_cast<double>(round_f16(least)));
  }
  return y;
}

// Under a scale that is a power of two by every way, each way gives a tie the code of its rule, and another
// is caught. Under any other scale the ways part, and so they do where either code is declared.
TEST(QuantiseLimits, a_tie_has_the_code_of_its_rule_where_every_way_finds_it) {
  for (const char* name : {"q8_0", "q8_1", "q4_0", "q5_0", "q4_1", "q5_1"})
    for (const float step : {1.0F, 0x1p-9F, 0x1p6F, 1.3F}) {
      SCOPED_TRACE(fmt::format("{} step {}", name, step));
      const bool minimum = std::string_view(name).ends_with("_1") && name[1] != '8';
      const int top = name[1] == '8' ? 127 : name[1] == '4' ? (minimum ? 15 : 8) : minimum ? 31 : 16;
      OpCase c("quantize", {{"rows", "1"}, {"cols", "256"}, {"to", name}});
      Values made(256);
      for (std::size_t i = 0; i < made.size(); ++i) {
        const auto code = static_cast<int>(i * 37 % static_cast<std::size_t>(minimum ? top : 2 * top - 1));
        made[i] =
            step * (static_cast<float>(minimum ? code : code - top) + (code == 0 && !minimum ? 1.5F : 0.5F));
        if (i % 32 == 0) made[i] = minimum ? 0 : step * static_cast<float>(name[1] == '8' ? top : -top);
        if (i % 32 == 1 && minimum) made[i] = step * static_cast<float>(top);
      }
      const Values x = c.put("x", made);
      const Truth ruled = c.truth(""), either = c.truth("ties=any");
      std::size_t decided = 0, caught = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        decided += ruled.limit[i] == 0 && either.limit[i] > 0 ? 1 : 0;
      for (int way = 0; way < 12; ++way)
        for (const bool by_rule : {true, false}) {
          if (step == 1.3F && !by_rule && name[1] != '8') continue;  // its halves are none, and down is wrong
          std::vector<double> y;
          for (std::size_t first = 0; first < 256; first += 32)
            for (const double each :
                 quantised_block(name, std::span(x).subspan(first, 32), {way / 4, way % 4, by_rule}))
              y.push_back(each);
          expect_pass(either, y);
          if (by_rule || step == 1.3F)
            expect_pass(ruled, y);
          else
            caught += judge(ruled, y).bad >= 64 ? 1 : 0;
        }
      EXPECT_EQ(caught, step == 1.3F ? 0U : 12U);
      EXPECT_EQ(decided >= 200, step != 1.3F) << decided;
    }
}

// The same halves under the words even and away: each kernel passes as itself and is caught as the other.
TEST(QuantiseLimits, a_tie_has_the_code_that_is_declared_where_every_way_finds_it) {
  for (const char* name : {"q8_0", "q8_1", "q4_0", "q5_0", "q4_1", "q5_1"}) {
    SCOPED_TRACE(name);
    const bool minimum = std::string_view(name).ends_with("_1") && name[1] != '8';
    const int bits = name[1] - '0', top = minimum ? (1 << bits) - 1 : (1 << (bits - 1)) - (bits == 8 ? 1 : 0);
    OpCase c("quantize", {{"rows", "1"}, {"cols", "64"}, {"to", name}});
    Values made(64);
    for (std::size_t i = 0; i < made.size(); ++i) {
      const auto code = static_cast<int>(i % static_cast<std::size_t>(top - 1));
      made[i] = (minimum || i % 2 == 0 ? 1.0F : -1.0F) * (static_cast<float>(code) + 0.5F);
      if (i % 32 == 0) made[i] = minimum ? 0 : static_cast<float>(bits == 8 ? top : -top);
      if (i % 32 == 1 && minimum) made[i] = static_cast<float>(top);
    }
    const Values x = c.put("x", made);
    std::vector<double> even, away;
    for (const float each : x)
      even.push_back(std::nearbyint(static_cast<double>(each))),
          away.push_back(std::round(static_cast<double>(each)));
    expect_pass(c.truth("ties=even"), even);
    expect_pass(c.truth("ties=away"), away);
    EXPECT_GE(judge(c.truth("ties=even"), away).bad, 24U);
    EXPECT_GE(judge(c.truth("ties=away"), even).bad, 24U);
    expect_pass(c.truth("ties=any"), even);
    expect_pass(c.truth("ties=any"), away);
  }
  OpCase mx("quantize", {{"rows", "1"}, {"cols", "32"}, {"to", "mxfp4"}});
  mx.put("x", Values(32, 1));
  (void)mx.truth("ties=any");
  EXPECT_THROW((void)mx.truth("ties=even"), InputError);
}

// A global scale of 1, and block scales of 1 and of 1.25.
TEST(QuantiseLimits, a_tie_of_nvfp4_has_the_even_code_under_scales_that_are_powers_of_two) {
  OpCase c("quantize", {{"rows", "1"}, {"cols", "64"}, {"to", "nvfp4"}});
  Values made(64, 2.5F);
  made[0] = 2688, made[16] = 6, made[32] = 7.5F, made[48] = 12;
  for (std::size_t i = 33; i < 48; ++i) made[i] = 2.5F * 1.25F;
  const Values x = c.put("x", made);
  const auto stored = [&](const EncodePolicy& policy) {
    return decode_tensor(encode_tensor(format("nvfp4"), {1, 64}, x, policy));
  };
  const std::vector<double> even = stored({}), away = stored({.rounding = Rounding::nearest_away});
  const Truth t = c.truth("");
  expect_pass(t, even);
  EXPECT_EQ(t.limit[17], 0);
  EXPECT_GT(t.limit[33], 0);           // 1 / 1.25 is rounded
  EXPECT_EQ(judge(t, away).bad, 30U);  // 2.5 / 1 and 2.5 / 2
  for (const char* words : {"ties=any", "round=nearest_away"}) expect_pass(c.truth(words), away);
  expect_pass(c.truth("ties=any"), even);
  expect_caught(c.truth("round=nearest_away"), even);
}

// What `round` says of halves is so, or is refused with the word that is meant: no format takes it and has
// them elsewhere.
TEST(QuantiseLimits, a_word_that_says_where_halves_go_is_honoured_or_refused) {
  std::size_t refused = 0, honoured = 0;
  std::string names;
  for (const Format& to : formats()) {
    const auto case_of = [&](double absmax, double half) {
      OpCase c("quantize", {{"rows", "16"}, {"cols", "256"}, {"to", std::string(to.name)}});
      Values x(4096, static_cast<float>(half));
      for (std::size_t i = 0; i < x.size(); ++i)  // in each row, column and block
        if ((i / 256 + i) % 16 < 2) x[i] = (i / 256 + i) % 16 == 0 ? static_cast<float>(absmax) : 0;
      c.put("x", x);
      return c;
    };
    try {
      (void)case_of(1, 1).truth("");
    } catch (const InputError&) {
      continue;  // it can be read alone
    }
    // Under a scale of 1, 2 or 4: halves of integers, of the elements of FP8, FP6 and FP4, of 16 bits and of
    // powers of two.
    bool differs = false;
    std::string why;
    for (const auto& [absmax, half] : {std::pair{127.0, 2.5},
                                       {7.0, 2.5},
                                       {-8.0, 2.5},
                                       {-16.0, 2.5},
                                       {15.0, 2.5},
                                       {31.0, 2.5},
                                       {448.0, 17.0},
                                       {240.0, 17.0},
                                       {57344.0, 18.0},
                                       {57344.0, 9.0},
                                       {6.0, 2.5},
                                       {4.5, 2.5},
                                       {256.0, 4.25},
                                       {32768.0, 4.5},
                                       {28.0, 4.5},
                                       {7.5, 4.25},
                                       {1.0, 1 + 0x1p-8},
                                       {1.0, 1 + 0x1p-11},
                                       {8.0, 3.0}}) {
      const OpCase c = case_of(absmax, half);
      try {
        const Truth even = c.truth("round=nearest_even"), away = c.truth("round=nearest_away");
        differs = differs || even.value != away.value;
        const bool halves_away = to.name.starts_with("q");  // and has no search
        EXPECT_EQ(c.truth("round=rule").value, halves_away ? away.value : even.value) << to.name;
      } catch (const InputError& e) {
        why = e.what();
        break;
      }
    }
    if (!why.empty()) {
      ++refused, names += fmt::format(" {}", to.name);
      EXPECT_NE(
          why.find(fmt::format("round=nearest_even with to={}, whose rule says where halves go", to.name)),
          std::string::npos)
          << why;
      EXPECT_EQ(to.block->searched || to.name.starts_with("tq3"), why.ends_with("allowed: rule")) << why;
      EXPECT_NO_THROW((void)case_of(1, 1).truth("ties=rule"));
    } else {
      ++honoured;
      EXPECT_TRUE(differs || to.name == "f32") << to.name;
    }
  }
  EXPECT_EQ(refused, 7U) << names;
  // Nor is another format of a scale taken where the format has its own.
  for (const char* to : {"int4_g32_bf16", "int4_g32_packed", "q8_0"}) {
    OpCase c("quantize", {{"rows", "1"}, {"cols", "256"}, {"to", to}});
    c.put("x", Values(256, 1));
    EXPECT_THROW((void)c.truth("scale_format=f16"), InputError) << to;
    EXPECT_NO_THROW((void)c.truth("scale_format=f32")) << to;
  }
  EXPECT_GT(honoured, 30U);
}

// In OCP MX the scale is a power of two, and known but where a moved absmax has another.
TEST(QuantiseLimits, a_tie_of_an_mx_format_has_the_even_code) {
  for (const auto& [name, absmax] : {std::pair{"mxfp4", 4.0F}, {"mxfp8", 256.0F}, {"mxfp8_e5m2", 32768.0F}}) {
    SCOPED_TRACE(name);
    OpCase c("quantize", {{"rows", "1"}, {"cols", "64"}, {"to", name}});
    Values made(64, name[4] == '4' ? 2.5F : name[5] == '_' ? 4.5F : 4.25F);
    made[0] = absmax * 1.125F, made[32] = std::nextafter(2 * absmax, 0.0F);
    const Values x = c.put("x", made);
    const auto stored = [&](const EncodePolicy& policy) {
      return decode_tensor(encode_tensor(format(name), {1, 64}, x, policy));
    };
    const Truth t = c.truth("");
    expect_pass(t, stored({}));
    EXPECT_EQ(t.limit[1], 0);
    const std::vector<double> away = stored({.rounding = Rounding::nearest_away});
    EXPECT_GE(judge(t, away).bad, 31U);
    expect_pass(c.truth("ties=any"), away);
    expect_pass(c.truth("round=nearest_away"), away);
  }
  for (const char* name : {"iq4_nl", "int8_tok", "bf16"})
    EXPECT_THROW((void)OpCase("quantize", {{"rows", "1"}, {"cols", "64"}, {"to", name}}).truth("ties=any"),
                 InputError)
        << name;
}

TEST(QuantiseLimits, scales_and_codes_that_are_both_on_the_boundary_are_admitted_together) {
  std::size_t moved = 0;
  for (const char* name : {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q8_1", "iq4_nl", "mxfp4", "mxfp8",
                           "nvfp4", "int4_g32_bf16", "int4_g32_packed"}) {
    std::size_t caught = 0;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      SCOPED_TRACE(fmt::format("{} seed {}", name, seed));
      OpCase c("quantize", {{"rows", "16"}, {"cols", "256"}, {"to", name}});
      Values drawn = draw(Shape1::gaussian, 4096, 300 + seed);
      // Few bits: every quotient by a scale of few bits is a tie or near one.
      for (float& x : drawn) x = std::round(x * 8) / static_cast<float>(8 + seed % 3);
      const Values x = c.put("x", drawn);
      const std::string ties = has_ruled_ties(name) ? " ties=any" : "";
      const Truth t = c.truth("scale=any code=any" + ties);
      const auto stored = [&](const Values& from, const EncodePolicy& policy) {
        return decode_tensor(encode_tensor(format(name), {16, 256}, from, policy));
      };
      Values noisy = x;
      for (float& each :
           noisy) {  // equal magnitudes meet equal roundings: one of them stays the first of the largest
        std::mt19937_64 engine(std::bit_cast<std::uint32_t>(std::fabs(each)) + seed);
        each *= 1 + std::uniform_real_distribution<float>(-1, 1)(engine) * 0x1p-22F;
      }
      const std::vector<double> exact = stored(x, {}), y = stored(noisy, {});
      expect_pass(t, y);
      for (std::size_t i = 0; i < y.size(); ++i) moved += y[i] == exact[i] ? 0 : 1;
      caught += judge(t, stored(x, {.rounding = Rounding::toward_zero})).bad;
    }
    EXPECT_GE(caught, 20U) << name;
  }
  EXPECT_GE(moved, 1000U);
}

}  // namespace
}  // namespace assay::testing
