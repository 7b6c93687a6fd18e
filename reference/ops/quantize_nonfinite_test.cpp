// What is claimed of a quantiser whose input holds a NaN, an Inf, or nothing but zeros.
#include <cstring>

#include "reference/formats/block.hpp"
#include "reference/ops/quantize_testing.hpp"

namespace assay::testing {
namespace {

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
      // A sign, three times as much, NaN; the scale of a group that is undefined may be Inf, which is read as
      // NaN.
      for (const double factor : {-1.0, 3.0, static_cast<double>(kNan)}) {
        std::vector<double> bad = good;
        bad[64 + 3] *= factor;
        expect_pass(any, bad);
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
      // Of the finite elements alone; mxfp8's have a NaN, and its Inf saturates.
      Values without = s.x;
      if (std::string(to) != "mxfp8") without[64 + 40] = 0;
      const std::vector<double> finite = decode_tensor(encode_tensor(format(to), {4, 64}, without));
      expect_pass(s.c.truth("absmax=finite"), finite);
      expect_pass(s.c.truth(""), finite);
      expect_pass(s.c.truth(""), good);
      if (std::isnan(value) && std::string(to) != "mxfp8") expect_caught(s.c.truth("absmax=finite"), good);
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

// What is moved to see which codes are in doubt stays finite: an Inf would poison the block, and no number be
// its limit.
TEST(Quantize, a_block_next_to_the_largest_f32_has_limits_and_another_code_is_beyond_them) {
  for (const Format& to : formats()) {
    if (to.kind != FormatKind::block || to.block->searched) continue;
    OpCase c("quantize", {{"rows", "1"}, {"cols", "256"}, {"to", std::string(to.name)}});
    Values x = draw(Shape1::gaussian, 256, 14, 0.1F);
    x[5] = std::numeric_limits<float>::max();
    c.put("x", x);
    const Truth t = c.truth("");
    for (const double limit : t.limit) EXPECT_TRUE(limit >= 0) << to.name << " " << limit;
    expect_pass(t, decode_tensor(encode_tensor(to, {1, 256}, x)));
    std::vector<double> negated = t.value;
    for (double& each : negated) each = -each;
    if (to.name.starts_with("tq3")) expect_caught(t, negated);
  }
}

TEST(Quantize, a_format_whose_files_come_from_a_search_is_read_and_never_asked_for) {
  const auto tensors_of = [](const char* name, std::map<std::string, std::string> attributes) {
    const Op& row = op(name);
    return row.tensors(Attributes::complete(row.attributes, std::move(attributes)));
  };
  EXPECT_THROW(tensors_of("quantize", {{"rows", "1"}, {"cols", "256"}, {"to", "q4_K"}}), InputError);
  EXPECT_THROW(tensors_of("requantize", {{"rows", "1"}, {"cols", "256"}, {"from", "q8_0"}, {"to", "q4_K"}}),
               InputError);
  EXPECT_THROW(tensors_of("kv_write", {{"tokens", "1"}, {"heads", "1"}, {"d", "256"}, {"to", "q4_K"}}),
               InputError);
  EXPECT_EQ(tensors_of("quantize", {{"rows", "1"}, {"cols", "256"}, {"to", "q8_1"}}).size(), 2U);
  EXPECT_EQ(tensors_of("dequantize", {{"rows", "1"}, {"cols", "256"}, {"from", "q4_K"}}).size(), 2U);
}

TEST(Judged, a_limit_that_is_no_number_is_the_worst_of_all) {
  const Judged j = ::assay::judge(1.0, 1.0, std::nan(""));
  EXPECT_FALSE(j.ok);
  EXPECT_EQ(j.ratio, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(::assay::judge(1.0, 1.0, 0.0).ok);
}

}  // namespace
}  // namespace assay::testing
