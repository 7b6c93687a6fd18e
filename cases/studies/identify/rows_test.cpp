// Kernels on rows whose schedule is known, written as plain loops: identify must find it, never take a tampered one for it, and
// find the count of rows at which a kernel changes its order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "cases/studies/identify/row_regions.hpp"
#include "reference/error.hpp"
#include "reference/mix.hpp"
#include "reference/replay/exponentials.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {
namespace {

using Row = void (*)(const RowInputs&, const float* x, float* y);

float strided_squares(const float* x, std::int64_t n, float mean, std::int64_t lanes) {
  std::array<float, 16> s{};
  for (std::int64_t i = 0; i < n; ++i)
    s[static_cast<std::size_t>(i % lanes)] =
        std::fma(x[i] - mean, x[i] - mean, s[static_cast<std::size_t>(i % lanes)]);
  for (std::int64_t half = lanes / 2; half >= 1; half /= 2)
    for (std::int64_t j = 0; j < half; ++j)
      s[static_cast<std::size_t>(j)] += s[static_cast<std::size_t>(j + half)];
  return s[0];
}
template <int kLanes>
void rmsnorm(const RowInputs& in, const float* x, float* y) {
  const float f =
      1.0F / std::sqrt(strided_squares(x, in.cols, 0, kLanes) / static_cast<float>(in.cols) + in.eps);
  for (std::int64_t i = 0; i < in.cols; ++i) y[i] = x[i] * f * in.gamma[static_cast<std::size_t>(i)];
}
void rmsnorm_of_doubles(const RowInputs& in, const float* x, float* y) {
  double s = 0;
  for (std::int64_t i = 0; i < in.cols; ++i) s += static_cast<double>(x[i] * x[i]);
  const float mean = static_cast<float>(s / static_cast<double>(in.cols));
  const float deviation = std::sqrt(mean + in.eps);
  for (std::int64_t i = 0; i < in.cols; ++i) y[i] = x[i] / deviation * in.gamma[static_cast<std::size_t>(i)];
}
void layernorm(const RowInputs& in, const float* x, float* y) {
  float sum = 0;
  for (std::int64_t i = 0; i < in.cols; ++i) sum += x[i];
  const float mean = sum * (1.0F / static_cast<float>(in.cols));
  const float v = strided_squares(x, in.cols, mean, 8) * (1.0F / static_cast<float>(in.cols));
  const float f = 1.0F / std::sqrt(v + in.eps);
  for (std::size_t i = 0; i < static_cast<std::size_t>(in.cols); ++i)
    y[i] = std::fma((x[i] - mean), f * in.gamma[i], in.beta[i]);
}
void softmax(const RowInputs& in, const float* x, float* y, RowExp exp) {
  float top = x[0], s = 0;
  for (std::int64_t i = 1; i < in.cols; ++i) top = std::max(top, x[i]);
  for (std::int64_t i = in.cols; i-- > 0;) s += y[i] = exp(x[i] - top);
  for (std::int64_t i = 0; i < in.cols; ++i) y[i] = y[i] / s;
}
void softmax_by_arm(const RowInputs& in, const float* x, float* y) { softmax(in, x, y, row_exp("arm")); }
// An exponential that no hypothesis has: every one is an ulp too large.
void softmax_by_another(const RowInputs& in, const float* x, float* y) {
  softmax(in, x, y, [](float z) { return z == 0 ? 1.0F : std::nextafter(std::exp(z), 2.0F); });
}
void logsumexp(const RowInputs& in, const float* x, float* y) {
  float top = x[0], even = 0, odd = 0;
  for (std::int64_t i = 1; i < in.cols; ++i) top = std::max(top, x[i]);
  for (std::int64_t i = 0; i < in.cols; ++i) (i % 2 == 0 ? even : odd) += std::exp(x[i] - top);
  y[0] = top + std::log(even + odd);
}
void wht(const RowInputs& in, const float* x, float* y) {
  std::copy(x, x + in.cols, y);
  for (std::int64_t half = in.points / 2; half >= 1; half /= 2)
    for (std::int64_t i = 0; i < in.cols; ++i) {
      if ((i & half) != 0) continue;
      const float a = y[i], b = y[i + half];
      y[i] = a + b, y[i + half] = a - b;
    }
  for (std::int64_t i = 0; i < in.cols; ++i)
    y[i] *= static_cast<float>(1 / std::sqrt(static_cast<double>(in.points)));
}

// `row` for up to 255 rows, `wide` from 256 on.
class Loops : public RowSubject {
 public:
  Loops(std::string op, Row row, Row wide = nullptr)
      : op_(std::move(op)), row_(row), wide_(wide ? wide : row) {}
  std::string op() const override { return op_; }
  std::optional<RowAnswer> drawn(std::int64_t rows, std::int64_t cols, std::uint64_t seed) override {
    std::uint64_t state = seed;
    std::vector<float> x(static_cast<std::size_t>(rows * cols));
    for (float& v : x) v = number(state);
    return crafted(rows, cols, std::move(x), "seed " + std::to_string(seed));
  }
  std::optional<RowAnswer> crafted(std::int64_t rows, std::int64_t cols, std::vector<float> x,
                                   const std::string& what) override {
    ++calls;
    RowAnswer answer{what, {rows, cols, std::move(x), {}, {}, 1e-5F, 32, {}, false, "f32"}, {}};
    std::uint64_t state = 99;
    for (std::int64_t i = 0; i < cols; ++i)
      answer.in.gamma.push_back(number(state)), answer.in.beta.push_back(number(state));
    std::vector<float> y(static_cast<std::size_t>(cols));
    for (std::int64_t r = 0; r < rows; ++r) {
      (rows >= 256 ? wide_ : row_)(answer.in, answer.in.x.data() + r * cols, y.data());
      answer.got.insert(answer.got.end(), y.begin(), op_ == "logsumexp" ? y.begin() + 1 : y.end());
    }
    return answer;
  }

 private:
  static float number(std::uint64_t& state) {
    return static_cast<float>(static_cast<double>(mix(next_mixed(state)) >> 11) * 0x1p-50 - 4);
  }
  std::string op_;
  Row row_, wide_;
};

struct Known {
  const char *op, *schedule;
  Row row;
};
constexpr std::array kKnown = {
    Known{"rmsnorm", "squares.fma=yes squares.lanes=8", rmsnorm<8>},
    Known{"rmsnorm", "root=quotient squares.acc=f32 squares.chunk=1 squares.chunk_acc=f64",
          rmsnorm_of_doubles},
    Known{"layernorm", "mean=reciprocal product=inv_gamma_x shift=fma squares.fma=yes squares.lanes=8",
          layernorm},
    Known{"softmax", "exp=arm quotient=division sum.order=descending", softmax_by_arm},
    Known{"logsumexp", "sum.lanes=2", logsumexp},
    Known{"wht", "stages=descending", wht},
};

bool same_sums(const RowSchedule& a, const RowSchedule& b, std::int64_t cols) {
  return signature(plan_sum(a.sum, cols)) == signature(plan_sum(b.sum, cols)) &&
         signature(plan_sum(a.squares, cols)) == signature(plan_sum(b.squares, cols));
}

TEST(Rows, every_known_schedule_is_found) {
  for (const Known& k : kKnown) {
    const std::int64_t cols = k.op == std::string_view("wht") ? 96 : 36;
    Loops loops(k.op, k.row);
    const RowCard card = identify_rows(loops, k.op == std::string_view("logsumexp") ? 255 : 96, cols, {});
    const RowSchedule truth = parse_row_schedule(k.op, k.schedule);
    ASSERT_TRUE(card.schedule) << k.op << " nearest " << print_schedule(card.nearest);
    EXPECT_TRUE(same_sums(*card.schedule, truth, cols)) << print_schedule(*card.schedule);
    EXPECT_LE(card.calls, 64);
    EXPECT_EQ(card.unequal, 0);
    for (const RowScheduleKey* key : row_keys(k.op)) {
      const auto field = std::ranges::find(card.fields, key->name, &CardField::field);
      ASSERT_NE(field, card.fields.end()) << key->name;
      if (field->concluded) {
        EXPECT_EQ(card.schedule->word(key->name), truth.word(key->name)) << k.op << ' ' << key->name;
      }
    }
  }
}

TEST(Rows, a_tampered_schedule_is_not_the_kernels) {
  for (const Known& k : kKnown) {
    const std::int64_t cols = k.op == std::string_view("wht") ? 96 : 36;
    Loops loops(k.op, k.row);
    const RowSchedule truth = parse_row_schedule(k.op, k.schedule);
    EXPECT_TRUE(judge_rows(loops, 128, cols, truth, 8).ok()) << k.op;
    int caught = 0;
    for (const TamperedRows& t : tampered(truth, cols)) {
      if (same_sums(t.schedule, truth, cols) &&
          (t.field.starts_with("sum.") || t.field.starts_with("squares.")))
        continue;
      // Two good libraries' logarithms, or exponentials, are equal for nearly all arguments.
      if (t.field == "log" || (t.field == "exp" && k.op == std::string_view("logsumexp"))) continue;
      EXPECT_FALSE(judge_rows(loops, 128, cols, t.schedule, 8).ok())
          << k.op << ' ' << print_schedule(t.schedule);
      ++caught;
    }
    EXPECT_GE(caught, 2) << k.op;
  }
}

// Bits over every 9,973rd float from -0 down to -Inf, FNV-1a over 32-bit words: the digest is that of Sleef_expf8_u10avx2 of SLEEF
// 3.5.1, which the replay equals for all 2,139,095,041 of them.
TEST(Exponentials, sleef_is_the_librarys_bit_for_bit) {
  const RowExp exp = row_exp("sleef");
  std::uint64_t digest = 14695981039346656037ULL;
  for (std::uint32_t bits = 0x80000000U; bits <= 0xff800000U; bits += 9973)
    digest = (digest ^ std::bit_cast<std::uint32_t>(exp(std::bit_cast<float>(bits)))) * 1099511628211ULL;
  EXPECT_EQ(digest, 0xfe9913670081f300ULL);
  EXPECT_TRUE(std::isnan(exp(std::nanf(""))));
}

TEST(Rows, an_exponential_that_is_not_known_stays_unknown) {
  Loops loops("softmax", softmax_by_another);
  const RowCard card = identify_rows(loops, 32, 60, {});
  EXPECT_FALSE(card.schedule);
  ASSERT_EQ(card.fields.size(), 1U);
  EXPECT_EQ(card.fields[0].field, "exp");
  EXPECT_FALSE(card.fields[0].concluded);
  EXPECT_NE(card_text(card).find("unknown"), std::string::npos);
}

TEST(Rows, the_step_that_parts_is_named) {
  Loops loops("rmsnorm", [](const RowInputs& in, const float* x, float* y) {
    float s = 0;  // the sum behind term 41 is an ulp too large
    for (std::int64_t i = 0; i < in.cols; ++i) {
      s = std::fma(x[i], x[i], s);
      if (i == 41 && x[i] != 0) s = std::nextafter(s, 1e9F);
    }
    const float f = 1.0F / std::sqrt(s / static_cast<float>(in.cols) + in.eps);
    for (std::int64_t i = 0; i < in.cols; ++i) y[i] = x[i] * f * in.gamma[static_cast<std::size_t>(i)];
  });
  const RowSchedule declared = parse_row_schedule("rmsnorm", "squares.fma=yes");
  const RowVerdict v = judge_rows(loops, 128, 60, declared, 2);
  EXPECT_FALSE(v.ok());
  EXPECT_EQ(v.first_term, 41) << describe(v, declared);
}

// In the manner of a kernel that takes another block at a larger batch, and of one that does not.
TEST(Rows, an_order_that_changes_at_256_rows_is_found_in_64_calls) {
  const auto ask = [](Loops& loops) {
    std::vector<RowRegion> regions;
    std::vector<RowSchedule> known;
    for (const std::int64_t rows : {1, 64, 600}) {
      regions.push_back({rows, identify_rows(loops, rows, 44, known, {.outputs = 1000})});
      if (regions.back().card.schedule) known.push_back(*regions.back().card.schedule);
    }
    return row_invariance(loops, 44, regions);
  };
  Loops varies("rmsnorm", rmsnorm<8>, rmsnorm<16>), constant("rmsnorm", rmsnorm<8>);
  const RowInvariance refuted = ask(varies), proven = ask(constant);
  EXPECT_EQ(refuted.verdict, "refuted");
  ASSERT_EQ(refuted.borders.size(), 1U) << invariance_text(refuted);
  EXPECT_EQ(refuted.borders[0].last, 255);
  EXPECT_EQ(refuted.borders[0].next, 256);
  EXPECT_LE(varies.calls, 64);
  EXPECT_EQ(proven.verdict, "proven") << invariance_text(proven);
  EXPECT_TRUE(proven.borders.empty());
  EXPECT_LE(constant.calls, 64);
}

TEST(RowSchedule, what_is_printed_is_read_back_and_nonsense_is_refused) {
  for (const Known& k : kKnown) {
    const RowSchedule s = parse_row_schedule(k.op, k.schedule);
    EXPECT_EQ(parse_row_schedule(k.op, print_schedule(s)), s);
    EXPECT_EQ(parse_row_schedule(k.op, as_contract_value(print_schedule(s))), s);
  }
  for (const char* text : {"exp=best", "root=inverse", "squares.lanes=2", "sum.lanes=0", "quotient",
                           "exp=libm exp=libm", "sum.acc=hopper_bf16"})
    EXPECT_THROW(static_cast<void>(parse_row_schedule("softmax", text)), InputError) << text;
}

}  // namespace
}  // namespace assay
