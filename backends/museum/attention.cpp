// A flash-style attention kernel and the ways in which such kernels have been wrong: one Slip at a time.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/museum/museum.hpp"

namespace assay_museum {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr double kWeightShift = 256;  // weights in [0, 1] are stored as e4m3fn in [0, 256]

float half(float x) { return f16_value(f16_code(x)); }

// 2^n from its exponent bits, which wrap for n < -127. A vector unit converts what an integer cannot hold to
// the least one.
float exp_by_bits(float x) {
  const float n = std::nearbyint(x * 1.44269504F);
  const std::int32_t whole =
      n > -0x1p31F ? static_cast<std::int32_t>(n) : std::numeric_limits<std::int32_t>::min();
  const auto bits = (static_cast<std::uint32_t>(whole) + 127U) << 23;
  return std::bit_cast<float>(bits) * std::exp(x - n * 0.69314718F);
}

// c + sum a b in 14 bits, as an FP8 matrix unit keeps it: every addend cut to a multiple of 2^(M - 13), M the
// largest exponent (a product's is the sum of its factors'), the result cut to 13 fraction bits.
double fused_14_bits(double c, const double* a, const double* b, std::size_t n) {
  const auto exponent = [](double x) { return x == 0 ? -200 : std::max(std::ilogb(x), -6); };
  int top = c == 0 ? -126 : std::ilogb(c);
  for (std::size_t i = 0; i < n; ++i)
    if (a[i] * b[i] != 0) top = std::max(top, exponent(a[i]) + exponent(b[i]));
  double sum = std::trunc(std::ldexp(c, 13 - top));
  for (std::size_t i = 0; i < n; ++i) sum += std::trunc(std::ldexp(a[i] * b[i], 13 - top));
  if (sum == 0) return 0;
  const int shift = 13 - std::ilogb(sum);
  return std::ldexp(std::trunc(std::ldexp(sum, shift)), top - 13 - shift);
}

// One query row against one part of the keys.
struct Part {
  float top = kMinusInfinity;
  float sum = 0;
  std::vector<float> acc;
};

class Kernel {
 public:
  Kernel(const Call& call, Slip slip, const Flash& shape) : problem_(call), slip_(slip), shape_(shape) {
    if (slip == Slip::fn_read_as_fnuz) {
      problem_.keys = RowReader(call, "k", "e4m3fnuz_tensor");
      problem_.values = RowReader(call, "v", "e4m3fnuz_tensor");
    } else if (slip == Slip::scale_dropped) {
      problem_.keys = RowReader(call, "k", "e4m3fn");
      problem_.values = RowReader(call, "v", "e4m3fn");
    } else if (slip == Slip::v_is_k) {
      problem_.values = problem_.keys;
    }
    if (shape.deferred) {
      problem_.unrotate = true;
      if (slip != Slip::inverse_twice) problem_.values = problem_.values.rotated();
    }
    keys_.resize(static_cast<std::size_t>(shape.tile * problem_.d));
    values_.resize(static_cast<std::size_t>(shape.tile * problem_.dv));
    query_.resize(static_cast<std::size_t>(problem_.d));
  }

  void run() {
    static int calls = 0;
    late_tile_ = ++calls;
    for (std::int64_t b = 0; b < problem_.batch; ++b)
      for (std::int64_t i = 0; i < problem_.q; ++i)
        for (std::int64_t h = 0; h < problem_.heads; ++h) row(b, i, h);
  }

 private:
  std::int64_t kv_head(std::int64_t h) const {
    const auto group = static_cast<std::uint64_t>(problem_.group());
    if (slip_ == Slip::power_of_two_group) return h >> std::countr_zero(std::bit_ceil(group));
    return h / problem_.group();
  }

  std::int64_t key_row(std::int64_t b, std::int64_t j, std::int64_t g) const {
    std::int64_t row = problem_.key_row(b, j, g);
    if (slip_ == Slip::page_in_16_bits) {
      const std::int64_t slot = row / problem_.kv_heads;
      const std::int64_t page = static_cast<std::uint16_t>(slot / problem_.page);
      row = (page * problem_.page + slot % problem_.page) * problem_.kv_heads + g;
    }
    return row;
  }

  // A row of f16, or of any format by the tensors' own strides.
  void read_row(const RowReader& reader, std::int64_t row, float* out) const {
    if (slip_ != Slip::offset_in_32_bits) return reader.read(kScalarEngine, row, out);
    const assay_tensor& tensor = *reader.planes().payload;
    const auto* bytes =
        static_cast<const std::byte*>(tensor.data) + static_cast<std::uint32_t>(row_offset(tensor, row));
    for (std::int64_t c = 0; c < reader.length(); ++c) {
      std::uint16_t code = 0;
      std::memcpy(&code, bytes + 2 * c, sizeof code);
      out[c] = f16_value(code);
    }
  }

  void read_value(std::int64_t row, float* out) const {
    read_row(problem_.values, row, out);
    if (slip_ != Slip::half_v_raw) return;
    const auto* codes =
        reinterpret_cast<const std::uint8_t*>(row_bytes(*problem_.values.planes().payload, row));
    for (std::int64_t c = problem_.dv / 2; c < problem_.dv; ++c) out[c] = e4m3fn_value(codes[c]);
  }

  // K and V of the tile's keys; those beyond the request's end are 0, except where the defect reads what lies
  // there.
  void load(std::int64_t b, std::int64_t first, std::int64_t count, std::int64_t g, std::int64_t tile) {
    const std::int64_t length = problem_.length(b);
    const bool late = slip_ == Slip::tile_before_its_load && tile == late_tile_ % 4 + 1;
    for (std::int64_t j = 0; j < count; ++j) {
      float* key = keys_.data() + j * problem_.d;
      float* value = values_.data() + j * problem_.dv;
      const std::int64_t at = std::min(first + j, problem_.len - 1);
      if (first + j >= length && slip_ != Slip::zero_times_freed) {
        std::fill_n(key, problem_.d, 0.0F);
        std::fill_n(value, problem_.dv, 0.0F);
        continue;
      }
      read_row(problem_.keys, key_row(b, at, g), key);
      if (late) continue;
      std::int64_t from = key_row(b, at, g);
      if (slip_ == Slip::one_page_per_tile && problem_.page < 64 && problem_.dv == 256)
        from = key_row(b, first, g) + (at - first) % problem_.page * problem_.kv_heads;
      read_value(from, value);
    }
  }

  float logit(std::int64_t j) const {
    const float* key = keys_.data() + j * problem_.d;
    float s = 0;
    for (std::int64_t c = 0; c < problem_.d; ++c) {
      s += query_[static_cast<std::size_t>(c)] * key[c];
      if (slip_ == Slip::f16_logits) s = half(s);
    }
    return s * problem_.scale;
  }

  float rescale(float from, float to, std::int64_t tile) const {
    if (slip_ == Slip::rescale_skipped && tile == 2) return 1;
    if (slip_ == Slip::rescale_not_flushed) return exp_by_bits(from - to);
    const float difference = from - to;
    return difference < -87 ? 0.0F : exp_by_bits(difference);
  }

  void accumulate(Part& part, const std::vector<float>& p, std::int64_t count) {
    const std::int64_t dv = problem_.dv;
    if (shape_.weights == Weights::f32) {
      for (std::int64_t j = 0; j < count; ++j)
        for (std::int64_t c = 0; c < dv; ++c) {
          float& acc = part.acc[static_cast<std::size_t>(c)];
          // Weight 0 is multiplied too, as a matrix unit does: what stands in V must then be finite.
          acc += p[static_cast<std::size_t>(j)] * values_[static_cast<std::size_t>(j * dv + c)];
          if (slip_ == Slip::f16_accumulator) acc = half(acc);
        }
      return;
    }
    constexpr std::int64_t kUnit = 32;  // products per instruction
    double weights[kUnit], column[kUnit];
    for (std::int64_t c = 0; c < dv; ++c) {
      float& acc = part.acc[static_cast<std::size_t>(c)];
      double sum = slip_ == Slip::single_level ? acc * kWeightShift : 0.0;
      for (std::int64_t first = 0; first < count; first += kUnit) {
        const std::int64_t n = std::min(kUnit, count - first);
        for (std::int64_t j = 0; j < n; ++j) {
          weights[j] = small_value(
              kE4m3fn, small_code(kE4m3fn, p[static_cast<std::size_t>(first + j)] * kWeightShift));
          column[j] = values_[static_cast<std::size_t>((first + j) * dv + c)];
        }
        sum = fused_14_bits(sum, weights, column, static_cast<std::size_t>(n));
      }
      const auto result = static_cast<float>(sum / kWeightShift);
      acc = slip_ == Slip::single_level ? result : acc + result;
    }
  }

  void absorb(Part& part, std::int64_t b, std::int64_t i, std::int64_t h, std::int64_t begin,
              std::int64_t end) {
    const Interval seen = visible(problem_, b, i);
    std::int64_t next = begin;  // where the K/V position stands
    std::int64_t tile = 0;
    std::vector<float> p(static_cast<std::size_t>(shape_.tile));
    for (std::int64_t first = begin; first < end; first += shape_.tile, ++tile) {
      const std::int64_t count = std::min(shape_.tile, end - first);
      const bool masked = first >= seen.end || first + count <= seen.begin;
      if (masked && slip_ != Slip::max_from_minus_inf && slip_ != Slip::zero_times_freed) {
        if (slip_ != Slip::masked_tile_keeps_pointer) next += shape_.tile;
        continue;
      }
      load(b, next, count, kv_head(h), tile);
      next += shape_.tile;
      float tile_top = kMinusInfinity;
      for (std::int64_t j = 0; j < count; ++j) {
        const std::int64_t key = first + j;
        const bool sees = key >= seen.begin && key < seen.end &&
                          (problem_.mask == nullptr || int8_at(*problem_.mask, i * problem_.len + key) != 0);
        p[static_cast<std::size_t>(j)] = sees ? logit(j) : kMinusInfinity;
        tile_top = std::max(tile_top, p[static_cast<std::size_t>(j)]);
      }
      if (tile_top == kMinusInfinity && part.top == kMinusInfinity && slip_ != Slip::max_from_minus_inf)
        continue;
      const float top = std::max(part.top, tile_top);
      if (part.top != top || slip_ == Slip::max_from_minus_inf) {
        const float factor =
            slip_ == Slip::max_from_minus_inf ? std::exp(part.top - top) : rescale(part.top, top, tile);
        const float first_factor =
            part.top == kMinusInfinity && slip_ != Slip::max_from_minus_inf ? 0.0F : factor;
        part.sum *= first_factor;
        for (float& a : part.acc) a *= first_factor;
        part.top = top;
      }
      for (std::int64_t j = 0; j < count; ++j) {
        float& weight = p[static_cast<std::size_t>(j)];
        weight = std::exp(weight - top);
        part.sum += weight;
      }
      accumulate(part, p, count);
    }
  }

  void row(std::int64_t b, std::int64_t i, std::int64_t h) {
    problem_.queries.read(kScalarEngine, problem_.query_row(b, i, h), query_.data());
    std::vector<Part> parts(static_cast<std::size_t>(shape_.split));
    // Whole tiles, also where the request ends earlier: what lies beyond is masked.
    const std::int64_t share = (problem_.len + shape_.split - 1) / shape_.split;
    for (std::int64_t s = 0; s < shape_.split; ++s) {
      Part& part = parts[static_cast<std::size_t>(s)];
      part.acc.assign(static_cast<std::size_t>(problem_.dv), 0.0F);
      if (slip_ == Slip::max_from_half_f16) part.top = -65504.0F / 2;
      absorb(part, b, i, h, s * share, std::min((s + 1) * share, problem_.len));
    }
    if (slip_ == Slip::inverse_before_f16_merge)
      for (Part& part : parts) transform_back_in_f16(part);
    Part whole = merged(parts);
    for (float& a : whole.acc) a = whole.sum == 0 && slip_ != Slip::no_visible_tile ? 0.0F : a / whole.sum;
    if (problem_.unrotate && slip_ != Slip::never_unrotated && slip_ != Slip::inverse_before_f16_merge)
      transform_back(whole);
    const std::string_view stored = slip_ == Slip::f16_bits ? "f16" : std::string_view(problem_.dtype);
    write_row(kScalarEngine, stored, whole.acc.data(), problem_.dv,
              mutable_row(problem_.out, problem_.query_row(b, i, h)));
  }

  void transform_back(Part& part) const {
    constexpr std::uint32_t kShipped[1] = {0xAA6CD4B2U};
    wht_row(part.acc.data(), problem_.dv, 32, slip_ == Slip::inverse_wrong_mask ? kShipped : kTq3Signs, true);
  }

  void transform_back_in_f16(Part& part) const {
    if (part.sum == 0) return;
    for (float& a : part.acc) a /= part.sum;
    transform_back(part);
    for (float& a : part.acc) a = half(a) * part.sum;
  }

  Part merged(const std::vector<Part>& parts) const {
    if (parts.size() == 1) return parts[0];
    const std::size_t known = slip_ == Slip::half_of_the_parts_merged ? parts.size() / 2 : parts.size();
    Part whole;
    whole.acc.assign(static_cast<std::size_t>(problem_.dv), 0.0F);
    for (std::size_t s = 0; s < known; ++s) whole.top = std::max(whole.top, parts[s].top);
    for (std::size_t s = 0; s < known; ++s) {
      if (parts[s].sum == 0) continue;
      const float weight = std::exp(parts[s].top - whole.top);
      whole.sum += weight * parts[s].sum;
      for (std::size_t c = 0; c < whole.acc.size(); ++c) whole.acc[c] += weight * parts[s].acc[c];
    }
    return whole;
  }

  AttentionProblem problem_;
  Slip slip_;
  Flash shape_;
  int late_tile_ = 0;
  std::vector<float> keys_, values_, query_;
};

}  // namespace

void flash(const Call& call, Slip slip, const Flash& shape) { Kernel(call, slip, shape).run(); }

}  // namespace assay_museum
