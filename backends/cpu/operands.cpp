#include "backends/cpu/operands.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "backends/cpu/codecs.hpp"

namespace assay_cpu {
namespace {

// Two scales of a row make one: their product, rounded to f32.
bool has_two_row_scales(std::string_view format) { return format == "int4_ch_tensor"; }

// One f32 scale serves a whole row of a matrix.
bool row_scaled(std::string_view format) {
  const Layout* found = find_layout(format);
  if (has_two_row_scales(format)) return true;
  return found != nullptr && (found->scaling == Scaling::tensor || found->scaling == Scaling::token ||
                              found->scaling == Scaling::row);
}

// What path=auto takes for codes of a row: those, a scale per head (one row has one), and 8-bit scalars,
// whose scale is 1.
bool has_row_codes(std::string_view format) {
  const Layout* found = find_layout(format);
  if (found == nullptr) return false;
  const bool wide =
      format == "f32" || format == "tf32" || format == "f16" || format == "bf16" || format == "int32";
  return row_scaled(format) || found->scaling == Scaling::head ||
         (!wide && found->scaling == Scaling::none && found->block_elements <= 2 && !found->has_block_scale);
}

bool integers(std::string_view format) {
  return format.starts_with("int8_") || format.starts_with("int4_ch");
}

// The codes of a row as numbers, without the scale.
void read_codes(const Engine& engine, const Planes& planes, std::string_view format, std::int64_t row,
                float* out) {
  Planes bare = planes;
  bare.scale = nullptr;
  const std::string_view element = format.substr(0, format.find('_'));
  layout(element).read(bare, engine, row, out);
}

void read_integers(const Planes& planes, std::string_view format, std::int64_t row, std::int8_t* out) {
  const std::byte* bytes = row_bytes(*planes.payload, row);
  if (!format.starts_with("int4_ch")) {
    std::memcpy(out, bytes, static_cast<std::size_t>(planes.length));
    return;
  }
  for (std::int64_t i = 0; i < planes.length; ++i) {
    const int nibble = std::to_integer<int>(bytes[i / 2]) >> (i % 2 * 4) & 0xF;
    out[i] = static_cast<std::int8_t>((nibble ^ 8) - 8);  // sign-extended
  }
}

float epilogue_scale(const Planes& planes, std::string_view format, std::int64_t row) {
  if (has_two_row_scales(format)) return f32_at(*planes.scale, row) * f32_at(*planes.scale_2, 0);
  return f32_at(*planes.scale, scale_index(layout(format).scaling, planes, row, 0));
}

void round_to_half(const Engine& engine, std::string_view path, float* x, std::size_t n) {
  std::vector<std::uint16_t> half(n);
  if (path == "f16") {
    engine.to_f16(x, half.data(), n);
    engine.from_f16(half.data(), x, n);
  } else if (path == "bf16") {
    engine.to_bf16(x, half.data(), n);
    engine.from_bf16(half.data(), x, n);
  }
}

// ggml's block of 32: code = round(x / d), d = absmax / 127; the scale that multiplies is d as f16.
void quantise_q8(float* x, std::size_t n) {
  for (std::size_t first = 0; first < n; first += 32) {
    float absmax = 0;
    for (std::size_t i = first; i < first + 32; ++i) absmax = std::fmax(absmax, std::fabs(x[i]));
    const float d = absmax / 127.0F;
    // Of a subnormal d the quotient is Inf, and a zero times that is no code.
    const float inverse = d == 0 ? 0.0F : std::fmin(1.0F / d, std::numeric_limits<float>::max());
    const float stored = f16_value(f16_code(d));
    for (std::size_t i = first; i < first + 32; ++i) x[i] = std::nearbyint(x[i] * inverse) * stored;
  }
}

}  // namespace

std::string resolve_path(std::string_view path, std::string_view a, std::string_view b) {
  if (path != "auto") return std::string(path);
  if (has_row_codes(a) && has_row_codes(b)) return "codes";
  for (const std::string_view format : {a, b}) {
    if (format == "f16" || format == "bf16") return std::string(format);
  }
  return "f32";
}

void check_path(std::string_view path, std::string_view a, std::string_view b) {
  if (path == "codes" && !(row_scaled(a) && row_scaled(b))) {
    throw Unsupported("path=codes needs one scale per row on both sides, not " + std::string(a) + " and " +
                      std::string(b));
  }
  for (const char* known : {"f32", "f16", "bf16", "codes", "e4m3fn", "q8"}) {
    if (path == known) return;
  }
  throw Unsupported("path=" + std::string(path) +
                    " has no kernel: f32, f16, bf16, codes, e4m3fn and q8 have");
}

bool integer_product(std::string_view path, std::string_view a, std::string_view b) {
  return path == "codes" && integers(a) && integers(b);
}

std::string product_contract(const Engine& engine, std::string_view path, std::string_view a,
                             std::string_view b) {
  const int more = has_two_row_scales(a) + has_two_row_scales(b);
  if (integer_product(path, a, b)) return "acc=i32 epilogue_roundings=" + std::to_string(3 + more);
  const std::string epilogue = path == "codes" ? std::to_string(2 + more) : path == "e4m3fn" ? "1" : "0";
  // dot_rows keeps one vector of sums. dot keeps four of them, where a product goes through no more additions
  // than with one: with n = (4 q + r) lanes it is q + r + 1 of them against 4 q + r - 1, and for q = 0 the
  // other three are zeros.
  return "acc=f32 order=lanes:" + std::to_string(engine.dot_lanes) +
         " dequant_roundings=1 epilogue_roundings=" + epilogue;
}

void prepare_values(const Engine& engine, std::string_view path, Activations& activations) {
  std::vector<float>& x = activations.values;
  if (path == "q8") {
    for (std::size_t r = 0; r < activations.rows; ++r)
      quantise_q8(x.data() + r * activations.length, activations.length);
  } else if (path == "e4m3fn") {
    float absmax = 0;
    for (const float v : x) {
      if (std::isfinite(v)) absmax = std::fmax(absmax, std::fabs(v));
    }
    const float scale = absmax == 0 ? 1.0F : absmax / 448.0F;
    for (float& v : x) v = small_value(kE4m3fn, small_code(kE4m3fn, v / scale));
    activations.scales.assign(activations.rows, scale);
  } else {
    round_to_half(engine, path, x.data(), x.size());
  }
}

std::string fold_of_four_vectors(const Engine& engine) {
  const auto lanes = static_cast<std::int64_t>(engine.dot_lanes);
  std::string fold = std::to_string(lanes) + "." + std::to_string(2 * lanes);
  for (std::int64_t half = lanes / 2; half > 0; half /= 2) fold += "." + std::to_string(half);
  return fold;
}

std::string product_schedule(const Engine& engine, std::string_view path, bool integers, std::int64_t k,
                             std::string_view prefix) {
  const auto lanes = static_cast<std::int64_t>(engine.dot_lanes);
  std::string text;
  const auto add = [&](std::string_view key, std::string_view value) {
    if (!text.empty()) text += "/";
    text.append(prefix).append(key).append(":").append(value);
  };
  if (integers) {
    add("acc", "i32"), add("scales", "a_b");
    return text;
  }
  // Of k terms that are one vector at most the four sums are one.
  const bool alone = &engine != &kScalarEngine && k > lanes;
  if (alone) add("rows", "4");
  add("acc", "f32");
  add("lanes", std::to_string(lanes));
  if (engine.fma) add("fma", "yes");
  if (path == "codes" || path == "e4m3fn") add("scales", "a_b");
  if (alone) {
    add("left.lanes", std::to_string(4 * lanes));
    add("left.tail", "vector:" + std::to_string(lanes));
    add("left.fold", fold_of_four_vectors(engine));
  }
  return text;
}

Activations take_activations(const Engine& engine, const RowReader& reader, std::string_view format,
                             std::string_view path, bool integer, const std::vector<std::int64_t>& which) {
  std::vector<std::int64_t> rows = which;
  if (rows.empty()) {
    rows.resize(static_cast<std::size_t>(reader.rows()));
    std::iota(rows.begin(), rows.end(), 0);
  }
  Activations taken;
  taken.rows = rows.size();
  taken.length = static_cast<std::size_t>(reader.length());
  if (integer) {
    taken.codes.resize(taken.rows * taken.length);
  } else {
    taken.values.resize(taken.rows * taken.length);
  }
  for (std::size_t r = 0; r < taken.rows; ++r) {
    const std::size_t at = r * taken.length;
    if (integer) {
      read_integers(reader.planes(), format, rows[r], taken.codes.data() + at);
    } else if (path == "codes") {
      read_codes(engine, reader.planes(), format, rows[r], taken.values.data() + at);
    } else {
      reader.read(engine, rows[r], taken.values.data() + at);
    }
    if (path == "codes") taken.scales.push_back(epilogue_scale(reader.planes(), format, rows[r]));
  }
  if (path != "codes") prepare_values(engine, path, taken);
  return taken;
}

WeightRows::WeightRows(const Engine& engine, const RowReader& reader, std::string_view format,
                       std::string_view path, bool integer)
    : engine_(engine), reader_(reader), format_(format), path_(path), integer_(integer) {}

void WeightRows::dot(std::int64_t row, const Activations& activations, float* out) {
  const std::size_t length = activations.length;
  if (integer_) {
    codes_.resize(length);
    read_integers(reader_.planes(), format_, row, codes_.data());
    for (std::size_t i = 0; i < activations.rows; ++i) {
      out[i] =
          static_cast<float>(engine_.dot_int8(activations.codes.data() + i * length, codes_.data(), length));
    }
  } else {
    values_.resize(length);
    if (path_ == "codes") {
      read_codes(engine_, reader_.planes(), format_, row, values_.data());
    } else {
      reader_.read(engine_, row, values_.data());
    }
    if (path_ == "e4m3fn") {
      for (float& w : values_) w = small_value(kE4m3fn, small_code(kE4m3fn, w));
    } else {
      round_to_half(engine_, path_, values_.data(), length);
    }
    engine_.dot_rows(values_.data(), activations.values.data(), length, activations.rows, length, out);
  }
  if (path_ == "codes") {
    const float weight_scale = epilogue_scale(reader_.planes(), format_, row);
    for (std::size_t i = 0; i < activations.rows; ++i) out[i] = out[i] * activations.scales[i] * weight_scale;
  } else if (!activations.scales.empty()) {
    for (std::size_t i = 0; i < activations.rows; ++i) out[i] *= activations.scales[i];
  }
}

}  // namespace assay_cpu
