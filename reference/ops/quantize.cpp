// quantize: y = x in format `to`, scales computed from x by the format's own rule.
// x[rows,cols] dtype -> y[rows,cols] to (codes and scales; judged as the decoded numbers).
//
// Domain. Every real x; NaN and Inf as admissible.hpp says. An all-zero group stores the scale 1 (scaled
// formats) or what its block file says.
//
// Limit: admissible.hpp. 0 where the declared arithmetic decides the code and the scale; one step where a
// quotient lies so near a rounding boundary that division and multiplication by a reciprocal may part.
#include <array>

#include "reference/formats/block.hpp"
#include "reference/ops/admissible.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ops/signature.hpp"

namespace assay {
extern const Op kQuantize;
namespace {

constexpr std::array kAttributes = {
    KeySpec{"rows", KeyKind::integer, "", "1..1048576", "rows"},
    KeySpec{"cols", KeyKind::integer, "", "1..16777216", "a multiple of the format's block"},
    KeySpec{"to", KeyKind::format, "", "", "format of y"},
    KeySpec{"dtype", KeyKind::format, "f32", "f32|f16|bf16", "of x"},
};

void check(const Attributes& a) { check_quantiser(format(a.text("to")), "quantize"); }

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(kQuantize.tensors(a), set);
  const std::vector<double> decoded = in.values("x");
  const std::vector<float> x(decoded.begin(), decoded.end());
  Truth t = make_truth("y", x.size(),
                       "reference/ops/quantize: codes and scales that the declared arithmetic admits");
  admit_quantised(t, format(a.text("to")), in.tensor("x").shape, x, contract);
  return alone(std::move(t));
}

}  // namespace

const Op kQuantize = {
    .name = "quantize",
    .formula = "y = round(x / scale) scale, scale by the format's rule",
    .signature =
        "x[rows,cols] dtype\n"
        "-> y[rows,cols] to",
    .example = "rows=4 cols=64 to=q8_0",
    .attributes = kAttributes,
    .contract = kQuantiseKeys,
    .tensors = tensors_of<kQuantize, check>,
    .indices = nullptr,
    .truth = truth,
};

}  // namespace assay
