#include "reference/ops/operand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reference/error.hpp"
#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"
#include "reference/formats/scaled.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {
namespace {

constexpr double kUnit32 = 0x1p-24;
constexpr EncodePolicy kIeee{.overflow = Overflow::ieee};
constexpr EncodePolicy kClamp{};

// Numbers that f32 holds.
bool are_singles(const std::vector<double>& numbers) {
  return std::ranges::all_of(
      numbers, [](double x) { return std::isnan(x) || static_cast<double>(static_cast<float>(x)) == x; });
}

// int4_ch_tensor: two factors make the scale of a row.
bool has_two_row_scales(const Format& f) { return f.kind == FormatKind::block && f.axis == ScaleAxis::row; }

// Codes of at most 8 bits, with no scale or one that is constant along a row (every axis but these two is).
bool has_row_codes(const Format& f) {
  if (f.kind == FormatKind::scalar) return scalar_format(f.element).bits <= 8;
  const bool one_scale = f.axis != ScaleAxis::channel && f.axis != ScaleAxis::group32;
  return (f.kind == FormatKind::scaled && one_scale) || has_two_row_scales(f);
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
  row.grid = row_grid(row.center);
  row.max_abs = row.grid.max_abs;
  for (const double each : row.reach) row.max_abs = std::max(row.max_abs, each);
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

// The numbers between which a rounding of w, after k roundings in f32, must lie.
void Operands::round_operands(OperandRow& row, const ScalarFormat& to, bool clamp) const {
  EncodePolicy policy = clamp ? kClamp : kIeee;
  const bool tf32 = to.name == "tf32", ways = tf32 && quantising_.tf32 == "any";
  if (tf32 && quantising_.tf32 == "nearest_away") policy.rounding = Rounding::nearest_away;
  if (tf32 && quantising_.tf32 == "toward_zero") policy.rounding = Rounding::toward_zero;
  // One correctly rounded f32 is known, up to the decoder's own error.
  const double relative_error =
      (roundings_ > 1 ? gamma_n(roundings_, kUnit32) : 0) + format_.decode_relative_error * 2;
  const bool exact_source = format_.kind == FormatKind::scalar || roundings_ == 0;
  const auto round_one = [&](double w) {
    return round_number(to, exact_source ? w : static_cast<double>(static_cast<float>(w)), policy);
  };
  row.same = true;
  for (std::size_t i = 0; i < row.exact.size(); ++i) {
    const double w = row.exact[i];
    if ((relative_error > 0 || ways) && w != 0 && std::isfinite(w)) {
      double one = round_one(w * (1 - relative_error)), other = round_one(w * (1 + relative_error));
      if (ways) {
        policy.rounding = Rounding::toward_zero;
        one = round_one(w * (1 - relative_error));
        policy.rounding = Rounding::nearest_away;
        other = round_one(w * (1 + relative_error));
      }
      admit(row, i, std::min(one, other), std::max(one, other), to);
    } else {
      row.center[i] = round_one(w);
    }
    row.same &= row.center[i] == w;
  }
  row.same &= row.undecided.empty();
}

// As declared; else any of the ways. Our s is one rounding from absmax / 448 and the kernel's at most two, so they are
// within 3 roundings of each other; x / s and x (448 / absmax) add one or two, x (1 / s) two: within 5 of the quotient by
// our s. One more stands for the products of these errors.
void Operands::quantise_e4m3fn(OperandRow& row) const {
  static const ScalarFormat& e4m3fn = scalar_format("e4m3fn");
  row.scale = tensor_scale_;
  row.same = false;
  if (quantising_.is_declared() && are_singles(row.exact)) {
    const float s = tensor_scale_, inverse = 1.0F / s;
    const float direct = tensor_absmax_ == 0 ? 1.0F : 448.0F / tensor_absmax_;
    for (std::size_t i = 0; i < row.exact.size(); ++i) {
      const auto x = static_cast<float>(row.exact[i]);
      const float q =
          quantising_.code == "divide" ? x / s : x * (quantising_.code == "direct" ? direct : inverse);
      row.center[i] = round_to(e4m3fn, static_cast<double>(q), kClamp);
    }
    return;
  }
  row.scale_error = 4 * kUnit32;
  const double relative_error = gamma_n(6, kUnit32);
  for (std::size_t i = 0; i < row.exact.size(); ++i) {
    const double q = row.exact[i] / tensor_scale_;
    if (std::isnan(q)) {
      row.center[i] = q;
      continue;
    }
    const double one = round_to(e4m3fn, q * (1 - relative_error), kClamp),
                 other = round_to(e4m3fn, q * (1 + relative_error), kClamp);
    admit(row, i, std::min(one, other), std::max(one, other), e4m3fn);
  }
}

// Blocks with the f32 scale and the codes of the kernel, to nearest even. A scale so small that its reciprocal overflows is stored as 0.
void Operands::quantise_q8_as_declared(OperandRow& row) const {
  static const ScalarFormat& f16 = scalar_format("f16");
  for (std::size_t first = 0; first < row.exact.size(); first += 32) {
    float absmax = 0;
    for (std::size_t i = first; i < first + 32; ++i)
      absmax = std::max(absmax, static_cast<float>(std::fabs(row.exact[i])));
    const float direct = 127.0F / absmax;
    const float d = quantising_.scale == "divide"       ? absmax / 127.0F
                    : quantising_.scale == "reciprocal" ? absmax * (1.0F / 127.0F)
                                                        : 1.0F / direct;
    const double stored = round_to(f16, static_cast<double>(d), kIeee);
    for (std::size_t i = first; i < first + 32; ++i) {
      const auto x = static_cast<float>(row.exact[i]);
      const float q =
          quantising_.code == "divide" ? x / d : x * (quantising_.code == "direct" ? direct : 1.0F / d);
      row.center[i] = std::isnan(x) || stored != 0 ? static_cast<double>(std::nearbyint(q)) * stored : 0;
    }
  }
  row.same = false;
}

// ggml's q8_0: d = absmax / 127 in f32 (stored as f16), code = round(x / d) with d not yet rounded to f16;
// ties may go either way (its vector code rounds to even, its plain code away).
void Operands::quantise_q8(OperandRow& row) const {
  if (quantising_.is_declared() && are_singles(row.exact)) return quantise_q8_as_declared(row);
  static const ScalarFormat& f16 = scalar_format("f16");
  const double relative_error = gamma_n(4, kUnit32);
  row.reach.resize(row.exact.size());
  for (std::size_t first = 0; first < row.exact.size(); first += 32) {
    float absmax = 0;
    for (std::size_t i = first; i < first + 32; ++i)
      absmax = std::max(absmax, static_cast<float>(std::fabs(row.exact[i])));
    const double d = static_cast<double>(absmax / 127.0F);
    const double stored = round_to(f16, d, kIeee);
    const double spread = std::max(std::fabs(round_to(f16, d * (1 + relative_error), kIeee) - stored),
                                   std::fabs(round_to(f16, d * (1 - relative_error), kIeee) - stored));
    for (std::size_t i = first; i < first + 32; ++i) {
      const double q = d == 0 ? 0 : row.exact[i] / d;
      const double code = std::nearbyint(q);
      const double low = std::ceil(std::fabs(q) * (1 - relative_error) - 0.5),
                   high = std::floor(std::fabs(q) * (1 + relative_error) + 0.5);
      const double code_radius = std::max(high - std::fabs(code), std::fabs(code) - low);
      row.center[i] = code * stored;
      row.reach[i] = up(std::fabs(row.center[i]) + std::max(code_radius, 0.0) * (stored + spread) +
                        std::fabs(code) * spread);
    }
  }
  row.same = false;
}

// ggml's q8_K: id = -127 / m, m the signed element of largest magnitude, code = x id to nearest, at most 127; d = 1 / id in f32. Which of
// two elements of one magnitude is m changes signs of code and d alike.
void Operands::quantise_q8_K(OperandRow& row) const {
  constexpr std::size_t kElements = 256;
  const double relative_error = gamma_n(4, kUnit32);
  row.reach.resize(row.exact.size());
  for (std::size_t first = 0; first < row.exact.size(); first += kElements) {
    double absmax = 0;
    for (std::size_t i = first; i < first + kElements; ++i)
      absmax = std::max(absmax, std::fabs(row.exact[i]));
    const double d = absmax / 127;
    for (std::size_t i = first; i < first + kElements; ++i) {
      const double q = d == 0 ? 0 : row.exact[i] / d;
      const double code = std::nearbyint(q);
      const double low = std::ceil(std::fabs(q) * (1 - relative_error) - 0.5),
                   high = std::floor(std::fabs(q) * (1 + relative_error) + 0.5);
      const double code_radius = std::max({high - std::fabs(code), std::fabs(code) - low, 0.0});
      row.center[i] = code * d;
      row.reach[i] = up(std::fabs(row.center[i]) + code_radius * d * (1 + relative_error) +
                        std::fabs(row.center[i]) * relative_error);
    }
  }
  row.same = false;
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
  }
  row.same = !nvfp4;
  if (!nvfp4) return;
  float global = 1;
  std::memcpy(&global, plane_of(tensor_, ".global_scale").bytes.data(), sizeof global);
  row.scale = 1 / static_cast<double>(global);
  row.scale_divides = true;
  row.scale_error = kUnit32 + kUnit64;  // a kernel may multiply by its reciprocal; ours is one of f64
}

OperandRow Operands::row(std::int64_t index) const {
  OperandRow row;
  const std::size_t n = static_cast<std::size_t>(length_);
  row.exact.resize(n);
  row.center.resize(n);
  decode_range(tensor_, index * length_, std::span<double>(row.exact));
  if (path_ == "codes") {
    decode_plane(scalar_format(format_.element), tensor_.planes[0].bytes, index * length_,
                 std::span<double>(row.center));
    if (format_.kind != FormatKind::scalar) row.scale = stored_scale(tensor_, format_, index * length_);
    if (has_two_row_scales(format_)) {
      float second = 1;
      std::memcpy(&second, plane_of(tensor_, ".scale_2").bytes.data(), sizeof second);
      row.scale_factor = std::max({1.0, std::fabs(row.scale), std::fabs(static_cast<double>(second))});
      row.scale *= second;  // exact in f64
      // Multiplied in f32 first, they may leave its normal numbers: half a subnormal step, or nothing, is left of it.
      const double magnitude = std::fabs(row.scale);
      if (magnitude != 0 && magnitude < 0x1p-126) row.scale_error = std::min(1.0, 0x1p-149 / magnitude);
    }
    row.same = true;  // decoding multiplies the same two numbers, exactly
  } else if (path_ == "blocks") {
    take_blocks(row, index);
  } else if (path_.starts_with("q8")) {
    if (side_ == Side::activations) {
      path_ == "q8_K" ? quantise_q8_K(row) : quantise_q8(row);
    } else {
      row.center = row.exact;
      row.same = true;
    }
  } else if (path_ == "e4m3fn" && side_ == Side::activations) {
    quantise_e4m3fn(row);
  } else {
    round_operands(row, scalar_format(path_), path_ == "e4m3fn");
  }
  finish(row);
  return row;
}

}  // namespace assay
