// What the order-free limit reads of a contract: its roundings, its sums and their errors. Proofs: detap.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/arithmetic/dot_bound.hpp"
#include "reference/arithmetic/order.hpp"
#include "reference/formats/block.hpp"
#include "reference/ops/attention/conversions.hpp"
#include "reference/ops/attention/limits/detap.hpp"

namespace assay::detap {

inline constexpr double kU = 0x1p-24;
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kFlush = 0x1p-126;
inline constexpr double kSunk = 200;        // exp(-kSunk) is below kFlush with room for a logit's own error
inline constexpr double kSunkSlope = 1e-6;  // and so it is for a sink of any size, rounded a dozen times
inline constexpr double kF32Max = std::numeric_limits<float>::max();

// Rounding to a scalar format: relative and absolute error, overflow.
struct Cast {
  double u = 0, tiny = 0, largest = kInf;
  int emin = -126;
  // To either neighbour: less than one unit in the last place.
  Cast anyhow(std::string_view name) const {
    return {2 * u, 2 * tiny, std::min(largest, scalar_format(name).max_finite), emin};
  }
};
inline Cast cast_to(std::string_view name) {
  const ScalarFormat& f = scalar_format(name);
  const int emin = 1 - f.bias;
  const double u = std::ldexp(1.0, -(f.fraction_bits + 1));
  // What is up to half a step above the largest number is rounded to it.
  const double largest = f.kind == ScalarKind::integer ? f.max_finite + 0.25 : f.max_finite * (1 + u / 4);
  return {u, std::ldexp(1.0, emin - f.fraction_bits - 1), largest, emin};
}
// Of weights: integers err by half a step, whatever the weight.
inline Cast cast_of_weights(std::string_view name) {
  Cast cast = cast_to(name);
  if (scalar_format(name).kind == ScalarKind::integer) cast.u = 0, cast.tiny = 0.5;
  return cast;
}
inline int emin_of(std::string_view format_name) {
  const Format& row = format(format_name);
  if (row.kind == FormatKind::scalar) {
    const ScalarFormat& s = scalar_format(format_name);
    if (s.kind == ScalarKind::floating) return 1 - s.bias;
  }
  return row.kind == FormatKind::scalar ? 0 : -126;
}
// The largest scale of a scaled tensor; 1 of others.
inline double largest_scale(const Encoded& tensor) {
  if (format(tensor.format).kind != FormatKind::scaled) return 1;
  return scale_range(plane_of(tensor, ".scale")).most;
}
// Smallest normal exponent of a stored tensor's numbers: of scaled formats, times the largest scale, rounded
// up.
inline int emin_of(const Encoded& tensor) {
  const Format& row = format(tensor.format);
  if (row.kind != FormatKind::scaled) return emin_of(row.name);
  const double largest = largest_scale(tensor);
  return emin_of(row.element) + (largest > 0 ? std::ilogb(largest) + 1 : 0);
}

// A sum of n products, in `parts` partial sums of at most `chunk` each, which are added in f32; no product
// goes through more than `height` additions inside its partial sum (scalar accumulators).
struct SumShape {
  std::int64_t n = 0, chunk = 0, parts = 1;
  double height = 0;
  std::int64_t blocks = 0;      // of a unit, in all
  std::int64_t run_blocks = 0;  // and of one partial sum
};

// |error| of such a sum, as a function of the absolute sum. largest: of any product, subnormal: of any
// product with a subnormal operand.
class DotError {
 public:
  // scaled: what the accumulator holds is a factor times these magnitudes that need not be a power of two.
  DotError(const Accumulator& how, const SumShape& shape, double largest, double subnormal,
           bool scaled = false)
      : how_(how),
        shape_(shape),
        head_(std::max(largest, subnormal)),
        subnormal_(subnormal),
        scaled_(scaled) {
    affine_ = how.kind == Accumulator::Kind::floating;
    if (affine_) {
      at_zero_ = one(0);
      slope_ = (one(1) - at_zero_) * (1 + 0x1p-40);
      limit_ = largest_finite(how.precision);
    }
  }
  double operator()(double abs_sum) const {
    if (!affine_) return one(abs_sum);
    const double e = slope_ * abs_sum + at_zero_;
    return abs_sum + e < limit_ ? e : kInf;
  }

 private:
  double one(double abs_sum) const {
    DotMagnitudes m;
    m.n = std::min(shape_.chunk, shape_.n);
    m.abs_sum = abs_sum;
    m.head = std::max(head_, 0.0);
    m.scaled = scaled_;
    if (how_.unit != nullptr && how_.unit->combine == Combine::pairwise_flush)
      m.flushed = static_cast<double>(shape_.n) * subnormal_;
    if (how_.kind == Accumulator::Kind::unit) {
      m.n = shape_.n;
      if (shape_.parts <= 1) return dot_bound(how_, m, 0, {.split = 1, .blocks = shape_.blocks});
      const std::int64_t run = std::max<std::int64_t>(1, shape_.run_blocks);
      return dot_bound(how_, m, run, {.split = 1, .blocks = shape_.blocks, .runs = shape_.parts});
    }
    const auto chain = [&](const DotMagnitudes& of) {
      return how_.kind == Accumulator::Kind::floating
                 ? dot_bound_ordered(how_.precision, static_cast<std::int64_t>(shape_.height), of)
                 : dot_bound(how_, of);
    };
    if (shape_.parts <= 1) return chain(m);
    // Each partial sum is bounded with its own share of abs_sum; the bounds are affine, so they add up.
    DotMagnitudes none = m;
    none.abs_sum = 0;
    const double floor = chain(none);
    const double inner = (chain(m) - floor) * (1 + 0x1p-40) + static_cast<double>(shape_.parts) * floor;
    return inner + gamma_n(static_cast<double>(shape_.parts), kU) * (abs_sum + inner);
  }
  Accumulator how_;
  SumShape shape_;
  double head_, subnormal_, at_zero_ = 0, slope_ = 0, limit_ = kInf;
  bool affine_ = false, scaled_ = false;
};

// The contract, read once.
struct Kernel {
  Accumulator qk, pv, rowsum;
  std::int64_t chunk, promote, tile, split, part, qk_block, pv_block;
  Order qk_order, pv_order, rowsum_order;
  double exp_ulp, tanh_ulp, div_ulp;
  double lag;                           // e^lag: the largest weight
  bool scales_q, rounds_scaled_q;       // the scale may come before q.k; and is then rounded into q's format
  bool once, states;                    // how parts are merged
  bool fused_argument;                  // S scale - m scale may be one operation
  bool shares;                          // weights are divided before their cast
  bool p_exact, p_anyhow, cast_in_sum;  // anyhow: not to nearest
  Cast p, scores, convert, q, scaled_q, out, dtype;
  bool scores_cast, converts_k, converts_v;  // `convert` rounds K, V
  bool converts_q, q_blocks, out_cast;
  bool k_rounds, v_rounds;      // decoded values are not f32 numbers
  bool k_rotates, v_rotates;    // they are sums of a block that butterflies transform back
  double k_decoder, v_decoder;  // decoder_error
  double k_tiny;                // decoder_tiny of K
  Joined of_logits;             // the scale, K's own and 1 / softcap
  double k_most;                // largest code of K, where its f32 scales may be joined; else 0
  bool qk_scaled;               // q.k is summed in codes
  int p_emin, k_emin, v_emin, q_emin;
  double
      v_scale;  // of V, or 1 where that is larger: what is lost to underflow in front of it is multiplied by it
  double p_scale;                  // 2^p_shift
  double largest_cast = 0;         // what the cast of a weight within u / 8 of 1 is off; Inf: not one number
  bool shift_rounds;               // it is no power of two
  double pv_u, rowsum_u;           // of one rescale of the accumulator and of the row sum
  double pv_tiny;                  // what one rescale of the accumulator may lose below its normal numbers
  double largest_pv, largest_sum;  // finite numbers of the registers of PV and of the row sum
  double q_code, k_code,
      v_code;  // the largest codes that a unit multiplies before their scale is applied; 0: none

  Kernel(const Contract& c, const AttentionProblem& problem)
      : qk(accumulator(c.text("qk"))), pv(accumulator(c.text("pv"))), rowsum(accumulator(c.text("rowsum"))) {
    const AttentionGeometry& g = problem.geometry();
    chunk = c.integer("chunk");
    promote = c.integer("promote");
    tile = c.integer("tile");
    split = c.integer("split");
    part = c.integer("part");
    qk_block = c.integer("qk_block"), pv_block = c.integer("pv_block");
    qk_order = order_of(c.text("qk_order")), pv_order = order_of(c.text("pv_order"));
    rowsum_order = order_of(c.text("rowsum_order"));
    exp_ulp = c.number("exp_ulp");
    tanh_ulp = c.number("tanh_ulp");
    div_ulp = c.number("div_ulp");
    lag = std::exp(c.number("lag"));
    scales_q = c.text("scaling") != "scores";
    // A unit takes a scaled q in the format of its operand; codes take the scale into theirs.
    rounds_scaled_q =
        c.text("scaling") == "q_rounded" || (c.text("scaling") == "q" && qk.kind == Accumulator::Kind::unit &&
                                             !quantises_rows(c.text("q")) && !quantises_blocks(c.text("q")));
    once = c.text("merge") == "once", states = c.text("merge") == "states";
    fused_argument = c.text("argument") == "any";
    shares = c.text("weights") == "shares";
    const bool any_way = c.text("casts") == "any";
    const auto cast_of = [&](std::string_view key) {
      const Cast cast = cast_to(c.text(key));
      return rounds_to_tf32_anyhow(c, key) ? cast.anyhow(c.text(key)) : cast;
    };
    const auto stored_as = [&](std::string_view name) {
      return any_way && name != "f32" ? cast_to(name).anyhow(name) : cast_to(name);
    };
    p_anyhow = any_way || rounds_to_tf32_anyhow(c, "p");
    p = cast_of_weights(c.text("p"));
    if (p_anyhow) p = p.anyhow(c.text("p"));
    p_exact = c.text("p") == "f32";
    cast_in_sum = !shares && c.text("denominator") == "cast";
    scores_cast = c.text("scores") != "f32";
    scores = stored_as(c.text("scores"));
    // What has the format already is not rounded.
    const std::string_view to = c.text("convert");
    converts_k = to != "none" && to != g.k_format;
    converts_v = to != "none" && to != g.v_format;
    if (to != "none") convert = cast_of("convert");
    converts_q = c.text("q") != "none" && c.text("q") != g.dtype;
    q_blocks = quantises_blocks(c.text("q"));
    if (converts_q && !q_blocks) q = cast_of("q");
    scaled_q = converts_q && !q_blocks && !quantises_rows(c.text("q")) ? q : cast_to(g.dtype);
    dtype = stored_as(g.dtype);
    out_cast = c.text("out") != "dtype" && c.text("out") != g.dtype;
    out = out_cast ? stored_as(c.text("out")) : dtype;
    const auto rounds = [](const std::string& name) { return format(name).kind != FormatKind::scalar; };
    k_rounds = rounds(g.k_format);
    v_rounds = rounds(g.v_format);
    k_decoder = decoder_error(g.k_format, div_ulp), v_decoder = decoder_error(g.v_format, div_ulp);
    k_tiny = decoder_tiny(g.k_format, div_ulp);
    of_logits = Joined::of_logits(problem);
    k_rotates = g.k_format.starts_with("tq3");
    v_rotates = g.v_format.starts_with("tq3") && c.text("v_inverse") != "row";
    p_scale = std::exp2(c.number("p_shift"));
    shift_rounds = c.number("p_shift") != std::floor(c.number("p_shift"));
    if (!p_exact) {  // what a weight of 1 is cast to, where a weight near it is too
      const ScalarFormat& f = scalar_format(c.text("p"));
      const double near = p.u / 8, cast = round_to(f, p_scale * (1 - near));
      largest_cast = cast == round_to(f, p_scale * (1 + near)) ? std::fabs(cast / p_scale - 1) : kInf;
    }
    const auto unit_of = [](const Accumulator& a) {
      if (a.kind == Accumulator::Kind::integer) return kU;
      return std::max(kU, std::ldexp(a.kind == Accumulator::Kind::unit ? 2.0 : 1.0, -a.precision.p));
    };
    pv_u = promote > tile ? unit_of(pv) : kU;  // partial sums of a tile are added to f32 registers
    pv_tiny = kFlush;
    if (promote > tile)
      pv_tiny = std::max(
          kFlush, underflow_unit(pv.precision, pv.kind == Accumulator::Kind::unit ? Rounding::toward_zero
                                                                                  : Rounding::nearest_even));
    rowsum_u = unit_of(rowsum);
    largest_pv = largest_finite(pv.precision);
    largest_sum = largest_finite(rowsum.precision);
    p_emin = p.emin;
    k_emin = converts_k ? convert.emin : emin_of(problem.k());
    v_scale = std::max(1.0, largest_scale(problem.v()));
    v_emin = converts_v ? convert.emin : emin_of(problem.v());
    // A row's largest code is the format's largest, so no product's exponent is above that of its largest
    // product.
    const bool q_codes = quantises_rows(c.text("q"));
    q_emin = q_codes ? -126 : converts_q && !q_blocks ? q.emin : emin_of(g.dtype);
    qk_scaled = q_codes || format(g.k_format).kind == FormatKind::scaled;
    q_code = q_codes ? scalar_format(c.text("q")).max_finite : 0;
    const auto largest_code = [](const Format& f) {
      return f.kind == FormatKind::scaled ? scalar_format(f.element).max_finite : 0.0;
    };
    k_code = largest_code(format(g.k_format));
    v_code = largest_code(format(g.v_format));
    k_most = k_code > 0 ? k_code : largest_unscaled(g.k_format);
  }
  // Of so many products in one chain of a unit.
  static std::int64_t blocks_of(const Accumulator& how, std::int64_t products, std::int64_t block) {
    if (how.unit == nullptr) return products;
    const std::int64_t own = std::min<std::int64_t>(block, how.unit->group);
    return (products + own - 1) / own;
  }
  SumShape of_qk(std::int64_t d) const {
    const std::int64_t own = std::min(chunk, d);
    const std::int64_t parts = (d + own - 1) / own, run = blocks_of(qk, own, qk_block);
    return {d, own, parts, qk_order.height(static_cast<double>(own)), parts * run, run};
  }
  // tiles: that a row touches at most. What is hidden from a row leaves its partial sums short, not fewer.
  SumShape of_pv(const AttentionRow& row, double tiles) const {
    const auto n = static_cast<double>(row.keys);
    if (pv.kind == Accumulator::Kind::unit) {
      // Hidden keys are multiplied by zero: a block errs where it has one that is seen, or begins before the
      // first of a part.
      const std::int64_t ends = split > 1 || row.keys < row.span ? 1 + 2 * split : 1;
      const std::int64_t blocks = std::min(row.keys, blocks_of(pv, row.span, pv_block) + ends);
      if (promote >= row.keys) return {row.keys, row.keys, 1, 0, blocks, blocks};
      const std::int64_t runs = std::min(row.keys, row.span / promote + 2 + split),
                         run = blocks_of(pv, promote, pv_block);
      return {row.keys, promote, runs, 0, std::min(row.keys, blocks + runs), run};
    }
    if (promote < row.keys)
      return {row.keys, promote, std::min(row.keys, row.span / promote + 2 + split),
              pv_order.height(static_cast<double>(promote))};
    double height = n - 1;  // one accumulator for all keys
    if (pv_order == Order::likely)
      height = pv_order.height(n);
    else if (pv_order.is_shallow() &&
             promote > tile)  // a tile's own sum, then the additions of the later ones
      height =
          std::min(height, pv_order.height(static_cast<double>(tile)) + tiles + static_cast<double>(split));
    else if (pv_order.is_shallow())
      height = std::min(height, pv_order.height(static_cast<double>(promote)));
    return {row.keys, row.keys, 1, height};
  }
  // A unit that adds whole codes leaves scales, and what is rescaled, to f32: relative to the absolute sum,
  // what so many sums of codes lose there, each with the products of its scales (3) and its own rounding.
  static double of_whole_sums(const Accumulator& how, double sums) {
    const bool whole = how.unit != nullptr && how.unit->out == "i32";
    return whole ? gamma_n(sums + 4, kU) : 0;
  }
  // Additions that a weight goes through in the row sum, rescales apart. What is hidden adds 0 in its place:
  // it costs no rounding, but the others do not close up. So a weight goes through no more additions than
  // there are keys, nor than the places of the order have.
  double rowsum_height(const AttentionRow& row, double tiles) const {
    const auto n = static_cast<double>(row.keys), places = static_cast<double>(row.span),
               own = std::min(static_cast<double>(tile), n), merges = static_cast<double>(split);
    const auto of_places = [&](double all) { return std::min(n, rowsum_order.height(all) + 1); };
    if (rowsum_order == Order::likely) return rowsum_order.height(n) + 1 + merges;
    if (rowsum_order == Order::sequential) return of_places(n) + merges;
    if (rowsum_order == Order::lanes) {  // running sums over all tiles; each tile begins with the first
      const auto lanes = static_cast<double>(rowsum_order.count), whole = static_cast<double>(tile);
      const bool restarts = std::fmod(whole, lanes) != 0 && places > whole;
      return of_places(restarts ? tiles * std::ceil(whole / lanes) * lanes : places) + merges;
    }
    if (!rowsum_order.is_shallow()) return n + merges;          // any: of all keys, whatever the tiles
    const bool whole = row.keys == row.span && row.first == 0;  // of its tiles
    const double all = whole ? own : static_cast<double>(tile);
    return std::min(own, rowsum_order.height(all) + 1) + tiles + merges;
  }
  // Merges that a part's numbers may go through, each with an exp of its own: one or, one part after the
  // other, as many as there are others.
  double merges(double keys) const {
    if (split <= 1) return 0;
    return once ? 1 : std::max(1.0, std::min(static_cast<double>(split), keys) - 1);
  }
  // Of the outputs of parts: each is scaled and added, and divided: by its own sum and, as a weight or as a
  // whole, by the sum of all, or whenever two log-sum-exps are merged. Of v = -1 and 1 + 2^-23 the last
  // quotient of a whole errs by nothing, those of the weights by 2 div_ulp u each.
  double merge_roundings() const {
    const auto parts = static_cast<double>(split);
    return 5 + 4 * div_ulp + parts * (once || states ? 1 : 3 + 2 * div_ulp);
  }
  // Whether a sum of codes of at most `most` fits the registers of a matrix unit; scalar kernels decode
  // first.
  static bool holds(const Accumulator& how, double most) {
    const bool bounded = how.kind == Accumulator::Kind::unit && how.unit->combine != Combine::wrap;
    return !bounded || 2 * most < largest_finite(how.precision);
  }
};

}  // namespace assay::detap
