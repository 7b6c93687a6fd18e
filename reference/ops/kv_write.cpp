// kv_write: cache[slots[t]] = quantised x[t], the scale chosen by a policy; what a correct policy stores.
// x[tokens,heads,d] dtype, slots[tokens] int32 (a permutation; page > 0: whole pages are permuted), and for
// the policies that look at an earlier request first[tokens,heads,d] dtype -> cache[tokens,heads,d] to.
//
//   policy      scale
//   fixed       1
//   locked      absmax(first) / constant, for ever (constant: 200 for Q and K, 100 for V), the decimal or its
//               f32: 5 / 0.3 and 5 / 0.3f differ in the last bit, and kernels have either
//   calibrated  absmax(first) / D, D the largest code (448, 127): `first` is the calibration set
//   request     absmax(x) / D over the whole request (formats with one scale)
//   head        absmax(x) / D per head (formats *_head)
//   token       absmax(x) / D per token (*_tok; block formats bring their own)
// Codes saturate: beyond D * scale everything becomes D * scale, by definition and not by accident; below, an
// int8 cache ends at -128 or -127, as its contract says (int_range). A locked scale from [-5, 5] with
// constant 200 is 0.025, so 11.2 is the largest number it can store; one from [-50, 50] leaves +-2 with 8 of
// 448.
//
// Domain. Every finite x and first; NaN and Inf as admissible.hpp says. An absmax of 0 gives the scale 1, and
// under a policy that looks at x alone any other as well: every code is 0.
//
// Limit: admissible.hpp, with the policy's admissible scales.
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "reference/error.hpp"
#include "reference/formats/block.hpp"
#include "reference/formats/scaled.hpp"
#include "reference/ops/admissible.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ops/signature.hpp"

namespace assay {
extern const Op kKvWrite;
namespace {

constexpr std::array kAttributes = {
    KeySpec{"tokens", KeyKind::integer, "", "1..1048576", "written by this request"},
    KeySpec{"heads", KeyKind::integer, "", "1..1024", "KV heads"},
    KeySpec{"d", KeyKind::integer, "", "1..65536", "elements of a head"},
    KeySpec{"to", KeyKind::format, "", "", "format of the cache: scaled or block"},
    KeySpec{"policy", KeyKind::word, "fixed", "fixed|locked|request|token|head|calibrated",
            "of the scale: 1, absmax(first) / constant, absmax / D of x, a token or a head, or of first"},
    KeySpec{"constant", KeyKind::real, "200", "1e-3..1e6", "policy=locked: absmax is divided by it"},
    KeySpec{"page", KeyKind::integer, "0", "0..65536", "tokens of a page; 0: not paged"},
    KeySpec{"dtype", KeyKind::format, "f32", "f32|f16|bf16", "of x and first"},
};

bool looks_back(const Attributes& a) {
  return a.text("policy") == "locked" || a.text("policy") == "calibrated";
}

void check_policy(const Attributes& a) {
  const Format& to = format(a.text("to"));
  const std::string& policy = a.text("policy");
  bool fits = false;
  if (to.kind == FormatKind::block) fits = policy == "token" || policy == "fixed";
  if (to.kind == FormatKind::scaled) {
    if (policy == "token")
      fits = to.axis == ScaleAxis::token || to.axis == ScaleAxis::row;
    else if (policy == "head")
      fits = to.axis == ScaleAxis::head;
    else if (policy == "request")
      fits = to.axis == ScaleAxis::tensor;
    else
      fits = to.axis == ScaleAxis::tensor || to.axis == ScaleAxis::head || policy == "fixed";
  }
  if (!fits)
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("policy={} with to={}: request takes *_tensor, head *_head, token *_tok and block "
                    "formats, locked and calibrated *_tensor and *_head",
                    policy, to.name));
}

void check(const Attributes& a) {
  const Shape shape{a.integer("tokens"), a.integer("heads"), a.integer("d")};
  check_policy(a);
  check_quantiser(format(a.text("to")), "kv_write");
  planes(format(a.text("to")), shape);
  if (a.integer("page") > 0 && shape[0] % a.integer("page") != 0)
    throw InputError(InputErrorKind::ragged_block,
                     fmt::format("page={} does not divide tokens={}", a.integer("page"), shape[0]));
}

void indices(const Attributes& a, std::uint64_t seed, TensorSet& inputs) {
  kKvWrite.tensors(a);  // refuses what no index could be made for
  const std::int64_t tokens = a.integer("tokens"), page = std::max<std::int64_t>(a.integer("page"), 1);
  IndexDraw draw(seed);
  const std::vector<std::int64_t> pages = draw.permutation(tokens / page);
  std::vector<std::int64_t> slots(static_cast<std::size_t>(tokens));
  for (std::int64_t t = 0; t < tokens; ++t) slots[t] = pages[t / page] * page + t % page;
  inputs.insert_or_assign("slots", integer_tensor("int32", {tokens}, slots));
}

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(kKvWrite.tensors(a), set);
  const Format& to = format(a.text("to"));
  const Shape& shape = in.tensor("x").shape;
  const std::int64_t tokens = shape[0], row = shape[1] * shape[2];
  const std::vector<std::int64_t> slots = in.integers("slots");
  const std::vector<double> x = in.values("x");
  std::vector<float> placed(x.size());
  std::vector<char> taken(static_cast<std::size_t>(tokens), 0);
  for (std::int64_t t = 0; t < tokens; ++t) {
    if (slots[t] < 0 || slots[t] >= tokens || taken[slots[t]] != 0)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("slots[{}]={}: each of 0..{} once is allowed", t, slots[t], tokens - 1));
    taken[slots[t]] = 1;
    for (std::int64_t i = 0; i < row; ++i) placed[slots[t] * row + i] = static_cast<float>(x[t * row + i]);
  }
  Truth t = make_truth("cache", x.size(), "reference/ops/kv_write: codes under the policy's scale");
  const std::string& policy = a.text("policy");
  if (to.kind == FormatKind::block || policy == "request" || policy == "head" || policy == "token") {
    admit_quantised(t, to, shape, placed, contract);
    return alone(std::move(t));
  }
  std::vector<std::vector<AdmissibleScale>> scales(
      static_cast<std::size_t>(element_count(scale_shape(to, shape))), {kUnitScale});
  std::vector<char> undefined(scales.size(), 0);  // a scale of what is not finite
  if (looks_back(a)) {
    const std::vector<double> decoded = in.values("first");
    const std::vector<float> first(decoded.begin(), decoded.end());
    const double divisor =
        policy == "locked" ? a.real("constant") : declared_divisor(to.scale_divisor, contract);
    const std::vector<float> absmax = group_absmax(to, shape, first);
    if (contract.text("absmax") == "any") undefined = groups_not_finite(to, shape, first);
    for (std::size_t s = 0; s < scales.size(); ++s) {
      scales[s] = admissible_scales(absmax[s], static_cast<float>(divisor), contract);
      if (static_cast<float>(divisor) == divisor) continue;
      for (const AdmissibleScale& other : admissible_scales(absmax[s], divisor, contract))
        scales[s].push_back(other);
    }
  }
  admit_quantised_with_scales(t, to, shape, placed, scales, contract);
  const Axes axes = axes_of(shape);
  for (std::size_t i = 0; i < t.limit.size(); ++i)
    if (undefined[static_cast<std::size_t>(scale_index(to.axis, axes, static_cast<std::int64_t>(i)))] != 0)
      set_unclaimed(t, i);
  return alone(std::move(t));
}

}  // namespace

const Op kKvWrite = {
    .name = "kv_write",
    .formula = "cache[slots[t]] = round(x[t] / scale) scale, saturating, scale by policy",
    .signature =
        "x[tokens,heads,d] dtype\n"
        "first[tokens,heads,d] dtype if policy=locked|calibrated\n"
        "slots[tokens] int32\n"
        "-> cache[tokens,heads,d] to",
    .example = "tokens=5 heads=2 d=64 to=e4m3fn_tensor policy=locked",
    .attributes = kAttributes,
    .contract = kQuantiseKeys,
    .tensors = tensors_of<kKvWrite, check>,
    .indices = indices,
    .truth = truth,
};

}  // namespace assay
