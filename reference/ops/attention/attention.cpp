#include "reference/ops/attention/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "reference/arithmetic/rule.hpp"
#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"
#include "reference/ops/attention/conversions.hpp"
#include "reference/ops/attention/hidden.hpp"
#include "reference/ops/attention/limits/bounds_problem.hpp"
#include "reference/ops/attention/limits/detap.hpp"
#include "reference/ops/attention/limits/infinities.hpp"
#include "reference/ops/attention/replayed.hpp"
#include "reference/ops/attention/value/certified.hpp"
#include "reference/parallel.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
namespace {

// Rows that see a key or a value of which code times scale may leave the range of f32: a kernel decodes it to
// Inf.
void unclaim_beyond_f32(const CertifiedAttention& exact, std::vector<double>& limit) {
  constexpr double kLargest = std::numeric_limits<float>::max() / 2;
  const std::size_t dv = limit.size() / std::max<std::size_t>(exact.rows.size(), 1);
  for (std::size_t r = 0; r < exact.rows.size(); ++r)
    if (exact.rows[r].k_norm > kLargest || exact.value_max > kLargest)
      std::fill_n(limit.begin() + static_cast<std::ptrdiff_t>(r * dv), dv,
                  std::numeric_limits<double>::infinity());
}

// Whether any number of K is an infinity; d of them to a key.
bool has_infinity(const Encoded& k, std::size_t d) {
  const std::size_t keys = static_cast<std::size_t>(element_count(k.shape)) / d;
  constexpr std::size_t kAtOnce = 1 << 16;  // elements
  const std::size_t each = std::max<std::size_t>(1, kAtOnce / d);
  std::atomic<bool> found = false;
  parallel_units((keys + each - 1) / each, [&](std::size_t unit) {
    if (found) return;
    std::vector<float> some(d * std::min(each, keys - unit * each));  // in which an infinity is one as well
    decode_range(k, static_cast<std::int64_t>(unit * each * d), std::span<float>(some));
    if (std::ranges::none_of(some, [](float x) { return std::isinf(x); })) return;
    std::vector<double> exact(some.size());
    decode_range(k, static_cast<std::int64_t>(unit * each * d), std::span<double>(exact));
    if (std::ranges::any_of(exact, [](double x) { return std::isinf(x); })) found = true;
  });
  return found;
}

// Rows whose keys have an infinity, under a contract that multiplies codes block by block: an infinite scale
// of K is applied to the sum of a block's products, which is Inf where elements decoded one by one meet 0
// times Inf, NaN where q is 0 in that block or that sum is, and which a cap or a weight of 0 makes finite.
// And under one that converts K first: a conversion may saturate.
void unclaim_infinite_blocks(const AttentionProblem& problem, std::vector<double>& limit) {
  const AttentionGeometry& g = problem.geometry();
  const auto dv = static_cast<std::size_t>(g.dv), d = static_cast<std::size_t>(g.d);
  if (!has_infinity(problem.k(), d)) return;
  const std::vector<double> k = decode_tensor(problem.k());
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t h = 0; h < g.heads; ++h) {
      bool infinite = false;
      for (std::int64_t j = 0; j < problem.length(b); ++j) {
        const std::int64_t key = problem.token(b, j) * g.kv_heads + problem.kv_head(h);
        infinite |= std::ranges::any_of(std::span(k).subspan(static_cast<std::size_t>(key) * d, d),
                                        [](double x) { return std::isinf(x); });
      }
      for (std::int64_t i = 0; infinite && i < g.rows; ++i) {
        const auto at = static_cast<std::size_t>((b * g.rows + i) * g.heads + h) * dv;
        for (std::size_t c = at; c < at + dv; ++c) limit[c] = std::numeric_limits<double>::infinity();
      }
    }
}

// Rows of which q times the scale may underflow where K has an infinity: 0 times that is NaN.
void unclaim_vanished_q(const AttentionProblem& problem, const Contract& contract,
                        std::vector<double>& limit) {
  const AttentionGeometry& g = problem.geometry();
  const auto dv = static_cast<std::size_t>(g.dv), d = static_cast<std::size_t>(g.d);
  if (!has_infinity(problem.k(), d)) return;
  const std::vector<double> k = decode_tensor(problem.k());
  // Of the format that a scaled q may be rounded into; f16 has the fewest.
  const double smallest = contract.text("scaling") == "any" ? 0x1p-126 : 0x1p-14;
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t h = 0; h < g.heads; ++h) {
      std::vector<std::uint8_t> infinite(d, 0);
      for (std::int64_t j = 0; j < problem.length(b); ++j) {
        const auto key = static_cast<std::size_t>(problem.token(b, j) * g.kv_heads + problem.kv_head(h)) * d;
        for (std::size_t c = 0; c < d; ++c) infinite[c] |= std::isinf(k[key + c]);
      }
      for (std::int64_t i = 0; i < g.rows; ++i) {
        const auto q = problem.q(b, i, h);
        bool vanishes = false;
        for (std::size_t c = 0; c < d; ++c)
          vanishes |= infinite[c] && q[c] != 0 && std::fabs(q[c]) * g.scale < smallest;
        const auto at = static_cast<std::size_t>((b * g.rows + i) * g.heads + h) * dv;
        for (std::size_t c = at; vanishes && c < at + dv; ++c)
          if (!std::isnan(limit[c])) limit[c] = std::numeric_limits<double>::infinity();
      }
    }
}

// Rows of q so small that their scale absmax / D is no normal number, or D / absmax, or 1 / scale, may be
// Inf: times an element that is 0 that is NaN.
void unclaim_tiny_rows(const AttentionProblem& problem, const Contract& contract,
                       std::vector<double>& limit) {
  const AttentionGeometry& g = problem.geometry();
  const double most = scalar_format(contract.text("q")).max_finite;
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t h = 0; h < g.heads; ++h)
      for (std::int64_t i = 0; i < g.rows; ++i) {
        double largest = 0;
        for (const double each : problem.q(b, i, h)) largest = std::max(largest, std::fabs(each));
        const bool is_normal = largest >= most * 0x1p-125 && most < largest * 0x1p127;
        if (largest > 0 && !claims(Rule::quotient_range, is_normal))
          std::fill_n(limit.begin() + problem.out_index(b, i, h), g.dv,
                      std::numeric_limits<double>::infinity());
      }
}

double largest_in(const Encoded& tensor, std::string_view suffix) {
  return scale_range(plane_of(tensor, suffix)).most;
}

// The largest number that a kernel may fold the softmax scale and the scales of K and q into, before it meets
// a logit of zero; or that it may make of q and K's codes alone, of a code and the first of two scales, or of
// a weight and V's scale.
double largest_product(const AttentionProblem& problem, const Contract& contract) {
  const AttentionGeometry& g = problem.geometry();
  double scale = g.scale, of_codes = 0;
  if (format(g.k_format).kind == FormatKind::scaled) {
    scale *= std::max(1.0, largest_in(problem.k(), ".scale"));
    const auto d = static_cast<std::size_t>(g.d);
    const double code = scalar_format(format(g.k_format).element).max_finite;
    for (std::size_t row = 0; row < problem.all_q().size(); row += d) {
      double q = 0;
      for (const double each : std::span(problem.all_q()).subspan(row, d))
        if (std::isfinite(each)) q += std::fabs(each);
      of_codes = std::max(of_codes, q * code * std::max(1.0, g.scale));
    }
  }
  for (const Encoded* tensor : {&problem.k(), &problem.v()})
    if (has_two_scales(tensor->format))
      of_codes =
          std::max(of_codes, largest_unscaled(tensor->format) *
                                 std::max(largest_in(*tensor, ".scale"), largest_in(*tensor, ".scale_2")));
  if (format(g.v_format).kind == FormatKind::scaled &&
      contract.text("p") == "f32")  // folded into the weights
    of_codes = std::max(of_codes, std::exp(contract.number("lag")) * std::exp2(contract.number("p_shift")) *
                                      largest_in(problem.v(), ".scale"));
  scale = std::max(scale, of_codes);
  if (!quantises_rows(contract.text("q"))) return scale;
  double largest = 0, largest_k = 0;
  for (const double each : problem.all_q())
    if (std::isfinite(each)) largest = std::max(largest, std::fabs(each));
  // Codes of q, multiplied before their scale: those of a small q are large.
  for (const double each : decode_tensor(problem.k()))
    if (std::isfinite(each)) largest_k = std::max(largest_k, std::fabs(each));
  const double of_products = static_cast<double>(g.d) * ProductSum(problem, contract).most(0, largest_k);
  scale = std::max(scale, of_products * std::max(1.0, g.scale));
  return scale * std::max(1.0, largest / scalar_format(contract.text("q")).max_finite);
}

// A format without 0 has no weight for a key that is hidden.
void refuse_what_holds_no_weights(const Contract& contract) {
  if (contract.text("p") == "e8m0") refuse_contract("p=e8m0: a format that has 0 is allowed");
}

// Whether each number of `narrow` is one of `wide`.
bool holds(const ScalarFormat& wide, const ScalarFormat& narrow) {
  if (wide.kind == ScalarKind::power_of_two || narrow.kind == ScalarKind::power_of_two) return false;
  const auto last_place = [](const ScalarFormat& f) {
    return f.kind == ScalarKind::integer ? 0 : 1 - f.bias - f.fraction_bits;
  };
  return wide.name == narrow.name ||
         (significant_bits(wide) >= significant_bits(narrow) && last_place(wide) <= last_place(narrow) &&
          wide.max_finite >= narrow.max_finite && (wide.is_signed || !narrow.is_signed));
}
bool takes_all_of(const MatrixUnit& unit, std::string_view format) {
  return std::ranges::any_of(scalar_formats(), [&](const ScalarFormat& input) {
    return accepts(unit, input.name) && holds(input, scalar_format(format));
  });
}
// What enters a matrix unit is a number of its inputs: where an operand is none, a conversion is missing. A
// scale is met behind the sum, but where it changes inside of it.
void refuse_what_units_do_not_take(const AttentionGeometry& g, const Contract& contract) {
  const auto check = [&](const char* sum, std::string_view operand, std::string_view name, const char* key) {
    const Accumulator how = accumulator(contract.text(sum));
    if (how.unit == nullptr) return;
    const Format& row = format(name);
    const bool block = row.kind == FormatKind::block, over_keys = std::string_view(sum) == "pv";
    // Of blocks: such as a unit's own scales are for, and whole codes of one scale.
    const bool own = !how.unit->scales.empty() && (name.starts_with("mx") || name.starts_with("nvfp4"));
    const bool whole = how.unit->out == "i32" && !name.starts_with("mxfp8") && !name.starts_with("tq3");
    if (block && !over_keys && (own || whole)) return;
    const bool inside = over_keys ? row.axis == ScaleAxis::token || row.axis == ScaleAxis::row
                                  : row.axis == ScaleAxis::channel;
    const bool one_scale = !block && !inside && row.axis != ScaleAxis::group32;
    if (one_scale && takes_all_of(*how.unit, row.element)) return;
    refuse_contract(fmt::format("{}={} takes {}, and {} is {}{}: {}= says what it is converted to first", sum,
                                how.name, how.unit->inputs, operand, name,
                                inside ? ", of more than one scale to a sum" : "", key));
  };
  const std::string_view convert = contract.text("convert"), q = contract.text("q"), p = contract.text("p");
  const auto or_else = [](std::string_view said, std::string_view stored) {
    return said == "none" ? stored : said;
  };
  check("qk", "q", quantises_blocks(q) ? "q8_0" : or_else(q, g.dtype), "q");
  check("qk", "K", or_else(convert, g.k_format), "convert");
  check("pv", "V", or_else(convert, g.v_format), "convert");
  check("pv", "a weight", p, "p");
  const bool cast = contract.text("denominator") == "cast";
  check("rowsum", "a weight", cast ? p : "f32", cast ? "p" : "denominator=cast p");
}

std::vector<Truth> truth(const Attributes& attributes, const TensorSet& inputs, const Contract& contract) {
  AttentionProblem problem(attributes, inputs);
  refuse_what_holds_no_weights(contract);
  refuse_what_units_do_not_take(problem.geometry(), contract);
  if (contract.text("v_inverse") == "row") problem.defer_inverse();
  AttentionProblem converted = problem;
  Conversions conversions = apply_conversions(converted, contract);
  for (const Encoded* each : {&problem.k(), &problem.v()})  // by whose reciprocal a decoder may multiply
    conversions.overflows |= each->format == "nvfp4" &&
                             !claims(Rule::decode_overflow, largest_in(*each, ".global_scale") > 0x1p-127);
  for (std::int64_t head = 0; problem.geometry().alibi && head < problem.geometry().heads; ++head)
    conversions.overflows |=  // times log2 e
        !(1.5 * std::fabs(problem.slope(head)) < std::numeric_limits<float>::max());
  const CertifiedAttention exact = certified_attention(converted);
  if (conversions.v_undecided) {
    AttentionProblem steps = converted;
    steps.replace_kv(converted.k(), *conversions.v_undecided);
    const CertifiedAttention moved = certified_attention(steps, {.moments = false});
    for (std::size_t i = 0; i < moved.value.size(); ++i)
      conversions.v_moved.push_back(std::fabs(moved.value[i]) + moved.certificate[i]);
  }
  AttentionLimits limits = detap_limits(converted, exact, contract, conversions);
  if (conversions.overflows ||
      !(largest_product(problem, contract) < std::numeric_limits<float>::max() / 2)) {
    std::ranges::fill(limits.limit, std::numeric_limits<double>::infinity());
    return {{"out", std::move(limits.value), std::move(limits.limit),
             "reference/ops/attention: a declared conversion or a product of scales overflows, of which "
             "nothing follows"}};
  }
  std::string origin =
      "reference/ops/attention/detap: logits, exp and rescales, cast of the weights, PV, row sum, quotient; "
      "any order";
  const bool replay = is_judged_by_replay(contract);
  if (contract.text("order") != "any" || contract.text("level") == "emu") {
    // Around what the declared order and casts give, not around the real output: bounds.hpp.
    limits = leveled_limits(problem, replay ? contract.with("level", "ca") : contract, std::move(limits));
    if (has_emulated_shape(problem.geometry(), contract))
      origin = "reference/ops/attention/bounds: level " + std::string(contract.text("level")) +
               ", tiles in order=" + std::string(contract.text("order"));
  }
  // A weight times V's scale, before its code: below the normal numbers off by half a step, times a code, for
  // every key. V's scale, 2^-p_shift and 1 / l as one factor: a quotient and three products off by such
  // steps, times a sum of codes.
  if (format(problem.geometry().v_format).kind == FormatKind::scaled) {
    const double most = scalar_format(format(problem.geometry().v_format).element).max_finite,
                 shift = std::exp2(contract.number("p_shift")),
                 sum = static_cast<double>(problem.geometry().length) * std::exp(contract.number("lag"));
    double lost = static_cast<double>(problem.geometry().length) * most * 0x1p-149;
    if (least_scale(problem.v()) / (shift * sum) < 0x1p-125)
      lost += sum * shift * most * (1.5 + std::max(1.0, contract.number("div_ulp"))) * 0x1p-149;
    for (double& limit : limits.limit)
      if (std::isfinite(limit)) limit += lost;
  }
  unclaim_beyond_f32(exact, limits.limit);
  if (quantises_blocks(contract.text("q")) || contract.text("convert") != "none")
    unclaim_infinite_blocks(converted, limits.limit);
  if (contract.text("scaling") != "scores") unclaim_vanished_q(converted, contract, limits.limit);
  claim_infinities(converted, exact, contract, limits.value, limits.limit);
  if (quantises_rows(contract.text("q"))) unclaim_tiny_rows(problem, contract, limits.limit);
  if (contract.text("hidden") == "added" || contract.text("empty") == "mean")
    unclaim_hidden(converted, contract, limits.limit);
  Truth t{"out", std::move(limits.value), std::move(limits.limit), std::move(origin)};
  answer_empty(attributes, inputs, problem, exact, contract, truth, t);
  // A conversion that could not be applied (conversions.hpp) is bounded, and its bits are not known.
  if (replay && (contract.text("convert") == "none" || conversions.kv))
    replay_attention(t, converted, problem, contract);
  std::vector<Truth> list;
  list.push_back(std::move(t));  // an initialiser list would copy it
  return list;
}

// Keys that belong to no sequence: beyond a sequence's length, or on pages that no page table leads to. What
// a mask hides may still be read, so it is not listed. Throws InputError for lengths and pages that lead out
// of the cache.
std::vector<UnusedRange> unused(const Attributes& attributes, const TensorSet& inputs) {
  const AttentionGeometry g = attention_geometry(attributes);
  const auto integers = [&](const char* name) {
    const Plane& plane = inputs.at(name).planes.at(0);
    std::vector<std::int32_t> values(plane.bytes.size() / sizeof(std::int32_t));
    std::memcpy(values.data(), plane.bytes.data(), plane.bytes.size());
    return values;
  };
  const std::vector<std::int32_t> lengths = g.ragged ? integers("lengths") : std::vector<std::int32_t>{};
  const std::vector<std::int32_t> table = g.page != 0 ? integers("page_table") : std::vector<std::int32_t>{};
  std::vector<bool> used(static_cast<std::size_t>(g.page != 0 ? g.pages() * g.page : g.batch * g.length),
                         false);
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t j = 0; j < (g.ragged ? lengths[static_cast<std::size_t>(b)] : g.length); ++j) {
      if (j >= g.length)
        throw InputError(
            InputErrorKind::bad_value,
            fmt::format("attention: lengths[{}] is beyond the {} keys of a sequence", b, g.length));
      const std::int64_t token =
          g.page == 0
              ? b * g.length + j
              : table[static_cast<std::size_t>(b * g.table_width() + j / g.page)] * g.page + j % g.page;
      if (token < 0 || token >= static_cast<std::int64_t>(used.size()))
        throw InputError(InputErrorKind::bad_value,
                         fmt::format("attention: key {} of sequence {} lies outside of the cache's {} keys",
                                     j, b, used.size()));
      used[static_cast<std::size_t>(token)] = true;
    }
  std::vector<UnusedRange> ranges;
  const auto tokens = static_cast<std::int64_t>(used.size());
  for (std::int64_t first = 0; first < tokens; ++first) {
    if (used[static_cast<std::size_t>(first)]) continue;
    std::int64_t end = first;
    while (end < tokens && !used[static_cast<std::size_t>(end)]) ++end;
    ranges.push_back({"k", first * g.kv_heads * g.d, (end - first) * g.kv_heads * g.d});
    ranges.push_back({"v", first * g.kv_heads * g.dv, (end - first) * g.kv_heads * g.dv});
    first = end;
  }
  return ranges;
}

}  // namespace

const Op kAttention{
    "attention",
    "out = softmax(cap(scale q k^T) - slope |i - j|) v over the visible keys",
    "q[batch,q,heads,d] dtype\n"
    "k[batch,len,kv_heads,d] k if page=0\n"
    "v[batch,len,kv_heads,dv] v if page=0\n"
    "k[pages,page,kv_heads,d] k if page=!0\n"
    "v[pages,page,kv_heads,dv] v if page=!0\n"
    "page_table[batch,len/page] int32 if page=!0\n"
    "lengths[batch] int32 if lengths=ragged\n"
    "mask[q,len] int8 if mask=random\n"
    "sinks[heads] f32 if sinks=yes\n"
    "slopes[heads] f32 if alibi=yes\n"
    "-> out[batch,q,heads,dv] dtype",
    "heads=4 kv_heads=2 d=64 len=100 kv=q8_0 page=16 sinks=yes",
    attention_attributes(),
    attention_contract(),
    attention_tensors,
    attention_indices,
    truth,
    unused,
    attention_stages,
    "a NaN in q or a visible key, a logit of +Inf, a NaN sink: the row is NaN\n"
    "a NaN in a visible V: its column is NaN\n"
    "a logit of -Inf among others: its key weighs 0\n"
    "a row of nothing but logits of -Inf, and where q is infinite: nothing is claimed\n"
    "keys that a mask hides: as if they were not there, but under hidden=added and empty=mean\n"
    "scales of K and V: of each number, or in f32 of a logit or an output; a weight's under p=f32 alone, and "
    "numbers that are summed in f16 or bf16, not by a unit, have theirs; at level=emu codes enter as that "
    "level says"};

}  // namespace assay
