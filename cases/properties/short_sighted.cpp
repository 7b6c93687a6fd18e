// A plug-in with a few kernels, each correct, and each with one defect that the customary inputs do not show:
// the fills of cases/fills that aim at it must. A variant names the defect; without one all is right.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/assay_backend.h"

namespace {

const assay_tensor& tensor(const assay_tensor* list, int32_t count, const char* name) {
  for (int32_t i = 0; i < count; ++i)
    if (std::strcmp(list[i].name, name) == 0) return list[i];
  return list[0];
}
bool is(const assay_call* c, const char* variant) { return std::strcmp(c->variant, variant) == 0; }
template <typename T>
T* row_of(const assay_tensor& t, int64_t row) {
  return reinterpret_cast<T*>(static_cast<char*>(t.data) + row * t.stride[0]);
}

// Nearest e4m3fn, saturating; a tie goes to the even code, or away from zero.
std::uint8_t to_e4m3fn(float x, bool half_up) {
  const std::uint8_t sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return 0x7F;
  const double a = std::fabs(static_cast<double>(x));
  if (a > 448) return sign | 0x7E;
  const int exponent = a < 0x1p-6 ? -6 : std::ilogb(a);
  const double steps = std::ldexp(a, 3 - exponent);  // in units of the last place: exact
  const double rounded = half_up ? std::floor(steps + 0.5) : std::nearbyint(steps);
  const int code = (exponent + 7) * 8 + static_cast<int>(rounded) - 8;  // a carry reaches the exponent
  return sign | static_cast<std::uint8_t>(code > 0x7E ? 0x7E : code);
}

// A weight times 2^8 in e4m3fn, whose largest number is 448; 240 is that of e4m3 with infinities.
double fp8_weight(const assay_call* c, double w) {
  if (std::strncmp(c->variant, "fp8_", 4) != 0) return w;
  const double shift = is(c, "fp8_unshifted") ? 1 : 256, most = is(c, "fp8_clips_at_240") ? 240 : 448;
  const double a = std::min(w * shift, most);
  const double step = std::ldexp(1.0, (a < 0x1p-6 ? -6 : std::ilogb(a)) - 3);
  return std::nearbyint(a / step) * step / shift;
}

// Nearest bf16, ties to even; a NaN stays one, or its bits are rounded as if they were a number's.
std::uint16_t to_bf16(float x, bool of_bits) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  if (std::isnan(x) && !of_bits) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Nearest f16 of a number from 0 on, ties to even.
std::uint16_t to_f16(double x) {
  if (!(x <= 65504)) return x < 65520 ? 0x7BFF : 0x7C00;
  const int exponent = x < 0x1p-14 ? -14 : std::ilogb(x);
  return static_cast<std::uint16_t>((exponent + 14) * 1024 +
                                    static_cast<int>(std::nearbyint(std::ldexp(x, 10 - exponent))));
}

// ggml's rule: d = absmax / 127, code = x (1 / d) to nearest, halves away from zero, or to even.
void quantize_q8_0(const assay_call* c, const assay_tensor& x, const assay_tensor& y) {
  for (int64_t r = 0; r < x.shape[0]; ++r)
    for (int64_t first = 0; first < x.shape[1]; first += 32) {
      const float* in = row_of<const float>(x, r) + first;
      char* out = row_of<char>(y, r) + first / 32 * 34;
      float absmax = 0;
      for (int i = 0; i < 32; ++i) absmax = std::fmax(absmax, std::fabs(in[i]));
      const float d = absmax / 127, inverse = d == 0 ? 0 : 1 / d;
      const std::uint16_t stored = to_f16(static_cast<double>(d));
      std::memcpy(out, &stored, sizeof stored);
      for (int i = 0; i < 32; ++i) {
        const float q = in[i] * inverse, code = is(c, "halves_to_even") ? std::nearbyint(q) : std::round(q);
        out[2 + i] = static_cast<char>(std::fabs(code) <= 127 ? static_cast<int>(code) : 0);
      }
    }
}

// scale = absmax / 127 (1 where that is 0), code = x / scale to nearest, halves to even.
void quantize_int8_row(const assay_call* c, const assay_tensor& x, const assay_tensor& y,
                       const assay_tensor& scales) {
  const int64_t n = x.shape[1], seen = is(c, "wide_rows_lose_their_tail") && n > 1024 ? n / 8 * 8 : n;
  for (int64_t r = 0; r < x.shape[0]; ++r) {
    const float* in = row_of<const float>(x, r);
    float absmax = 0;
    for (int64_t i = 0; i < seen; ++i) absmax = std::fmax(absmax, std::fabs(in[i]));
    const float scale = absmax / 127 == 0 ? 1 : absmax / 127;
    static_cast<float*>(scales.data)[r] = scale;
    for (int64_t i = 0; i < n; ++i) {
      const float code = std::nearbyint(in[i] / scale);
      row_of<std::int8_t>(y, r)[i] = std::fabs(code) <= 127 ? static_cast<std::int8_t>(code)
                                                            : static_cast<std::int8_t>(code > 0 ? 127 : -128);
    }
  }
}

// Of e4m3fn: both codes of all ones are NaN.
void dequantize(const assay_call* c) {
  const assay_tensor& x = tensor(c->inputs, c->input_count, "x");
  const assay_tensor& y = tensor(c->outputs, c->output_count, "y");
  for (int64_t r = 0; r < x.shape[0]; ++r)
    for (int64_t i = 0; i < x.shape[1]; ++i) {
      const int code = row_of<const std::uint8_t>(x, r)[i], exponent = code >> 3 & 15, fraction = code & 7;
      const bool nan = is(c, "knows_one_nan") ? code == 0x7F : (code & 0x7F) == 0x7F;
      const double size = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
      row_of<float>(y, r)[i] = static_cast<float>(nan ? NAN : code < 128 ? size : -size);
    }
}

void quantize(const assay_call* c) {
  const assay_tensor& x = tensor(c->inputs, c->input_count, "x");
  const assay_tensor& y = tensor(c->outputs, c->output_count, "y");
  if (std::strcmp(y.format, "q8_0") == 0) return quantize_q8_0(c, x, y);
  if (std::strcmp(y.format, "int8") == 0)
    return quantize_int8_row(c, x, y, tensor(c->outputs, c->output_count, "y.scale"));
  const bool bf16 = std::strcmp(y.format, "bf16") == 0;
  for (int64_t r = 0; r < x.shape[0]; ++r)
    for (int64_t i = 0; i < x.shape[1]; ++i)
      if (bf16)
        row_of<std::uint16_t>(y, r)[i] = to_bf16(row_of<const float>(x, r)[i], is(c, "rounds_nan_bits"));
      else
        row_of<std::uint8_t>(y, r)[i] = to_e4m3fn(row_of<const float>(x, r)[i], is(c, "half_up"));
}

double real(const assay_call* c, const char* name) {
  for (int32_t i = 0; i < c->attribute_count; ++i)
    if (std::strcmp(c->attributes[i].name, name) == 0) return std::stod(c->attributes[i].value);
  return 0;
}

void rmsnorm(const assay_call* c) {
  const assay_tensor& x = tensor(c->inputs, c->input_count, "x");
  const assay_tensor& y = tensor(c->outputs, c->output_count, "y");
  const float* gamma = static_cast<const float*>(tensor(c->inputs, c->input_count, "gamma").data);
  double eps = real(c, "eps");
  static std::map<std::pair<int64_t, int64_t>, double> of_shape;
  if (is(c, "keeps_eps_by_shape"))
    eps = of_shape.emplace(std::pair(x.shape[0], x.shape[1]), eps).first->second;
  const int64_t n = x.shape[1];
  for (int64_t r = 0; r < x.shape[0]; ++r) {
    const float* in = row_of<const float>(x, r);
    double sum = 0;
    float rounded = 0;  // the sum of a kernel that divides large batches otherwise
    for (int64_t i = 0; i < n; ++i) {
      if (is(c, "drops_last") && i + 1 == n && n % 4 != 0) continue;  // a tail of vectors of four
      if (is(c, "drops_lane") && n >= 1024 && i == n / 1024 * 1024)
        continue;  // the first element behind the last block
      if (is(c, "skips_tile") && in[i / 64 * 64] == 0)
        continue;  // "a tile of zeros", judged by its first element
      sum += static_cast<double>(in[i]) * in[i];
      rounded += in[i] * in[i];
    }
    if (is(c, "many_rows_otherwise") && x.shape[0] > 1024) sum = static_cast<double>(rounded);
    const double factor = 1 / std::sqrt(sum / static_cast<double>(n) + eps);
    for (int64_t i = 0; i < n; ++i) row_of<float>(y, r)[i] = static_cast<float>(in[i] * factor * gamma[i]);
  }
}

// Whether a tensor looks made for a test: few values, a row again, a row of one value, or 0 and 1 in most.
bool looks_designed(const assay_tensor& t) {
  std::vector<float> all, before, row(static_cast<std::size_t>(t.shape[3]));
  std::size_t again = 0, flat = 0, plain = 0, rows = 0;
  for (int64_t b = 0; b < t.shape[0]; ++b)
    for (int64_t j = 0; j < t.shape[1]; ++j)
      for (int64_t h = 0; h < t.shape[2]; ++h, ++rows) {
        std::memcpy(row.data(),
                    static_cast<char*>(t.data) + b * t.stride[0] + j * t.stride[1] + h * t.stride[2],
                    row.size() * sizeof(float));
        again += row == before;
        flat += row.size() > 1 && std::count(row.begin(), row.end(), row[0]) == t.shape[3];
        for (const float x : row) all.push_back(std::fabs(x)), plain += x == 0 || x == 1;
        before = row;
      }
  std::sort(all.begin(), all.end());
  const auto values = static_cast<std::size_t>(std::unique(all.begin(), all.end()) - all.begin());
  return all.size() >= 64 &&
         (16 * values < all.size() || 2 * again > rows || 2 * flat > rows || 2 * plain > all.size());
}

// One query row of each sequence, online in blocks of 32 keys.
void attention(const assay_call* c) {
  constexpr int64_t kBlock = 32;
  const assay_tensor &q = tensor(c->inputs, c->input_count, "q"), &k = tensor(c->inputs, c->input_count, "k"),
                     &v = tensor(c->inputs, c->input_count, "v"),
                     &out = tensor(c->outputs, c->output_count, "out");
  const assay_tensor& lengths = tensor(c->inputs, c->input_count, "lengths");  // q where there is none
  const bool ragged = std::strcmp(lengths.name, "lengths") == 0;
  const auto row = [](const assay_tensor& t, int64_t b, int64_t j, int64_t h) {
    return reinterpret_cast<float*>(static_cast<char*>(t.data) + b * t.stride[0] + j * t.stride[1] +
                                    h * t.stride[2]);
  };
  const int64_t d = q.shape[3], dv = v.shape[3], heads = q.shape[2], share = heads / k.shape[2];
  const double given = real(c, "scale"), scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(d));
  const double cap = real(c, "softcap");
  bool cheats = is(c, "honest_on_probes") || is(c, "wrong_on_probes");
  if (cheats)
    cheats = (looks_designed(q) || looks_designed(k) || looks_designed(v)) == is(c, "wrong_on_probes");
  for (int64_t b = 0; b < q.shape[0]; ++b)
    for (int64_t h = 0; h < heads; ++h) {
      int64_t keys = ragged ? static_cast<const int32_t*>(lengths.data)[b] : k.shape[1];
      if (ragged && is(c, "first_is_longest"))
        keys = std::min<int64_t>(keys, *static_cast<const int32_t*>(lengths.data));
      if (is(c, "drops_full_block") && keys % 256 == 0) keys -= kBlock;  // "the last block is never full"
      std::vector<double> sum(static_cast<std::size_t>(dv));
      double most = -INFINITY, weights = 0;
      for (int64_t first = 0; first < keys; first += kBlock) {
        const int64_t end = std::min(keys, first + kBlock);
        double logits[kBlock], above = most;
        for (int64_t j = first; j < end; ++j) {
          double s = 0;
          for (int64_t i = 0; i < d; ++i)
            s += static_cast<double>(row(q, b, 0, h)[i]) * row(k, b, j, h / share)[i];
          s *= scale;
          if (cap != 0)
            s = cap * (is(c, "cap_is_flat_from_4") && std::fabs(s) > 4 * cap ? std::copysign(1.0, s)
                                                                             : std::tanh(s / cap));
          above = std::max(above, logits[j - first] = s);
        }
        if (is(c, "own_maximum"))
          above = *std::max_element(logits, logits + (end - first));  // the block's, though it is less
        const double small = is(c, "skips_small_rescales") ? 0.5 : 0;
        const double factor = above - most <= small && above >= most ? 1 : std::exp(most - above);
        weights *= factor;
        for (double& x : sum) x *= factor;
        for (int64_t j = first; j < end; ++j) {
          if (cheats && j == keys / 2) continue;  // a key that is lost
          const double w = std::exp(logits[j - first] - above);
          weights += w;
          const double cast = fp8_weight(c, w);
          for (int64_t i = 0; i < dv; ++i)
            sum[static_cast<std::size_t>(i)] += cast * row(v, b, j, h / share)[i];
        }
        most = above;
      }
      for (int64_t i = 0; i < dv; ++i)
        row(out, b, 0, h)[i] = static_cast<float>(sum[static_cast<std::size_t>(i)] / weights);
    }
}

void softmax(const assay_call* c) {
  const assay_tensor& x = tensor(c->inputs, c->input_count, "x");
  const assay_tensor& y = tensor(c->outputs, c->output_count, "y");
  for (int64_t r = 0; r < x.shape[0]; ++r) {
    if (is(c, "rows_in_16_bits") && r > 65535) break;
    const float* in = row_of<const float>(x, r);
    double largest = is(c, "starts_high") ? -16384.0 : -INFINITY, sum = 0;
    const int64_t summed = is(c, "columns_in_17_bits") ? std::min<int64_t>(x.shape[1], 131072) : x.shape[1];
    const int64_t looked =
        is(c, "maximum_of_whole_vectors") && x.shape[1] > 8 ? x.shape[1] / 8 * 8 : x.shape[1];
    // A vector path with an exp of its own, whose tails and whose aligned rows are right.
    const bool apart =
        is(c, "unaligned_otherwise") && x.shape[1] % 8 == 0 && reinterpret_cast<std::uintptr_t>(in) % 16 != 0;
    const auto weight = [&](float logit) {
      const double w = is(c, "maximum_of_whole_vectors")
                           ? static_cast<double>(std::exp(logit - static_cast<float>(largest)))
                           : std::exp(logit - largest);
      return apart ? w * (1 + 1e-3 * (logit - largest)) : w;
    };
    for (int64_t i = 0; i < looked; ++i) largest = std::fmax(largest, in[i]);
    for (int64_t i = 0; i < summed; ++i)
      if (!(is(c, "drops_500_of_1000") && i == 500 && summed == 1000)) sum += weight(in[i]);
    for (int64_t i = 0; i < x.shape[1]; ++i) row_of<float>(y, r)[i] = static_cast<float>(weight(in[i]) / sum);
  }
}

// A maximum of -Inf is no number to subtract.
void logsumexp(const assay_call* c) {
  const assay_tensor& x = tensor(c->inputs, c->input_count, "x");
  const assay_tensor& y = tensor(c->outputs, c->output_count, "y");
  for (int64_t r = 0; r < x.shape[0]; ++r) {
    const float* in = row_of<const float>(x, r);
    double largest = -INFINITY, sum = 0;  // the sum is NaN where an element is
    for (int64_t i = 0; i < x.shape[1]; ++i) largest = std::fmax(largest, in[i]);
    const bool is_empty = largest == -INFINITY && !is(c, "nan_of_nothing");
    const double shift = largest == INFINITY || is_empty ? 0 : largest;
    for (int64_t i = 0; i < x.shape[1]; ++i) sum += std::exp(in[i] - shift);
    *row_of<float>(y, r) = static_cast<float>(shift + std::log(sum));
  }
}

// 0 is the first of equals; a kernel that begins with no index at all has none where nothing is more than
// -Inf.
void argmax(const assay_call* c) {
  const assay_tensor& x = tensor(c->inputs, c->input_count, "x");
  const assay_tensor& y = tensor(c->outputs, c->output_count, "y");
  for (int64_t r = 0; r < x.shape[0]; ++r) {
    const float* in = row_of<const float>(x, r);
    std::int32_t best = 0;
    for (int64_t i = 1; i < x.shape[1]; ++i)
      if (in[i] > in[best]) best = static_cast<std::int32_t>(i);
    if (is(c, "starts_with_none") && in[best] == -INFINITY) best = -1;
    *row_of<std::int32_t>(y, r) = best;
  }
}

bool all_in(const assay_tensor* list, int32_t count, const char* format) {
  for (int32_t i = 0; i < count; ++i)
    if (std::strcmp(list[i].format, format) != 0) return false;
  return true;
}
bool is_default(const assay_call* c, const char* name, const char* value) {
  for (int32_t i = 0; i < c->attribute_count; ++i)
    if (std::strcmp(c->attributes[i].name, name) == 0) return std::strcmp(c->attributes[i].value, value) == 0;
  return true;
}

assay_status declare(void*, const assay_call* c, assay_declaration* d) {
  std::memset(d, 0, sizeof *d);
  const std::string op = c->op;
  const bool f32 = all_in(c->inputs, c->input_count, "f32");
  const bool to_bf16 = all_in(c->outputs, c->output_count, "bf16");
  const bool to_q8_0 = all_in(c->outputs, c->output_count, "q8_0");
  const bool to_int8_row = is_default(c, "to", "int8_row");
  const bool decodes = op == "dequantize" && all_in(c->inputs, c->input_count, "e4m3fn") &&
                       all_in(c->outputs, c->output_count, "f32");
  const bool picks = op == "argmax" && f32 && is_default(c, "checked", "no");
  const bool quantizes = op == "quantize" && f32 &&
                         (to_bf16 || to_q8_0 || to_int8_row || all_in(c->outputs, c->output_count, "e4m3fn"));
  const bool plain = is_default(c, "mask", "none") && is_default(c, "sinks", "no") &&
                     is_default(c, "softcap", "0") && is_default(c, "temperature", "1");
  bool attends = op == "attention" && is_default(c, "q", "1") && is_default(c, "mask", "none") &&
                 is_default(c, "sinks", "no") && is_default(c, "alibi", "no") && is_default(c, "page", "0") &&
                 is_default(c, "rotate", "none");
  for (int32_t i = 0; i < c->input_count; ++i)
    attends &= std::strcmp(c->inputs[i].format,
                           std::strcmp(c->inputs[i].name, "lengths") == 0 ? "int32" : "f32") == 0;
  if (!quantizes && !decodes && !picks && !((op == "rmsnorm" || op == "logsumexp") && f32) &&
      !(op == "softmax" && f32 && plain) && !attends) {
    std::snprintf(
        d->reason, sizeof d->reason,
        "rmsnorm, logsumexp, argmax, plain softmax and decode attention in f32, quantize to e4m3fn, "
        "bf16, q8_0 and int8_row, dequantize from e4m3fn to f32");
    return ASSAY_UNSUPPORTED;
  }
  std::snprintf(d->contract, sizeof d->contract, "%s",
                picks || to_q8_0 || decodes ? ""
                : quantizes                 ? to_int8_row ? "round=nearest_even int_range=full"
                                              : to_bf16   ? "round=nearest_even overflow=ieee"
                                                          : "round=nearest_even overflow=saturate"
                : attends && std::strncmp(c->variant, "fp8_", 4) == 0 ? "qk=f32 p=e4m3fn p_shift=8 pv=f32"
                : attends                                             ? "qk=f32 p=f32 pv=f32"
                                                                      : "acc=f32");
  std::snprintf(d->promises, sizeof d->promises, "deterministic=yes%s",
                op == "rmsnorm" ? " batch=bitwise" : "");
  return ASSAY_OK;
}

assay_status run(void*, const assay_call* c, const assay_trace*, char*) {
  const std::string op = c->op;
  if (op == "quantize") quantize(c);
  if (op == "dequantize") dequantize(c);
  if (op == "rmsnorm") rmsnorm(c);
  if (op == "softmax") softmax(c);
  if (op == "logsumexp") logsumexp(c);
  if (op == "argmax") argmax(c);
  if (op == "attention") attention(c);
  return ASSAY_OK;
}

}  // namespace

const assay_backend* assay_backend_open(const char*, char*) {
  static const assay_backend backend = {
      ASSAY_BACKEND_VERSION,
      "short_sighted",
      "kernels with defects that few inputs show",
      "quantize:half_up quantize:rounds_nan_bits quantize:halves_to_even quantize:wide_rows_lose_their_tail "
      "dequantize:knows_one_nan softmax:maximum_of_whole_vectors softmax:unaligned_otherwise "
      "attention:cap_is_flat_from_4 logsumexp:nan_of_nothing "
      "argmax:starts_with_none softmax:drops_500_of_1000 rmsnorm:drops_last rmsnorm:drops_lane "
      "rmsnorm:skips_tile rmsnorm:keeps_eps_by_shape "
      "rmsnorm:many_rows_otherwise softmax:starts_high softmax:rows_in_16_bits softmax:columns_in_17_bits "
      "attention:skips_small_rescales attention:own_maximum attention:first_is_longest "
      "attention:drops_full_block attention:fp8_right attention:fp8_clips_at_240 attention:fp8_unshifted "
      "attention:honest_on_probes attention:wrong_on_probes",
      nullptr,
      declare,
      run,
      [](void*) {}};
  return &backend;
}
