// requantize: y = the numbers of x, quantised again in format `to`.
// x[rows,cols] from -> y[rows,cols] to. The progressive chain of W4A8 is e4m3fn_tensor -> int4_ch; NVFP4
// without FP4 hardware is nvfp4 -> e4m3fn_tensor. scale=absmax: by the rule of `to`; scale=one: every scale
// is 1, so that numbers beyond the largest code are clamped there (448), which is what the NVFP4 path does
// with its weights.
//
// Domain. Every code of `from`; a scale of x that is negative, NaN or infinite is refused (bad_scale).
//
// Limit. A kernel decodes x in f32 with `roundings` = k roundings. k <= 1: the nearest f32 of the decoded
// number, which is known, and then admissible.hpp. k > 1: each decoded number is somewhere in its own
// enclosure (decoding.hpp), and what may be made of numbers between such ends is admitted: absmax and an
// element need not be off alike.
#include <array>
#include <cmath>

#include "reference/error.hpp"
#include "reference/formats/block.hpp"
#include "reference/ops/admissible.hpp"
#include "reference/ops/decoding.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ops/signature.hpp"

namespace assay {
extern const Op kRequantize;
namespace {

constexpr std::array kAttributes = {
    KeySpec{"rows", KeyKind::integer, "", "1..1048576", "rows"},
    KeySpec{"cols", KeyKind::integer, "", "1..16777216", "a multiple of both formats' blocks"},
    KeySpec{"from", KeyKind::format, "", "", "format of x"},
    KeySpec{"to", KeyKind::format, "", "", "format of y"},
    KeySpec{"scale", KeyKind::word, "absmax", "absmax|one", "how the scales of y are chosen"},
};

constexpr auto kContract =
    joined(kQuantiseKeys,
           std::array{KeySpec{
               "roundings", KeyKind::real, "1", kMostRoundings,
               "f32 roundings while x is decoded, the last to the f32 that is quantised: 0 is as 1"}});

void check(const Attributes& a) {
  const Shape shape{a.integer("rows"), a.integer("cols")};
  const Format& to = format(a.text("to"));
  planes(format(a.text("from")), shape);
  check_quantiser(to, "requantize");
  planes(to, shape);
  if (a.text("scale") == "one" && to.kind != FormatKind::scaled)
    throw InputError(InputErrorKind::bad_value, "scale=one needs a scaled format, not " + a.text("to"));
}

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(kRequantize.tensors(a), set);
  const Format& to = format(a.text("to"));
  const Shape& shape = in.tensor("x").shape;
  const std::vector<double> decoded = in.values("x");
  const bool ones = a.text("scale") == "one";
  Truth t = make_truth("y", decoded.size(),
                       "reference/ops/requantize: codes and scales that the declared arithmetic admits");
  const double roundings = contract.number("roundings");
  if (roundings > 1 && format(a.text("from")).kind != FormatKind::scalar) {
    const std::vector<Enclosure> kernel = Decoding(in.tensor("x"), "f32", roundings, false)(0, decoded);
    admit_quantised_between(t, to, shape, kernel, ones, contract);
    return alone(std::move(t));
  }
  const std::vector<float> x(decoded.begin(), decoded.end());
  if (ones) {
    const std::vector<std::vector<AdmissibleScale>> scales(group_absmax(to, shape, x).size(), {kUnitScale});
    admit_quantised_with_scales(t, to, shape, x, scales, contract);
  } else {
    admit_quantised(t, to, shape, x, contract);
  }
  return alone(std::move(t));
}

}  // namespace

const Op kRequantize = {
    .name = "requantize",
    .formula = "y = round(x / scale) scale for x decoded from another format",
    .signature =
        "x[rows,cols] from\n"
        "-> y[rows,cols] to",
    .example = "rows=4 cols=64 from=q8_0 to=e4m3fn_tok",
    .attributes = kAttributes,
    .contract = kContract,
    .tensors = tensors_of<kRequantize, check>,
    .indices = nullptr,
    .truth = truth,
};

}  // namespace assay
