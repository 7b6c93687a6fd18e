// matmul: y[i,j] = sum_k a[i,k] b[j,k]     (y = a b^T)
// a[m,k] in format a, b[n,k] in format b -> y[m,n] dtype. The value is what the declared path makes of the
// decoded tensors: the product of the operands that it really multiplies, stored as it stores.
//
// path (operand.hpp):
//   auto          codes where both formats have codes that share a scale along a row; else f16 or bf16 where
//                 one of them is that; else f32
//   f32 tf32 f16 bf16
//                 both decoded to that format (W4A16: int4_g32 decoded to bf16 first; NVFP4 by bf16)
//   codes         codes are multiplied, scales in the epilogue (W4A8, W8A8; acc=i32 exactly)
//   e4m3fn        NVFP4 by FP8: weights clamped at 448, activations with one dynamic scale
//   q8            ggml on a CPU: f32 activations to q8_0 blocks first
//   q8_1          the same, and with each block its sum in f16, which meets the minima of the weights
//                 (block_sums.hpp)
//   q8_K          to blocks of 256 codes with an f32 scale, and sums of 16 as integers
//   blocks        nvfp4, mxfp4, mxfp8 on units that take block scales
//
// Domain. All real operands. NaN, and Inf by IEEE rules, in a row of a or b reach exactly the outputs of that
// row. Where the path quantises activations (e4m3fn, q8), an infinity spoils every row that shares its scale,
// and so may a NaN: nothing is claimed of those, for a saturating conversion makes a finite code of an
// infinity, and a maximum that takes NaN along a NaN of all.
//
// Limit (dot.hpp, products.hpp). A kernel's number before it is stored lies in [c - e, c + e], c the product
// of the operands that the path really multiplies, exact or as the declared matrix unit forms it: so a path
// is told from another where their rounded operands differ by more than e. Then (set_truth_within, op_io.hpp)
//   value = the middle of [rd(c - e), rd(c + e)],  limit = half of it.
//
// level=replay: of finite operands the bits of the declared schedule, limit 0 (replayed_matmul.hpp).
//
// With numbers: `matmul m=1 n=4 k=4096 a=f16 b=f16` on cpu (path f16, acc f32; gaussian, seed 1), element 0:
//   v = -25.2,  sum|a b| = 2593,  e = gamma_4096 sum|a b| = 4096 * 2^-24 * 2593 = 0.633,
// for the operands are decided and there is no epilogue. For int8 codes with acc=i32 and the same v there
// would be the epilogue alone, e = 3 u |v| = 4.5e-6.
#include <algorithm>
#include <array>
#include <cmath>

#include "reference/ops/block_sums.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ops/products.hpp"
#include "reference/ops/replayed_matmul.hpp"
#include "reference/ops/signature.hpp"
#include "reference/parallel.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
extern const Op kMatmul;
namespace {

constexpr std::array kAttributes = {
    KeySpec{"m", KeyKind::integer, "", "1..1048576", "rows of a (tokens)"},
    KeySpec{"n", KeyKind::integer, "", "1..1048576", "rows of b (output channels)"},
    KeySpec{"k", KeyKind::integer, "", "1..1048576", "length of the dot products"},
    KeySpec{"a", KeyKind::format, "bf16", "", "format of a"},
    KeySpec{"b", KeyKind::format, "@a", "", "format of b"},
    KeySpec{"dtype", KeyKind::format, "bf16", "f32|f16|bf16", "of y"},
    KeySpec{"path", KeyKind::word, "auto", "auto|f32|tf32|f16|bf16|codes|blocks|e4m3fn|q8|q8_1|q8_K",
            "what is multiplied"},
};

constexpr auto kContract = with_store_keys(with_replay_keys(std::array{
    kDotKeys[0],
    kDotKeys[1],
    kDotKeys[2],
    kDotKeys[3],
    kDotKeys[4],
    kDotKeys[5],
    kDotKeys[6],
    KeySpec{"scale", KeyKind::word, "any", "any|divide|reciprocal|inverse",
            "path=e4m3fn, D = 448, and q8, D = 127: absmax / D, absmax times a rounded 1 / D, or 1 / (D "
            "/ absmax)"},
    KeySpec{"code", KeyKind::word, "any", "any|divide|reciprocal|direct",
            "path=e4m3fn, q8: x / scale, x times a rounded 1 / scale, or x (D / absmax)"},
    KeySpec{"ties", KeyKind::word, "rule", "rule|any|even|away",
            "path=q8, q8_1: a quotient half-way between two codes: away from zero, as q8_0's rule has it "
            "(quantize), either, the even one, or away"},
    KeySpec{"scale_format", KeyKind::word, "f16", "f16|f32",
            "path=q8: what the scales of activations are stored in"},
    KeySpec{"sums", KeyKind::word, "codes", "codes|values",
            "path=q8_1: a block's sum is d times that of its codes, or that of x before it is quantised"},
    KeySpec{"tf32", KeyKind::word, "any", "any|nearest_even|nearest_away|toward_zero",
            "path=tf32: how operands are rounded to it"},
}));

// Whether what the infinities of two rows make of their product is what every kernel makes of it. Infinite
// operands must still be so where they are multiplied (a quantiser clamps them), their partners of one sign
// and not rounded to zero, and no conversion of a finite number and no sum of the finite products may
// overflow. No scale of the epilogue, nor a product of some, may be flushed, or round, to a zero that the
// real one is not, and no partner be below `least`, which is flushed: 0 Inf is NaN. So with the scales of
// blocks, where a kernel may multiply them before they meet a sum.
bool is_special_certain(const OperandRow& a, const OperandRow& b, const Accumulator& acc, bool flush,
                        double least) {
  // Twice the smallest normal f32: rounding does not bring it below that.
  constexpr double kLeastScale = 0x1p-125;
  const auto least_block = [&](const OperandRow& row) {
    double least_scale = 1;
    if (acc.unit != nullptr) return least_scale;
    for (const float s : row.block_scales)
      if (s > 0) least_scale = std::min(least_scale, static_cast<double>(s));
    return least_scale;
  };
  const std::array parts{has_two_scales(a) ? a.two_scales[0] : a.scale,
                         a.two_scales[1],
                         has_two_scales(b) ? b.two_scales[0] : b.scale,
                         b.two_scales[1],
                         least_block(a),
                         least_block(b)};
  for (unsigned set = 1; set < 1U << parts.size(); ++set) {
    double scale = 1;
    int factors = 0;
    for (std::size_t i = 0; i < parts.size(); ++i)
      if ((set >> i & 1U) != 0 && parts[i] != 1) scale *= parts[i], ++factors;
    const bool is_stored =
        factors == 1 && (set >> 4) != 0;  // a scale of a block, which vanishes where it is flushed alone
    if (is_stored && !flush) continue;
    if (scale != 0 && !(std::fabs(scale) >= kLeastScale)) return false;
  }
  double finite = 0;
  const auto exact = [](const OperandRow& row, std::size_t k) {
    return row.exact.size() > k ? row.exact[k] : row.center[k];
  };
  const auto has_sign = [](const OperandRow& row, std::size_t k) {
    return row.reach.empty() || row.reach[k] < 2 * std::fabs(row.center[k]);
  };
  for (std::size_t k = 0; k < a.center.size(); ++k) {
    for (const OperandRow* row : {&a, &b}) {
      if (std::isinf(row->center[k]) != std::isinf(exact(*row, k))) return false;
      // One that may overflow where it is decoded: Inf - Inf, or 0 Inf.
      if (std::isfinite(row->center[k]) && !(std::fabs(row->center[k]) <= largest_finite(kPrecisionF32)))
        return false;
      if (!row->reach.empty() && std::isinf(row->reach[k]) && !std::isinf(row->center[k])) return false;
    }
    if (std::isinf(a.center[k]) || std::isinf(b.center[k])) {
      for (const OperandRow* row : {&a, &b})
        if (exact(*row, k) != 0 &&
            (row->center[k] == 0 || std::min(std::fabs(row->center[k]), std::fabs(exact(*row, k))) < least ||
             !has_sign(*row, k)))
          return false;
      continue;
    }
    const double product = std::fabs(a.center[k] * b.center[k]);
    if (std::isfinite(product)) finite += product;
  }
  return 2 * finite < largest_finite(acc.precision);
}

bool is_infinite(double x) { return std::isinf(x); }

// Where the codes of a block are summed and their scale comes after, an infinite scale makes an infinity of
// the sum, though a code of 0 times it, and less an infinite minimum, is NaN in the real formula.
bool is_scale_infinite(const OperandRow& weights, std::string_view path) {
  return path.starts_with("q8") &&
         (weights.has_infinite_scale || std::ranges::any_of(weights.exact, is_infinite));
}

// Rows of activations that their own quantiser may spoil: an infinity is the absmax of all that share its
// scale, and of a NaN a quantiser may make a code: int8 has no NaN, and a clamp of min and max makes the
// largest of one. Nothing is claimed of them.
std::vector<bool> spoilt_rows(std::span<const OperandRow> rows, std::string_view path) {
  std::vector<bool> spoilt(rows.size());
  if (path != "e4m3fn" && !path.starts_with("q8")) return spoilt;
  bool all = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    spoilt[i] = std::ranges::any_of(rows[i].exact, is_infinite) || has_nan(rows[i]);
    all = all || (path == "e4m3fn" && spoilt[i]);  // one scale of the whole tensor
  }
  if (all) spoilt.assign(rows.size(), true);
  return spoilt;
}

std::vector<Truth> truth(const Attributes& attributes, const TensorSet& set, const Contract& contract) {
  const OpInputs in(kMatmul.tensors(attributes), set);
  const Encoded& a = in.tensor("a");
  const Encoded& b = in.tensor("b");
  const std::string path = resolve_path(attributes.text("path"), format(a.format), format(b.format));
  const double roundings = contract.number("dequant_roundings");
  const Quantising quantising{contract.text("scale"),        contract.text("code"),
                              contract.text("tf32"),         contract.text("ties"),
                              contract.text("scale_format"), contract.text("ftz") == "yes"};
  const Operands left(a, path, Side::activations, roundings, quantising);
  const Operands right(b, path, Side::weights, roundings, quantising);
  const Accumulator acc = accumulator(contract.text("acc"));
  if (path == "blocks" && acc.unit != nullptr &&
      (left.block_scales() != acc.unit->scales || right.block_scales() != acc.unit->scales))
    throw InputError(InputErrorKind::bad_value, "acc=" + std::string(acc.name) + " takes block scales of '" +
                                                    std::string(acc.unit->scales) + "', not those of " +
                                                    a.format + " and " + b.format);
  const Dot dot(contract, left.element(), right.element(), contract.text("ftz") == "yes",
                left.significand_bits() + right.significand_bits());
  refuse_idle_blocking(contract, {&dot});
  const bool flushes =
      contract.text("ftz") == "yes" || (acc.unit != nullptr && acc.unit->combine == Combine::pairwise_flush);
  // An operand may be flushed in its own type, and in the one that it is multiplied in.
  double least = flushes ? std::max(smallest_normal(scalar_format(left.element())),
                                    smallest_normal(scalar_format(right.element())))
                         : 0;
  if (contract.text("ftz") == "yes" && acc.kind == Accumulator::Kind::floating)
    least = std::max(least, machine(acc.name, true).normal);
  const Store store = store_of(contract, attributes.text("dtype"));
  const std::int64_t m = left.rows(), n = right.rows();
  Truth t = make_truth("y", static_cast<std::size_t>(m * n),
                       "reference/ops/matmul: operands of path=" + path + ", accumulation in " +
                           std::string(contract.text("acc")) + ", epilogue, store");
  std::vector<OperandRow> rows(static_cast<std::size_t>(m));
  parallel_rows(rows.size(), static_cast<std::size_t>(attributes.integer("k")),
                [&](std::size_t i) { rows[i] = left.row(static_cast<std::int64_t>(i)); });
  const Products products(dot, std::move(rows));
  const std::vector<bool> spoilt = spoilt_rows(products.rows(), path);
  const bool has_block_sums = path == "q8_1" || path == "q8_K";
  const bool is_q8 = path.starts_with("q8"),
             are_scales_wide = path == "q8_K" || (path == "q8" && contract.text("scale_format") == "f32");
  // Where a kernel may multiply the sum of a block by both scales at once: codes of 8 bits, and floats of
  // block formats.
  const bool has_block_scales = (is_q8 && (are_scales_wide || format(b.format).kind != FormatKind::scalar)) ||
                                (path == "blocks" && acc.unit == nullptr);
  parallel_batches(n, [&](std::int64_t first, std::int64_t count) {
    std::vector<OperandRow> weights;
    std::vector<std::vector<double>> least_of;
    for (std::int64_t j = first; j < first + count; ++j) {
      weights.push_back(right.row(j));
      if (has_block_sums) least_of.push_back(minima(b, j));
    }
    const std::vector<DotResult> results = products(weights);
    for (std::size_t p = 0; p < results.size(); ++p) {
      const DotResult& r = results[p];
      const std::size_t row = p / weights.size(), column = p % weights.size();
      const std::size_t at = row * static_cast<std::size_t>(n) + static_cast<std::size_t>(first) + column;
      const bool is_finite = std::isfinite(r.exact);
      const OperandRow &x = products.rows()[row], &w = weights[column];
      if (spoilt[row] || (!is_finite && is_scale_infinite(w, path)) ||
          (!is_finite && !has_nan(x) && !has_nan(w) && !is_special_certain(x, w, acc, dot.flush(), least)))
        set_unclaimed(t, at);
      else if (!is_finite)
        set_special(t, at, r.exact, store);
      else {
        double value = r.kernel.value, error = r.kernel.error;
        if (has_block_sums && !least_of[column].empty()) {
          const BlockSums sums = block_sums(path, contract.text("sums") == "values", x, w, least_of[column],
                                            acc.precision, dot.flush());
          value += sums.shift, error = up(error + sums.error);
        }
        // A scale of f32 may make an operand of its code first.
        if (path == "blocks" && acc.unit == nullptr &&
            acc.precision.p > kPrecisionF32.p)  // summed in f32 first
          error = up(error + block_scale_rounding(x, w, 32 + 3));
        if (is_q8 && acc.precision.p > kPrecisionF32.p)
          error = up(error +
                     block_scale_rounding(
                         x, w, contract.number("epilogue_roundings") + (are_scales_wide ? roundings : 0)));
        if (has_block_scales)
          error = up(error + block_scale_error(path, {left.element(), right.element()}, x, w, dot.flush(),
                                               has_block_sums && !least_of[column].empty()));
        set_truth_within(t, at, {value, error}, store);
      }
    }
  });
  if (is_judged_by_replay(contract)) {
    Quantising bits = quantising;
    bits.replayed = true;
    replay_products(t, path, left, Operands(b, path, Side::weights, roundings, bits), contract, store);
  }
  return alone(std::move(t));
}

}  // namespace

const Op kMatmul = {
    .name = "matmul",
    .formula = "y[i,j] = sum_k a[i,k] b[j,k]",
    .signature =
        "a[m,k] a\n"
        "b[n,k] b\n"
        "-> y[m,n] dtype",
    .example = "m=4 n=32 k=64 a=bf16 b=bf16 dtype=f32",
    .attributes = kAttributes,
    .contract = kContract,
    .tensors = tensors_of<kMatmul>,
    .indices = nullptr,
    .truth = truth,
    .unused = nullptr,
    .stages = matmul_stages,
};

}  // namespace assay
