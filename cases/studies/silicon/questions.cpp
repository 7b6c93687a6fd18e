// Experiments written by hand.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "cases/studies/silicon/vectors.hpp"

namespace assay::silicon {
namespace {

class Questions {
 public:
  explicit Questions(const Instruction& how) : how_(&how) {}
  void ask(const std::vector<float>& a, const std::vector<float>& b, float c, std::string what) {
    all.push_back(make_vector(*how_, a, b, c, std::move(what)));
  }
  std::vector<Vector> all;

 private:
  const Instruction* how_;
};

void ask_zeros_and_specials(Questions& q) {
  const float inf = std::numeric_limits<float>::infinity();
  q.ask({}, {}, -0.0f, "c = -0, products +0");
  q.ask({-0.0f}, {1}, -0.0f, "c = -0, a product -0");
  q.ask({1, -1}, {1, 1}, 0, "1 - 1");
  q.ask({1}, {1}, -1, "c = -1, product 1");
  q.ask({}, {}, inf, "c = Inf");
  q.ask({1}, {1}, -inf, "c = -Inf");
  q.ask({}, {}, std::numeric_limits<float>::quiet_NaN(), "c = NaN");
}

// Is an f32 accumulator cut as the products are?
void ask_f32_accumulator(Questions& q) {
  q.ask({}, {}, 1 + 0x1p-20f, "c = 1 + 2^-20, products 0");
  q.ask({}, {}, 1 + 0x1p-13f, "c = 1 + 2^-13, products 0");
  q.ask({}, {}, -1 - 0x1.cp-13f, "c = -1 - 1.75 * 2^-13, products 0");
  q.ask({1, -1}, {1, 1}, 1 + 0x1p-20f, "c = 1 + 2^-20, products 1 and -1");
  q.ask({0x1p-3f}, {0x1p-3f}, 1 + 0x1p-20f, "c = 1 + 2^-20, product 2^-6");
  q.ask({}, {}, 0x1p-149f, "c = 2^-149, products 0");
  q.ask({}, {}, -0x1p-149f, "c = -2^-149, products 0");
  q.ask({}, {}, 0x1.fffffep-127f, "c = a dense subnormal, products 0");
  q.ask({}, {}, 0x1.fffffep+127f, "c = the largest f32, products 0");
  q.ask({1}, {1}, 0x1.fffffep+127f, "c = the largest f32, product 1");
}

void ask_f16_accumulator(Questions& q) {
  q.ask({}, {}, 65504, "c = the largest f16, products 0");
  q.ask({4}, {4}, 65504, "c = the largest f16, product 16: a tie with Inf");
  q.ask({4}, {3.5}, 65504, "c = the largest f16, product 14");
  q.ask({}, {}, 0x1p-24f, "c = 2^-24, products 0");
  q.ask({}, {}, -0x1p-24f, "c = -2^-24, products 0");
}

// Products far below the normal numbers of f32, and beyond its range.
void ask_wide_products(Questions& q) {
  const std::vector<float> tiny(8, 0x1p-76f);
  q.ask(tiny, tiny, 0, "c = 0, eight products 2^-152");
  q.ask({0x1p-76f}, {0x1p-75f}, 0, "c = 0, one product 2^-151");
  q.ask({0x1p-74f}, {0x1p-75f}, 0, "c = 0, one product 2^-149");
  q.ask({-0x1p-75f}, {0x1p-75f}, 0, "c = 0, one product -2^-150");
  q.ask({-0x1p-76f}, {0x1p-76f}, 0x1p-149f, "c = 2^-149, one product -2^-152");
  q.ask({0x1p-133f}, {0x1p+20f}, 0, "a subnormal operand");
  q.ask({0x1p+100f, 0x1p+100f}, {0x1p+100f, -0x1p+100f}, 0, "2^200 - 2^200");
  q.ask({0x1p+100f, 0x1p+100f, 1}, {0x1p+100f, -0x1p+100f, 1}, 0, "2^200 - 2^200 + 1");
  q.ask({0x1p+64f, 0x1p+64f}, {0x1p+64f, -0x1p+63f}, 0, "2^128 - 2^127");
  q.ask({0x1p+64f}, {0x1p+64f}, -0x1p+127f, "c = -2^127, product 2^128");
  // What stays of a term far below, when no normal number sets M.
  for (int j = 1; j <= 27; ++j) {
    q.ask({0x1p-75f, -0x1p-75f}, {0x1p-74f, std::ldexp(0x1p-74f, -j)}, 0,
          fmt::format("2^-149 - 2^-{}", 149 + j));
  }
  const std::vector<float> slivers = {0x1p-75f, -0x1p-87f, -0x1p-87f, -0x1p-87f, -0x1p-87f};
  q.ask(slivers, std::vector<float>(5, 0x1p-74f), 0, "2^-149 - 4 * 2^-161");
}

// The same below f16's: a sliver decides a tie if it is not cut.
void ask_f16_slivers(Questions& q) {
  q.ask({0x1p-12f}, {0x1p-13f}, 0, "2^-25");
  q.ask({0x1p-12f, 0x1p-23f}, {0x1p-13f, 0x1p-24f}, 0, "2^-25 + 2^-47");
  q.ask({0x1p-12f, 0x1p-23f}, {-0x1p-13f, -0x1p-24f}, 0, "-2^-25 - 2^-47");
  q.ask({-0x1p-23f}, {0x1p-24f}, 0, "-2^-47");
  for (int j = 36; j <= 48; ++j) {
    const float rest = std::ldexp(0x1p+24f, -j);
    q.ask({0x1p-12f, 0x1p-24f}, {0x1p-13f, rest}, 0, fmt::format("2^-25 + 2^-{}", j));
    q.ask({0x1p-12f, 0x1p-24f}, {0x1p-13f, rest}, 0x1p-14f, fmt::format("c = 2^-14, 2^-25 + 2^-{}", j));
    q.ask({0x1p-12f, 0x1p-24f}, {0x1p-13f, rest}, 0x1p-24f, fmt::format("c = 2^-24, 2^-25 + 2^-{}", j));
    q.ask({0x1p-7f, 0x1p-12f, 0x1p-24f}, {0x1p-7f, 0x1p-13f, rest}, 0,
          fmt::format("2^-14 + 2^-25 + 2^-{}", j));
    q.ask({0x1p-12f, 0x1p-12f, 0x1p-24f}, {0x1p-8f, 0x1p-13f, rest}, 0,
          fmt::format("2^-20 + 2^-25 + 2^-{}", j));
  }
  const std::vector<float> slivers = {0x1p-12f, 0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f};
  q.ask(slivers, {0x1p-13f, 0x1p-23f, 0x1p-23f, 0x1p-23f, 0x1p-23f}, 0, "2^-25 + 4 * 2^-47");
}

}  // namespace

std::vector<Vector> questions(const Instruction& how) {
  Questions q(how);
  const bool f16 = how.out == "f16";
  ask_zeros_and_specials(q);
  if (f16) ask_f16_accumulator(q);
  if (!f16) ask_f32_accumulator(q);
  if (how.a_format == "bf16" || how.a_format == "tf32") ask_wide_products(q);
  if (f16 && how.a_format == "f16") ask_f16_slivers(q);
  if (how.depth == 32) {
    q.ask({0x1p-6f, 1}, {0x1p-7f, 1}, 0, "1 + 2^-13");
    q.ask({0x1p-6f, 0x1p-6f, 1}, {0x1p-8f, 0x1p-8f, 1}, 0, "1 + 2^-14 + 2^-14");
  }
  for (Vector& v : q.all)
    v.d = accumulator_code(how, static_cast<float>(model_result(v, matrix_unit(how.unit))));
  return std::move(q.all);
}

std::vector<Vector> questions() {
  std::vector<Vector> all;
  for (const Instruction& how : instructions()) {
    if (how.a_format != how.b_format) continue;  // mixed FP8: the same hardware
    for (Vector& v : questions(how)) all.push_back(std::move(v));
  }
  return all;
}

}  // namespace assay::silicon
