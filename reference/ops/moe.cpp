// moe: a fused mixture of experts. For token t and its s-th expert,
//   e       = topk_ids[t,s]
//   c       = topk_weights[t,s], the expert's weight
//   g       = w13[e, 0:inter] x[t]
//   v       = w13[e, inter:2 inter] x[t]
//   h       = silu(g) v,   silu(g) = g / (1 + exp(-g))
//   y[t]    = sum_s c w2[e] h
// x[tokens,hidden] a, w13[experts,2*inter,hidden] w, w2[experts,hidden,inter] w2, topk_ids[tokens,topk]
// int32, topk_weights[tokens,topk] f32 -> y[tokens,hidden] dtype.
//
// Each product takes a path (operand.hpp; matmul's `path`): the one that is named, and under path=auto each
// its own, by a and w, and by a and w2. A checkpoint whose w13 is int4 and whose w2 was left in bf16
// multiplies codes first and bf16 then. Where the second path is `codes`, h is quantised per token to a's
// element with the scale absmax / D; on f16 and bf16 it is rounded to that type. down_acc: the second
// product's unit where it has another. weight=before: c (silu(g) v), rounded in f32, takes the place of
// silu(g) v in front of `h` and of the path. acc=i32 is of products of integer codes: the other product of
// such a call is summed in f32, in the declared order.
//
// Domain. Finite operands; a token that meets a NaN on its way has outputs that are NaN; of one that meets an
// Inf the op claims nothing. An id outside [0, experts) is refused.
//
// Limit. Every number is carried as an enclosure of what the kernel holds; the value is the middle of what it
// may store.
//   g, v  products.hpp; then rounded to `gate_up`: the cell that the enclosure lies in (decided,
//         enclosure.hpp).
//   h     silu (moe_hidden.hpp) and one rounded product; rounded to `h`; then the operands that the path
//         makes of it, nearly all decided.
//   w2 h  products.hpp, with the error of the row's scale; then rounded to `expert_out`.
//   y     c w2 h is one rounded product; then topk - 1 additions in any order.
// Overflow. Where g, v, h or w2 h may leave its type, or a sum on the way to it may, the kernel may hold Inf,
// and Inf - Inf or 0 Inf further on: nothing is claimed of what that token's expert contributes to, NaN
// included. level=replay: of finite numbers the bits of the declared schedule, limit 0 (replayed_moe.hpp).
//
// With numbers: `moe tokens=1 experts=2 topk=2 hidden=256 inter=512 a=f16 w=f16` on cpu (gaussian, seed 1;
// sums in f32), the first element of h:
//   g    = 7.67    dg = gamma_255 sum|w x| = 255 * 2^-24 * 152              0.0023
//   v    = 20.0    dv = gamma_255 sum|w x| = 255 * 2^-24 * 137              0.0021
//   silu = 7.66    1.1 dg                                                   0.0026
//   h    = 153     dsilu |v| + silu dv = 0.051 + 0.016                      0.067
//                  f16's step is 0.125 there: two or three numbers, +-      0.125
// In W4A8, k = 4096 (integer dots are exact): dh / |h| = 1.5e-6, and one code in thousands is in doubt.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "reference/error.hpp"
#include "reference/ops/moe_hidden.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ops/products.hpp"
#include "reference/ops/replayed_moe.hpp"
#include "reference/ops/signature.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
extern const Op kMoe;
namespace {

constexpr std::array kAttributes = {
    KeySpec{"tokens", KeyKind::integer, "", "1..65536", "routed tokens"},
    KeySpec{"hidden", KeyKind::integer, "", "1..65536", "width of x and y"},
    KeySpec{"inter", KeyKind::integer, "", "1..65536", "width of gate and up, w13's rows in this order"},
    KeySpec{"experts", KeyKind::integer, "", "1..4096", "of which topk serve a token"},
    KeySpec{"topk", KeyKind::integer, "1", "1..64", "experts of a token"},
    KeySpec{"a", KeyKind::format, "bf16", "", "format of x"},
    KeySpec{"w", KeyKind::format, "@a", "", "format of w13"},
    KeySpec{"w2", KeyKind::format, "@w", "", "format of w2"},
    KeySpec{"dtype", KeyKind::format, "bf16", "f32|f16|bf16", "of y"},
    KeySpec{"path", KeyKind::word, "auto", "auto|f32|f16|bf16|codes",
            "what is multiplied; codes: h too, under absmax / D of its token and slot"},
};

constexpr auto kContract = with_store_keys(with_replay_keys(std::array{
    kDotKeys[0],
    kDotKeys[1],
    kDotKeys[2],
    kDotKeys[3],
    kDotKeys[4],
    kDotKeys[5],
    kDotKeys[6],
    KeySpec{"down_acc", KeyKind::text, "same", "",
            "how w2 h is summed, where another unit than acc's does it; promote is of both"},
    KeySpec{"gate_up", KeyKind::rounding, "f32", "",
            "gate and up are rounded to this; a sum in f64 at once, or as an f32 first"},
    KeySpec{"silu_ulp", KeyKind::real, "8", kUlps, "error of silu, in units in the last place of f32"},
    KeySpec{"h", KeyKind::rounding, "f32", "", "silu(g) v is rounded to this before what the path does"},
    KeySpec{"expert_out", KeyKind::rounding, "f32", "", "w2 h is rounded to this before its weight"},
    KeySpec{"weight", KeyKind::word, "after", "after|before",
            "c (w2 h), or w2 (c h): the weight before h is rounded or quantised; slots are added in f32"},
    KeySpec{"experts",
            KeyKind::word,
            "any",
            "any|distinct",
            "distinct: nothing is claimed of a token that names an expert twice",
            {},
            "level!=replay"},
}));

void check(const Attributes& a) {
  const std::int64_t experts = a.integer("experts"), topk = a.integer("topk");
  if (topk > experts)
    throw InputError(InputErrorKind::bad_value, fmt::format("topk={} with experts={}", topk, experts));
}

void indices(const Attributes& a, std::uint64_t seed, TensorSet& inputs) {
  kMoe.tensors(a);  // refuses what no index could be made for
  const std::int64_t tokens = a.integer("tokens"), topk = a.integer("topk");
  IndexDraw draw(seed);
  std::vector<std::int64_t> ids;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::vector<std::int64_t> order = draw.permutation(a.integer("experts"));
    ids.insert(ids.end(), order.begin(), order.begin() + topk);
  }
  inputs.insert_or_assign("topk_ids", integer_tensor("int32", {tokens, topk}, ids));
}

struct Assignment {
  std::int64_t token;
  std::int64_t slot;
};

// The kernel's number: NaN where an operand is; where it meets an infinity (whose product's sign, or zero,
// may hang on a rounding) or a conversion on the way overflows, nobody's.
Enclosure kernel_of(const DotResult& r, const OperandRow& a, const OperandRow& b) {
  if (!std::isfinite(r.exact) && (has_nan(a) || has_nan(b))) return {std::nan(""), kInfinity};
  return std::isfinite(r.exact) && std::isfinite(r.kernel.value) ? r.kernel : Enclosure{0, kInfinity};
}

// A number that may have overflowed: its value is no part of the real formula's.
bool is_nobodys(const Enclosure& z) { return std::isfinite(z.value) && !(z.error < kInfinity); }

// 0 times a number is 0: without this a token of zeros would carry an error of an underflow into its scale.
Enclosure rounded_product(Enclosure a, Enclosure b, const Machine& m) {
  if ((is_nobodys(a) && !std::isnan(b.value)) || (is_nobodys(b) && !std::isnan(a.value)))
    return {0, kInfinity};
  // Nearly 0, and so perhaps 0, times an infinity.
  const auto may_be_zero = [](const Enclosure& z) { return z.error > 0 && std::fabs(z.value) <= z.error; };
  if ((std::isinf(a.value) && may_be_zero(b)) || (std::isinf(b.value) && may_be_zero(a)))
    return {0, kInfinity};
  const bool zero = (a.value == 0 && a.error == 0 && b.error < kInfinity && std::isfinite(b.value)) ||
                    (b.value == 0 && b.error == 0 && a.error < kInfinity && std::isfinite(a.value));
  if (zero) return {};
  Enclosure z = rounded(product(a, b), m);
  if (!(z.error < kInfinity)) z.error = kInfinity;  // 0 * Inf
  return z;
}

std::vector<OperandRow> rows_of(const Operands& operands, std::int64_t first, std::int64_t count) {
  std::vector<OperandRow> rows;
  for (std::int64_t r = first; r < first + count; ++r) rows.push_back(operands.row(r));
  return rows;
}

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(kMoe.tensors(a), set);
  const std::int64_t tokens = a.integer("tokens"), hidden = a.integer("hidden"), inter = a.integer("inter"),
                     topk = a.integer("topk");
  const Format& a_format = format(a.text("a"));
  const MoePaths paths = moe_paths(a);
  const std::string &path = paths.up, &down_path = paths.down;
  const bool flush = contract.text("ftz") == "yes";
  const Quantising how{.flush = contract.text("ftz") == "yes"};
  const Operands x(in.tensor("x"), path, Side::activations, contract.number("dequant_roundings"), how);
  const Operands w13(in.tensor("w13"), path, Side::weights, contract.number("dequant_roundings"), how);
  const Operands w2(in.tensor("w2"), down_path, Side::weights, contract.number("dequant_roundings"), how);
  const std::string h_element = hidden_element(paths, x.element(), a_format);
  const bool first_integers = x.element() == "int8" && w13.element() == "int8",
             down_integers = h_element == "int8" && w2.element() == "int8";
  // acc=i32 is of integer codes alone: the other product is summed in f32.
  const auto of_product = [&](const Contract& of, bool integers, bool others) {
    return of.text("acc") == "i32" && !integers && others ? of.with("acc", "f32") : of;
  };
  const Contract first_contract = of_product(contract, first_integers, down_integers),
                 down_contract = of_product(contract_of_down(contract), down_integers, first_integers);
  const Dot dot(first_contract, x.element(), w13.element(), flush,
                x.significand_bits() + w13.significand_bits());
  const Dot down_dot(down_contract, h_element, w2.element(), flush);
  refuse_idle_blocking(contract, {&dot, &down_dot});
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
  const auto repeats = [&](std::int64_t token) {
    const std::span own(ids.data() + token * topk, static_cast<std::size_t>(topk));
    return std::ranges::any_of(own, [&](std::int64_t e) { return std::ranges::count(own, e) > 1; });
  };
  std::vector<char> unclaimed_tokens(static_cast<std::size_t>(tokens), 0);
  if (contract.text("experts") == "distinct")
    for (std::int64_t token = 0; token < tokens; ++token) unclaimed_tokens[token] = repeats(token) ? 1 : 0;

  // Numbers of f32 are that already. A sum in f64, and one whose scales nothing rounded
  // (epilogue_roundings=0), becomes one on its way, also to a narrower type, and may overflow there.
  const bool wide_epilogue = contract.number("epilogue_roundings") == 0;
  const auto round_to_key = [&](Enclosure z, std::string_view key) {
    const Contract& of = key == "expert_out" ? down_contract : first_contract;
    if (key != "h" && (of.text("acc") == "f64" || wide_epilogue) && std::isfinite(z.value))
      z = rounded(z, f32);
    const std::string_view name = contract.text(key);
    return name == "f32" ? z : decided(z, scalar_format(name), flush);
  };
  const bool weight_first = contract.text("weight") == "before";
  // terms[(t * hidden + i) * topk + s]: the weighted outputs of each expert.
  std::vector<Enclosure> terms(static_cast<std::size_t>(tokens * hidden * topk));
  for (std::size_t e = 0; e < experts.size(); ++e) {
    const std::vector<Assignment>& served = experts[e];
    if (served.empty()) continue;
    const std::int64_t base = static_cast<std::int64_t>(e) * 2 * inter;
    const auto weight = [&](std::size_t k) {
      return read(weights[static_cast<std::size_t>(served[k].token * topk + served[k].slot)], f32);
    };
    std::vector<OperandRow> taken;
    for (const Assignment& each : served) taken.push_back(x.row(each.token));
    const Products first(dot, std::move(taken));
    std::vector<std::vector<Enclosure>> h(served.size(),
                                          std::vector<Enclosure>(static_cast<std::size_t>(inter)));
    parallel_batches(inter, [&](std::int64_t at, std::int64_t count) {
      const std::vector<OperandRow> gate_rows = rows_of(w13, base + at, count),
                                    up_rows = rows_of(w13, base + inter + at, count);
      const std::vector<DotResult> gates = first(gate_rows), ups = first(up_rows);
      for (std::size_t k = 0; k < served.size(); ++k)
        for (std::int64_t r = 0; r < count; ++r) {
          const std::size_t p = k * static_cast<std::size_t>(count) + static_cast<std::size_t>(r);
          const OperandRow& own = first.rows()[k];
          const auto row = static_cast<std::size_t>(r);
          const Enclosure g = round_to_key(kernel_of(gates[p], own, gate_rows[row]), "gate_up");
          const Enclosure v = round_to_key(kernel_of(ups[p], own, up_rows[row]), "gate_up");
          Enclosure made = rounded_product(silu(g, silu_ulp), v, f32);
          if (weight_first) made = rounded_product(made, weight(k), f32);
          h[k][static_cast<std::size_t>(at + r)] = round_to_key(made, "h");
        }
    });
    std::vector<OperandRow> second;
    std::vector<char> unclaimed;
    for (const std::vector<Enclosure>& each : h) {
      HiddenRow row = hidden_row(each, down_path, a_format, flush);
      second.push_back(std::move(row.operands));
      unclaimed.push_back(static_cast<char>(row.unclaimed));
    }
    const Products down(down_dot, std::move(second));
    parallel_batches(hidden, [&](std::int64_t at, std::int64_t count) {
      const std::vector<OperandRow> down_rows =
          rows_of(w2, static_cast<std::int64_t>(e) * hidden + at, count);
      const std::vector<DotResult> outs = down(down_rows);
      for (std::size_t k = 0; k < served.size(); ++k)
        for (std::int64_t i = 0; i < count; ++i) {
          const DotResult& out = outs[k * static_cast<std::size_t>(count) + static_cast<std::size_t>(i)];
          Enclosure z = round_to_key(kernel_of(out, down.rows()[k], down_rows[static_cast<std::size_t>(i)]),
                                     "expert_out");
          if (!weight_first) z = rounded_product(z, weight(k), f32);
          if (unclaimed[k] != 0) z = {0, kInfinity};  // what an overflow makes of its value is nobody's claim
          const auto [t, s] = served[k];
          terms[static_cast<std::size_t>((t * hidden + at + i) * topk + s)] = z;
        }
    });
  }
  Truth t = make_truth("y", static_cast<std::size_t>(tokens * hidden),
                       "reference/ops/moe: products on path=" + path + " and path=" + down_path +
                           ", silu, the intermediate's rounding, the sum");
  // Integer codes have no NaN: whatever the intermediate becomes in them is a number.
  const bool hides_nan = down_path == "codes" && scalar_format(h_element).kind == ScalarKind::integer;
  for (std::size_t i = 0; i < t.value.size(); ++i) {
    const std::span<const Enclosure> own(terms.data() + static_cast<std::int64_t>(i) * topk,
                                         static_cast<std::size_t>(topk));
    double plain = 0;
    for (const Enclosure& each : own) plain += each.value;
    if (std::isnan(plain)) {
      if (hides_nan || unclaimed_tokens[i / static_cast<std::size_t>(hidden)] != 0)
        set_unclaimed(t, i);
      else
        set_special(t, i, plain, store);
      continue;
    }
    if (std::isinf(plain) || unclaimed_tokens[i / static_cast<std::size_t>(hidden)] != 0) {
      set_unclaimed(t, i);
      continue;
    }
    set_truth_within(t, i, summed(own, Order::any, f32), store);
  }
  if (is_judged_by_replay(contract)) MoeReplay(a, set)(t, contract);
  return alone(std::move(t));
}

}  // namespace

const Op kMoe = {
    .name = "moe",
    .formula = "y[t] = sum_s c[t,s] w2[e] (silu(w13[e,gate] x[t]) * (w13[e,up] x[t])), e = topk_ids[t,s]",
    .signature =
        "x[tokens,hidden] a\n"
        "w13[experts,2*inter,hidden] w\n"
        "w2[experts,hidden,inter] w2\n"
        "topk_ids[tokens,topk] int32\n"
        "topk_weights[tokens,topk] f32\n"
        "-> y[tokens,hidden] dtype",
    .example = "tokens=4 hidden=64 inter=32 experts=3 topk=2",
    .attributes = kAttributes,
    .contract = kContract,
    .tensors = tensors_of<kMoe, check>,
    .indices = indices,
    .truth = truth,
    .stages = moe_stages,
};

}  // namespace assay
