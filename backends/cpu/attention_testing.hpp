// A random attention problem, its call and its answer by the textbook formula in double: for the tests of the
// kernels.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cpu/codecs.hpp"
#include "backends/cpu/test_call.hpp"

namespace assay_cpu_test {

struct Problem {
  std::int64_t batch = 2, heads = 6, kv_heads = 2, d = 40, dv = 24, q = 3, len = 77, page = 0, window = 0;
  std::string mask = "none", kv = "f16", dtype = "f32", sinks = "no", alibi = "no", lengths = "full";
  double softcap = 0;
};

struct Made {
  TestCall call{"attention"};
  std::vector<double> expected;
};

inline std::vector<float> values(std::mt19937& random, std::int64_t count) {
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

inline void put(TestCall& call, const std::string& name, const std::string& format,
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

inline Made make(const Problem& p, unsigned seed = 1) {
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

inline void expect_near(Made& made, const std::string& variant) {
  ASSERT_EQ(made.call.run(variant), ASSAY_OK) << variant << ": " << made.call.reason;
  EXPECT_TRUE(made.call.gaps_intact());
  const std::vector<float> got = made.call.result<float>("out");
  ASSERT_EQ(got.size(), made.expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(double{got[i]} - made.expected[i]);
    // f32 kernels on O(1) data: 2^-17 is a hundred times their rounding, and a thousandth of what one wrong
    // key changes.
    ASSERT_TRUE(error <= 0x1p-17 * (1 + std::fabs(made.expected[i])))
        << variant << " out[" << i << "] got " << got[i] << " want " << made.expected[i];
  }
}

inline void expect_near_everywhere(const Problem& problem) {
  Made made = make(problem);
  for (const std::string& target : targets()) {
    for (const char* kernel : {"decode", "prefill", "split"})
      expect_near(made, std::string(kernel) + "." + target);
  }
}

}  // namespace assay_cpu_test
