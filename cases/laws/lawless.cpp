// int8_tok x int8_tok by the path that the case names, or, as `one_path`, by its codes whatever is named; and
// rmsnorm in f32 that keeps its contract in every call, and breaks a law that its variant names: results that
// depend on what else is in the call, or on what was called before. The variant `lawful` is the same kernel
// without.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "backends/assay_backend.h"

namespace {

constexpr int64_t kThreshold = 113;  // rows from which the "split" kernel sums otherwise; no test is told

const assay_tensor& tensor(const assay_tensor* list, int32_t count, const char* name) {
  for (int32_t i = 0; i < count; ++i)
    if (std::strcmp(list[i].name, name) == 0) return list[i];
  return list[0];
}
bool is(const assay_call* c, const char* variant) { return std::strcmp(c->variant, variant) == 0; }

float in_order(const float* x, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}
float in_halves(const float* x, int64_t n) { return in_order(x, n / 2) + in_order(x + n / 2, n - n / 2); }

const char* attribute(const assay_call* c, const char* name) {
  for (int32_t i = 0; i < c->attribute_count; ++i)
    if (std::strcmp(c->attributes[i].name, name) == 0) return c->attributes[i].value;
  return "";
}

bool by_codes(const assay_call* c) {
  return std::strcmp(attribute(c, "path"), "f32") != 0 && std::strcmp(attribute(c, "path"), "bf16") != 0;
}

float to_bf16(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x7FFFU + (bits >> 16 & 1U)) & 0xFFFF0000U;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

void matmul(const assay_call* c) {
  const assay_tensor &a = tensor(c->inputs, c->input_count, "a"), &b = tensor(c->inputs, c->input_count, "b"),
                     &y = tensor(c->outputs, c->output_count, "y");
  const auto row = [](const assay_tensor& t, int64_t r) {
    return static_cast<char*>(t.data) + r * t.stride[0];
  };
  const auto scale = [&](const char* name, int64_t r) {
    return static_cast<const float*>(tensor(c->inputs, c->input_count, name).data)[r];
  };
  for (int64_t i = 0; i < y.shape[0]; ++i)
    for (int64_t j = 0; j < y.shape[1]; ++j) {
      const auto *x = reinterpret_cast<const std::int8_t*>(row(a, i)),
                 *w = reinterpret_cast<const std::int8_t*>(row(b, j));
      const float sx = scale("a.scale", i), sw = scale("b.scale", j);
      int32_t codes = 0;
      float sum = 0;
      for (int64_t k = 0; k < a.shape[1]; ++k) {
        codes += x[k] * w[k];
        const float p = static_cast<float>(x[k]) * sx, q = static_cast<float>(w[k]) * sw;
        sum += std::strcmp(attribute(c, "path"), "bf16") == 0 ? to_bf16(p) * to_bf16(q) : p * q;
      }
      reinterpret_cast<float*>(row(y, i))[j] =
          by_codes(c) || is(c, "one_path") ? static_cast<float>(codes) * sx * sw : sum;
    }
}

assay_status declare(void*, const assay_call* c, assay_declaration* d) {
  std::memset(d, 0, sizeof *d);
  if (std::strcmp(c->op, "matmul") == 0) {
    std::snprintf(d->contract, sizeof d->contract, "%s",
                  by_codes(c) ? "acc=i32 epilogue_roundings=3" : "acc=f32 epilogue_roundings=0");
    return ASSAY_OK;
  }
  const assay_tensor& x = tensor(c->inputs, c->input_count, "x");
  if (std::strcmp(c->op, "rmsnorm") != 0 || std::strcmp(x.format, "f32") != 0) {
    std::snprintf(d->reason, sizeof d->reason, "rmsnorm in f32");
    return ASSAY_UNSUPPORTED;
  }
  std::snprintf(d->contract, sizeof d->contract, "acc=f32");
  std::snprintf(
      d->promises, sizeof d->promises, "deterministic=yes%s",
      is(c, "unpromised") ? "" : " batch=bitwise calls=bitwise replay=bitwise order=bitwise padding=bitwise");
  return ASSAY_OK;
}

assay_status run(void*, const assay_call* c, const assay_trace*, char*) {
  if (std::strcmp(c->op, "matmul") == 0) {
    matmul(c);
    return ASSAY_OK;
  }
  const assay_tensor& x = tensor(c->inputs, c->input_count, "x");
  const assay_tensor& y = tensor(c->outputs, c->output_count, "y");
  const float* gamma = static_cast<const float*>(tensor(c->inputs, c->input_count, "gamma").data);
  const double eps = std::stod(attribute(c, "eps"));
  const int64_t rows = x.shape[0], n = x.shape[1];
  static int64_t calls = 0, last_rows = 0;
  static std::vector<float>
      kept;  // sums by the address of the inputs: of a caller whose buffers never change
  static const void* kept_for = nullptr;
  const bool stale = is(c, "stale") && kept_for == x.data && static_cast<int64_t>(kept.size()) == rows;
  if (is(c, "stale") && !stale) kept_for = x.data, kept.assign(static_cast<std::size_t>(rows), 0.0F);
  for (int64_t r = 0; r < rows; ++r) {
    const auto* in = reinterpret_cast<const float*>(static_cast<const char*>(x.data) + r * x.stride[0]);
    auto* out = reinterpret_cast<float*>(static_cast<char*>(y.data) + r * y.stride[0]);
    bool halves = false;
    if (is(c, "split") || is(c, "unpromised")) halves = rows >= kThreshold;
    if (is(c, "position")) halves = r % 8 == 7;
    if (is(c, "strides")) halves = x.stride[0] != n * 4;
    if (is(c, "remembers")) halves = last_rows != rows && calls > 0;
    float sum = halves ? in_halves(in, n) : in_order(in, n);
    if (stale) sum = kept[static_cast<std::size_t>(r)];
    if (is(c, "stale")) kept[static_cast<std::size_t>(r)] = sum;
    const auto factor =
        static_cast<float>(1 / std::sqrt(static_cast<double>(sum) / static_cast<double>(n) + eps));
    for (int64_t i = 0; i < n; ++i) out[i] = in[i] * factor * gamma[i];
  }
  ++calls, last_rows = rows;
  return ASSAY_OK;
}

}  // namespace

const assay_backend* assay_backend_open(const char*, char*) {
  static const assay_backend backend = {ASSAY_BACKEND_VERSION,
                                        "lawless",
                                        "rmsnorm whose results depend on what they must not",
                                        "lawful split unpromised position strides remembers stale one_path",
                                        nullptr,
                                        declare,
                                        run,
                                        [](void*) {}};
  return &backend;
}
