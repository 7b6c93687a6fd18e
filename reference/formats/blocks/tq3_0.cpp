// tq3_0_c2s1, tq3_0_c2.
// Quantiser:
//   y     = H D x / sqrt(32) in f64;  sigma = sqrt(mean y^2)
//   index = cell of y / sigma;  sign = that of what the centroid leaves
//   d     = |y| / |level vector| (norm-correcting), nearest-even f16, saturating
// Rounding policies other than NaN's do not apply: a codebook is a nearest search. An all-zero block is d = 0
// and decodes to zero; a block with NaN (under NanPolicy::propagate) or Inf has d = NaN.
#include <cmath>

#include "reference/formats/blocks/inline_block.hpp"
#include "reference/formats/rotation.hpp"
#include "reference/formats/tq3.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
tq3_0_c2s1, tq3_0_c2: 32 elements in 14 bytes, 3.5 bits per element.
  0..7    2-bit codebook indices, element j in bits 2 (j % 4) of byte j / 4
  8..11   residual signs, element j in bit j % 8 of byte 8 + j / 8 (c2: stored, unused)
  12..13  f16 d
value = D H r / sqrt(32), r[j] = d * level(index[j], sign[j]), D the signs kTq3Signs, H the 32-point Hadamard
matrix. r is exact in f64 and so is H r (d has 11 bits, a level is a multiple of 2^-27 below 2, 32 terms: 45 bits);
the product with the double-double 1 / sqrt(32) is within (1 + 2^-40) 2^-53 of the real value, relatively.)";

constexpr Tq3Layout kC2s1 = {"tq3_0_c2s1", 14, 0, 8, 12, true};
constexpr Tq3Layout kC2 = {"tq3_0_c2", 14, 0, 8, 12, false};

long double density(long double y) {
  return std::exp(-y * y / 2) / std::sqrt(2 * 3.14159265358979323846264338327950288L);
}
long double upper_tail(long double y) { return std::erfc(y / std::sqrt(2.0L)) / 2; }

// E|y - c| over [a, b], c the cell's mean, b = Inf allowed: twice the half above c.
long double cell_spread(long double c, long double a, long double b) {
  const long double mass = upper_tail(a) - upper_tail(b);
  return 2 * (density(c) - density(b) - c * (upper_tail(c) - upper_tail(b))) / mass;
}

Tq3Codebook computed_codebook() {
  constexpr long double kInf = std::numeric_limits<long double>::infinity();
  long double threshold = 1;
  long double inner = 0;
  long double outer = 0;
  for (int i = 0; i < 500; ++i) {  // contracts by about 0.6 a step: 64 bits long before the end
    inner = (density(0) - density(threshold)) / (0.5L - upper_tail(threshold));
    outer = density(threshold) / upper_tail(threshold);
    threshold = (inner + outer) / 2;
  }
  return {static_cast<double>(threshold),
          {static_cast<double>(inner), static_cast<double>(outer)},
          {static_cast<double>(cell_spread(inner, 0, threshold)),
           static_cast<double>(cell_spread(outer, threshold, kInf))}};
}

template <const Tq3Layout& kLayout>
struct Tq3 {
  static constexpr std::string_view kName = kLayout.name;
  static constexpr int kElements = 32;
  static constexpr int kBytes = kLayout.bytes;
  using Values = std::array<double, kElements>;

  static const std::array<double, 8>& levels() {  // index | sign << 2
    static const std::array<double, 8> table = [] {
      std::array<double, 8> t{};
      for (unsigned i = 0; i < 8; ++i) t[i] = tq3_level(kLayout, i & 3U, i >= 4);
      return t;
    }();
    return table;
  }

  static unsigned level_code(const std::byte* in, int j) {
    const unsigned index = static_cast<unsigned>(in[kLayout.index_offset + j / 4]) >> (2 * (j % 4)) & 3U;
    const unsigned sign = static_cast<unsigned>(in[kLayout.sign_offset + j / 8]) >> (j % 8) & 1U;
    return index | sign << 2;
  }

  static void decode_rotated(const std::byte* in, double* out) {
    const double d = blocks::load_f16(in + kLayout.scale_offset);
    for (int j = 0; j < kElements; ++j) out[j] = d * levels()[level_code(in, j)];
  }

  template <typename Real>
  static void decode(const std::byte* in, Real* out) {
    constexpr double kHigh = 0x1.6a09e667f3bcdp-3;   // 1 / sqrt(32), nearest f64
    constexpr double kLow = -0x1.bdd3413b26456p-57;  // 1 / sqrt(32) - kHigh
    Values values;
    decode_rotated(in, values.data());
    hadamard(std::span<double>(values));
    apply_signs(std::span<double>(values), std::span(&kTq3Signs, 1));
    for (int j = 0; j < kElements; ++j) {
      const double high = values[j] * kHigh;
      const double low = std::fma(values[j], kHigh, -high) + values[j] * kLow;
      out[j] = static_cast<Real>(high + low);
    }
  }

  static void factors(const std::byte* in, std::span<Factors> out) {
    Values values;
    decode(in, values.data());
    for (std::size_t e = 0; e < kElements; ++e) out[e].code = values[e];
  }

  static void encode(const float* x, std::byte* out, const EncodePolicy& policy, std::uint64_t) {
    std::array<float, kElements> v;
    if (!blocks::load_finite<kElements>(x, v, policy))
      return blocks::poison(out, kBytes, kLayout.scale_offset);
    std::memset(out, 0, kBytes);
    Values y;
    std::copy(v.begin(), v.end(), y.begin());
    apply_signs(std::span<double>(y), std::span(&kTq3Signs, 1));
    hadamard(std::span<double>(y));
    double norm_squared = 0;
    for (double& e : y) {
      e /= std::sqrt(static_cast<double>(kElements));
      norm_squared += e * e;
    }
    if (norm_squared == 0) return;
    const double sigma = std::sqrt(norm_squared / kElements);
    const Tq3Codebook& book = tq3_codebook();
    double level_squared = 0;
    for (int j = 0; j < kElements; ++j) {
      const double magnitude = std::fabs(y[j]) / sigma;
      const unsigned cell = magnitude > book.threshold ? 1 : 0;
      const bool positive = !std::signbit(y[j]);
      const unsigned index = positive ? 2 + cell : 1 - cell;
      const double rest = (positive ? magnitude - book.centroid[cell] : book.centroid[cell] - magnitude);
      const unsigned sign = rest > 0 ? 1 : 0;
      out[kLayout.index_offset + j / 4] |= static_cast<std::byte>(index << (2 * (j % 4)));
      out[kLayout.sign_offset + j / 8] |= static_cast<std::byte>(sign << (j % 8));
      const double level = levels()[index | sign << 2];
      level_squared += level * level;
    }
    blocks::store_f16(out + kLayout.scale_offset, std::min(std::sqrt(norm_squared / level_squared), 65504.0));
  }
};

template <const Tq3Layout& kLayout>
void decode_rotated_range(const Encoded& tensor, std::int64_t first, std::span<double> out) {
  using Block = Tq3<kLayout>;
  const std::byte* at = tensor.planes[0].bytes.data() + first / Block::kElements * Block::kBytes;
  for (std::size_t i = 0; i < out.size(); i += Block::kElements, at += Block::kBytes) {
    Block::decode_rotated(at, out.data() + i);
  }
}

}  // namespace

constinit const BlockCodec tq3_0_c2s1_codec = blocks::described(kStored, blocks::inline_codec<Tq3<kC2s1>>());
constinit const BlockCodec tq3_0_c2_codec = blocks::described(kStored, blocks::inline_codec<Tq3<kC2>>());

std::span<const Tq3Layout> tq3_layouts() {
  static constexpr std::array<Tq3Layout, 2> kLayouts = {kC2s1, kC2};
  return kLayouts;
}

const Tq3Codebook& tq3_codebook() {
  static const Tq3Codebook book = computed_codebook();
  return book;
}

double tq3_level(const Tq3Layout& layout, unsigned index, bool positive_residual) {
  const Tq3Codebook& book = tq3_codebook();
  const unsigned cell = index >= 2 ? index - 2 : 1 - index;
  const double centroid = static_cast<float>(book.centroid[cell]) * (index >= 2 ? 1.0 : -1.0);
  if (!layout.signs_used) return centroid;
  return centroid + static_cast<float>(book.spread[cell]) * (positive_residual ? 1.0 : -1.0);
}

void decode_range_rotated(const Encoded& tensor, std::int64_t first, std::span<double> out) {
  check_range(tensor, first, static_cast<std::int64_t>(out.size()));
  if (tensor.format == kC2s1.name) return decode_rotated_range<kC2s1>(tensor, first, out);
  if (tensor.format == kC2.name) return decode_rotated_range<kC2>(tensor, first, out);
  throw InputError(InputErrorKind::bad_value,
                   tensor.format + " is not stored rotated; tq3_0_c2s1 and tq3_0_c2 are");
}

}  // namespace assay
