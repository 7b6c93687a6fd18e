// What a row of queries and a cache are before the tiles are processed: where codes lie, and q cut so that
// its dots are exact.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/formats/block.hpp"
#include "reference/ops/attention/value/certified_tile.hpp"

namespace assay::attention_detail {
namespace {

// Exponent of the lowest set bit; x normal, not 0.
int lowest_bit(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t mantissa = (bits & 0xfffffffffffffu) | (std::uint64_t{1} << 52);
  return static_cast<int>(bits >> 52 & 0x7ff) - 1075 + std::countr_zero(mantissa);
}

// Queries::bits of n numbers; -1000 for zeros.
double width_in_bits(const double* x, std::size_t n) {
  double sum = 0;
  int lowest = 5000;
  for (std::size_t i = 0; i < n; ++i) {
    if (x[i] == 0) continue;
    sum += std::fabs(x[i]);
    lowest = std::min(lowest, lowest_bit(x[i]));
  }
  return lowest == 5000 ? -1000 : std::log2(sum) + 0x1p-30 - lowest;
}

// The slices of a row: multiples of 2^(top - width), of 2^(top - 2 width), and the rest.
int cut(const double* q, std::size_t n, int width, double* const* slice) {
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(q[i]));
  if (largest == 0) return 1;
  const int top = std::ilogb(largest) + 1;
  int used = 1;
  for (std::size_t i = 0; i < n; ++i) {
    double rest = q[i];
    for (int s = 0; s < kMaxSlices; ++s) {
      const int grid = top - (s + 1) * width;
      const double magic = grid > -900 && grid < 900 ? std::ldexp(1.5, 52 + grid) : 0.0;
      const double part = s == kMaxSlices - 1 || magic == 0 ? rest : (rest + magic) - magic;
      slice[s][i] = part;
      rest -= part;
      if (part != 0) used = std::max(used, s + 1);
    }
  }
  return used;
}

}  // namespace

Source make_source(const Encoded& tensor) {
  const Format& row = format(tensor.format);
  Source s;
  s.decode_error = row.decode_relative_error;
  s.bytes = tensor.planes[0].bytes.data();
  const std::string_view element = row.kind == FormatKind::block ? std::string_view() : row.element;
  s.codes = element == "e4m3fn"     ? Codes::e4m3fn
            : element == "e4m3fnuz" ? Codes::e4m3fnuz
            : element == "e5m2"     ? Codes::e5m2
            : element == "int8"     ? Codes::int8
            : element == "f16"      ? Codes::f16
            : element == "bf16"     ? Codes::bf16
            : element == "f32"      ? Codes::f32
                                    : Codes::other;
  if (row.kind == FormatKind::scaled && (row.axis == ScaleAxis::channel || row.axis == ScaleAxis::group32))
    s.codes = Codes::other;  // elements of a key have scales of their own
  switch (s.codes) {
    case Codes::e4m3fn:
      s.element_bytes = 1, s.factor = 256, s.code_max = 1.75, s.code_lsb = -17;
      break;
    case Codes::e4m3fnuz:
      s.element_bytes = 1, s.factor = 128, s.code_max = 1.875, s.code_lsb = -17;
      break;
    case Codes::e5m2:
      s.element_bytes = 1, s.code_max = 57344, s.code_lsb = -16;
      break;
    case Codes::int8:
      s.element_bytes = 1, s.code_max = 128, s.code_lsb = 0;
      break;
    case Codes::f16:
      s.element_bytes = 2, s.code_lsb = -24;
      break;
    case Codes::bf16:
      s.element_bytes = 2;
      break;
    case Codes::f32:
      s.element_bytes = 4;
      break;
    case Codes::other:
      break;
  }
  if (row.kind == FormatKind::scaled && s.codes != Codes::other) {
    const Plane& scales = plane_of(tensor, ".scale");
    s.scales = scales.bytes.data();
    s.axis = row.axis;
    for (std::size_t i = 0; i < scales.bytes.size() / 4; ++i) {
      float value;
      std::memcpy(&value, scales.bytes.data() + 4 * i, 4);
      (void)checked_scale(value, scales.spec.suffix, static_cast<std::int64_t>(i));
    }
  }
  return s;
}

void load_queries(const AttentionProblem& p, const Source& k, std::int64_t b, Part& part, Queries& out) {
  const auto d = static_cast<std::size_t>(p.geometry().d);
  out.ld = (d + 7) / 8 * 8;
  const std::size_t rows = static_cast<std::size_t>(part.rows);
  out.q.zero(rows * out.ld);
  out.norm.assign(rows, 0);
  out.bits.assign(rows, -1000);
  out.row_slices.assign(rows, 0);
  for (std::size_t r = 0; r < rows; ++r) {
    const auto q = p.q(b, part.state[r].row, part.state[r].head);
    double* to = out.q.get() + r * out.ld;
    double squares = 0;
    bool finite = true;
    for (std::size_t i = 0; i < d; ++i) {
      finite &= std::isfinite(q[i]);
      to[i] = q[i];
      squares += q[i] * q[i];
    }
    if (!finite) {  // NaN: every visible key has logit NaN. Inf: NaN or an infinity.
      for (std::size_t i = 0; i < d; ++i)
        (std::isnan(q[i]) ? part.state[r].poisoned : part.state[r].unclaimed) |= !std::isfinite(q[i]);
      std::fill_n(to, d, 0.0);
      squares = 0;
    }
    out.norm[r] = std::sqrt(squares) * (1 + 0x1p-30);
    out.bits[r] = width_in_bits(to, d);
  }
  out.slices = 0;
  if (k.codes == Codes::f32) return;  // f32 keys: the pair mode is cheaper than enough slices
  const double guaranteed = k.code_max > 0 ? std::log2(k.code_max) + 0x1p-30 - k.code_lsb : 1000;
  if (*std::max_element(out.bits.begin(), out.bits.end()) + guaranteed <= 53) return;  // always exact
  for (auto& s : out.slice) s.ensure(rows * out.ld);
  out.slice_bits.assign(rows, -1000);
  out.slices = kMaxSlices;
  const int width = k.code_max > 0 ? 24 : 20;
  for (std::size_t r = 0; r < rows; ++r) {
    double* slice[kMaxSlices];
    for (int s = 0; s < kMaxSlices; ++s) {
      slice[s] = out.slice[s].get() + r * out.ld;
      std::fill_n(slice[s], out.ld, 0.0);
    }
    out.row_slices[r] = cut(out.q.get() + r * out.ld, d, width, slice);
    for (const double* s : slice) out.slice_bits[r] = std::max(out.slice_bits[r], width_in_bits(s, d));
  }
}

}  // namespace assay::attention_detail
