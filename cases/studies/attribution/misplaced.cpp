// A plug-in whose faults have a place: attention in tiles of 32 keys, and one key, tile, page, head, row,
// sequence, column, dimension or bit of it wrong; a matrix product, and some k of it; ops over rows
// (misplaced_rows.cpp). The fault is the option: misplaced.so:KIND-N-M, without one it is correct. The places
// that each kind has are listed in places_test.py.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "cases/studies/attribution/misplaced.hpp"

namespace {

using namespace misplaced;

std::int64_t integer(const assay_call* call, std::string_view name) {
  return std::atoll(attribute(call, name).data());
}

// K or V: f32, or int8 with one scale. `stuck`: the bit of each code that reads as 0, or -1.
struct Operand {
  const assay_tensor* t;
  float scale = 1;
  std::int64_t stuck = -1;
  Operand(const assay_call* call, const char* name, const Fault& fault) : t(input(call, name)) {
    if (const assay_tensor* s = input(call, std::string(name) + ".scale"))
      scale = *static_cast<const float*>(s->data);
    if (fault.is(std::string("bit_") + name)) stuck = fault.n;
  }
  float at(std::int64_t outer, std::int64_t token, std::int64_t head, std::int64_t c) const {
    const char* row =
        static_cast<const char*>(t->data) + outer * t->stride[0] + token * t->stride[1] + head * t->stride[2];
    if (t->format == std::string_view("f32")) return reinterpret_cast<const float*>(row)[c];
    auto code = static_cast<std::uint8_t>(row[c]);
    if (stuck >= 0) code = static_cast<std::uint8_t>(code & ~(1U << static_cast<unsigned>(stuck)));
    return scale * static_cast<float>(static_cast<std::int8_t>(code));
  }
};

struct Kernel {
  const Fault& fault;
  const assay_tensor &q, &out;
  Operand k, v;
  const assay_tensor *table, *lengths;
  std::int64_t page, window, last_key;
  double scale;
  std::string_view mask;

  Kernel(const assay_call* call, const Fault& f)
      : fault(f),
        q(*input(call, "q")),
        out(call->outputs[0]),
        k(call, "k", f),
        v(call, "v", f),
        table(input(call, "page_table")),
        lengths(input(call, "lengths")),
        page(integer(call, "page")),
        window(integer(call, "window")),
        last_key(integer(call, "len") - 1),
        scale(std::atof(attribute(call, "scale").data())),
        mask(attribute(call, "mask")) {
    if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(q.shape[3]));
  }

  // Element c of the key's row, through the page table.
  float element(const Operand& x, std::int64_t b, std::int64_t key, std::int64_t head, std::int64_t c) const {
    if (page == 0) return x.at(b, key, head, c);
    std::int64_t logical = key / page;
    if (fault.is(&x == &k ? "k_page" : "v_page") && logical == fault.n) logical += logical == 0 ? 1 : -1;
    const char* row = static_cast<const char*>(table->data) + b * table->stride[0];
    return x.at(reinterpret_cast<const std::int32_t*>(row)[logical], key % page, head, c);
  }

  bool dropped(std::int64_t b, std::int64_t r, std::int64_t h, std::int64_t j) const {
    return (fault.is("drop_key") && j == fault.n) || (fault.is("drop_tile") && j / kTile == fault.n) ||
           (fault.is("last_of_tile") && j % kTile == kTile - 1) ||
           (fault.is("drop_tail") && j > last_key - fault.n) || (fault.is("drop_head") && j < fault.n) ||
           (fault.is("slot") && j % page == fault.n) ||
           (fault.is("sequence") && b == fault.n && j == fault.m) ||
           (fault.is("row") && r == fault.n && j == fault.m) ||
           (fault.is("head") && h == fault.n && j == fault.m);
  }

  double logit(std::int64_t b, std::int64_t r, std::int64_t h, std::int64_t kv, std::int64_t j) const {
    const char* row = static_cast<const char*>(q.data) + b * q.stride[0] + r * q.stride[1] + h * q.stride[2];
    double sum = 0;
    for (std::int64_t c = 0; c < q.shape[3]; ++c)
      if (!(fault.is("dimension") && c == fault.n) && !(fault.is("dimensions_from") && c >= fault.n))
        sum += static_cast<double>(reinterpret_cast<const float*>(row)[c]) * element(k, b, j, kv, c);
    return scale * sum;
  }

  void row(std::int64_t b, std::int64_t r, std::int64_t h) const {
    const std::int64_t dv = out.shape[3], length = lengths != nullptr
                                                       ? static_cast<const std::int32_t*>(lengths->data)[b]
                                                       : last_key + 1;
    std::int64_t kv = h * k.t->shape[2] / q.shape[2];
    if (fault.is("kv_head") && h == fault.n) kv = (kv + 1) % k.t->shape[2];
    const std::int64_t position = length - q.shape[1] + r;
    const std::int64_t end = mask == "none" ? length : std::min(length, position + 1);
    const std::int64_t begin = mask == "window" ? std::max<std::int64_t>(0, position - window + 1) : 0;
    double top = -INFINITY, sum = 0;
    std::vector<double> acc(static_cast<std::size_t>(dv), 0.0);
    for (std::int64_t tile = begin / kTile; tile * kTile < end; ++tile) {
      std::vector<std::pair<std::int64_t, double>> seen;
      double high = top;
      for (std::int64_t j = std::max(begin, tile * kTile); j < std::min(end, (tile + 1) * kTile); ++j) {
        if (dropped(b, r, h, j)) continue;
        seen.emplace_back(j, logit(b, r, h, kv, j));
        high = std::max(high, seen.back().second);
      }
      if (seen.empty()) continue;
      const double factor = std::exp(top - high);
      const bool here = tile == fault.n && top > -INFINITY;
      if (!(here && fault.is("rescale_both"))) sum *= factor;
      if (!(here && (fault.is("rescale") || fault.is("rescale_both"))))
        for (double& a : acc) a *= factor;
      top = high;
      for (const auto& [j, s] : seen) {
        const double w = std::exp(s - top) * (fault.is("tile_twice") && tile == fault.n ? 2 : 1);
        const std::int64_t from = fault.is("v_of_next") && j == fault.n ? (j == last_key ? j - 1 : j + 1) : j;
        sum += w;
        for (std::int64_t c = 0; c < dv; ++c)
          acc[static_cast<std::size_t>(c)] += w * element(v, b, from, kv, c);
      }
    }
    char* to = static_cast<char*>(out.data) + b * out.stride[0] + r * out.stride[1] + h * out.stride[2];
    for (std::int64_t c = 0; c < dv; ++c) {
      const double x = sum == 0 ? 0 : acc[static_cast<std::size_t>(c)] / sum;
      const bool wrong = fault.is("factor") || (fault.is("column") && c == fault.n);
      reinterpret_cast<float*>(to)[c] = static_cast<float>(wrong ? 1.5 * x : x);
    }
  }
};

void matmul(const assay_call* call, const Fault& fault) {
  const assay_tensor &a = *input(call, "a"), &b = *input(call, "b"), &y = call->outputs[0];
  const auto row = [](const assay_tensor& t, std::int64_t i) {
    return reinterpret_cast<float*>(static_cast<char*>(t.data) + i * t.stride[0]);
  };
  for (std::int64_t i = 0; i < a.shape[0]; ++i)
    for (std::int64_t j = 0; j < b.shape[0]; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.shape[1]; ++k) {
        const double times = (fault.is("drop_k") && k == fault.n) || (fault.is("k_from") && k >= fault.n) ||
                                     (fault.is("last_of_block") && k % kTile == kTile - 1) ||
                                     (fault.is("y_row") && i == fault.n)
                                 ? 0
                             : fault.is("block_twice") && k / kTile == fault.n ? 2
                                                                               : 1;
        sum += times * row(a, i)[k] *
               row(b, j)[fault.is("b_of_next") && k == fault.n ? (k + 1) % a.shape[1] : k];
      }
      row(y, i)[j] = static_cast<float>(sum);
    }
}

assay_status declare(void*, const assay_call* call, assay_declaration* d) {
  const auto is = [&](const char* name, const char* value) {
    return attribute(call, name) == std::string_view(value);
  };
  const auto plain = [&](const char* name) {
    const assay_tensor* t = input(call, name);
    const assay_tensor* s = input(call, (std::string(name) + ".scale").c_str());
    return t != nullptr &&
           (t->format == std::string_view("f32") ||
            (t->format == std::string_view("int8") && s != nullptr && s->rank == 1 && s->shape[0] == 1));
  };
  if (is_of_rows(call)) {
    const char* contract = contract_of_rows(call);
    if (contract == nullptr) {
      std::snprintf(d->reason, sizeof d->reason, "only plain rows of f32, and int4_g32");
      return ASSAY_UNSUPPORTED;
    }
    std::snprintf(d->contract, sizeof d->contract, "%s", contract);
    std::snprintf(d->path, sizeof d->path, "%s", call->op);
    return ASSAY_OK;
  }
  if (call->op == std::string_view("matmul") && is("a", "f32") && is("b", "f32") && is("dtype", "f32")) {
    std::snprintf(d->contract, sizeof d->contract, "acc=f32");
    std::snprintf(d->path, sizeof d->path, "matmul");
    return ASSAY_OK;
  }
  if (call->op != std::string_view("attention") || !is("dtype", "f32") || !plain("k") || !plain("v") ||
      !is("softcap", "0") || !is("sinks", "no") || !is("alibi", "no") || !is("rotate", "none") ||
      is("mask", "random")) {
    std::snprintf(d->reason, sizeof d->reason,
                  "only plain attention and matmul of f32, K and V in f32 or int8_tensor");
    return ASSAY_UNSUPPORTED;
  }
  std::snprintf(d->contract, sizeof d->contract, "qk=f32 p=f32 pv=f32 tile=32");
  std::snprintf(d->path, sizeof d->path, "attention");
  return ASSAY_OK;
}

assay_status run(void* self, const assay_call* call, const assay_trace* trace, char*) {
  trace->kernel(trace->self, call->op);
  if (is_of_rows(call)) return run_rows(call, *static_cast<const Fault*>(self)), ASSAY_OK;
  if (call->op == std::string_view("matmul")) return matmul(call, *static_cast<const Fault*>(self)), ASSAY_OK;
  const Kernel kernel(call, *static_cast<const Fault*>(self));
  for (std::int64_t b = 0; b < kernel.q.shape[0]; ++b)
    for (std::int64_t r = 0; r < kernel.q.shape[1]; ++r)
      for (std::int64_t h = 0; h < kernel.q.shape[2]; ++h) kernel.row(b, r, h);
  return ASSAY_OK;
}

}  // namespace

extern "C" ASSAY_EXPORT const assay_backend* assay_backend_open(const char* options, char*) {
  static Fault fault;
  char kind[64] = "";
  long long n = 0, m = 0;
  std::sscanf(options, "%63[^-]-%lld-%lld", kind, &n, &m);
  fault = {kind, n, m};
  static const assay_backend backend{
      ASSAY_BACKEND_VERSION,
      "misplaced",
      "attention, matmul and ops over rows with one fault whose place is known",
      "",
      &fault,
      declare,
      run,
      [](void*) {}};
  return &backend;
}
