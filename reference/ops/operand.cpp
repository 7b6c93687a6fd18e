#include "reference/ops/operand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reference/arithmetic/rule.hpp"
#include "reference/error.hpp"
#include "reference/formats/block.hpp"
#include "reference/formats/factors.hpp"
#include "reference/formats/plane.hpp"
#include "reference/formats/scaled.hpp"
#include "reference/ops/decoding.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {
namespace {

constexpr double kUnit32 = 0x1p-24;
constexpr double kLeastNormal = 0x1p-126, kLargestF32 = 0x1.fffffep127;
constexpr EncodePolicy kIeee{.overflow = Overflow::ieee};
constexpr EncodePolicy kClamp{};

// int4_ch_tensor: two factors make the scale of a row.
bool has_two_row_scales(const Format& f) { return f.kind == FormatKind::block && f.axis == ScaleAxis::row; }

// Codes of at most 8 bits, with no scale or one that is constant along a row (every axis but these two is).
bool has_row_codes(const Format& f) {
  if (f.kind == FormatKind::scalar) return scalar_format(f.element).bits <= 8;
  const bool one_scale = f.axis != ScaleAxis::channel && f.axis != ScaleAxis::group32;
  return (f.kind == FormatKind::scaled && one_scale) || has_two_row_scales(f);
}

// The largest scale of 32 elements in a row that are all 0: it multiplies nothing, and is in no number.
double scale_of_zeros(const OperandRow& row, const Encoded& tensor, std::int64_t first) {
  constexpr std::size_t kBlock = 32;
  double largest = 0;
  std::vector<Factors> parts;
  for (std::size_t at = 0; at < row.exact.size(); at += kBlock) {
    const std::size_t end = std::min(at + kBlock, row.exact.size());
    const auto begin = row.exact.begin() + static_cast<std::ptrdiff_t>(at);
    if (!std::all_of(begin, begin + static_cast<std::ptrdiff_t>(end - at), [](double x) { return x == 0; }))
      continue;
    if (parts.empty()) parts.resize(row.exact.size()), factors(tensor, first, parts);
    for (std::size_t i = at; i < end; ++i)
      largest = std::max(largest, std::fabs(parts[i].scale) * std::max(1.0, std::fabs(parts[i].second)));
  }
  return largest;
}

}  // namespace

bool has_nan(const OperandRow& row) {
  return std::ranges::any_of(row.exact, [](double x) { return std::isnan(x); });
}

void admit(OperandRow& row, std::size_t i, double low, double high, const ScalarFormat& format) {
  row.center[i] = low == high ? low : low / 2 + high / 2;
  if (!row.reach.empty()) row.reach[i] = std::fabs(row.center[i]);
  if (low == high) return;
  if (row.reach.empty()) {
    row.reach.resize(row.center.size());
    std::transform(row.center.begin(), row.center.begin() + static_cast<std::ptrdiff_t>(i), row.reach.begin(),
                   [](double x) { return std::fabs(x); });
  }
  row.reach[i] = up(std::fabs(row.center[i]) + (high - low) / 2);
  // The middle of two neighbours rounds to one of them; a number between them would be nearer.
  const double middle = round_number(format, row.center[i], kIeee);
  row.undecided.push_back({i, low, high, middle == low || middle == high});
}

void finish(OperandRow& row) {
  // An operand that nobody admitted behind the first undecided one has the radius 0.
  for (std::size_t i = 0; i < row.reach.size(); ++i)
    row.reach[i] = std::max(row.reach[i], std::fabs(row.center[i]));
  row.grid = row_grid(row.center);
  row.max_abs = row.grid.max_abs;
  row.min_abs = row.grid.min_abs;
  for (std::size_t i = 0; i < row.reach.size(); ++i) {
    row.max_abs = std::max(row.max_abs, row.reach[i]);
    if (const double size = std::fabs(row.center[i]), radius = row.reach[i] - size; radius > 0)
      row.min_abs = std::min(row.min_abs, std::max(0.0, size - radius));
  }
}

std::string resolve_path(std::string_view path, const Format& a, const Format& b) {
  if (path != "auto") return std::string(path);
  if (has_row_codes(a) && has_row_codes(b)) return "codes";
  for (const Format* f : {&a, &b})
    if (f->name == "f16" || f->name == "bf16") return std::string(f->name);
  return "f32";
}

Operands::Operands(const Encoded& tensor, std::string_view path, Side side, double dequant_roundings,
                   const Quantising& quantising)
    : tensor_(tensor),
      format_(format(tensor.format)),
      path_(path),
      side_(side),
      roundings_(dequant_roundings),
      quantising_(quantising) {
  check_planes(tensor);
  length_ = tensor.shape.back();
  rows_ = element_count(tensor.shape) / std::max<std::int64_t>(length_, 1);
  if (path_ == "codes") {
    if (!has_row_codes(format_))
      throw InputError(
          InputErrorKind::bad_value,
          fmt::format("path=codes with {}{}: its scales are not shared by a row; allowed: scaled formats "
                      "per tensor, head, token or output channel",
                      tensor.format, to_string(tensor.shape)));
    element_ = std::string(format_.element) == "int4" ? "int8" : std::string(format_.element);
  } else if (path_ == "e4m3fn") {
    element_ = "e4m3fn";
    if (side == Side::activations) {
      float absmax = 0;
      for (const double x : decode_tensor(tensor))
        if (std::isfinite(x)) absmax = std::max(absmax, static_cast<float>(std::fabs(x)));
      tensor_absmax_ = absmax;
      if (absmax != 0)
        tensor_scale_ = quantising.scale == "reciprocal" ? absmax * (1.0F / 448.0F)
                        : quantising.scale == "inverse"  ? 1.0F / (448.0F / absmax)
                                                         : absmax / 448.0F;
    }
  } else if (path_ == "blocks") {
    for (const Plane& plane : tensor.planes) {
      if (plane.spec.suffix == ".scale" && plane.spec.format == "e8m0") block_scales_ = "e8m0";
      if (plane.spec.suffix == ".block_scale") block_scales_ = "ue4m3";
    }
    if (block_scales_.empty() || format_.kind != FormatKind::block || tensor.format == "nvfp4_swizzled")
      throw InputError(
          InputErrorKind::bad_value,
          fmt::format("path=blocks with {}: nvfp4, mxfp4, mxfp8 and mxfp8_e5m2 are allowed", tensor.format));
    element_ = tensor.planes[0].spec.format;
  } else if (path_.starts_with("q8")) {
    element_ = "f32";
    const int block = path_ == "q8_K" ? 256 : 32;
    if (side == Side::activations && length_ % block != 0)
      throw InputError(
          InputErrorKind::ragged_block,
          fmt::format("path={} needs rows of a multiple of {} activations, not {}", path_, block, length_));
  } else {
    element_ = path_;
    scalar_format(path_);
  }
}

int Operands::significand_bits() const {
  const auto bits_of = [](std::string_view name) {
    const ScalarFormat& f = scalar_format(name);
    return f.kind == ScalarKind::integer ? f.bits - 1 : f.fraction_bits + 1;  // -2^(b - 1) has one bit
  };
  if (path_ == "blocks" && block_scales_ == "ue4m3") return bits_of(element_) + bits_of("ue4m3");
  if (path_.starts_with("q8") && side_ == Side::activations && path_ != "q8_K" &&
      !(path_ == "q8" && quantising_.scale_format == "f32"))
    return bits_of("int8") + bits_of("f16");
  if (path_.starts_with("q8") && !(side_ == Side::weights && format_.kind == FormatKind::scalar)) return 53;
  return bits_of(path_.starts_with("q8") || path_ == "codes" ? std::string_view(format_.element)
                                                             : std::string_view(element_));
}

void leave_open(OperandRow& row, std::size_t i) {
  const double center = std::isfinite(row.center[i]) ? row.center[i] : 0;
  admit(row, i, -kInfinity, kInfinity, scalar_format("f32"));
  row.center[i] = center;
  row.reach[i] = kInfinity;
}

// What is flushed of a scalar format's own numbers is dot.hpp's: an operand below 2^-126.
bool Operands::is_decoded_as_stored() const {
  if (format_.kind == FormatKind::scalar) return true;
  return !quantising_.flush && roundings_ == 0 && format_.decode_relative_error == 0;
}

// What a kernel holds of the row's numbers as f32, before they become operands.
std::vector<Enclosure> Operands::decoded(const OperandRow& row, std::int64_t index) const {
  static const ScalarFormat& f32 = scalar_format("f32");
  std::vector<Enclosure> z =
      Decoding(tensor_, "f32", roundings_, quantising_.flush)(index * length_, row.exact);
  if (roundings_ == 1 && format_.kind != FormatKind::scalar)
    for (Enclosure& each : z)
      if (std::isfinite(each.value) && each.error < kInfinity) each = decided(each, f32, quantising_.flush);
  return z;
}

// The numbers between which a rounding of what was decoded must lie.
void Operands::round_operands(OperandRow& row, std::int64_t index, const ScalarFormat& to, bool clamp) const {
  EncodePolicy policy = clamp ? kClamp : kIeee;
  const bool tf32 = to.name == "tf32", ways = tf32 && quantising_.tf32 == "any";
  if (tf32 && quantising_.tf32 == "nearest_away") policy.rounding = Rounding::nearest_away;
  if (tf32 && quantising_.tf32 == "toward_zero") policy.rounding = Rounding::toward_zero;
  EncodePolicy cut = policy, away = policy;
  if (ways) cut.rounding = Rounding::toward_zero, away.rounding = Rounding::nearest_away;
  const bool as_stored = is_decoded_as_stored();
  std::vector<Enclosure> z;
  if (!as_stored) z = decoded(row, index);
  row.same = true;
  for (std::size_t i = 0; i < row.exact.size(); ++i) {
    const double w = row.exact[i];
    // A unit that cuts to tf32 is handed an f32, which may be Inf already.
    const bool open =
        as_stored ? tf32 && std::isfinite(w) && std::fabs(w) > kLargestF32 : !(z[i].error < kInfinity);
    if (!open && (!std::isfinite(w) || (as_stored && !ways))) {
      row.center[i] = round_number(to, w, policy);
    } else if (open) {
      row.center[i] = round_number(to, w, policy);
      leave_open(row, i);
    } else {
      const bool known = as_stored || z[i].error == 0;
      const double low = as_stored ? w
                         : known   ? z[i].value
                                   : z[i].low(),
                   high = as_stored ? w
                          : known   ? z[i].value
                                    : z[i].high();
      // Each of these roundings is monotone, and either may be the kernel's.
      admit(row, i, std::min(round_number(to, low, cut), round_number(to, low, away)),
            std::max(round_number(to, high, cut), round_number(to, high, away)), to);
    }
    row.same &= row.center[i] == w;
  }
  row.same &= row.undecided.empty();
}

// Weights of path=q8: codes and scales meet those of the activations one by one, or the decoded number does;
// what is decoded is off as on path=f32, and beyond the largest f32 an infinity, which a code of 0 makes NaN
// of.
void Operands::take_as_decoded(OperandRow& row, std::int64_t index) const {
  row.center = row.exact;
  row.same = true;
  if (!std::ranges::all_of(row.exact, [](double w) { return std::isfinite(w); })) {
    std::vector<Factors> parts(row.exact.size());
    factors(tensor_, index * length_, parts);
    row.has_infinite_scale = std::ranges::any_of(parts, [](const Factors& p) {
      return std::isinf(p.scale) || std::isinf(p.second) || std::isinf(p.minimum_scale) || std::isinf(p.code);
    });
  }
  if (format_.kind != FormatKind::scalar) row.scale_of_zeros = scale_of_zeros(row, tensor_, index * length_);
  if ((is_decoded_as_stored() || quantising_.replayed) && !quantising_.flush) return;
  const std::vector<Enclosure> z = quantising_.replayed
                                       ? Decoding(tensor_, "f32", 0, true)(index * length_, row.exact)
                                       : decoded(row, index);
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double w = row.exact[i];
    if (!std::isfinite(w)) continue;
    if (!(z[i].error < kInfinity)) {
      leave_open(row, i);
    } else {
      const bool known = z[i].error == 0;
      admit(row, i, std::min(w, known ? z[i].value : z[i].low()),
            std::max(w, known ? z[i].value : z[i].high()), scalar_format("f32"));
    }
    row.same &= row.center[i] == w;
  }
  row.same &= row.undecided.empty();
}

void Operands::take_blocks(OperandRow& row, std::int64_t index) const {
  const ScalarFormat& element = scalar_format(element_);
  const bool nvfp4 = block_scales_ == "ue4m3";
  const Plane& plane = plane_of(tensor_, nvfp4 ? ".block_scale" : ".scale");
  const std::size_t n = row.center.size(), block = nvfp4 ? 16 : 32;
  std::vector<double> scales(n / block);
  decode_plane(element, tensor_.planes[0].bytes, index * length_, std::span<double>(row.center));
  decode_plane(scalar_format(plane.spec.format), plane.bytes,
               index * static_cast<std::int64_t>(scales.size()), std::span<double>(scales));
  const double least = std::ldexp(1.0, 1 - element.bias);
  row.elements.assign(row.center.begin(), row.center.end());
  row.block_scales.assign(scales.begin(), scales.end());
  row.has_negative_scale = std::ranges::any_of(scales, [](double s) { return std::signbit(s); });
  for (std::size_t i = 0; i < n; ++i) {
    const double s = std::fabs(scales[i / block]);
    if (row.center[i] != 0 && s != 0 && std::isfinite(row.center[i]) && std::isfinite(s)) {
      // Subnormals keep emin.
      const double head = std::max(std::ldexp(1.0, std::ilogb(s)), nvfp4 ? 0x1p-6 : 0.0);
      row.scale_head = std::max(row.scale_head, head);
      row.element_head =
          std::max(row.element_head, head * std::max(std::ldexp(1.0, std::ilogb(row.center[i])), least));
    }
    row.center[i] *= scales[i / block];
    const bool may_vanish = quantising_.flush && s != 0 && s < kLeastNormal;
    if (may_vanish && std::isinf(row.center[i])) {
      leave_open(row, i);
    } else if (may_vanish && std::isfinite(row.center[i]) && rule(Rule::decode_flush, 1) > 0) {  // read as 0
      const double c = row.center[i];
      admit(row, i, std::min(c, 0.0), std::max(c, 0.0), element);
      if (c != 0) row.undecided.back().neighbours = false;  // no element of the unit's
    }
  }
  row.same = !nvfp4;
  if (!nvfp4) return;
  float stored = 1;
  std::memcpy(&stored, plane_of(tensor_, ".global_scale").bytes.data(), sizeof stored);
  const auto global = static_cast<double>(stored);
  row.scale = 1 / global;
  row.has_scale = row.scale_divides = true;
  // A kernel may multiply by the reciprocal, which may be subnormal, or Inf; ours is one of f64.
  row.scale_error = rule(Rule::scale_rounding, kUnit32 + kUnit64);
  if (global > 0x1p125) row.scale_error += rule(Rule::scale_underflow, 0x1p-150 * global);
  if (!claims(Rule::decode_overflow, global > (quantising_.flush ? 0x1p-126 : 0x1p-127)))
    row.scale_error = kInfinity;
}

OperandRow Operands::row(std::int64_t index) const {
  OperandRow row;
  bool converts = false;
  const std::size_t n = static_cast<std::size_t>(length_);
  row.exact.resize(n);
  row.center.resize(n);
  decode_range(tensor_, index * length_, std::span<double>(row.exact));
  if (path_ == "codes") {
    decode_plane(scalar_format(format_.element), tensor_.planes[0].bytes, index * length_,
                 std::span<double>(row.center));
    row.has_scale = format_.kind != FormatKind::scalar;
    if (row.has_scale) row.scale = stored_scale(tensor_, format_, index * length_);
    if (has_two_row_scales(format_)) {
      float second = 1;
      std::memcpy(&second, plane_of(tensor_, ".scale_2").bytes.data(), sizeof second);
      row.two_scales = {row.scale, second};
      row.scale *= second;  // exact in f64
    }
    row.same = true;  // decoding multiplies the same two numbers, exactly
  } else if (path_ == "blocks") {
    take_blocks(row, index);
  } else if (path_.starts_with("q8")) {
    if (side_ == Side::activations) {
      path_ == "q8_K" ? quantise_q8_K(row, index) : quantise_q8(row, index);
    } else {
      take_as_decoded(row, index);
    }
  } else if (path_ == "e4m3fn" && side_ == Side::activations) {
    quantise_e4m3fn(row, index);
  } else {
    round_operands(row, index, scalar_format(path_), path_ == "e4m3fn");
    converts = path_ == "f16" && tensor_.format != "f16";
  }
  if (quantising_.flush)
    row.may_flush =
        std::ranges::any_of(Decoding(tensor_, "f32", 0, true)(index * length_, row.exact),
                            [](const Enclosure& z) { return z.error > 0x1p-40 * std::fabs(z.value); });
  finish(row);
  // What is rounded to the smallest normal may have been below it.
  row.flushes_f16 = quantising_.flush && converts && !(row.min_abs > 0x1p-14);
  return row;
}

}  // namespace assay
