// Kernels in f32 that declare their schedules whole, and the same with one step changed: what level=replay
// must catch, and name.
//   matmul   blocks of 32 products, each summed from zero, the blocks' sums added in order
//     healthy, block_order (blocks 2 and 3 change places), promotion (blocks 4 and 5 are one chain), rounding
//     (the sums of block 6 are fused, the others are not), and contracts that are refused: no_schedule,
//     no_level, unreadable, misfit, no_order tf32_even, tf32_away, tf32_zero (operands rounded to tf32 so),
//     tf32_not (not rounded) fours (rows in fours by blocks of 32, the rows that are left by blocks of 16),
//     fours_alike (all by blocks of 32); column_fours and column_fours_alike, the same of columns
//   rmsnorm  squares one after another: healthy, reversed
//   moe      products one after another, slots in their order: healthy, up_reversed, down_reversed (those
//            sums from their ends), slots_reversed, sigmoid (g times a rounded 1 / (1 + exp(-g))),
//            few_reversed (the first sums of fewer than 4 tokens of an expert from their ends), few_alike
//            (declared so, and not done), and a contract that is refused: no_word
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "backends/assay_backend.h"

namespace {

constexpr int64_t kBlock = 32, kLeftBlock = 16, kFours = 4, kFew = 4;

bool is(const assay_call* c, const char* variant) { return std::strcmp(c->variant, variant) == 0; }
bool is_op(const assay_call* c, const char* op) { return std::strcmp(c->op, op) == 0; }
const assay_tensor& tensor(const assay_tensor* list, int32_t count, const char* name) {
  for (int32_t i = 0; i < count; ++i)
    if (std::strcmp(list[i].name, name) == 0) return list[i];
  return list[0];
}
const float* row(const assay_tensor& t, int64_t r) {
  return reinterpret_cast<const float*>(static_cast<const char*>(t.data) + r * t.stride[0]);
}

const char* contract_of(const assay_call* c) {
  if (is_op(c, "moe") && is(c, "no_word")) return "acc=f32 level=replay schedule=combine:tree/up.acc:f32";
  if (is(c, "few_reversed") || is(c, "few_alike"))
    return "acc=f32 silu_ulp=3 level=replay "
           "schedule=combine:slots/up.acc:f32/up.below4.order:descending/down.acc:f32";
  if (is_op(c, "moe"))
    return "acc=f32 silu_ulp=3 level=replay schedule=combine:slots/up.acc:f32/down.acc:f32";
  if (is_op(c, "rmsnorm"))
    return "acc=f32 level=replay schedule=squares.acc:f32/root:inverse/product:x_inv_gamma";
  if (is(c, "no_schedule")) return "acc=f32 level=replay";
  if (is(c, "no_level")) return "acc=f32 schedule=acc:f32/chunk:32";
  if (is(c, "unreadable")) return "acc=f32 level=replay schedule=acc:f32/chonk:32";
  if (is(c, "misfit")) return "acc=f32 level=replay schedule=acc:f64/chunk:32";
  if (is(c, "no_order")) return "acc=f32 order=sequential level=replay schedule=acc:f32/chunk:32";
  if (is(c, "fours") || is(c, "fours_alike"))
    return "acc=f32 level=replay schedule=rows:4/acc:f32/chunk:32/left.chunk:16";
  if (is(c, "column_fours") || is(c, "column_fours_alike"))
    return "acc=f32 level=replay schedule=columns:4/acc:f32/chunk:32/left.chunk:16";
  return "acc=f32 level=replay schedule=acc:f32/chunk:32";
}

assay_status declare(void*, const assay_call* c, assay_declaration* d) {
  std::memset(d, 0, sizeof *d);
  for (int32_t i = 0; i < c->input_count; ++i)
    if (std::strcmp(c->inputs[i].format, "f32") != 0 && std::strcmp(c->inputs[i].format, "int32") != 0) {
      std::snprintf(d->reason, sizeof d->reason, "all in f32");
      return ASSAY_UNSUPPORTED;
    }
  std::snprintf(d->contract, sizeof d->contract, "%s", contract_of(c));
  std::snprintf(d->promises, sizeof d->promises, "deterministic=yes");
  return ASSAY_OK;
}

// To 10 bits behind the point, as the variant says.
float operand(const assay_call* c, float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if (is(c, "tf32_even")) bits += 0xFFF + (bits >> 13 & 1);
  if (is(c, "tf32_away")) bits += 0x1000;
  if (is(c, "tf32_even") || is(c, "tf32_away") || is(c, "tf32_zero")) bits &= ~0x1FFFU;
  std::memcpy(&x, &bits, sizeof bits);
  return x;
}

float dot(const assay_call* c, const float* a, const float* b, int64_t k, int64_t block) {
  float sum = 0, part = 0;
  const int64_t blocks = (k + block - 1) / block;
  for (int64_t n = 0; n < blocks; ++n) {
    const int64_t at = is(c, "block_order") && blocks > 3 && (n == 2 || n == 3) ? 5 - n : n;
    if (!(is(c, "promotion") && n == 5)) part = 0;
    for (int64_t i = at * block; i < k && i < (at + 1) * block; ++i) {
      const float product = operand(c, a[i]) * operand(c, b[i]);
      part = is(c, "rounding") && n == 6 ? std::fma(a[i], b[i], part) : part + product;
    }
    if (!(is(c, "promotion") && n == 4)) sum += part;
  }
  return sum;
}

void rmsnorm(const assay_call* c, const assay_tensor& x, const assay_tensor& y) {
  const int64_t n = x.shape[1];
  const float* gamma = row(tensor(c->inputs, c->input_count, "gamma"), 0);
  double eps = 0;
  for (int32_t i = 0; i < c->attribute_count; ++i)
    if (std::strcmp(c->attributes[i].name, "eps") == 0) eps = std::stod(c->attributes[i].value);
  for (int64_t r = 0; r < x.shape[0]; ++r) {
    const float* in = row(x, r);
    auto* out = const_cast<float*>(row(y, r));
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float value = in[is(c, "reversed") ? n - 1 - i : i];
      const float square = value * value;
      sum += square;
    }
    const float mean = sum / static_cast<float>(n);
    const float inverse = 1.0F / std::sqrt(mean + static_cast<float>(eps));
    for (int64_t i = 0; i < n; ++i) out[i] = (in[i] * inverse) * gamma[i];
  }
}

float plain_dot(const float* a, const float* b, int64_t n, bool reversed) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = reversed ? n - 1 - i : i;
    const float product = a[at] * b[at];
    sum += product;
  }
  return sum;
}

void moe(const assay_call* c, const assay_tensor& y) {
  const auto in = [&](const char* name) -> const assay_tensor& {
    return tensor(c->inputs, c->input_count, name);
  };
  const auto expert_row = [](const assay_tensor& t, int64_t e, int64_t r) {
    return reinterpret_cast<const float*>(static_cast<const char*>(t.data) + e * t.stride[0] +
                                          r * t.stride[1]);
  };
  const assay_tensor &x = in("x"), &w13 = in("w13"), &w2 = in("w2");
  const int64_t hidden = x.shape[1], inter = w2.shape[2], topk = in("topk_ids").shape[1];
  const auto served = [&](int32_t expert) {
    int64_t count = 0;
    for (int64_t t = 0; t < x.shape[0]; ++t)
      for (int64_t s = 0; s < topk; ++s)
        count += std::memcmp(row(in("topk_ids"), t) + s, &expert, sizeof expert) == 0;
    return count;
  };
  for (int64_t t = 0; t < x.shape[0]; ++t) {
    auto* out = const_cast<float*>(row(y, t));
    for (int64_t i = 0; i < hidden; ++i) out[i] = 0;
    for (int64_t n = 0; n < topk; ++n) {
      const int64_t s = is(c, "slots_reversed") ? topk - 1 - n : n;
      int32_t e = 0;
      std::memcpy(&e, row(in("topk_ids"), t) + s, sizeof e);
      std::vector<float> h;
      for (int64_t r = 0; r < inter; ++r) {
        const bool reversed = is(c, "up_reversed") || (is(c, "few_reversed") && served(e) < kFew);
        const float g = plain_dot(row(x, t), expert_row(w13, e, r), hidden, reversed);
        const float v = plain_dot(row(x, t), expert_row(w13, e, inter + r), hidden, reversed);
        const float below = 1.0F + std::exp(-g);
        h.push_back((is(c, "sigmoid") ? g * (1.0F / below) : g / below) * v);
      }
      for (int64_t i = 0; i < hidden; ++i) {
        const float term = row(in("topk_weights"), t)[s] *
                           plain_dot(h.data(), expert_row(w2, e, i), inter, is(c, "down_reversed"));
        out[i] += term;
      }
    }
  }
}

assay_status run(void*, const assay_call* c, const assay_trace*, char*) {
  const assay_tensor& y = tensor(c->outputs, c->output_count, "y");
  if (is_op(c, "moe")) {
    moe(c, y);
    return ASSAY_OK;
  }
  if (is_op(c, "rmsnorm")) {
    rmsnorm(c, tensor(c->inputs, c->input_count, "x"), y);
    return ASSAY_OK;
  }
  const assay_tensor &a = tensor(c->inputs, c->input_count, "a"), &b = tensor(c->inputs, c->input_count, "b");
  const auto is_left = [](int64_t i, int64_t count) { return i >= count - count % kFours; };
  for (int64_t i = 0; i < a.shape[0]; ++i)
    for (int64_t j = 0; j < b.shape[0]; ++j) {
      const bool left =
          (is(c, "fours") && is_left(i, a.shape[0])) || (is(c, "column_fours") && is_left(j, b.shape[0]));
      const_cast<float*>(row(y, i))[j] = dot(c, row(a, i), row(b, j), a.shape[1], left ? kLeftBlock : kBlock);
    }
  return ASSAY_OK;
}

}  // namespace

extern "C" const assay_backend* assay_backend_open(const char*, char*) {
  static const assay_backend backend = {
      ASSAY_BACKEND_VERSION, "scheduled", "kernels of declared schedules", "", nullptr, declare, run,
      [](void*) {}};
  return &backend;
}
