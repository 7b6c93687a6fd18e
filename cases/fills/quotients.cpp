// Data whose quotients by their own scale lie on the boundaries between codes: the one place where x / s and
// x * (1 / s) part. Random data have none of them.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "cases/fills/families.hpp"
#include "reference/inputs/random.hpp"

namespace assay::fill_families {
namespace {

// rule(stream, index, columns) for each element of each data tensor.
template <typename Rule>
void each(const FillRequest& r, Values& values, Rule rule) {
  for (const auto& t : r.tensors) {
    if (t.role != TensorRole::data) continue;
    const Stream stream(r.seed, t.name);
    const auto columns = static_cast<std::size_t>(t.shape.back());
    auto& out = values[t.name];
    out.resize(static_cast<std::size_t>(element_count(t.shape)));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = rule(stream, i, columns);
  }
}

// A tie, every second time; else one step of f32 to either side of it.
float about(float tie, const Stream& stream, std::size_t i) {
  const auto choice = stream.below(i * 5 + 3, 4);
  return choice == 0   ? std::nextafterf(tie, 0.0F)
         : choice == 1 ? std::nextafterf(tie, std::copysign(INFINITY, tie))
                       : tie;
}

}  // namespace

// Each row begins with its absmax A in [1, 2); the others are fl((code + 1/2) s), s = fl(A / D), D the
// divisor of the output's format (127 for int8). Rows of formats with one scale for several rows share the
// first row's A.
void quotient_ties(const FillRequest& r, Values& values) {
  double divisor = 127;
  bool by_row = true;
  for (const auto& t : r.tensors)
    if (t.role == TensorRole::output && format(t.format).kind == FormatKind::scaled) {
      divisor = format(t.format).scale_divisor;
      by_row = format(t.format).axis == ScaleAxis::token || format(t.format).axis == ScaleAxis::row;
    }
  each(r, values, [&](const Stream& stream, std::size_t i, std::size_t columns) {
    const auto largest = static_cast<float>(1 + stream.uniform(by_row ? ~(i / columns) : ~std::uint64_t{0}));
    const float scale = largest / static_cast<float>(divisor);
    const auto half_codes = static_cast<std::uint64_t>(2 * divisor - 1);
    const double code = static_cast<double>(stream.below(i, half_codes)) - (divisor - 1) - 0.5;
    return i % columns == 0 ? largest : static_cast<float>((code + (code < 0 ? 1 : 0)) * scale);
  });
}

namespace {

// The scalar format that a quantiser's output stores its elements in; nullptr where it is no scalar.
// *divisor: by what an absmax is divided to give the scale, 0 where nothing is scaled; of OCP MX an absmax
// whose scale is 1 by every mx_scale, of nvfp4 that of a block whose scale is 1.
const ScalarFormat* element_of_output(const FillRequest& r, double* divisor) {
  for (const auto& t : r.tensors) {
    if (t.role != TensorRole::output) continue;
    const Format& f = format(t.format);
    *divisor = f.scale_divisor;
    if (const ScalarFormat* scalar = find_scalar_format(t.format)) return scalar;
    for (const auto& [name, element, absmax] : {std::tuple{"mxfp4", "e2m1", 4.0},
                                                {"nvfp4", "e2m1", 6.0},
                                                {"nvfp4_swizzled", "e2m1", 6.0},
                                                {"mxfp4_ggml", "e2m1", 4.0},
                                                {"mxfp8", "e4m3fn", 256.0},
                                                {"mxfp8_e5m2", "e5m2", 32768.0}})
      if (t.format == name) return *divisor = absmax, find_scalar_format(element);
    return f.element.empty() ? nullptr : find_scalar_format(f.element);
  }
  return nullptr;
}

// Where a block's scale is 1: its first two elements, and the codes from the least to the greatest between
// which the others lie half-way. Of a format without minima the first alone decides.
struct BlockTies {
  std::string_view format;
  double first, second;
  int least, greatest;
};
constexpr BlockTies kBlockTies[] = {
    {"q8_0", 127, 127, -127, 127}, {"q8_1", 127, 127, -127, 127}, {"q4_0", -8, -8, -8, 7},
    {"q5_0", -16, -16, -16, 15},   {"q4_1", 0, 15, 0, 15},        {"q5_1", 0, 31, 0, 31},
};
// True where the output is one of these.
bool block_ties(const FillRequest& r, Values& values) {
  const auto out = std::ranges::find(r.tensors, TensorRole::output, &TensorSpec::role);
  if (out == r.tensors.end()) return false;
  const auto* const ties = std::ranges::find(kBlockTies, out->format, &BlockTies::format);
  if (ties == std::end(kBlockTies)) return false;
  each(r, values, [&](const Stream& stream, std::size_t i, std::size_t columns) {
    const std::size_t place = i % columns % 32;
    const auto steps = static_cast<std::uint64_t>(ties->greatest - ties->least);
    const auto middle = static_cast<float>(ties->least + static_cast<int>(stream.below(i, steps)) + 0.5);
    return place == 0   ? static_cast<float>(ties->first)
           : place == 1 ? static_cast<float>(ties->second)
                        : about(middle, stream, i);
  });
  return true;
}

}  // namespace

// Half-way between two neighbours of the output's element format, or one f32 step to either side. Where a
// scale follows from the absmax, every run of 32 elements begins with D 2^k, D the divisor of the format (127
// for int8 and for a block without a scalar of its own), so that the scale is 2^k and x / scale is exact.
// Blocks have rules of their own for the scale: kBlockTies says what their runs begin with and which middles
// there are.
void output_ties(const FillRequest& r, Values& values) {
  if (block_ties(r, values)) return;
  double divisor = 0;
  const ScalarFormat* const element = element_of_output(r, &divisor);
  // nvfp4's global scale belongs to all blocks: one whose absmax is 2688 makes it 1.
  const bool is_global = std::ranges::any_of(r.tensors, [](const TensorSpec& t) {
    return t.role == TensorRole::output && t.format.starts_with("nvfp4");
  });
  const std::size_t run = is_global ? 16 : 32;
  const bool integer = element == nullptr || element->kind != ScalarKind::floating;
  if (element == nullptr) divisor = 127;
  each(r, values, [&](const Stream& stream, std::size_t i, std::size_t columns) {
    if (is_global && i == 0) return 2688.0F;
    if (divisor > 0 && i % columns % run == 0) return static_cast<float>(divisor);
    double middle = 0;
    if (integer) {
      const double most = divisor > 0 ? divisor : element->max_finite;
      middle = std::floor(stream.uniform(i) * (2 * most - 1)) - most + 0.5;
    } else {
      // Neighbours low and low + step of one binade; every tenth below the smallest normal number.
      const int bottom = 1 - element->bias;
      const int top = std::min(std::ilogb(divisor > 0 ? divisor : element->max_finite) - 1, bottom + 24);
      const int binade =
          stream.below(~i, 10) == 0
              ? bottom - 1
              : bottom + static_cast<int>(
                             stream.below(i * 2 + 1, static_cast<std::uint64_t>(std::max(1, top - bottom))));
      const double step = std::ldexp(1.0, std::max(binade, bottom) - element->fraction_bits);
      const auto steps = stream.below(i, std::uint64_t{1} << std::min(element->fraction_bits, 22));
      middle = (binade < bottom ? 0.0 : std::ldexp(1.0, binade)) + (static_cast<double>(steps) + 0.5) * step;
      if (stream.below(i * 3 + 2, 2) == 0) middle = -middle;
    }
    return about(static_cast<float>(middle), stream, i);
  });
}

}  // namespace assay::fill_families
