#include "reference/ops/attention/limits/bounds_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "reference/arithmetic/rule.hpp"
#include "reference/error.hpp"
#include "reference/ops/attention/conversions.hpp"
#include "reference/ops/attention/limits/bounds_detail.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

struct Stored {  // one head of K or V: values * scale are the decoded numbers
  std::vector<float> values;
  std::string format;
  double scale = 1;
};

[[noreturn]] void refuse(std::string_view level, const std::string& what) {
  throw InputError(InputErrorKind::bad_value, fmt::format("attention: level={}: {}", level, what));
}

double head_scale(const Encoded& tensor, const Format& format, std::int64_t head) {
  for (const Plane& plane : tensor.planes) {
    if (plane.spec.suffix != ".scale") continue;
    const std::int64_t index = format.axis == ScaleAxis::head ? head : 0;
    float scale = 1;
    std::memcpy(&scale, plane.bytes.data() + static_cast<std::size_t>(index) * sizeof scale, sizeof scale);
    return scale;
  }
  return 1;
}

constexpr std::size_t kRotated = 32;  // elements of a block of tq3_0

// A declared conversion does not say what becomes of a number beyond the format: a kernel may saturate or
// have Inf. As Inf it is seen by finite(), and the row keeps the order-free limit, which claims nothing
// there.
double converted(const ScalarFormat& format, double x) {
  return round_to(format, x, {.overflow = Overflow::ieee});
}

// Nothing where another decoder in f32 may hand the accumulator another number.
std::optional<Stored> stored(const Encoded& tensor, std::string_view convert, std::int64_t head,
                             const std::vector<double>& decoded, double div_ulp, bool emulated) {
  const Format& format = assay::format(tensor.format);
  Stored r;
  r.format = "f32";
  if (convert != "none") {
    r.format = std::string(convert);
  } else if (format.kind == FormatKind::scalar) {
    r.format = std::string(format.name);
  } else if (format.kind == FormatKind::scaled &&
             (format.axis == ScaleAxis::tensor || format.axis == ScaleAxis::head)) {
    r.format = std::string(format.element);
    r.scale = head_scale(tensor, format, head);
  }
  const ScalarFormat* rounding = convert == "none" ? nullptr : &scalar_format(convert);
  r.values.resize(decoded.size());
  const bool rotated = tensor.format.starts_with("tq3");
  double norm = 0;  // of a rotated block
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    if (rotated && i % kRotated == 0)
      norm = std::sqrt(std::inner_product(&decoded[i], &decoded[i] + kRotated, &decoded[i], 0.0));
    const auto in_f32 = static_cast<double>(static_cast<float>(decoded[i]));
    const double x = rounding == nullptr ? decoded[i] / r.scale : converted(*rounding, in_f32);
    r.values[i] = static_cast<float>(x);
    if (std::isnan(x)) continue;
    // One product is rounded to f32 before, or at once; any other decoder in f32 is within 2u of the number,
    // or within 10u of the norm of the block that it sums.
    const double off =
        1.01 * decoder_error(tensor.format, div_ulp) * (rotated ? norm : std::fabs(decoded[i]));
    const bool exact = !rotated && in_f32 == decoded[i] && decodes_exactly(tensor.format, decoded[i]);
    const bool decided =
        (emulated && !rotated) || exact || (rotated && norm == 0) ||
        (rounding == nullptr ? format.kind == FormatKind::scalar || format.kind == FormatKind::scaled
         : format.kind == FormatKind::scaled
             ? converted(*rounding, decoded[i]) == x
             : round_to(*rounding, decoded[i] - off) == x && round_to(*rounding, decoded[i] + off) == x);
    if (static_cast<double>(r.values[i]) != x || !decided) return std::nullopt;
  }
  return r;
}

bool finite(std::span<const float> x) {
  for (const float value : x) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

// The order in which the tiles are met: place p holds key at[p], or none (-1).
// A tile of more keys than there are is one tile, however many it might have.
void bound_tile(AttentionArithmetic& how, std::int64_t keys) {
  constexpr std::int64_t kStep = 1024;  // whole blocks of every unit
  const std::int64_t most = (std::max<std::int64_t>(keys, 1) + kStep - 1) / kStep * kStep;
  if (how.tile <= most) return;
  how.tile = most;
  how.promote = std::min(how.promote, most);
}

std::vector<std::int64_t> places(const AttentionArithmetic& how, std::int64_t keys) {
  const std::int64_t tiles = (keys + how.tile - 1) / how.tile;
  std::vector<std::int64_t> at(static_cast<std::size_t>(how.descending ? tiles * how.tile : keys));
  for (std::int64_t p = 0; p < std::ssize(at); ++p) {
    const std::int64_t key = how.descending ? (tiles - 1 - p / how.tile) * how.tile + p % how.tile : p;
    at[static_cast<std::size_t>(p)] = key < keys ? key : -1;
  }
  return at;
}

void rearrange(std::vector<float>& values, const std::vector<std::int64_t>& at, std::int64_t width) {
  std::vector<float> moved(at.size() * static_cast<std::size_t>(width), 0.0F);
  for (std::size_t p = 0; p < at.size(); ++p)
    if (at[p] >= 0)
      std::copy_n(values.begin() + at[p] * width, width,
                  moved.begin() + static_cast<std::int64_t>(p) * width);
  values = std::move(moved);
}

// What one row may be given: q as the accumulator takes it, one or more where codes of q are undecided.
struct Operands {
  std::vector<std::vector<float>> q;
  double scale = 1, scale_error = 0;
  std::vector<double> scales = {1};  // what it may be at level=emu, where it is no error
};
constexpr int kMostScaleUlps = 8;
constexpr std::size_t kMostUndecided = 4;  // 16 rows in place of one

// Each f32 that absmax / the largest number may be.
std::vector<double> quotients(const QuantisedRow& row, double div_ulp) {
  std::vector<double> r{row.scale};
  if (row.quotient == 0) return r;
  const double off = div_ulp * std::ldexp(1.0, std::ilogb(row.scale) - 23);
  for (const float away : {0.0F, std::numeric_limits<float>::infinity()})
    for (float x = std::nextafter(row.scale, away); std::fabs(x - row.quotient) <= off;
         x = std::nextafter(x, away))
      r.push_back(x);
  return r;
}

Operands operands(std::span<const double> q, std::string_view convert, double div_ulp, bool emulated) {
  Operands r;
  if (quantises_rows(convert)) {
    for (const double x : q)
      if (!std::isfinite(x)) return r;
    QuantisedRow codes = quantise_row(scalar_format(convert), q, div_ulp);
    if (!codes.decidable || codes.others.size() > kMostUndecided) return r;
    r.scale = codes.scale;
    if (emulated) {
      if (div_ulp > kMostScaleUlps) return r;
      r.scales = quotients(codes, div_ulp);
    } else {
      r.scales = {r.scale};
      r.scale_error = quotient_error(div_ulp);  // a / F by division, or by a reciprocal and a product
    }
    r.q.push_back(std::move(codes.codes));
    for (const QuantisedRow::Other& other : codes.others)
      for (std::size_t i = 0, count = r.q.size(); i < count; ++i) {
        r.q.push_back(r.q[i]);
        r.q.back()[other.at] = other.code;
      }
    return r;
  }
  std::vector<float> values;
  for (const double x : q)
    values.push_back(static_cast<float>(convert == "none" ? x : converted(scalar_format(convert), x)));
  if (finite(values)) r.q.push_back(std::move(values));
  return r;
}

// What a logit may be multiplied by: scales, the softmax scale as an f32 or not yet, are multiplied in any
// order, each product exactly or in f32, and what comes of it is an f32. 1 / sqrt(d) is that number, or the
// quotient of its square root, both in f32.
std::vector<double> products_of_scales(const AttentionGeometry& g, double of_k, double of_q) {
  std::vector<double> r{g.scale * of_k * of_q};
  const auto width = static_cast<double>(g.d);
  const float of_width = g.scale == 1 / std::sqrt(width) ? 1 / std::sqrt(static_cast<float>(width))
                                                         : static_cast<float>(g.scale);
  for (const double a :
       {g.scale, static_cast<double>(static_cast<float>(g.scale)), static_cast<double>(of_width)})
    for (const auto& [x, y, z] : {std::array{a, of_k, of_q}, {a, of_q, of_k}, {of_k, of_q, a}}) {
      const long double first = static_cast<long double>(x) * y;
      for (const long double product : {first, static_cast<long double>(static_cast<float>(first))}) {
        const auto each = static_cast<float>(product * z);
        if (static_cast<float>(r.front()) != each && std::ranges::find(r, each) == r.end()) r.push_back(each);
      }
    }
  return r;
}

struct Hull {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
};

// A scalar kernel may multiply codes and apply their scale to the sum, or decode code times scale first,
// rounded to f32: products that are then not exact where those of codes are. The decoded numbers are taken,
// and the rounding of each is added to the error, which covers both. True where the two ways differ: where
// the scale is no power of two. (Sums of 16 bits, whose range a scale shifts, do not come here.)
bool decodes_first(const std::string& accumulator_name, double scale) {
  int exponent = 0;
  return accumulator(accumulator_name).kind == Accumulator::Kind::floating &&
         std::frexp(scale, &exponent) != 0.5;
}

Stored decoded(const std::vector<double>& exact) {
  Stored to{std::vector<float>(exact.size()), "f32", 1};
  for (std::size_t i = 0; i < exact.size(); ++i) to.values[i] = static_cast<float>(exact[i]);
  return to;
}

// Whether no product of two operands overflows before it is added: a scalar kernel may round it. Codes and
// their scale may be multiplied first.
bool products_fit(const std::string& sum, double a, double b, double scale) {
  const Accumulator how = accumulator(sum);
  return how.kind != Accumulator::Kind::floating ||
         claims(Rule::sum_overflow,
                a * b * std::max(1.0, scale) * (1 + 0x1p-7) < largest_finite(how.precision));
}
double largest_of(const std::vector<float>& values) {
  double most = 0;
  for (const float x : values) most = std::max(most, std::fabs(static_cast<double>(x)));
  return most;
}

}  // namespace

// Of a number as it enters a sum: of a code under one scale, or decoded to f32.
int operand_bits(std::string_view name) {
  const Format& f = format(name);
  const ScalarFormat* scalar = find_scalar_format(f.kind == FormatKind::scaled ? f.element : f.name);
  const bool one_scale =
      f.axis == ScaleAxis::none || f.axis == ScaleAxis::tensor || f.axis == ScaleAxis::head;
  if (scalar == nullptr || !one_scale) return 24;
  return significant_bits(*scalar);
}

// Whether the contract declares the kernel of emulated.hpp, whose every weight is relative to the maximum of
// its own tile and of those before it. Of any other, or one that may be another, the levels know no cast and
// no rescale; at level emu it is refused.
bool has_emulated_shape(const AttentionGeometry& g, const Contract& contract) {
  const bool emulated = contract.text("level") == "emu";
  const auto says = [&](std::string_view key, std::string_view word) {
    const std::string_view given = contract.text(key);
    if (emulated && given != word)
      refuse("emu", fmt::format("{}={}: the emulated kernel has {}={}", key, given, key, word));
    return given == word;
  };
  const double shift = contract.number("p_shift");
  if (contract.number("lag") != 0 && emulated) refuse("emu", "a lag is not emulated");
  const bool whole = shift == std::floor(shift);
  if (!whole && emulated) refuse("emu", fmt::format("p_shift={}: a whole number", shift));
  bool holds =
      whole && contract.number("lag") == 0 && says("scaling", "scores") && says("weights", "running");
  holds &= says("tiles", "aligned");  // one tile too: it may end anywhere, and its rest is another
  if (g.sinks) holds &= says("sink", "last");
  if (contract.integer("split") > 1) holds &= says("merge", emulated ? "any" : "once");
  const std::int64_t tile = contract.integer("tile"), tiles = (g.length + tile - 1) / tile,
                     split = contract.integer("split"), run = tiles_of_part(tiles, split) * tile;
  if (emulated && split > 1 && contract.integer("part") < run)
    refuse("emu", fmt::format("part={}: the emulated kernel's parts are runs of {} keys",
                              contract.integer("part"), run));
  return claims(Rule::shape_undeclared, holds);
}
AttentionLimits leveled_limits(const AttentionProblem& problem, const Contract& contract,
                               AttentionLimits base) {
  const AttentionGeometry& g = problem.geometry();
  const std::string_view name = contract.text("level"), convert = contract.text("convert"),
                         q_convert = contract.text("q"), order = contract.text("order");
  const AttentionLevel level = attention_level(name);
  const bool emulated = level == AttentionLevel::emu;
  if (level == AttentionLevel::detap) return base;
  if (emulated && order != "sequential")
    refuse(name, fmt::format("order={}: the emulated kernel is order=sequential", order));
  for (const char* key : {"qk_order", "pv_order", "rowsum_order"})
    if (emulated && contract.text(key) != "any" && contract.text(key) != "sequential")
      refuse(name,
             fmt::format("{}={}: the emulated kernel adds one after the other", key, contract.text(key)));
  if (emulated && g.rotate == RotateKind::qkv) refuse(name, "rotate=qkv is not emulated");
  // A partial sum of p.v ends with its tile, or never.
  const std::int64_t promote = contract.integer("promote"), tile = contract.integer("tile");
  const bool over_tiles = promote > tile && promote < g.length;
  if (emulated && over_tiles)
    refuse(name, fmt::format(
                     "promote={} with tile={}: partial sums of at most a tile, or of all keys, are emulated",
                     promote, tile));
  if (over_tiles) return base;
  if (emulated && quantises_blocks(q_convert)) refuse(name, fmt::format("q={} is not emulated", q_convert));
  if (contract.text("casts") == "any") {
    if (!emulated) return base;
    refuse(name, "casts=any: the emulated kernel rounds to nearest even");
  }
  for (const char* key : {"q", "convert", "p"}) {
    if (!rounds_to_tf32_anyhow(contract, key)) continue;
    if (!emulated) return base;
    refuse(name, fmt::format("{}=tf32: the emulated kernel rounds to nearest, tf32=nearest_even", key));
  }
  if (order == "any" || g.rotate == RotateKind::qkv || quantises_blocks(q_convert)) return base;
  if (!has_emulated_shape(g, contract)) return base;
  AttentionArithmetic how = AttentionArithmetic::from(contract, g.dtype);
  bound_tile(how, g.length);
  // Scalar accumulators of 16 bits under a soft cap, a cast or a huge operand: the search
  // (cases/studies/adversary) still finds points that the levels do not cover, so that the bound by moments
  // judges them.
  const auto is_narrow = [](const std::string& sum) {
    const Accumulator a = accumulator(sum);
    return a.kind == Accumulator::Kind::floating && a.precision.p < 24;
  };
  if (!emulated && (is_narrow(how.qk) || is_narrow(how.pv) || is_narrow(how.rowsum))) return base;
  const std::string_view of_q = q_convert == "none" ? std::string_view(g.dtype) : q_convert,
                         of_k = convert == "none" ? std::string_view(g.k_format) : convert;
  if (emulated && is_narrow(how.qk) && operand_bits(of_q) + operand_bits(of_k) > 24)
    refuse(name, fmt::format("qk={} of q in {} and K in {}: products that f32 holds are emulated", how.qk,
                             of_q, of_k));
  const attention_bounds::FormatModel dtype(g.dtype);
  const bool twice = how.out != g.dtype;
  const Joined of_logits = Joined::of_logits(problem);
  for (std::int64_t b = 0; b < g.batch; ++b) {
    const std::int64_t keys = problem.length(b);
    // From which end parts are counted is not told; nor how many there are, where they may not be as long.
    const std::int64_t tiles = (keys + how.tile - 1) / how.tile, each = tiles_of_part(tiles, how.split);
    const bool uneven = how.descending && tiles % how.split != 0,
               shorter = contract.integer("part") < std::min(keys, each * how.tile);
    if (!emulated && how.split > 1 && (uneven || shorter)) continue;
    const std::vector<std::int64_t> at = places(how, keys);
    for (std::int64_t kv_head = 0; kv_head < g.kv_heads && keys > 0; ++kv_head) {
      std::vector<double> k(static_cast<std::size_t>(keys * g.d)), v(static_cast<std::size_t>(keys * g.dv));
      problem.decode_k(b, kv_head, 0, keys, k.data());
      problem.decode_v(b, kv_head, 0, keys, v.data());
      std::optional<Stored> k_in = stored(problem.k(), convert, kv_head, k, how.div_ulp, emulated),
                            v_in = stored(problem.v(), convert, kv_head, v, how.div_ulp, emulated);
      if (emulated && (!k_in.has_value() || !v_in.has_value()))
        refuse(name,
               "K or V decodes to what no accumulator takes, or by sums of a block whose order is not told "
               "(tq3); of others declare convert=f16 or bf16");
      // The emulated kernel sums codes in 16 bits, where others sum scaled numbers: their limit is not its.
      if (emulated && (is_narrow(how.qk) || is_narrow(how.pv)) &&
          (k_in->scale != 1 || v_in->scale != 1 || quantises_rows(q_convert)))
        for (std::int64_t row = 0; row < g.rows * g.group(); ++row)
          std::fill_n(base.limit.begin() +
                          problem.out_index(b, row / g.group(), kv_head * g.group() + row % g.group()),
                      g.dv, std::numeric_limits<double>::infinity());
      if (!k_in.has_value() || !v_in.has_value() || !finite(k_in->values) || !finite(v_in->values)) continue;
      const bool decodes_k = !emulated && decodes_first(how.qk, k_in->scale);
      const bool decodes_v = !emulated && decodes_first(how.pv, v_in->scale);
      if (decodes_k) *k_in = decoded(k);
      if (decodes_v) *v_in = decoded(v);
      if (how.descending) rearrange(k_in->values, at, g.d), rearrange(v_in->values, at, g.dv);
      const AttentionBounds bounds(how, {std::ssize(at), g.d, g.dv, k_in->values, v_in->values, k_in->format,
                                         v_in->format, decodes_v ? 2 * attention_bounds::kU : 0});
      const double most_k = largest_of(k_in->values), most_v = largest_of(v_in->values);
      if (!products_fit(how.pv, most_v, std::ldexp(1.0, how.p_shift), v_in->scale)) continue;
      const auto of_row = [&](std::size_t unit) {
        const std::int64_t i = static_cast<std::int64_t>(unit) / g.group(),
                           head = kv_head * g.group() + static_cast<std::int64_t>(unit) % g.group();
        if (g.sinks && !std::isfinite(problem.sink(head))) return;
        const Operands given = operands(problem.q(b, i, head), q_convert, how.div_ulp, emulated);
        if (given.q.empty()) return;
        const bool fits = std::ranges::all_of(given.q, [&](const std::vector<float>& q) {
          return products_fit(how.qk, largest_of(q), most_k, given.scale * k_in->scale);
        });
        if (!fits) return;
        Joined joined = of_logits;
        joined.with(given.scale, given.scale);
        if (!emulated && !(joined.is_normal() && joined.fits())) return;
        QueryRow row;
        row.q_format = q_convert == "none" ? g.dtype : std::string(q_convert);
        row.scale_error = given.scale_error + (decodes_k ? 2 * attention_bounds::kU : 0);
        row.v_scale = v_in->scale, row.softcap = g.softcap;
        std::vector<std::uint8_t> visible(at.size());
        for (std::size_t p = 0; p < at.size(); ++p) visible[p] = at[p] >= 0 && problem.visible(b, i, at[p]);
        row.visible = visible;
        std::vector<float> bias;
        if (g.alibi) {
          for (const std::int64_t key : at) {
            const auto distance = std::fabs(static_cast<double>(problem.position(b, i) - key));
            bias.push_back(static_cast<float>(-problem.slope(head) * distance));
          }
          row.bias = bias;
        }
        if (g.sinks) row.sink = static_cast<float>(problem.sink(head));
        std::vector<Hull> hull(static_cast<std::size_t>(g.dv));
        const auto hull_with = [&](const std::vector<float>& q, double scale) {
          row.q = q, row.scale = scale;
          const RowBounds r = bounds.row(row, level);
          for (std::size_t c = 0; c < hull.size(); ++c) {
            const double limit =
                r.limit[c] + (twice ? dtype.half_ulp(std::fabs(r.centre[c]) + r.limit[c]) : 0);
            hull[c].low = std::min(hull[c].low, r.centre[c] - limit);
            hull[c].high = std::max(hull[c].high, r.centre[c] + limit);
          }
        };
        for (const std::vector<float>& q : given.q)
          for (const double q_scale : given.scales) {
            if (emulated)
              for (const double scale : products_of_scales(g, k_in->scale, q_scale)) hull_with(q, scale);
            else
              hull_with(q, g.scale * k_in->scale * q_scale);
          }
        const auto out = static_cast<std::size_t>(problem.out_index(b, i, head));
        for (std::size_t c = 0; c < hull.size(); ++c) {
          const double centre = 0.5 * (hull[c].low + hull[c].high);
          const double limit = 0.5 * (hull[c].high - hull[c].low) +
                               0x1p-50 * (std::fabs(hull[c].low) + std::fabs(hull[c].high));
          if (!(limit < base.limit[out + c])) continue;
          base.value[out + c] = centre, base.limit[out + c] = limit;
        }
      };
      // The emulator of a problem belongs to one thread; and a thread is not worth less than some
      // milliseconds.
      const std::int64_t rows = g.rows * g.group();
      const bool small = static_cast<double>(rows) * static_cast<double>(keys * (g.d + g.dv)) < 0x1p20;
      parallel_units(static_cast<std::size_t>(rows), of_row, emulated || small ? 1 : 0);
    }
  }
  return base;
}

}  // namespace assay
