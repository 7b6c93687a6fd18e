#include "reference/ops/attention/value/tanh_table.hpp"

#include "reference/real/double_double_functions.hpp"

namespace assay {

const TanhTable& tanh_table() {
  static const TanhTable table = [] {
    TanhTable t{};
    for (int n = 0; n <= kTanhSteps; ++n) {
      const DoubleDouble h = n == 0 ? DoubleDouble{0, 0} : tanh(DoubleDouble{n / 64.0, 0});
      t.high[n] = h.hi;
      t.low[n] = h.lo;
      t.one_minus_square[n] = ((DoubleDouble{1, 0} - h) * (DoubleDouble{1, 0} + h)).hi;
    }
    return t;
  }();
  return table;
}

}  // namespace assay
