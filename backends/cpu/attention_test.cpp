// The attention kernels against the textbook formula in double, for every kernel and target. The judgement
// with proven bounds is the harness's; here stands what must hold bit for bit, and a plain comparison that a
// wrong mask, head, page or scale cannot survive.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cpu/codecs.hpp"
#include "backends/cpu/test_call.hpp"

namespace assay_cpu_test {
namespace {

struct Problem {
  std::int64_t batch = 2, heads = 6, kv_heads = 2, d = 40, dv = 24, q = 3, len = 77, page = 0, window = 0;
  std::string mask = "none", kv = "f16", dtype = "f32", sinks = "no", alibi = "no", lengths = "full";
  double softcap = 0;
};

struct Made {
  TestCall call{"attention"};
  std::vector<double> expected;
};

std::vector<float> values(std::mt19937& random, std::int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> made(static_cast<std::size_t>(count));
  for (float& x : made) x = normal(random);
  return made;
}

template <class Code, class Encode, class Decode>
std::vector<Code> encode(std::vector<float>& x, const Encode& to, const Decode& from) {
  std::vector<Code> codes;
  for (float& value : x) {
    codes.push_back(static_cast<Code>(to(value)));
    value = from(codes.back());
  }
  return codes;
}

void put(TestCall& call, const std::string& name, const std::string& format,
         const std::vector<std::int64_t>& shape, std::vector<float>& x, std::size_t gap) {
  if (format == "f16") {
    call.in(name, format, shape, encode<std::uint16_t>(x, assay_cpu::f16_code, assay_cpu::f16_value), gap);
  } else if (format == "bf16") {
    call.in(name, format, shape, encode<std::uint16_t>(x, assay_cpu::bf16_code, assay_cpu::bf16_value), gap);
  } else if (format == "e4m3fn") {
    const auto to = [](float v) { return assay_cpu::small_code(assay_cpu::kE4m3fn, v); };
    call.in(name, format, shape, encode<std::uint8_t>(x, to, assay_cpu::e4m3fn_value), gap);
  } else {
    call.in(name, format, shape, x, gap);
  }
}

Made make(const Problem& p, unsigned seed = 1) {
  std::mt19937 random(seed);
  Made made;
  TestCall& call = made.call;
  const auto text = [](auto number) { return std::to_string(number); };
  call.set("batch", text(p.batch)).set("heads", text(p.heads)).set("kv_heads", text(p.kv_heads));
  call.set("d", text(p.d)).set("dv", text(p.dv)).set("q", text(p.q)).set("len", text(p.len));
  call.set("kv", p.kv).set("k", "@kv").set("v", "@kv").set("dtype", p.dtype).set("mask", p.mask);
  call.set("window", text(p.window))
      .set("softcap", text(p.softcap))
      .set("sinks", p.sinks)
      .set("alibi", p.alibi);
  call.set("page", text(p.page)).set("scale", "0").set("rotate", "none").set("lengths", p.lengths);

  std::vector<float> q = values(random, p.batch * p.q * p.heads * p.d);
  put(call, "q", p.dtype, {p.batch, p.q, p.heads, p.d}, q, 8);
  const std::int64_t width = p.page > 0 ? (p.len + p.page - 1) / p.page : 1;
  const std::int64_t pages = p.batch * width + 2;
  std::vector<std::int32_t> table(static_cast<std::size_t>(p.batch * width));
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = static_cast<std::int32_t>((i * 5 + 3) % table.size());
  const std::int64_t tokens = p.page > 0 ? pages * p.page : p.batch * p.len;
  std::vector<float> k = values(random, tokens * p.kv_heads * p.d);
  std::vector<float> v = values(random, tokens * p.kv_heads * p.dv);
  const std::int64_t outer = p.page > 0 ? pages : p.batch;
  const std::int64_t inner = p.page > 0 ? p.page : p.len;
  if (p.page > 0) call.in("page_table", "int32", {p.batch, width}, table);
  std::vector<std::int32_t> lengths;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    lengths.push_back(static_cast<std::int32_t>(p.lengths == "ragged" ? p.len - 9 * b : p.len));
  }
  if (p.lengths == "ragged") call.in("lengths", "int32", {p.batch}, lengths);
  const auto token = [&](std::int64_t b, std::int64_t j) {
    return p.page > 0 ? table[static_cast<std::size_t>(b * width + j / p.page)] * p.page + j % p.page
                      : b * p.len + j;
  };
  // NaN where no request looks: beyond a length, and in pages of nobody.
  std::vector<bool> used(static_cast<std::size_t>(tokens));
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t j = 0; j < lengths[static_cast<std::size_t>(b)]; ++j)
      used[static_cast<std::size_t>(token(b, j))] = true;
  }
  for (std::int64_t t = 0; t < tokens; ++t) {
    if (used[static_cast<std::size_t>(t)]) continue;
    for (std::int64_t i = 0; i < p.kv_heads * p.d; ++i)
      k[static_cast<std::size_t>(t * p.kv_heads * p.d + i)] = NAN;
    for (std::int64_t i = 0; i < p.kv_heads * p.dv; ++i)
      v[static_cast<std::size_t>(t * p.kv_heads * p.dv + i)] = NAN;
  }
  put(call, "k", p.kv, {outer, inner, p.kv_heads, p.d}, k, 4);
  put(call, "v", p.kv, {outer, inner, p.kv_heads, p.dv}, v, 12);
  std::vector<std::int8_t> mask(static_cast<std::size_t>(p.q * p.len));
  for (std::size_t i = 0; i < mask.size(); ++i) {
    mask[i] = random() % 3 != 0 && static_cast<std::int64_t>(i) / p.len != 1;  // row 1 sees nothing
  }
  if (p.mask == "random") call.in("mask", "int8", {p.q, p.len}, mask);
  const std::vector<float> sinks = values(random, p.heads);
  if (p.sinks == "yes") call.in("sinks", "f32", {p.heads}, sinks);
  const std::vector<float> slopes = values(random, p.heads);
  if (p.alibi == "yes") call.in("slopes", "f32", {p.heads}, slopes);
  const std::size_t element = p.dtype == "f32" ? 4 : 2;
  call.out("out", p.dtype, {p.batch, p.q, p.heads, p.dv},
           static_cast<std::size_t>(p.batch * p.q * p.heads * p.dv) * element, 16);

  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    for (std::int64_t i = 0; i < p.q; ++i) {
      const std::int64_t position = length - p.q + i;
      for (std::int64_t h = 0; h < p.heads; ++h) {
        const std::int64_t g = h * p.kv_heads / p.heads;
        std::vector<double> out(static_cast<std::size_t>(p.dv));
        double sum = p.sinks == "yes" ? std::exp(double{sinks[static_cast<std::size_t>(h)]}) : 0;
        bool seen = false;
        for (std::int64_t j = 0; j < length; ++j) {
          if ((p.mask == "causal" || p.mask == "window") && j > position) continue;
          if (p.mask == "window" && j <= position - p.window) continue;
          if (p.mask == "random" && mask[static_cast<std::size_t>(i * p.len + j)] == 0) continue;
          double s = 0;
          const std::int64_t row = token(b, j) * p.kv_heads + g;
          for (std::int64_t c = 0; c < p.d; ++c) {
            s += double{q[static_cast<std::size_t>(((b * p.q + i) * p.heads + h) * p.d + c)]} *
                 double{k[static_cast<std::size_t>(row * p.d + c)]};
          }
          s /= std::sqrt(static_cast<double>(p.d));
          if (p.softcap > 0) s = p.softcap * std::tanh(s / p.softcap);
          if (p.alibi == "yes")
            s -= slopes[static_cast<std::size_t>(h)] * static_cast<double>(std::abs(position - j));
          seen = true;
          sum += std::exp(s);
          for (std::int64_t c = 0; c < p.dv; ++c) {
            out[static_cast<std::size_t>(c)] +=
                std::exp(s) * double{v[static_cast<std::size_t>(row * p.dv + c)]};
          }
        }
        for (const double o : out) made.expected.push_back(seen ? o / sum : 0);
      }
    }
  }
  return made;
}

// f32 kernels on O(1) data: 2^-17 is a hundred times their rounding, and a thousandth of what one wrong key
// changes.
void expect_near(Made& made, const std::string& variant) {
  ASSERT_EQ(made.call.run(variant), ASSAY_OK) << variant << ": " << made.call.reason;
  EXPECT_TRUE(made.call.gaps_intact());
  const std::vector<float> got = made.call.result<float>("out");
  ASSERT_EQ(got.size(), made.expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(double{got[i]} - made.expected[i]);
    ASSERT_TRUE(error <= 0x1p-17 * (1 + std::fabs(made.expected[i])))
        << variant << " out[" << i << "] got " << got[i] << " want " << made.expected[i];
  }
}

void expect_near_everywhere(const Problem& problem) {
  Made made = make(problem);
  for (const std::string& target : targets()) {
    for (const char* kernel : {"decode", "prefill", "split"})
      expect_near(made, std::string(kernel) + "." + target);
  }
}

TEST(AttentionKernels, AgreeWithTheFormulaOnEveryMask) {
  for (const char* mask : {"none", "causal", "window", "random"}) {
    Problem problem;
    problem.mask = mask;
    if (problem.mask == "window") problem.window = 11;
    expect_near_everywhere(problem);
  }
}

TEST(AttentionKernels, AgreeWithTheFormulaOnEveryScalarFormat) {
  for (const char* kv : {"f32", "f16", "bf16", "e4m3fn"}) {
    Problem problem;
    problem.kv = kv;
    problem.mask = "causal";
    expect_near_everywhere(problem);
  }
}

TEST(AttentionKernels, HonourPagesLengthsSinksSlopesAndSoftCaps) {
  Problem problem;
  problem.page = 16;
  problem.lengths = "ragged";
  problem.sinks = "yes";
  problem.alibi = "yes";
  problem.softcap = 3;
  problem.mask = "causal";
  expect_near_everywhere(problem);
}

TEST(AttentionKernels, GiveTheSameBitsTwice) {
  Problem problem;
  problem.len = 300;
  problem.dtype = "f16";
  Made made = make(problem);
  for (const char* variant : {"decode", "prefill", "split", ""}) {
    ASSERT_EQ(made.call.run(variant), ASSAY_OK) << made.call.reason;
    const auto first = made.call.result<std::uint16_t>("out");
    ASSERT_EQ(made.call.run(variant), ASSAY_OK);
    EXPECT_EQ(made.call.result<std::uint16_t>("out"), first);
  }
}

TEST(AttentionKernels, ChooseLikeAnEngineAndSaySo) {
  Problem problem;
  problem.q = 1;
  Made decode = make(problem);
  ASSERT_EQ(decode.call.run(""), ASSAY_OK);
  EXPECT_EQ(decode.call.kernels, std::vector<std::string>{"attention_decode_f16_f16"});
  problem.q = 5;
  Made prefill = make(problem);
  ASSERT_EQ(prefill.call.run("scalar"), ASSAY_OK);
  EXPECT_EQ(prefill.call.kernels, std::vector<std::string>{"attention_prefill_f16_f16"});
  EXPECT_EQ(prefill.call.notes["target"], "scalar");
  assay_declaration declaration;
  ASSERT_EQ(prefill.call.declare(declaration), ASSAY_OK);
  EXPECT_STREQ(declaration.path, "attention_prefill_f16_f16");
}

TEST(AttentionKernels, RefuseWhatTheyLackWithAReason) {
  Made made = make(Problem{});
  assay_declaration declaration;
  made.call.set("k", "nf3");
  EXPECT_EQ(made.call.declare(declaration), ASSAY_UNSUPPORTED);
  EXPECT_NE(std::string(declaration.reason).find("nf3"), std::string::npos);
  made.call.set("k", "f16");
  EXPECT_EQ(made.call.declare(declaration, "decode.avx1024"), ASSAY_UNSUPPORTED);
  EXPECT_NE(std::string(declaration.reason).find("avx1024"), std::string::npos);
}

}  // namespace
}  // namespace assay_cpu_test
