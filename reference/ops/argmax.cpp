// argmax: y[r] = the index of the largest x[r,:], by the loop that kernels run:
//   best = 0; for i: if (x[i] > x[best]) best = i
// so the first of equal maxima wins, a NaN never replaces anything, and a NaN at index 0 is never replaced: a
// row of NaN logits gives 0, the token "!" of GPT-2's vocabulary. That is nan=loses; nan=wins is a kernel to
// which a NaN is the maximum, as to PyTorch's argmax: the index of the first. checked=yes reports the first
// NaN at i as -(i + 1) instead. x[rows,cols] dtype -> y[rows] int32. Every input is in the domain. Exact:
// limit 0.
#include <array>
#include <cmath>

#include "reference/ops/op.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ops/signature.hpp"
#include "reference/parallel.hpp"

namespace assay {
extern const Op kArgmax;
namespace {

constexpr std::array kAttributes = {
    KeySpec{"rows", KeyKind::integer, "", "1..1048576", "independent rows"},
    KeySpec{"cols", KeyKind::integer, "", "1..16777216", "candidates of a row"},
    KeySpec{"dtype", KeyKind::format, "f32", "f32|f16|bf16", "of x"},
    KeySpec{"checked", KeyKind::word, "no", "no|yes", "report a NaN as -(index + 1)"},
};

constexpr std::array kContract = {
    KeySpec{"nan", KeyKind::word, "loses", "loses|wins",
            "loses: a loop of > from element 0 on; wins: a row with a NaN gives the first one's index; "
            "of checked=no"},
};

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(kArgmax.tensors(a), set);
  const std::int64_t rows = a.integer("rows"), cols = a.integer("cols");
  const bool checked = a.text("checked") == "yes", wins = contract.text("nan") == "wins";
  const std::vector<double> x = in.values("x");
  Truth t = make_truth("y", static_cast<std::size_t>(rows), "reference/ops/argmax: an index, exact");
  const auto of_row = [&](std::int64_t r) {
    const double* row = x.data() + r * cols;
    std::int64_t best = 0, first_nan = -1;
    for (std::int64_t i = 0; i < cols; ++i) {
      if (row[i] > row[best]) best = i;
      if (std::isnan(row[i]) && first_nan < 0) first_nan = i;
    }
    if (wins && first_nan >= 0) best = first_nan;
    set_special(t, r, static_cast<double>(checked && first_nan >= 0 ? -(first_nan + 1) : best));
  };
  parallel_rows(static_cast<std::size_t>(rows), static_cast<std::size_t>(cols), of_row);
  return alone(std::move(t));
}

}  // namespace

const Op kArgmax = {
    .name = "argmax",
    .formula = "y[r] = first i with x[r,i] >= x[r,j] for all j, by a loop of >",
    .signature =
        "x[rows,cols] dtype\n"
        "-> y[rows] int32",
    .example = "rows=4 cols=33",
    .attributes = kAttributes,
    .contract = kContract,
    .tensors = tensors_of<kArgmax>,
    .indices = nullptr,
    .truth = truth,
};

}  // namespace assay
