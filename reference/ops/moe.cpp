// moe: a fused mixture of experts. For token t and its s-th expert,
//   e       = topk_ids[t,s]
//   c       = topk_weights[t,s], the expert's weight
//   g       = w13[e, 0:inter] x[t]
//   v       = w13[e, inter:2 inter] x[t]
//   h       = silu(g) v,   silu(g) = g / (1 + exp(-g))
//   y[t]    = sum_s c w2[e] h
// x[tokens,hidden] a, w13[experts,2*inter,hidden] w, w2[experts,hidden,inter] w, topk_ids[tokens,topk] int32,
// topk_weights[tokens,topk] f32 -> y[tokens,hidden] dtype.
//
// Both products take one path (operand.hpp; matmul's `path`). On the path `codes` h is quantised per token to a's
// element with the scale absmax / D; on f16 and bf16 it is rounded to that type.
//
// Domain. Finite operands; a token that meets a NaN or Inf on its way has outputs that are NaN if the real formula is
// (the op claims nothing otherwise). An id outside [0, experts) is refused.
//
// Limit. Every intermediate number is carried as an enclosure of its exact value and of the kernel's.
//   g, v  dot.hpp; then rounded to `gate_up`.
//   silu  |silu'| <= 1.1 (its maximum is 1.0998..., at g = 2.3994), so dg counts 1.1 |dg|; the evaluation adds
//         2 silu_ulp u |silu(g)|, and 4e-37 where exp(-g) overflows f32 (there |silu| < 88.8 * 2^-128).
//   h     one rounded product, then the path's own rounding. Monotone, so dh grows by half a step: for f16 and bf16
//         u (|h| + dh) and underflow. Quantised with s' = absmax(h') / D, which is within 4 u of at most
//         (max |h| + dh) / D: s'/2 for integers; for floating codes u_code (|h| + dh), or half a subnormal step
//         times s'. Saturation adds at most 4 u (|h| + dh), for the largest element is D s' up to s's rounding.
//   w2 h  |sum w2 dh| <= sum |w2| dh, and the accumulation's error for operands of magnitude |h| + dh. In the space
//         of codes it is computed for h / s and counted twice: the kernel's s' is within a factor of 2.
//   y     c w2 h is one rounded product after rounding to `expert_out`; then topk - 1 additions in any order.
//
// With numbers: `moe tokens=1 experts=2 topk=2 hidden=256 inter=512 a=f16 w=f16` on cpu (gaussian, seed 1; sums in
// f32), the first element of h and of y:
//   g    = 7.67    dg = gamma_256 sum|w x| = 256 * 2^-24 * 152              0.0023
//   v    = 20.0    dv = gamma_256 sum|w x| = 256 * 2^-24 * 137              0.0021
//   silu = 7.66    1.1 dg                                                   0.0026
//   h    = 153     dsilu |v| + silu dv = 0.051 + 0.016                      0.067
//                  and its rounding to f16 2^-11 |h| = 0.075                0.142
//   w2 h           sum |w2| dh = 35, its accumulation 1.0                   36
//   y    = 403     both experts, each times its weight                      66     (the median |y| is 4092)
// The rounding of h to f16 and the accumulation of g and v share it about equally; that of w2 h hardly counts.
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "reference/error.hpp"
#include "reference/ops/dot.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/real/exp.hpp"

namespace assay {
namespace {

constexpr std::array kAttributes = {
    AttributeSpec{"tokens", AttributeKind::integer, "", "1..65536", "routed tokens"},
    AttributeSpec{"hidden", AttributeKind::integer, "", "1..65536", "width of x and y"},
    AttributeSpec{"inter", AttributeKind::integer, "", "1..65536", "width of gate and up"},
    AttributeSpec{"experts", AttributeKind::integer, "", "1..4096", "of which topk serve a token"},
    AttributeSpec{"topk", AttributeKind::integer, "1", "1..64", "experts of a token"},
    AttributeSpec{"a", AttributeKind::format, "bf16", "", "format of x"},
    AttributeSpec{"w", AttributeKind::format, "@a", "", "format of w13 and w2"},
    AttributeSpec{"dtype", AttributeKind::format, "bf16", "f32|f16|bf16", "of y"},
    AttributeSpec{"path", AttributeKind::word, "auto", "auto|f32|f16|bf16|codes", "what is multiplied"},
};

constexpr auto kContract = with_store_keys(std::array{
    kDotKeys[0],
    kDotKeys[1],
    kDotKeys[2],
    kDotKeys[3],
    kDotKeys[4],
    ContractKey{"gate_up", ContractValue::format, "f32", "", "gate and up are rounded to this"},
    ContractKey{"silu_ulp", ContractValue::number, "8", "",
                "error of silu, in units in the last place of f32"},
    ContractKey{"expert_out", ContractValue::format, "f32", "", "w2 h is rounded to this before its weight"},
});

std::vector<TensorSpec> tensors(const Attributes& a) {
  const std::int64_t tokens = a.integer("tokens"), hidden = a.integer("hidden"), inter = a.integer("inter"),
                     experts = a.integer("experts"), topk = a.integer("topk");
  if (topk > experts)
    throw InputError(InputErrorKind::bad_value, fmt::format("topk={} with experts={}", topk, experts));
  const std::string &x = a.text("a"), &w = a.text("w");
  planes(format(x), {tokens, hidden});
  planes(format(w), {experts, 2 * inter, hidden});
  planes(format(w), {experts, hidden, inter});
  return {{"x", TensorRole::data, x, {tokens, hidden}},
          {"w13", TensorRole::data, w, {experts, 2 * inter, hidden}},
          {"w2", TensorRole::data, w, {experts, hidden, inter}},
          {"topk_ids", TensorRole::index, "int32", {tokens, topk}},
          {"topk_weights", TensorRole::data, "f32", {tokens, topk}},
          {"y", TensorRole::output, a.text("dtype"), {tokens, hidden}}};
}

void indices(const Attributes& a, std::uint64_t seed, TensorSet& inputs) {
  tensors(a);  // refuses what no index could be made for
  const std::int64_t tokens = a.integer("tokens"), topk = a.integer("topk");
  IndexDraw draw(seed);
  std::vector<std::int64_t> ids;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::vector<std::int64_t> order = draw.permutation(a.integer("experts"));
    ids.insert(ids.end(), order.begin(), order.begin() + topk);
  }
  inputs.insert_or_assign("topk_ids", integer_tensor("int32", {tokens, topk}, ids));
}

constexpr double kUnit32 = 0x1p-24;

// The exact number and the kernel's in one interval.
Enclosure both(const DotResult& r) {
  return {r.exact, up(std::fabs(r.kernel.value - r.exact) + r.kernel.error + r.certificate)};
}

Enclosure silu(Enclosure g, double silu_ulp) {
  const double value = g.value / (1 + certified_exp(std::min(-g.value, 700.0)));
  const double error = 1.1 * g.error;
  return {value, up(error + 2 * silu_ulp * kUnit32 * (std::fabs(value) + error) +
                    8 * kUnit64 * std::fabs(value) + 4e-37)};
}

// What the path makes of h before the second product, as one row of operands.
OperandRow hidden_row(const std::vector<Enclosure>& h, const std::string& path, const Format& a) {
  OperandRow row;
  row.exact.reserve(h.size());
  double largest = 0;
  for (const Enclosure& each : h) {
    row.exact.push_back(each.value);
    largest = std::max(largest, each.magnitude());
  }
  row.reach.resize(h.size());
  const bool codes = path == "codes";
  if (codes && largest > 0) row.scale = static_cast<double>(static_cast<float>(largest / a.scale_divisor));
  const bool integers = codes && scalar_format(a.element).kind == ScalarKind::integer;
  const Machine element = machine(codes ? integers ? "f32" : a.element : path, false);
  for (std::size_t i = 0; i < h.size(); ++i) {
    double error = h[i].error;
    if (codes) {
      const double step = largest / a.scale_divisor * (1 + 8 * kUnit32);
      const double size = h[i].magnitude();
      error += integers ? step / 2 : element.unit * size + element.tiny * step;
      error += 8 * kUnit32 * size;
    } else if (path != "f32") {
      error = rounded(h[i], element).error;
    }
    row.center.push_back(h[i].value / row.scale);
    row.reach[i] = up(std::fabs(row.center[i]) + error / row.scale + 2 * kUnit64 * std::fabs(row.center[i]));
    row.max_abs = std::max(row.max_abs, row.reach[i]);
  }
  row.grid = row_grid(row.center);
  return row;
}

struct Assignment {
  std::int64_t token;
  std::int64_t slot;
};

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(tensors(a), set);
  const std::int64_t tokens = a.integer("tokens"), hidden = a.integer("hidden"), inter = a.integer("inter"),
                     topk = a.integer("topk");
  const Format& a_format = format(a.text("a"));
  const std::string path = resolve_path(a.text("path"), a_format, format(a.text("w")));
  const bool flush = contract.text("ftz") == "yes";
  const Operands x(in.tensor("x"), path, Side::activations, contract.number("dequant_roundings"));
  const Operands w13(in.tensor("w13"), path, Side::weights, contract.number("dequant_roundings"));
  const Operands w2(in.tensor("w2"), path, Side::weights, contract.number("dequant_roundings"));
  const Dot dot(contract, x.element(), w13.element(), flush);
  const Store store = store_of(contract, a.text("dtype"));
  const Machine f32 = machine("f32", flush);
  const double silu_ulp = contract.number("silu_ulp");
  const std::vector<double> weights = in.values("topk_weights");
  const std::vector<std::int64_t> ids = in.integers("topk_ids");

  std::vector<std::vector<Assignment>> experts(static_cast<std::size_t>(a.integer("experts")));
  for (std::int64_t i = 0; i < tokens * topk; ++i) {
    if (ids[i] < 0 || ids[i] >= a.integer("experts"))
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("topk_ids[{},{}]={}: allowed is 0..{}", i / topk, i % topk, ids[i],
                                   a.integer("experts") - 1));
    experts[ids[i]].push_back({i / topk, i % topk});
  }
  std::vector<OperandRow> inputs;
  for (std::int64_t t = 0; t < tokens; ++t) inputs.push_back(x.row(t));

  const auto round_to_key = [&](Enclosure z, std::string_view key) {
    const std::string_view name = contract.text(key);
    return name == "f32" ? z : rounded(z, machine(name, flush));
  };
  // terms[(t * hidden + i) * topk + s]: the weighted outputs of each expert.
  std::vector<Enclosure> terms(static_cast<std::size_t>(tokens * hidden * topk));
  for (std::size_t e = 0; e < experts.size(); ++e) {
    const std::vector<Assignment>& served = experts[e];
    if (served.empty()) continue;
    const std::int64_t base = static_cast<std::int64_t>(e) * 2 * inter;
    std::vector<std::vector<Enclosure>> h(served.size(),
                                          std::vector<Enclosure>(static_cast<std::size_t>(inter)));
    for (std::int64_t r = 0; r < inter; ++r) {
      const OperandRow gate = w13.row(base + r), up_row = w13.row(base + inter + r);
      for (std::size_t k = 0; k < served.size(); ++k) {
        const OperandRow& token = inputs[served[k].token];
        const Enclosure g = round_to_key(both(dot(token, gate)), "gate_up");
        const Enclosure v = round_to_key(both(dot(token, up_row)), "gate_up");
        h[k][r] = rounded(product(silu(g, silu_ulp), v), f32);
      }
    }
    std::vector<OperandRow> second;
    for (const std::vector<Enclosure>& each : h) second.push_back(hidden_row(each, path, a_format));
    for (std::int64_t i = 0; i < hidden; ++i) {
      const OperandRow row = w2.row(static_cast<std::int64_t>(e) * hidden + i);
      for (std::size_t k = 0; k < served.size(); ++k) {
        const DotResult r = dot(second[k], row);
        Enclosure z = both(r);
        if (path == "codes") z.error = up(z.error + r.accumulation * second[k].scale * std::fabs(row.scale));
        const auto [t, s] = served[k];
        z = rounded(product(round_to_key(z, "expert_out"), read(weights[t * topk + s], f32)), f32);
        terms[(t * hidden + i) * topk + s] = z;
      }
    }
  }
  Truth t = make_truth(
      "y", static_cast<std::size_t>(tokens * hidden),
      "reference/ops/moe: both products on path=" + path + ", silu, the intermediate's rounding, the sum");
  for (std::size_t i = 0; i < t.value.size(); ++i) {
    const std::span<const Enclosure> own(terms.data() + static_cast<std::int64_t>(i) * topk,
                                         static_cast<std::size_t>(topk));
    double plain = 0;
    for (const Enclosure& each : own) plain += each.value;
    if (std::isnan(plain)) {
      set_special(t, i, plain);
      continue;
    }
    if (std::isinf(plain)) {
      set_unclaimed(t, i);
      continue;
    }
    set_truth(t, i, summed(own, Order::any, f32), store);
  }
  return {std::move(t)};
}

}  // namespace

extern const Op kMoe;
const Op kMoe = {
    .name = "moe",
    .formula = "y[t] = sum_s c[t,s] w2[e] (silu(w13[e,gate] x[t]) * (w13[e,up] x[t])), e = topk_ids[t,s]",
    .signature =
        "x[tokens,hidden] a\n"
        "w13[experts,2*inter,hidden] w\n"
        "w2[experts,hidden,inter] w\n"
        "topk_ids[tokens,topk] int32\n"
        "topk_weights[tokens,topk] f32\n"
        "-> y[tokens,hidden] dtype",
    .example = "tokens=4 hidden=64 inter=32 experts=3 topk=2",
    .attributes = kAttributes,
    .contract = kContract,
    .tensors = tensors,
    .indices = indices,
    .truth = truth,
};

}  // namespace assay
