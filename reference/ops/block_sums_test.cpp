// ggml on a CPU, weights with a minimum and blocks of 256.
#include "reference/ops/block_sums.hpp"

#include "reference/ops/op_testing.hpp"

namespace assay::testing {
namespace {

constexpr std::size_t kRows = 3, kColumns = 16, kLength = 512;

struct Product {
  OpCase c;
  Values a, b, codes;  // codes: what a's codes stand for
  std::size_t block;
  Product(const std::string& weights, const std::string& path)
      : c("matmul", {{"m", "3"},
                     {"n", "16"},
                     {"k", "512"},
                     {"a", "f32"},
                     {"b", weights},
                     {"path", path},
                     {"dtype", "f32"}}),
        block(path == "q8_K" ? 256 : 32) {
    a = codes = c.put("a", draw(Shape1::gaussian, kRows * kLength, 21));
    b = c.put("b", draw(Shape1::gaussian, kColumns * kLength, 22));
    for (std::size_t first = 0; first < a.size(); first += block) {
      float most = 0;
      for (std::size_t i = first; i < first + block; ++i) most = std::max(most, std::fabs(a[i]));
      const float d = most / 127;
      const auto stored = block == 32 ? static_cast<float>(round_to(scalar_format("f16"), d)) : d;
      for (std::size_t i = first; i < first + block; ++i) codes[i] = std::nearbyint(a[i] / d) * stored;
    }
  }
  // sum a w, and of each block m (s - sum a): s is the sum of the block `shift` behind it, in f16 where a
  // block has 32.
  std::vector<double> kernel(const Values& x, std::size_t shift, double fault = 1) const {
    return kernel(x, x, shift, fault);
  }
  // The same with a sum of other numbers.
  std::vector<double> kernel(const Values& x, const Values& summed, std::size_t shift,
                             double fault = 1) const {
    std::vector<double> y;
    for (std::size_t i = 0; i < kRows; ++i)
      for (std::size_t j = 0; j < kColumns; ++j) {
        const std::vector<double> m = minima(c.set.at("b"), static_cast<std::int64_t>(j));
        double sum = 0;
        for (std::size_t e = 0; e < kLength; ++e)
          sum += static_cast<double>(x[i * kLength + e]) * b[j * kLength + e];
        for (std::size_t first = 0; first < m.size(); first += 32) {
          double own = 0, other = 0;
          for (std::size_t e = 0; e < 32; ++e)
            own += x[i * kLength + first + e],
                other += summed[i * kLength + (first + 32 * shift) % kLength + e];
          sum += m[first] * ((block == 32 ? round_to(scalar_format("f16"), other) : other) - own);
        }
        y.push_back(static_cast<double>(static_cast<float>(sum * fault)));
      }
    return y;
  }
};

// What a stored sum in f16 does to the minima is within the limit; a sum of another block is not, and nor are
// activations that were not quantised.
TEST(BlockSums, ggml_weights_times_activations_quantised_with_their_sums) {
  const std::pair<const char*, const char*> pairs[] = {
      {"q4_0", "q8_1"}, {"q5_0", "q8_1"}, {"q4_1", "q8_1"}, {"q5_1", "q8_1"}, {"q2_K", "q8_K"},
      {"q3_K", "q8_K"}, {"q4_K", "q8_K"}, {"q5_K", "q8_K"}, {"q6_K", "q8_K"}, {"iq4_xs", "q8_K"}};
  for (const auto& [weights, path] : pairs) {
    SCOPED_TRACE(weights);
    const Product k(weights, path);
    const Truth t = k.c.truth("acc=f32");
    expect_pass(t, k.kernel(k.codes, 0));
    expect_caught(t, k.kernel(k.codes, 0, 1.01));
    expect_caught(t, k.kernel(k.a, 0));
    if (!minima(k.c.set.at("b"), 0).empty()) expect_caught(t, k.kernel(k.codes, 1));
  }
}

// ggml on CUDA adds up x itself: each of the two is right where it is declared alone.
TEST(BlockSums, sums_of_values_and_sums_of_codes_are_told_apart) {
  for (const char* weights : {"q4_0", "q5_0", "q4_1", "q5_1", "q4_K", "q5_K"}) {
    SCOPED_TRACE(weights);
    const Product k(weights, "q8_1");
    const Truth values = k.c.truth("acc=f32 sums=values"), codes = k.c.truth("acc=f32");
    expect_pass(values, k.kernel(k.codes, k.a, 0));
    expect_pass(codes, k.kernel(k.codes, 0));
    expect_caught(values, k.kernel(k.codes, 0));
    expect_caught(codes, k.kernel(k.codes, k.a, 0));
    expect_caught(values, k.kernel(k.codes, k.a, 1));
    expect_caught(values, k.kernel(k.codes, k.a, 0, 1.01));
  }
}

TEST(BlockSums, only_formats_with_a_minimum_have_one) {
  for (const char* name : {"q8_0", "iq4_xs"})
    EXPECT_TRUE(minima(Product(name, "f32").c.set.at("b"), 0).empty()) << name;
  const Product k("q4_1", "q8_1");
  const std::vector<double> m = minima(k.c.set.at("b"), 2);
  ASSERT_EQ(m.size(), kLength);
  float least = 0;
  for (std::size_t e = 0; e < 32; ++e) least = std::min(least, k.b[2 * kLength + e]);
  EXPECT_NEAR(m[0], least, std::fabs(least) * 0x1p-10);  // of a block, its least element, in f16
}

}  // namespace
}  // namespace assay::testing
