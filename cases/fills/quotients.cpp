// Data whose quotients by their own scale lie on the boundaries between codes: the one place where x / s and
// x * (1 / s) part. Random data have none of them.
#include <cmath>

#include "cases/fills/families.hpp"
#include "reference/inputs/random.hpp"

namespace assay::fill_families {

// Each row begins with its absmax A in [1, 2); the others are fl((code + 1/2) s), s = fl(A / D), D the divisor of the
// output's format (127 for int8). Rows of formats with one scale for several rows share the first row's A.
void quotient_ties(const FillRequest& r, Values& values) {
  double divisor = 127;
  bool by_row = true;
  for (const auto& t : r.tensors)
    if (t.role == TensorRole::output && format(t.format).kind == FormatKind::scaled) {
      divisor = format(t.format).scale_divisor;
      by_row = format(t.format).axis == ScaleAxis::token || format(t.format).axis == ScaleAxis::row;
    }
  for (const auto& t : r.tensors) {
    if (t.role != TensorRole::data) continue;
    const Stream stream(r.seed, t.name);
    const auto columns = static_cast<std::size_t>(t.shape.back());
    auto& out = values[t.name];
    out.resize(static_cast<std::size_t>(element_count(t.shape)));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto largest =
          static_cast<float>(1 + stream.uniform(by_row ? ~(i / columns) : ~std::uint64_t{0}));
      const float scale = largest / static_cast<float>(divisor);
      const auto half_codes = static_cast<std::uint64_t>(2 * divisor - 1);
      const double code = static_cast<double>(stream.below(i, half_codes)) - (divisor - 1) - 0.5;
      out[i] = i % columns == 0 ? largest : static_cast<float>((code + (code < 0 ? 1 : 0)) * scale);
    }
  }
}

}  // namespace assay::fill_families
