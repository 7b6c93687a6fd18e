#include "reference/ops/attention/problem.hpp"
#include "reference/formats/tq3.hpp"
#include "reference/mix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace assay {
namespace {

const Encoded& tensor(const TensorSet& inputs, const std::string& name, const Shape& shape,
                      std::string_view format) {
  const auto found = inputs.find(name);
  if (found == inputs.end())
    throw InputError(InputErrorKind::shape_mismatch, fmt::format("attention: tensor {} is missing", name));
  if (found->second.shape != shape || found->second.format != format)
    throw InputError(InputErrorKind::shape_mismatch,
                     fmt::format("attention: tensor {} is {} {}, must be {} {}", name, found->second.format,
                                 to_string(found->second.shape), format, to_string(shape)));
  const std::vector<PlaneSpec> expected = planes(assay::format(format), shape);
  bool same = expected.size() == found->second.planes.size();
  for (std::size_t i = 0; same && i < expected.size(); ++i)
    same = found->second.planes[i].bytes.size() == expected[i].bytes;
  if (!same)
    throw InputError(
        InputErrorKind::shape_mismatch,
        fmt::format("attention: the bytes of tensor {} do not fit {} {}", name, format, to_string(shape)));
  return found->second;
}

Encoded index_tensor(std::string_view format, const Shape& shape, const void* data, std::size_t bytes) {
  Encoded out{std::string(format), shape, {}};
  Plane plane{{"", std::string(format), shape, bytes}, std::vector<std::byte>(bytes)};
  std::memcpy(plane.bytes.data(), data, bytes);
  out.planes.push_back(std::move(plane));
  return out;
}

}  // namespace

std::int64_t AttentionGeometry::pages() const {
  const std::int64_t used = batch * table_width();
  return page == 0 ? 0 : used + used / 4 + 1;
}

AttentionGeometry attention_geometry(const Attributes& a) {
  AttentionGeometry g;
  g.batch = a.integer("batch");
  g.heads = a.integer("heads");
  g.kv_heads = a.integer("kv_heads");
  g.d = a.integer("d");
  g.dv = a.integer("dv");
  g.rows = a.integer("q");
  g.length = a.integer("len");
  g.page = a.integer("page");
  g.window = a.integer("window");
  g.softcap = a.real("softcap");
  g.scale = a.real("scale");
  g.sinks = a.text("sinks") == "yes";
  g.alibi = a.text("alibi") == "yes";
  g.ragged = a.text("lengths") == "ragged";
  g.k_format = a.text("k");
  g.v_format = a.text("v");
  g.dtype = a.text("dtype");
  const std::string& mask = a.text("mask");
  g.mask = mask == "causal"   ? MaskKind::causal
           : mask == "window" ? MaskKind::window
           : mask == "random" ? MaskKind::random
                              : MaskKind::none;
  const std::string& rotate = a.text("rotate");
  g.rotate = rotate == "qk" ? RotateKind::qk : rotate == "qkv" ? RotateKind::qkv : RotateKind::none;
  const auto refuse = [](const std::string& what) {
    throw InputError(InputErrorKind::bad_value, "attention: " + what);
  };
  if (g.heads % g.kv_heads != 0)
    refuse(fmt::format("heads={} must be a multiple of kv_heads={}", g.heads, g.kv_heads));
  if ((g.mask == MaskKind::window) != (g.window > 0))
    refuse(fmt::format("mask={} with window={}: mask=window needs window >= 1, no other mask takes one", mask,
                       g.window));
  if (g.rotate != RotateKind::none && g.d % 32 != 0)
    refuse(fmt::format("rotate={} needs d in groups of 32, got d={}", rotate, g.d));
  if (g.rotate == RotateKind::qkv && g.dv % 32 != 0)
    refuse(fmt::format("rotate=qkv needs dv in groups of 32, got dv={}", g.dv));
  // Both, with log2 e in them, and the reciprocal of the latter, are normal numbers of f32.
  constexpr double kLeastFactor = 1e-12;
  const auto is_factor = [](double x) { return x == 0 || (x >= kLeastFactor && std::isfinite(x)); };
  if (!is_factor(g.scale)) refuse(fmt::format("scale={} must be 0, or finite and at least 1e-12", g.scale));
  if (!is_factor(g.softcap))
    refuse(fmt::format("softcap={} must be 0, or finite and at least 1e-12", g.softcap));
  if (g.scale == 0) g.scale = 1.0 / std::sqrt(static_cast<double>(g.d));
  return g;
}

std::vector<TensorSpec> attention_tensors(const Attributes& attributes) {
  const AttentionGeometry g = attention_geometry(attributes);
  const auto kv = [&](std::int64_t width) {
    return g.page == 0 ? Shape{g.batch, g.length, g.kv_heads, width}
                       : Shape{g.pages(), g.page, g.kv_heads, width};
  };
  std::vector<TensorSpec> t;
  t.push_back({"q", TensorRole::data, g.dtype, {g.batch, g.rows, g.heads, g.d}});
  t.push_back({"k", TensorRole::data, g.k_format, kv(g.d)});
  t.push_back({"v", TensorRole::data, g.v_format, kv(g.dv)});
  if (g.page != 0) t.push_back({"page_table", TensorRole::index, "int32", {g.batch, g.table_width()}});
  if (g.ragged) t.push_back({"lengths", TensorRole::index, "int32", {g.batch}});
  if (g.mask == MaskKind::random) t.push_back({"mask", TensorRole::index, "int8", {g.rows, g.length}});
  if (g.sinks) t.push_back({"sinks", TensorRole::data, "f32", {g.heads}});
  if (g.alibi) t.push_back({"slopes", TensorRole::data, "f32", {g.heads}});
  t.push_back({"out", TensorRole::output, g.dtype, {g.batch, g.rows, g.heads, g.dv}});
  for (const TensorSpec& s : t) (void)planes(format(s.format), s.shape);  // ragged blocks are refused here
  return t;
}

// page_table  the first batch * width members of a seeded shuffle of the pool, so that pages are out of
//             order, mixed between sequences, and a fifth of the pool belongs to nobody
// lengths     one sequence, drawn, has all `len` keys, the others 1..len
// mask        3 of 4 keys visible; every eighth row sees none (row 5, 13, ...)
void attention_indices(const Attributes& attributes, std::uint64_t seed, TensorSet& inputs) {
  const AttentionGeometry g = attention_geometry(attributes);
  std::uint64_t state = seed ^ 0x61747465u;
  if (g.page != 0) {
    std::vector<std::int32_t> pool(static_cast<std::size_t>(g.pages()));
    std::iota(pool.begin(), pool.end(), 0);
    for (std::size_t i = pool.size(); i > 1; --i) std::swap(pool[i - 1], pool[next_mixed(state) % i]);
    inputs["page_table"] = index_tensor("int32", {g.batch, g.table_width()}, pool.data(),
                                        static_cast<std::size_t>(g.batch * g.table_width()) * 4);
  }
  if (g.ragged) {
    std::vector<std::int32_t> lengths(static_cast<std::size_t>(g.batch));
    for (auto& n : lengths)
      n = static_cast<std::int32_t>(1 + next_mixed(state) % static_cast<std::uint64_t>(g.length));
    lengths[static_cast<std::size_t>(lengths[0]) % lengths.size()] = static_cast<std::int32_t>(g.length);
    inputs["lengths"] = index_tensor("int32", {g.batch}, lengths.data(), lengths.size() * 4);
  }
  if (g.mask == MaskKind::random) {
    std::vector<std::int8_t> mask(static_cast<std::size_t>(g.rows * g.length));
    for (std::int64_t i = 0; i < g.rows; ++i)
      for (std::int64_t j = 0; j < g.length; ++j)
        mask[static_cast<std::size_t>(i * g.length + j)] = next_mixed(state) % 4 != 0 && i % 8 != 5;
    inputs["mask"] = index_tensor("int8", {g.rows, g.length}, mask.data(), mask.size());
  }
}

AttentionProblem::AttentionProblem(const Attributes& attributes, const TensorSet& inputs)
    : geometry_(attention_geometry(attributes)) {
  const AttentionGeometry& g = geometry_;
  const std::vector<TensorSpec> specs = attention_tensors(attributes);
  const auto get = [&](const std::string& name) -> const Encoded& {
    for (const TensorSpec& s : specs)
      if (s.name == name) return tensor(inputs, name, s.shape, s.format);
    throw InputError(InputErrorKind::shape_mismatch, "attention: no tensor " + name);
  };
  q_ = decode_tensor(get("q"));
  k_ = &get("k");
  v_ = &get("v");
  lengths_.assign(static_cast<std::size_t>(g.batch), g.length);
  if (g.ragged) {
    std::vector<std::int32_t> stored(lengths_.size());
    std::memcpy(stored.data(), get("lengths").planes[0].bytes.data(), stored.size() * 4);
    for (std::size_t b = 0; b < stored.size(); ++b) {
      if (stored[b] < 0 || stored[b] > g.length)
        throw InputError(InputErrorKind::bad_value,
                         fmt::format("attention: lengths[{}]={} is outside 0..{}", b, stored[b], g.length));
      lengths_[b] = stored[b];
    }
  }
  if (g.page != 0) {
    table_.resize(static_cast<std::size_t>(g.batch * g.table_width()));
    std::memcpy(table_.data(), get("page_table").planes[0].bytes.data(), table_.size() * 4);
    for (std::int64_t b = 0; b < g.batch; ++b)
      for (std::int64_t i = 0; i * g.page < length(b); ++i) {
        const std::int32_t page = table_[static_cast<std::size_t>(b * g.table_width() + i)];
        if (page < 0 || page >= g.pages())
          throw InputError(
              InputErrorKind::bad_value,
              fmt::format("attention: page_table[{},{}]={} is outside 0..{}", b, i, page, g.pages() - 1));
      }
  }
  if (g.mask == MaskKind::random)
    mask_ = reinterpret_cast<const std::int8_t*>(get("mask").planes[0].bytes.data());
  if (g.sinks) sinks_ = decode_tensor(get("sinks"));
  if (g.alibi) slopes_ = decode_tensor(get("slopes"));
}

void AttentionProblem::replace_kv(Encoded k, Encoded v) {
  geometry_.k_format = k.format, geometry_.v_format = v.format;
  own_k_ = std::make_shared<const Encoded>(std::move(k));
  own_v_ = std::make_shared<const Encoded>(std::move(v));
  k_ = own_k_.get(), v_ = own_v_.get();
}

void AttentionProblem::defer_inverse() {
  const auto layouts = tq3_layouts();
  if (std::ranges::find(layouts, geometry_.v_format, &Tq3Layout::name) == layouts.end() ||
      geometry_.rotate == RotateKind::qkv)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("attention: v_inverse=row needs V in tq3_0 and no rotate=qkv, got v={}",
                                 geometry_.v_format));
  deferred_ = true;
  geometry_.rotate = RotateKind::qkv;
}

KeyRange AttentionProblem::range(std::int64_t b, std::int64_t row) const {
  const std::int64_t n = length(b);
  if (geometry_.mask != MaskKind::causal && geometry_.mask != MaskKind::window) return {0, n};
  const std::int64_t end = std::clamp<std::int64_t>(position(b, row) + 1, 0, n);
  if (geometry_.mask == MaskKind::causal) return {0, end};
  return {std::clamp<std::int64_t>(end - geometry_.window, 0, end), end};
}

bool AttentionProblem::visible(std::int64_t b, std::int64_t row, std::int64_t key) const {
  const KeyRange r = range(b, row);
  return key >= r.first && key < r.last && (mask_ == nullptr || mask_row(row)[key] != 0);
}

std::span<const double> AttentionProblem::q(std::int64_t b, std::int64_t row, std::int64_t head) const {
  const std::int64_t first = ((b * geometry_.rows + row) * geometry_.heads + head) * geometry_.d;
  return {q_.data() + first, static_cast<std::size_t>(geometry_.d)};
}

std::int64_t AttentionProblem::token(std::int64_t b, std::int64_t key) const {
  if (geometry_.page == 0) return b * geometry_.length + key;
  const std::int32_t page =
      table_[static_cast<std::size_t>(b * geometry_.table_width() + key / geometry_.page)];
  return page * geometry_.page + key % geometry_.page;
}

void AttentionProblem::decode(const Encoded& t, std::int64_t width, std::int64_t b, std::int64_t kv_head,
                              std::int64_t first, std::int64_t count, double* out, bool rotated) const {
  for (std::int64_t j = 0; j < count;) {
    const std::int64_t from = token(b, first + j);
    std::int64_t run = 1;  // keys that lie next to each other; with one kv head their rows do too
    if (geometry_.kv_heads == 1)
      while (j + run < count && token(b, first + j + run) == from + run) ++run;
    const std::int64_t at = (from * geometry_.kv_heads + kv_head) * width;
    const std::span<double> rows(out + j * width, static_cast<std::size_t>(run * width));
    rotated ? decode_range_rotated(t, at, rows) : decode_range(t, at, rows);
    j += run;
  }
}

void AttentionProblem::decode_k(std::int64_t b, std::int64_t kv_head, std::int64_t first, std::int64_t count,
                                double* out) const {
  decode(*k_, geometry_.d, b, kv_head, first, count, out, false);
}

void AttentionProblem::decode_v(std::int64_t b, std::int64_t kv_head, std::int64_t first, std::int64_t count,
                                double* out) const {
  decode(*v_, geometry_.dv, b, kv_head, first, count, out, deferred_);
}

void unrotate(double* x, double* error, double* certificate, std::size_t n) {
  constexpr std::uint32_t kSigns = 0xB1A6D4B2u;  // bit j set: -1
  constexpr double kInverseRoot = 0.17677669529663689;
  constexpr double kLargestSum = std::numeric_limits<float>::max() / 2;  // 2: the roundings on the way
  for (std::size_t g = 0; g + 32 <= n; g += 32) {
    double sum = 0, errors = 0, certificates = 0;
    for (std::size_t i = g; i < g + 32; ++i) {
      sum += std::fabs(x[i]);
      errors += error[i];
      certificates += certificate[i];
    }
    for (std::size_t half = 1; half < 32; half *= 2)
      for (std::size_t i = g; i < g + 32; i += 2 * half)
        for (std::size_t j = i; j < i + half; ++j) {
          const double a = x[j], b = x[j + half];
          x[j] = a + b;
          x[j + half] = a - b;
        }
    for (std::size_t i = 0; i < 32; ++i) {
      x[g + i] *= (kSigns >> i & 1u) != 0 ? -kInverseRoot : kInverseRoot;
      error[g + i] = sum + errors < kLargestSum
                         ? (errors + 8.01 * 0x1p-24 * (sum + errors)) * kInverseRoot * (1 + 0x1p-40)
                         : std::numeric_limits<double>::infinity();
      certificate[g + i] = (certificates + 8.01 * 0x1p-53 * sum) * kInverseRoot * (1 + 0x1p-40);
    }
  }
}

}  // namespace assay
