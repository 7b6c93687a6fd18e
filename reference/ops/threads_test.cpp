// A truth is the same bits on any number of threads: what is cut into units, and what is put together from
// them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <random>
#include <string>

#include "reference/ops/op_testing.hpp"
#include "reference/ops/sharpness.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

class Threads : public ::testing::Test {
 protected:
  ~Threads() override { set_reference_threads(1); }
};

std::vector<std::uint64_t> bits(std::span<const double> list) {
  std::vector<std::uint64_t> all;
  for (const double x : list) all.push_back(std::bit_cast<std::uint64_t>(x));
  return all;
}

struct Large {
  const char* op;
  std::map<std::string, std::string> attributes;
  const char* contract;
};
// Each of several units.
const Large kLarge[] = {
    {"softmax", {{"rows", "90"}, {"cols", "2000"}, {"dtype", "bf16"}}, ""},
    {"softmax",
     {{"rows", "90"}, {"cols", "2000"}, {"mask", "random"}, {"sinks", "yes"}, {"softcap", "30"}},
     "weights=f16"},
    {"logsumexp", {{"rows", "90"}, {"cols", "2000"}}, ""},
    {"rmsnorm", {{"rows", "90"}, {"cols", "2000"}, {"dtype", "bf16"}}, ""},
    {"layernorm", {{"rows", "90"}, {"cols", "2000"}, {"dtype", "f16"}}, ""},
    {"argmax", {{"rows", "90"}, {"cols", "2000"}}, ""},
    {"wht", {{"rows", "90"}, {"cols", "2048"}, {"points", "64"}}, ""},
    {"matmul", {{"m", "5"}, {"n", "300"}, {"k", "64"}, {"a", "bf16"}, {"b", "bf16"}}, ""},
    {"matmul",
     {{"m", "5"}, {"n", "300"}, {"k", "64"}, {"a", "e4m3fn"}, {"b", "e4m3fn"}},
     "acc=hopper_fp8 order=sequential"},
    {"moe", {{"tokens", "5"}, {"hidden", "256"}, {"inter", "192"}, {"experts", "3"}, {"topk", "2"}}, ""},
    {"quantize", {{"rows", "90"}, {"cols", "2048"}, {"to", "int8_tok"}}, ""},
    {"quantize", {{"rows", "90"}, {"cols", "2048"}, {"to", "e4m3fn"}}, ""},
    {"attention",
     {{"heads", "4"},
      {"kv_heads", "2"},
      {"d", "64"},
      {"q", "300"},
      {"len", "300"},
      {"mask", "causal"},
      {"sinks", "yes"}},
     "q=bf16 convert=bf16 qk=hopper_bf16 p=bf16 pv=hopper_bf16 tile=64 split=4"},
    {"attention",
     {{"heads", "4"}, {"kv_heads", "2"}, {"d", "64"}, {"q", "40"}, {"len", "300"}},
     "order=tiles tile=64"},
    {"attention", {{"heads", "8"}, {"kv_heads", "2"}, {"d", "64"}, {"len", "40000"}}, ""},
    {"dequantize", {{"rows", "90"}, {"cols", "2048"}, {"from", "q8_0"}}, ""},
};

TEST_F(Threads, any_number_of_them_makes_the_same_truth) {
  for (const Large& large : kLarge) {
    testing::OpCase c(large.op, large.attributes);
    std::mt19937 draw(7);
    std::normal_distribution<float> normal;
    for (const TensorSpec& spec : c.op_row->tensors(c.attributes)) {
      if (spec.role != TensorRole::data) continue;
      testing::Values values(static_cast<std::size_t>(element_count(spec.shape)));
      for (float& x : values) x = normal(draw);
      c.put(spec.name, values);
    }
    set_reference_threads(1);
    const Truth one = c.truth(large.contract);
    for (const int threads : {2, 5}) {
      set_reference_threads(threads);
      const Truth many = c.truth(large.contract);
      EXPECT_EQ(bits(one.value), bits(many.value)) << large.op << " " << large.contract;
      EXPECT_EQ(bits(one.limit), bits(many.limit)) << large.op << " " << large.contract;
    }
  }
}

// More elements than one part has: the middle is found by counting.
TEST_F(Threads, the_sharpness_of_many_elements_is_that_of_all_sorted) {
  constexpr std::size_t kCount = (std::size_t{3} << 20) + 5;
  Truth t{"y", std::vector<double>(kCount, 2), std::vector<double>(kCount), ""};
  std::mt19937_64 draw(11);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < kCount; ++i) {
    t.limit[i] = std::exp2(static_cast<double>(draw() % 4096) / 256 - 20);
    if (i % 1000 == 7) t.value[i] = 0;  // shows nothing
    if (i % 1000 == 8) t.limit[i] = std::numeric_limits<double>::infinity();
    if (t.value[i] != 0) ratios.push_back(t.limit[i] / 2);
  }
  std::ranges::sort(ratios);
  for (const int threads : {1, 3}) {
    set_reference_threads(threads);
    const Sharpness s = sharpness(std::span(&t, 1), {});
    EXPECT_EQ(s.elements, ratios.size());
    EXPECT_EQ(s.half, ratios[(ratios.size() - 1) / 2]);
    EXPECT_EQ(s.some, ratios.front());
    EXPECT_EQ(s.loosest,
              *std::ranges::max_element(ratios, {}, [](double r) { return std::isfinite(r) ? r : 0; }));
  }
}

}  // namespace
}  // namespace assay
