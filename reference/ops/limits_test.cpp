// Limits neither narrow nor widen unnoticed: of each case a fingerprint of its values and limits. Soundness
// is the matter of the other tests; who changes a bound on purpose changes the numbers here (the failing test
// prints them).
#include "reference/ops/op_testing.hpp"

namespace assay::testing {
namespace {

struct Pinned {
  std::string_view op;
  std::map<std::string, std::string> attributes;
  std::string_view contract;
  double scale;   // of the inputs
  bool specials;  // a NaN and an infinity among them
  double values, limits;
};

// sum of |x| over finite x, each with a weight of its own place; what is not finite counts by its kind.
double fingerprint(const std::vector<double>& x) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double weight = 1 + static_cast<double>(i % 7) / 8;
    sum += weight * (std::isnan(x[i]) ? 1000 : std::isinf(x[i]) ? (x[i] > 0 ? 2000 : 3000) : std::fabs(x[i]));
  }
  return sum;
}

const std::vector<Pinned>& pinned() {
  static const std::vector<Pinned> list = {
#include "reference/ops/limits.inc"
  };
  return list;
}

TEST(Limits, stay_as_they_were_pinned) {
  std::size_t number = 0;
  for (const Pinned& p : pinned()) {
    OpCase c(p.op, p.attributes);
    std::minstd_rand random(5);
    for (const TensorSpec& t : c.op_row->tensors(c.attributes)) {
      if (t.role != TensorRole::data) continue;
      Values x(static_cast<std::size_t>(element_count(t.shape)));
      for (float& v : x)
        v = static_cast<float>(p.scale * (static_cast<double>(random() % 2001) - 1000) / 500);
      if (p.specials && x.size() > 40) x[3] = NAN, x[x.size() / 2] = INFINITY, x[x.size() - 2] = -INFINITY;
      c.put(t.name, x);
    }
    const Truth t = c.truth(p.contract);
    const double values = fingerprint(t.value), limits = fingerprint(t.limit);
    // Fewer than 2^20 roundings and calls of libm stand behind a fingerprint, and libm's last bits differ by
    // machine.
    EXPECT_TRUE(std::fabs(values - p.values) <= error_of_doubles(0x1p20, values) &&
                std::fabs(limits - p.limits) <= error_of_doubles(0x1p20, limits))
        << "case " << number << ": " << ::testing::PrintToString(std::pair(values, limits)) << " | " << [&] {
             char text[80];
             std::snprintf(text, sizeof text, "%.17g, %.17g", values, limits);
             return std::string(text);
           }();
    ++number;
  }
}

}  // namespace
}  // namespace assay::testing
