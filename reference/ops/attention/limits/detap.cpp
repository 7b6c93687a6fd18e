#include "reference/ops/attention/limits/detap.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/arithmetic/dot_bound.hpp"
#include "reference/formats/block.hpp"

namespace assay {
namespace {

constexpr double kU = 0x1p-24;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kFlush = 0x1p-126;
constexpr double kSunk = 200;        // exp(-kSunk) is below kFlush with room for a logit's own error
constexpr double kSunkSlope = 1e-6;  // and so it is for a sink of any size, rounded a dozen times
constexpr double kF32Max = std::numeric_limits<float>::max();

// Rounding to a scalar format: relative and absolute error, overflow.
struct Cast {
  double u = 0, tiny = 0, largest = kInf;
  int emin = -126;
};
Cast cast_to(std::string_view name) {
  const ScalarFormat& f = scalar_format(name);
  const int emin = 1 - f.bias;
  return {std::ldexp(1.0, -(f.fraction_bits + 1)), std::ldexp(1.0, emin - f.fraction_bits - 1), f.max_finite,
          emin};
}
int emin_of(std::string_view format_name) {
  const Format& row = format(format_name);
  if (row.kind == FormatKind::scalar) {
    const ScalarFormat& s = scalar_format(format_name);
    if (s.kind == ScalarKind::floating) return 1 - s.bias;
  }
  return row.kind == FormatKind::scalar ? 0 : -126;
}
// Smallest normal exponent of a stored tensor's numbers: of scaled formats, times the largest scale, rounded up.
int emin_of(const Encoded& tensor) {
  const Format& row = format(tensor.format);
  if (row.kind != FormatKind::scaled) return emin_of(row.name);
  float largest = 0;
  const Plane& scales = plane_of(tensor, ".scale");
  for (std::size_t at = 0; at + sizeof(float) <= scales.bytes.size(); at += sizeof(float)) {
    float s = 0;
    std::memcpy(&s, scales.bytes.data() + at, sizeof s);
    if (std::isfinite(s)) largest = std::max(largest, s);
  }
  return emin_of(row.element) + (largest > 0 ? std::ilogb(largest) + 1 : 0);
}

// |error| of a sum of n products in partial sums of `chunk` products, as a function of the absolute sum.
// largest: of any product, subnormal: of any product with a subnormal operand.
class DotError {
 public:
  // scaled: what the accumulator holds is a factor times these magnitudes that need not be a power of two.
  DotError(const Accumulator& how, std::int64_t n, std::int64_t chunk, double largest, double subnormal,
           bool scaled = false)
      : how_(how),
        n_(n),
        chunk_(std::min(chunk, std::max<std::int64_t>(n, 1))),
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
    const std::int64_t parts = (n_ + chunk_ - 1) / chunk_;
    DotMagnitudes m;
    m.n = std::min(chunk_, n_);
    m.abs_sum = abs_sum;
    m.head = std::max(head_, 0.0);
    m.scaled = scaled_;
    if (how_.unit != nullptr && how_.unit->combine == Combine::pairwise_flush)
      m.flushed = static_cast<double>(n_) * subnormal_;
    if (parts <= 1) return dot_bound(how_, m);
    if (how_.kind == Accumulator::Kind::unit) {
      m.n = n_;
      const std::int64_t blocks = std::max<std::int64_t>(1, chunk_ / how_.unit->group);
      return dot_bound(how_, m, blocks);
    }
    // Each partial sum is bounded with its own share of abs_sum; the bounds are affine, so they add up.
    DotMagnitudes none = m;
    none.abs_sum = 0;
    const double floor = dot_bound(how_, none);
    const double inner = (dot_bound(how_, m) - floor) * (1 + 0x1p-40) + static_cast<double>(parts) * floor;
    return inner + gamma_n(static_cast<double>(parts), kU) * (abs_sum + inner);
  }
  Accumulator how_;
  std::int64_t n_, chunk_;
  double head_, subnormal_, at_zero_ = 0, slope_ = 0, limit_ = kInf;
  bool affine_ = false, scaled_ = false;
};

// The contract, read once.
struct Kernel {
  Accumulator qk, pv, rowsum;
  std::int64_t chunk, promote, tile, split, part;
  double exp_ulp, tanh_ulp, div_ulp;
  bool p_exact, cast_in_sum;
  Cast p, scores, convert, q, out, dtype;
  bool scores_cast, converts_k, converts_v;  // `convert` rounds K, V
  bool converts_q, q_blocks, out_cast;
  bool k_rounds, v_rounds;  // decoded values are not f32 numbers
  bool qk_scaled;           // q.k is summed in codes
  int p_emin, k_emin, v_emin, q_emin;
  double p_scale;                  // 2^p_shift
  double pv_u, rowsum_u;           // of one rescale of the accumulator and of the row sum
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
    exp_ulp = c.number("exp_ulp");
    tanh_ulp = c.number("tanh_ulp");
    div_ulp = c.number("div_ulp");
    p = cast_to(c.text("p"));
    p_exact = c.text("p") == "f32";
    cast_in_sum = c.text("denominator") == "cast";
    scores_cast = c.text("scores") != "f32";
    scores = cast_to(c.text("scores"));
    // What has the format already is not rounded.
    const std::string_view to = c.text("convert");
    converts_k = to != "none" && to != g.k_format;
    converts_v = to != "none" && to != g.v_format;
    if (to != "none") convert = cast_to(to);
    converts_q = c.text("q") != "none" && c.text("q") != g.dtype;
    q_blocks = c.text("q") == "q8_0";
    if (converts_q && !q_blocks) q = cast_to(c.text("q"));
    dtype = cast_to(g.dtype);
    out_cast = c.text("out") != "dtype" && c.text("out") != g.dtype;
    out = out_cast ? cast_to(c.text("out")) : dtype;
    const auto rounds = [](const std::string& name) { return format(name).kind != FormatKind::scalar; };
    k_rounds = rounds(g.k_format);
    v_rounds = rounds(g.v_format);
    p_scale = std::exp2(c.number("p_shift"));
    const auto unit_of = [](const Accumulator& a) {
      if (a.kind == Accumulator::Kind::integer) return kU;
      return std::max(kU, std::ldexp(a.kind == Accumulator::Kind::unit ? 2.0 : 1.0, -a.precision.p));
    };
    pv_u = promote > tile ? unit_of(pv) : kU;  // partial sums of a tile are added to f32 registers
    rowsum_u = unit_of(rowsum);
    largest_pv = largest_finite(pv.precision);
    largest_sum = largest_finite(rowsum.precision);
    p_emin = p.emin;
    k_emin = converts_k ? convert.emin : emin_of(problem.k());
    v_emin = converts_v ? convert.emin : emin_of(problem.v());
    // A row's largest code is the format's largest, so no product's exponent is above that of its largest product.
    const bool q_codes = quantises_rows(c.text("q"));
    q_emin = q_codes ? -126 : converts_q && !q_blocks ? q.emin : emin_of(g.dtype);
    qk_scaled = q_codes || format(g.k_format).kind == FormatKind::scaled;
    q_code = q_codes ? scalar_format(c.text("q")).max_finite : 0;
    const auto largest_code = [](const Format& f) {
      return f.kind == FormatKind::scaled ? scalar_format(f.element).max_finite : 0.0;
    };
    k_code = largest_code(format(g.k_format));
    v_code = largest_code(format(g.v_format));
  }
  // Whether a sum of codes of at most `most` fits the registers of a matrix unit; scalar kernels decode first.
  static bool holds(const Accumulator& how, double most) {
    const bool bounded = how.kind == Accumulator::Kind::unit && how.unit->combine != Combine::wrap;
    return !bounded || 2 * most < largest_finite(how.precision);
  }
};

// Everything of a row that its columns share.
struct RowError {
  double theta = kInf, e_l = kInf;
  double weight = 0;  // W
  double changes = 0;
  // Weights of certified.hpp (relative to 2^M) times this are relative to the largest logit.
  double to_top = 1;
};

RowError row_error(const AttentionGeometry& g, const Kernel& kernel, const AttentionRow& row, double sink,
                   double q_uncertainty) {
  RowError e;
  // A sink so far below the keys weighs less than the flush that every key is allowed, however it is rounded.
  const bool sunk =
      g.sinks && std::isfinite(sink) && sink >= row.largest_logit - kSunk - kSunkSlope * std::fabs(sink);
  const double top = sunk ? std::max(row.largest_logit, sink) : row.largest_logit;
  e.to_top = std::exp(row.log2_reference * 0.6931471805599453 - top) * (1 - 0x1p-30);
  e.weight = row.weight_sum * e.to_top;
  const auto n = static_cast<double>(row.keys);
  const double longest = static_cast<double>(std::min(row.span, kernel.split > 1 ? kernel.part : row.span));
  const double tiles = std::ceil(longest / static_cast<double>(kernel.tile)) + 1;  // unaligned start
  const double b = row.norm_product, x = b + row.bias_max + (sunk ? std::fabs(sink) : 0.0);
  const double abs_sum = row.q_norm * row.k_norm;
  const double subnormal =
      std::max(std::ldexp(row.k_norm, kernel.q_emin), std::ldexp(row.q_norm, kernel.k_emin));
  const DotError qk(kernel.qk, g.d, kernel.chunk, abs_sum, subnormal, kernel.qk_scaled);
  const double root = std::sqrt(static_cast<double>(g.d));
  const double q_most = kernel.q_code > 0 ? kernel.q_code * root : row.q_norm;
  const double k_most = kernel.k_code > 0 ? kernel.k_code * root : row.k_norm;
  if (!Kernel::holds(kernel.qk, q_most * k_most)) return e;
  double conversions = q_uncertainty * row.k_norm * (1 + 32 * kU);  // into B and X too, to first order
  if (kernel.converts_k) conversions += kernel.convert.u * abs_sum + kernel.convert.tiny * root * row.q_norm;
  if (kernel.k_rounds) conversions += 2 * kU * abs_sum;
  if (kernel.q_blocks)
    conversions += row.q_norm * (0.5 / 127 + 0x1p-11) * (1 + 0x1p-9) * root * row.k_norm +
                   0x1p-24 * 127 * root * row.k_norm;
  else if (kernel.converts_q)
    conversions += kernel.q.u * abs_sum + kernel.q.tiny * root * row.k_norm;
  if ((kernel.converts_k && row.k_norm >= kernel.convert.largest) ||
      (kernel.converts_q && !kernel.q_blocks && row.q_norm >= kernel.q.largest))
    return e;
  double lambda = g.scale * (qk((abs_sum + conversions) * (1 + 4 * kU)) + conversions);
  lambda += 4 * kU * b + 10 * kU * x;
  if (kernel.scores_cast) {
    lambda += kernel.scores.u * x + kernel.scores.tiny;
    if (x + lambda >= kernel.scores.largest) return e;
  }
  if (g.softcap > 0) lambda += g.softcap * kU * (8 + 2 * kernel.tanh_ulp);
  if (g.alibi) lambda += 4 * kU * row.bias_max + kU * x;
  if (kernel.split > 1) lambda += kU * (6 * x + 6 * std::log(n + 2) + 6);
  e.changes = tiles - 1 + (kernel.split > 1 ? 2 : 0);
  if (static_cast<double>(row.span) <= static_cast<double>(kernel.tile) && kernel.split == 1) e.changes = 0;
  double exponent = lambda + (1 + e.changes) * std::log1p(2 * kU * kernel.exp_ulp) + 4 * kU;
  if (kernel.cast_in_sum && !kernel.p_exact) exponent += std::log1p(kernel.p.u);
  e.theta = std::expm1(exponent) * (1 + 0x1p-40);
  const double depth =
      std::min(static_cast<double>(kernel.tile), n) + tiles + static_cast<double>(kernel.split);
  const DotError sum(kernel.rowsum, static_cast<std::int64_t>(depth), std::int64_t{1} << 40, 1.0, 0.0);
  const double absolute = kernel.cast_in_sum
                              ? n * (kernel.p_exact ? kFlush : kernel.p.tiny / kernel.p_scale + kFlush)
                              : (n + 1) * kFlush;
  // Before its maximum is met, a key's weight is up to 1; a maximum over the keys alone leaves the sink above 1.
  const double sink_above = sunk ? std::max(1.0, std::exp(sink - row.largest_logit + lambda)) : 0;
  if (!((n + sink_above) * (1 + e.theta) * (1 + depth * unit_roundoff(kernel.rowsum.precision)) <
        kernel.largest_sum))
    return e;
  e.e_l = sum(e.weight * (1 + e.theta)) / e.weight + e.changes * kernel.rowsum_u * 1.01 + absolute / e.weight;
  return e;
}

}  // namespace

AttentionLimits detap_limits(const AttentionProblem& p, const CertifiedAttention& exact,
                             const Contract& contract, const Conversions& applied) {
  const AttentionGeometry& g = p.geometry();
  Kernel kernel(contract, p);  // g is of the converted problem: formats whose decoding needs no rounding
  if (applied.kv) kernel.converts_k = kernel.converts_v = false;
  if (applied.q) kernel.converts_q = kernel.q_blocks = false;
  const auto dv = static_cast<std::size_t>(g.dv);
  AttentionLimits out{exact.value, std::vector<double>(exact.value.size(), 0.0)};
  std::vector<double> before(dv), certificate(dv);
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t i = 0; i < g.rows; ++i)
      for (std::int64_t h = 0; h < g.heads; ++h) {
        const auto at = static_cast<std::size_t>(p.out_index(b, i, h));
        const AttentionRow& row = exact.rows[at / dv];
        if (g.sinks && p.sink(h) == kInf) {  // 0 or NaN, by whether the maximum is taken over the sink too
          std::fill_n(out.limit.begin() + static_cast<std::ptrdiff_t>(at), dv, kInf);
          continue;
        }
        if (row.keys == 0) {  // zeros are exact; where nothing is claimed, so it is said
          for (std::size_t c = 0; c < dv; ++c)
            if (!exact.claimed.empty() && !exact.claimed[at + c]) out.limit[at + c] = kInf;
          continue;
        }
        const RowError e = row_error(g, kernel, row, p.sink(h), applied.uncertainty(at / dv));
        const bool hopeless =
            !(e.theta < 0.5) || !(e.e_l < 0.5) || !(kernel.p_scale * (1 + e.theta) < kernel.p.largest);
        const double tiny = (kernel.p_exact ? 0.0 : kernel.p.tiny / kernel.p_scale) + kFlush;
        const double largest_v = exact.value_max;
        const double subnormal =
            std::max(std::ldexp(largest_v, kernel.p_emin), std::ldexp(kernel.p_scale, kernel.v_emin));
        // Weights are relative to a maximum of their own time: rescaled by what is no power of two.
        const DotError pv(kernel.pv, row.keys, kernel.promote, largest_v * kernel.p_scale, subnormal, true);
        // Products relative to the largest logit, as the kernel scales them.
        const double top = e.weight * kernel.p_scale;
        const double u_p = kernel.p_exact ? 0.0 : kernel.p.u;
        for (std::size_t c = 0; c < dv; ++c) {
          const double o = std::fabs(exact.value[at + c]);
          certificate[c] = exact.certificate[at + c];
          if (hopeless || !std::isfinite(o)) {
            before[c] = std::isfinite(o) ? kInf : 0.0;
            continue;
          }
          const double a = exact.absolute[at + c], d = exact.deviation[at + c];
          // What is summed before the largest weight is met is not yet scaled down by it: transient overflow.
          const double all =
              exact.key_sum[at + c] * row.weight_sum * kernel.p_scale * (1 + e.theta) * (1 + u_p);
          const double chain = std::min(all, static_cast<double>(kernel.promote) * largest_v *
                                                 kernel.p_scale * (1 + e.theta) * (1 + u_p));
          const double codes =
              static_cast<double>(std::min(kernel.promote, row.keys)) * kernel.v_code * kernel.p_scale;
          if (!Kernel::holds(kernel.pv, codes) || !(chain + pv(chain) < kernel.largest_pv) ||
              !(all + pv(all) < kF32Max)) {
            before[c] = kInf;
            continue;
          }
          double n = kernel.cast_in_sum ? 0.0 : u_p * a;
          n += std::min(a, tiny * exact.key_sum[at + c] / e.to_top);
          n += pv(a * top * (1 + e.theta) * (1 + u_p)) / top * (1 + 1.1 * e.changes * kernel.pv_u);
          n += (e.changes * kernel.pv_u +
                (kernel.split > 1 ? static_cast<double>(kernel.split) + 4 + 2 * kernel.div_ulp : 0.0) * kU) *
               a * 1.01;
          if (kernel.converts_v) {
            n += kernel.convert.u * a + kernel.convert.tiny;
            if (largest_v >= kernel.convert.largest) n = kInf;
          }
          if (kernel.v_rounds) n += 2 * kU * a;
          const double r =
              (e.theta * d / (1 - e.theta) + (1 + e.theta) / (1 - e.theta) * n + o * e.e_l) / (1 - e.e_l);
          before[c] = r * (1 + 8 * kU) + (3 + 2 * kernel.div_ulp) * kU * (o + r);
        }
        if (g.rotate == RotateKind::qkv)
          unrotate(out.value.data() + at, before.data(), certificate.data(), dv);
        for (std::size_t c = 0; c < dv; ++c) {
          double o = std::fabs(out.value[at + c]), r = before[c];
          if (kernel.out_cast) {
            r += kernel.out.u * (o + r) + kernel.out.tiny;
            if (o + r >= kernel.out.largest) r = kInf;
          }
          r += kernel.dtype.u * (o + r) + kernel.dtype.tiny;
          double limit = r * (1 + 0x1p-40) + certificate[c];
          if (!(o + limit < kernel.dtype.largest)) limit = kInf;
          if (std::isnan(out.value[at + c])) limit = 0;
          if (!exact.claimed.empty() && !exact.claimed[at + c]) limit = kInf;
          out.limit[at + c] = limit;
        }
      }
  return out;
}

}  // namespace assay
