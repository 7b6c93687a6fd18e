// The limits of matmul and moe attacked: every order that a contract admits and some of the worst, units as
// they are and with their products permuted, undecided operands chosen against the bound, scales applied in
// every order, overflow on the way. No correct kernel may be accused.
#include <cstdlib>
#include <cstring>

#include "reference/arithmetic/fused_gemm.hpp"
#include "reference/ops/dot.hpp"
#include "reference/ops/moe_testing.hpp"

namespace assay::testing {
namespace {

struct Tally {
  std::size_t outputs = 0;
  double worst = 0;  // error / limit
  void print() const { std::printf("  %zu outputs, worst error / limit %.3f\n", outputs, worst); }
  void expect_pass(const Truth& truth, const Values& got, const std::string& what) {
    const Judgement j = judge(truth, got);
    ASSERT_EQ(j.bad, 0U) << what << ' ' << j.first;
    outputs += got.size();
    worst = std::max(worst, j.worst);
  }
};

constexpr std::size_t kRows = 8, kColumns = 24, kDepth = 96;

struct Product {
  OpCase c;
  Values a, b;
  Product(const std::string& format_a, const std::string& format_b, Values x, Values y,
          const std::string& path = "auto")
      : c("matmul", {{"m", "8"},
                     {"n", "24"},
                     {"k", "96"},
                     {"a", format_a},
                     {"b", format_b},
                     {"dtype", "f32"},
                     {"path", path}}) {
    a = c.put("a", x), b = c.put("b", y);
  }
};

// Inputs on which sums go wrong: cancellation, one large term among many small, all of one sign, terms at the
// last bit.
Values hard(int kind, std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Values x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const float g = normal(random);
    switch (kind) {
      case 0:
        x[i] = g;
        break;
      case 1:
        x[i] = std::fabs(g) + 0.5F;
        break;
      case 2:
        x[i] = i % 2 == 0 ? 8 + g : -8 - g;
        break;
      case 3:
        x[i] = i % kDepth == 17 ? 200.0F : std::ldexp(1 + std::fabs(g) / 8, -9);
        break;
      case 4:
        x[i] = std::ldexp(g, static_cast<int>(random() % 13) - 6);
        break;
      default:
        x[i] = std::ldexp(1.0F, -static_cast<int>(i % kDepth) / 8) * (1 + std::ldexp(1.0F, -3));
        break;
    }
  }
  return x;
}
constexpr int kKinds = 6;

// One output of a scalar kernel: fused or not, in the order of `how`.
float sum_of(const Arithmetic& rd, const float* a, const float* b, const std::string& how, bool fused,
             std::mt19937_64& random) {
  std::vector<std::size_t> at(kDepth);
  for (std::size_t i = 0; i < kDepth; ++i) at[i] = i;
  if (how == "any") std::shuffle(at.begin(), at.end(), random);
  if (how == "ascending")  // small products first or last are the extremes of a running sum
    std::sort(at.begin(), at.end(),
              [&](auto i, auto j) { return std::fabs(a[i] * b[i]) < std::fabs(a[j] * b[j]); });
  const auto chain = [&](std::size_t first, std::size_t step, std::size_t last) {
    float s = 0;
    for (std::size_t i = first; i < last; i += step) {
      const double p = double(a[at[i]]) * b[at[i]];
      s = rd(double(s) + (fused ? p : double(rd(p))));
    }
    return s;
  };
  const auto tree = [&](Values t) {
    for (; t.size() > 1;) {
      Values next;
      for (std::size_t i = 0; i < t.size(); i += 2)
        next.push_back(i + 1 < t.size() ? rd(double(t[i]) + t[i + 1]) : t[i]);
      t = next;
    }
    return t[0];
  };
  if (how == "lanes:8" || how == "blocks:16" || how == "tree") {
    const std::size_t parts = how == "lanes:8" ? 8 : how == "tree" ? kDepth : kDepth / 16;
    Values sums;
    for (std::size_t p = 0; p < parts; ++p)
      sums.push_back(how == "lanes:8" ? chain(p, 8, kDepth)
                                      : chain(p * (kDepth / parts), 1, (p + 1) * (kDepth / parts)));
    return how == "blocks:16" ? sum_in(rd, sums, "sequential") : tree(sums);
  }
  return chain(0, 1, kDepth);
}

TEST(GemmAttack, no_scalar_kernel_of_a_declared_order_is_accused_in_a_million_outputs) {
  Tally tally;
  std::mt19937_64 random(1);
  for (const char* format : {"f32", "bf16", "f16", "e4m3fn"})
    for (const char* acc : {"f32", "f16", "bf16"})
      for (int kind = 0; kind < kKinds; ++kind)
        for (const auto& [declared, how] : {std::pair<std::string, std::string>{"any", "any"},
                                            {"any", "ascending"},
                                            {"sequential", "sequential"},
                                            {"lanes:8", "lanes:8"},
                                            {"blocks:16", "blocks:16"},
                                            {"tree", "tree"},
                                            {"depth:20", "lanes:8"}}) {
          const Product p(format, format, hard(kind, kRows * kDepth, random()),
                          hard(kind, kColumns * kDepth, random()));
          const Truth truth = p.c.truth(std::string("acc=") + acc + " order=" + declared);
          const int repeats = how == "any" ? 64 : 2;
          for (int r = 0; r < repeats; ++r) {
            Values y;
            for (std::size_t i = 0; i < kRows; ++i)
              for (std::size_t j = 0; j < kColumns; ++j)
                y.push_back(sum_of({acc}, &p.a[i * kDepth], &p.b[j * kDepth], how, r % 2 == 0, random));
            tally.expect_pass(
                truth, y,
                std::string(format) + ' ' + acc + ' ' + declared + ' ' + how + std::to_string(kind));
          }
        }
  tally.print();
}

TEST(GemmAttack, no_unit_is_accused_permuted_under_any_or_as_it_is_under_sequential) {
  Tally tally;
  std::mt19937_64 random(2);
  for (const MatrixUnit& unit : matrix_units()) {
    if (unit.combine == Combine::wrap || !unit.scales.empty()) continue;
    const std::string format(unit.inputs.substr(0, unit.inputs.find(' ')));
    if (format == "tf32") continue;
    for (int kind = 0; kind < kKinds; ++kind)
      for (const int promote : {0, 1, 2}) {
        const Product p(format, format, hard(kind, kRows * kDepth, random()),
                        hard(kind, kColumns * kDepth, random()));
        const std::string acc = "acc=" + std::string(unit.name) + " promote=" + std::to_string(promote);
        const Truth any = p.c.truth(acc), sequential = p.c.truth(acc + " order=sequential");
        std::vector<std::size_t> at(kDepth);
        for (std::size_t i = 0; i < kDepth; ++i) at[i] = i;
        for (int r = 0; r < 24; ++r) {
          Values a(p.a.size()), b(p.b.size()), y(kRows * kColumns);
          for (std::size_t i = 0; i < a.size(); ++i) a[i] = p.a[i / kDepth * kDepth + at[i % kDepth]];
          for (std::size_t i = 0; i < b.size(); ++i) b[i] = p.b[i / kDepth * kDepth + at[i % kDepth]];
          const auto pack = [&](PackedOperand::Side side, const Values& x, std::size_t rows) {
            return PackedOperand(unit, side, format, x.data(), static_cast<std::int64_t>(rows), kDepth,
                                 kDepth);
          };
          fused_gemm(unit, pack(PackedOperand::Side::a, a, kRows), pack(PackedOperand::Side::b, b, kColumns),
                     y.data(), kColumns, {promote});
          tally.expect_pass(any, y, acc);
          if (r == 0) tally.expect_pass(sequential, y, acc + " sequential");
          std::shuffle(at.begin(), at.end(), random);
        }
        // Replayed, a unit is known in every bit, and one that is off by its last bit is caught.
        if (unit.standing == Standing::assumed) continue;
        for (const double limit : sequential.limit) ASSERT_TRUE(limit == 0 || limit == kInfinity) << acc;
      }
  }
  tally.print();
}

TEST(GemmAttack, undecided_operands_of_a_replay_are_chosen_freely) {
  Tally tally;
  std::mt19937_64 random(3);
  const MatrixUnit& unit = matrix_unit("hopper_fp8");
  for (int round = 0; round < 300; ++round) {
    // A quotient by the tensor's scale that is half way between two codes: absmax a small multiple of a power
    // of two.
    Values x = hard(0, kRows * kDepth, random());
    for (float& each : x) each = std::clamp(std::round(each * 16) / 16, -3.25F, 3.25F);
    x[5] = 3.25F;
    const Product p("bf16", "e4m3fn", x, hard(4, kColumns * kDepth, random()), "e4m3fn");
    const Truth truth = p.c.truth("acc=hopper_fp8 promote=2 order=sequential epilogue_roundings=1");
    const Operands operands(p.c.set.at("a"), "e4m3fn", Side::activations, 1);
    for (int r = 0; r < 4; ++r) {
      Values a;
      float scale = 1;
      for (std::size_t i = 0; i < kRows; ++i) {
        const OperandRow row = operands.row(static_cast<std::int64_t>(i));
        scale = static_cast<float>(row.scale);
        Values chosen(row.center.begin(), row.center.end());
        for (const Undecided& each : row.undecided)
          chosen[each.index] = static_cast<float>(random() % 2 != 0 ? each.low : each.high);
        a.insert(a.end(), chosen.begin(), chosen.end());
      }
      Values y(kRows * kColumns);
      fused_gemm(unit, PackedOperand(unit, PackedOperand::Side::a, "e4m3fn", a.data(), kRows, kDepth, kDepth),
                 PackedOperand(unit, PackedOperand::Side::b, "e4m3fn", p.b.data(), kColumns, kDepth, kDepth),
                 y.data(), kColumns, {2});
      for (float& each : y) each *= scale;
      tally.expect_pass(truth, y, "undecided");
    }
  }
  tally.print();
}

TEST(GemmAttack, scales_are_applied_in_any_order_down_to_where_one_of_them_underflows) {
  Tally tally;
  std::mt19937_64 random(4);
  for (int exponent = -120; exponent <= 120; exponent += 8)
    for (int other = -120; other <= 120; other += 8) {
      Product p("e4m3fn_tok", "e4m3fn_tok", hard(0, kRows * kDepth, random()),
                hard(0, kColumns * kDepth, random()));
      const auto rescale = [&](const char* tensor, int by) {
        std::vector<std::byte>& bytes = p.c.set.at(tensor).planes[1].bytes;
        Values scales(bytes.size() / sizeof(float));
        for (float& each : scales) each = std::ldexp(1.1F, by);
        std::memcpy(bytes.data(), scales.data(), bytes.size());
      };
      rescale("a", exponent), rescale("b", other);
      const float left = std::ldexp(1.1F, exponent), right = std::ldexp(1.1F, other);
      const Truth truth = p.c.truth("acc=f64 epilogue_roundings=3");
      std::vector<Values> ways(3);
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(kRows); ++i)
        for (std::int64_t j = 0; j < static_cast<std::int64_t>(kColumns); ++j) {
          const OperandRow a = Operands(p.c.set.at("a"), "codes", Side::activations, 1).row(i);
          const OperandRow b = Operands(p.c.set.at("b"), "codes", Side::weights, 1).row(j);
          const auto c = static_cast<float>(dot_sums(a.center.data(), b.center.data(), kDepth).sum);
          ways[0].push_back(c * left * right), ways[1].push_back(c * right * left),
              ways[2].push_back(c * (left * right));
        }
      for (const Values& y : ways) tally.expect_pass(truth, y, "scales");
    }
  tally.print();
}

// silu_ulp=8 is declared: 5 ulp of an extra error, u = 2^-24 being half an ulp, and less than 3 of the
// kernel's own.
constexpr double kSiluError = 10 * 0x1p-24;

// Every size at night, one in three by day.
TEST(GemmAttack, no_mixture_is_accused_in_any_order_way_of_quantising_or_error_of_silu) {
  const int stride = std::getenv("ASSAY_NIGHTLY") != nullptr ? 1 : 3;
  using namespace mixture;
  Tally tally;
  struct Row {
    const char *a, *w, *path, *element, *contract;
    double largest;
  };
  const Row rows[] = {{"f32", "f32", "f32", "", "silu_ulp=8", 0},
                      {"bf16", "bf16", "bf16", "", "silu_ulp=8", 0},
                      {"f16", "f16", "f16", "", "silu_ulp=8", 0},
                      {"int8_tok", "int4_ch", "codes", "int8", "acc=i32 silu_ulp=8", 127},
                      {"e4m3fn_tok", "e4m3fn_tok", "codes", "e4m3fn", "silu_ulp=8", 448}};
  for (const Row& row : rows)
    for (int step = -8; step <= 14; step += stride)
      for (const char* out : {"f32", "bf16"}) {
        const float size = std::ldexp(1.3F, step);
        const Moe m(row.a, row.w, out, size);
        const Truth truth = m.c.truth(row.contract);
        for (const std::string_view order : {"sequential", "tree", "lanes", "reversed"})
          for (const bool reciprocal : {false, true})
            for (const double silu : {-kSiluError, 0.0, kSiluError})
              tally.expect_pass(truth,
                                kernel(m, row.path, row.element, row.largest, out,
                                       {.order = order, .reciprocal = reciprocal, .silu_error = silu}),
                                std::string(row.a) + ' ' + std::to_string(size));
      }
  tally.print();
}

// a = f16, inputs near 60000: g and v are finite in f32 and h is Inf in f16; Inf w2 is Inf or NaN.
TEST(GemmAttack, overflow_on_the_way_claims_nothing_and_a_token_beside_it_is_judged) {
  using namespace mixture;
  Moe m("f16", "f16", "f32");
  Values x = m.x;
  for (std::size_t i = 0; i < kHidden; ++i) x[2 * kHidden + i] = i % 3 == 0 ? -60000.0F : 60000.0F;
  m.x = m.c.put("x", x);
  const Truth truth = m.c.truth("");
  Values y = kernel(m, "f16", "", 0, "f32");
  expect_pass(truth, y);
  std::size_t infinite = 0;
  for (std::size_t i = 0; i < kHidden; ++i) {
    infinite += std::isfinite(y[2 * kHidden + i]) ? 0 : 1;
    EXPECT_EQ(truth.limit[2 * kHidden + i], kInfinity);
    EXPECT_TRUE(std::isfinite(truth.limit[i]) && truth.limit[i] < std::fabs(truth.value[i]) + 0.1);
  }
  EXPECT_GT(infinite, kHidden / 2) << "the case overflows";
  y[3] = NAN;
  expect_caught(truth, y);
}

// A token of zeros quantises with the scale 1 and is 0; one next to it is as always.
TEST(GemmAttack, a_token_of_zeros_is_zero) {
  using namespace mixture;
  for (const char* a : {"int8_tok", "e4m3fn_tok"}) {
    Moe m(a, a, "f32");
    Values x = m.c.read("x");
    std::fill_n(x.begin() + kHidden, kHidden, 0.0F);
    m.c.put("x", x);
    const Truth truth = m.c.truth(std::string(a) == "int8_tok" ? "acc=i32" : "");
    for (std::size_t i = kHidden; i < 2 * kHidden; ++i) {
      EXPECT_EQ(truth.value[i], 0);
      EXPECT_EQ(truth.limit[i], 0);
    }
  }
}

}  // namespace
}  // namespace assay::testing
