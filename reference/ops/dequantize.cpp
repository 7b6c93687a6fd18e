// dequantize: y[r,i] = the number that x's bytes stand for
// x[rows,cols] in format `from` -> y[rows,cols] dtype.
//
// Domain. Every code; scales as decode_tensor takes them (a separate f32 scale that is negative, NaN or
// infinite is refused). NaN codes give NaN, infinite ones that infinity.
//
// Limit. The decoded number w is exact in f64 (nvfp4, tq3_0: within 2^-53). A kernel rounds `roundings` = k times in
// `mid` on the way from code and scale to the number it stores.
//   k = 0  (or a scalar format) nothing is rounded before the store
//   k = 1  one correctly rounded product or quotient of exact numbers: the nearest `mid` number to w, which is known
//   k > 1  [w (1 - gamma_k), w (1 + gamma_k)], u of mid (multiplication by a rounded reciprocal: 2)
// scale_format=f16|bf16: an f32 scale of a scaled format is rounded to that before it multiplies, and w becomes
// code * rd(scale), as exact as w was; the value stays w. Rounding the scale before, or the product after: both are said.
// Formats with an additive minimum (q4_1, q5_1): code * scale is exact in f32 (16 bits), so k = 1 there too; a
// narrower mid rounds before it cancels and is refused.
// Then the store: limit 0 wherever no rounding boundary lies in between.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "reference/error.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {
namespace {

constexpr std::array kAttributes = {
    AttributeSpec{"rows", AttributeKind::integer, "", "1..1048576", "rows"},
    AttributeSpec{"cols", AttributeKind::integer, "", "1..16777216", "a multiple of the format's block"},
    AttributeSpec{"from", AttributeKind::format, "", "", "format of x"},
    AttributeSpec{"dtype", AttributeKind::format, "f32", "f32|f16|bf16", "of y"},
};

constexpr auto kContract = with_store_keys(std::array{
    ContractKey{"scale_format", ContractValue::word, "f32", "f32|f16|bf16",
                "an f32 scale is rounded to this before it multiplies"},
    ContractKey{"mid", ContractValue::accumulator, "f32", "", "the type of code times scale"},
    ContractKey{"roundings", ContractValue::number, "1", "",
                "in mid, from code and scale to the number stored"},
});

constexpr EncodePolicy kIeee{.overflow = Overflow::ieee};

std::vector<TensorSpec> tensors(const Attributes& a) {
  const std::int64_t rows = a.integer("rows"), cols = a.integer("cols");
  planes(format(a.text("from")), {rows, cols});
  return {{"x", TensorRole::data, a.text("from"), {rows, cols}},
          {"y", TensorRole::output, a.text("dtype"), {rows, cols}}};
}

// The numbers that codes stand for under scales rounded to `narrow`.
std::vector<double> under_narrow_scales(Encoded tensor, const ScalarFormat& narrow) {
  std::vector<std::byte>& scales = tensor.planes.at(1).bytes;
  for (std::size_t at = 0; at < scales.size(); at += sizeof(float)) {
    float scale;
    std::memcpy(&scale, scales.data() + at, sizeof scale);
    const auto rounded = static_cast<float>(round_to(narrow, scale, kIeee));
    if (!std::isfinite(rounded))
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("scale_format={}: a scale of {} is beyond it", narrow.name, scale));
    std::memcpy(scales.data() + at, &rounded, sizeof rounded);
  }
  return decode_tensor(tensor);
}

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(tensors(a), set);
  const Format& from = format(a.text("from"));
  const std::string_view mid_name = contract.text("mid");
  const bool additive = from.name == "q4_1" || from.name == "q5_1";
  if (additive && mid_name != "f32" && mid_name != "f64")
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("mid={} with {}: scale * code + minimum would round before it cancels; allowed is f32",
                    mid_name, from.name));
  const Machine mid = machine(mid_name, contract.text("ftz") == "yes");
  const double roundings = from.kind == FormatKind::scalar ? 0 : contract.number("roundings");
  const Store store = store_of(contract, a.text("dtype"));
  const std::vector<double> x = in.values("x");
  const std::string_view scale_format = contract.text("scale_format");
  const std::vector<double> w = scale_format == "f32" || from.kind != FormatKind::scaled
                                    ? x
                                    : under_narrow_scales(in.tensor("x"), scalar_format(scale_format));
  Truth t =
      make_truth("y", x.size(), "reference/ops/dequantize: roundings of code times scale, and of the store");
  const double own = from.decode_relative_error * 2;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) {
      set_special(t, i, x[i], store);
      continue;
    }
    Enclosure z{w[i], own * std::fabs(w[i])};
    if (roundings == 1 && mid_name != "f64" && !store.flush) {
      const ScalarFormat& to = scalar_format(mid_name);
      const double low = round_to(to, w[i] * (1 - own), kIeee), high = round_to(to, w[i] * (1 + own), kIeee);
      z = low == high ? Enclosure{low, 0}
                      : Enclosure{w[i], up(std::max(std::fabs(low - w[i]), std::fabs(high - w[i])))};
    } else if (roundings > 0) {
      z = rounded(z, mid, roundings);
    }
    if (store.flush) z.error = up(z.error + read(w[i], mid).error);
    set_truth_around(t, i, x[i], own * std::fabs(x[i]), z, store);
  }
  return {std::move(t)};
}

}  // namespace

extern const Op kDequantize;
const Op kDequantize = {
    .name = "dequantize",
    .formula = "y = the number that x's code and scale stand for",
    .signature =
        "x[rows,cols] from\n"
        "-> y[rows,cols] dtype",
    .example = "rows=4 cols=64 from=q8_0",
    .attributes = kAttributes,
    .contract = kContract,
    .tensors = tensors,
    .indices = nullptr,
    .truth = truth,
};

}  // namespace assay
