// dequantize: y[r,i] = the number that x's bytes stand for
// x[rows,cols] in format `from` -> y[rows,cols] dtype.
//
// Domain. Every code; scales as decode_tensor takes them (a separate f32 scale that is negative, NaN or
// infinite is refused). NaN codes give NaN, infinite ones that infinity.
//
// Limit. The decoded number w is exact in f64 (nvfp4, tq3_0: within 2^-53). A kernel rounds `roundings` = k
// times in `mid` on the way from code and scale to the number it stores.
//   k = 0  (or a scalar format) nothing is rounded before the store
//   k = 1  one correctly rounded product, quotient or difference of exact numbers: the nearest `mid` number
//          to w
//   k > 1  in any order: w - e to w + e, e = gamma_k of what is added, and what underflows times the other
//          factors (multiplication by a rounded reciprocal: 2; d sc q - dmin m: 4)
// With ftz=yes a stored scale below the smallest normal number of `mid` is read as 0. decoding.hpp derives
// all of that. scale_format=f16|bf16: an f32 scale of a scaled format is rounded to that before it
// multiplies, and w becomes code * rd(scale), as exact as w was (under ftz=yes 0 too where the scale is below
// that format's smallest normal number); the value stays w. Rounding the scale before, or the product after:
// both are said. Formats with a minimum (q4_1, q5_1, q2_K, q4_K, q5_K): both products are exact in f32 (24
// bits at most), so k = 1 there too; in a narrower mid they are rounded before they cancel, which k > 1 pays
// for. Then the store: limit 0 wherever no rounding boundary lies in between.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "reference/arithmetic/rule.hpp"
#include "reference/error.hpp"
#include "reference/formats/factors.hpp"
#include "reference/ops/decoding.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ops/signature.hpp"
#include "reference/parallel.hpp"

namespace assay {
extern const Op kDequantize;
namespace {

constexpr std::array kAttributes = {
    KeySpec{"rows", KeyKind::integer, "", "1..1048576", "rows"},
    KeySpec{"cols", KeyKind::integer, "", "1..16777216", "a multiple of the format's block"},
    KeySpec{"from", KeyKind::format, "", "", "format of x"},
    KeySpec{"dtype", KeyKind::format, "f32", "f32|f16|bf16", "of y"},
};

constexpr auto kContract = with_store_keys(std::array{
    KeySpec{"scale_format", KeyKind::word, "f32", "f32|f16|bf16",
            "an f32 scale is rounded to this before it multiplies, both of two"},
    KeySpec{"mid", KeyKind::accumulator, "f32", "", "the type of code times scale, where there is a scale"},
    KeySpec{"roundings", KeyKind::real, "1", kMostRoundings,
            "in mid, from code and scale to the number stored: none, one, or so many at most; an exact "
            "step is none"},
});

constexpr EncodePolicy kIeee{.overflow = Overflow::ieee};

// A plane of f32 scales that multiply: not nvfp4's, by which decoding divides.
bool multiplies(const Plane& plane) {
  return plane.spec.suffix == ".scale" || plane.spec.suffix == ".scale_2";
}
bool has_wide_scales(const Encoded& tensor) {
  return std::ranges::any_of(
      tensor.planes, [](const Plane& plane) { return multiplies(plane) && plane.spec.format == "f32"; });
}

// The tensor with its scales rounded to `narrow`.
Encoded with_narrow_scales(Encoded tensor, const ScalarFormat& narrow) {
  for (Plane& plane : tensor.planes) {
    if (!multiplies(plane) || plane.spec.format != "f32") continue;
    std::vector<std::byte>& scales = plane.bytes;
    for (std::size_t at = 0; at < scales.size(); at += sizeof(float)) {
      float scale;
      std::memcpy(&scale, scales.data() + at, sizeof scale);
      const auto rounded = static_cast<float>(round_to(narrow, scale, kIeee));
      if (!std::isfinite(rounded))
        throw InputError(InputErrorKind::bad_value,
                         fmt::format("scale_format={}: a scale of {} is beyond it", narrow.name, scale));
      std::memcpy(scales.data() + at, &rounded, sizeof rounded);
    }
  }
  return tensor;
}

// A scale that is subnormal in the format that it is rounded to may be 0 there.
void flush_narrow_scales(std::vector<Enclosure>& kernel, const Encoded& stored, const ScalarFormat& narrow) {
  std::vector<Factors> parts(kernel.size());
  factors(stored, 0, parts);
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const double scale = std::min(std::fabs(parts[i].scale), std::fabs(parts[i].second));
    Enclosure& z = kernel[i];
    if (!(std::fabs(scale) < smallest_normal(narrow)) || !(z.error < kInfinity) || std::isnan(z.value))
      continue;
    if (std::isinf(z.value)) {
      z.error = kInfinity;
      continue;
    }
    const double low = std::min(0.0, z.value - z.error), high = std::max(0.0, z.value + z.error);
    if (rule(Rule::decode_flush, 1) > 0) z = {low / 2 + high / 2, up(high / 2 - low / 2)};
  }
}

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(kDequantize.tensors(a), set);
  const Format& from = format(a.text("from"));
  const std::string_view mid_name = contract.text("mid");
  const double roundings = from.kind == FormatKind::scalar ? 0 : contract.number("roundings");
  const Store store = store_of(contract, a.text("dtype"));
  const std::vector<double> x = in.values("x");
  const std::string_view scale_format = contract.text("scale_format");
  const bool narrow = scale_format != "f32" && has_wide_scales(in.tensor("x"));
  const Encoded& stored = in.tensor("x");
  const Encoded read = narrow ? with_narrow_scales(stored, scalar_format(scale_format)) : stored;
  const std::vector<double> w = narrow ? decode_tensor(read) : x;
  std::vector<Enclosure> kernel = Decoding(read, mid_name, roundings, store.flush)(0, w);
  if (narrow && store.flush) flush_narrow_scales(kernel, stored, scalar_format(scale_format));
  Truth t =
      make_truth("y", x.size(), "reference/ops/dequantize: roundings of code times scale, and of the store");
  const double own = from.decode_relative_error * 2;
  parallel_rows(x.size(), 1, [&](std::size_t i) {
    if (!std::isfinite(x[i])) {
      // An infinite code times a scale that is rounded or flushed to 0 is NaN.
      const bool vanishes = std::isinf(x[i]) && (!std::isinf(w[i]) || !(kernel[i].error < kInfinity));
      vanishes ? set_unclaimed(t, i) : set_special(t, i, x[i], store);
      return;
    }
    const bool once = roundings == 1 && mid_name != "f64" && kernel[i].error < kInfinity;
    const Enclosure z = once ? decided(kernel[i], scalar_format(mid_name), store.flush) : kernel[i];
    set_truth_around(t, i, x[i], own * std::fabs(x[i]), z, store);
  });
  return alone(std::move(t));
}

}  // namespace

const Op kDequantize = {
    .name = "dequantize",
    .formula = "y = the number that x's code and scale stand for",
    .signature =
        "x[rows,cols] from\n"
        "-> y[rows,cols] dtype",
    .example = "rows=4 cols=64 from=q8_0",
    .attributes = kAttributes,
    .contract = kContract,
    .tensors = tensors_of<kDequantize>,
    .indices = nullptr,
    .truth = truth,
};

}  // namespace assay
