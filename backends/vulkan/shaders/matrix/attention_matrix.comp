#version 460
// Attention on cooperative matrices, 16 query rows of a kv head against 16 keys at a time: scores and products with V
// by 16x16x16 multiplications, operands f16 (the generator makes a second module of it with bf16), sums f32; weights rounded to
// the operands' format. Every tile's product with V is added to f32 sums by plain additions, so that V enters in
// runs of 16 keys. A tile whose V is not finite everywhere goes the scalar way: 0 times NaN must not show.
// Operands, tensors, integers, constants: attention.glsl. K and V: f16 (bf16).
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_KHR_shader_subgroup_vote : require
#include "../common.glsl"
#include "../exact.glsl"
#include "../formats.glsl"
layout(constant_id = 1) const int kElement = kF16;  // of q, k, v, out and the weights: f16 or bf16
layout(constant_id = 7) const int kD = 32;
layout(constant_id = 8) const int kDv = 32;
layout(constant_id = 9) const int kFlags = 0;
const bool kRandomMask = (kFlags & 1) != 0, kSinks = (kFlags & 2) != 0, kAlibi = (kFlags & 4) != 0;
const bool kSoftcap = (kFlags & 8) != 0, kUnrotate = (kFlags & 16) != 0, kPaged = (kFlags & 32) != 0;
const bool kRagged = (kFlags & 64) != 0;
const int kDtype = kElement;

shared float16_t query[16 * kD];   // [row][d]
shared float16_t keys[16 * kD];    // [key][d]
shared float16_t values[16 * kDv]; // [key][dv]
shared float16_t weights[256];     // [row][key]
shared float scores[256];          // [row][key]; then 16 columns of a product with V
shared float acc[16 * kDv];
shared float top[16];
shared float sum[16];
shared float factor[16];

int count(int which) { return int(P.integer[which]); }
void settle() {
  subgroupMemoryBarrierShared();
  subgroupBarrier();
}
#include "../attention_finish.glsl"
int length_of(int b) { return kRagged ? load_i32(tensor_element(2, b)) : count(4); }
int key_row(int b, int j, int g) {
  if (!kPaged) return (b * count(4) + j) * count(2) + g;
  const int page = count(5);
  const int pages = (count(4) + page - 1) / page;
  return (load_i32(tensor_element(3, b * pages + j / page)) * page + j % page) * count(2) + g;
}
ivec2 visible_keys(int b, int i) {
  const int length_ = length_of(b);
  const int position = length_ - count(3) + i;
  ivec2 seen = ivec2(0, length_);
  if (count(6) != 0) seen.y = clamp(position + 1, 0, length_);
  if (count(7) > 0) seen.x = clamp(position - count(7) + 1, 0, seen.y);
  return seen;
}
uint16_t weight_code(float x) { return uint16_t(kElement == kF16 ? f16_code(x) : bf16_code(x)); }
float code_value16(uint code) { return kElement == kF16 ? f16_value(code) : bf16_value(code); }

void main() {
  const int heads = count(1), kv_heads = count(2), queries = count(3);
  const int group = heads / kv_heads;
  const int rows_per_head = queries * group;
  const int tiles = (rows_per_head + 15) / 16;
  const int items = count(0) * kv_heads * tiles;
  for (int item = int(work_item()); item < items; item += int(work_items())) {
    const int tile = item % tiles;
    const int g = item / tiles % kv_heads;
    const int b = item / tiles / kv_heads;
    int begin = 0x7FFFFFFF;
    int end = 0;
    for (int r = 0; r < 16; ++r) {
      const int slot = min(tile * 16 + r, rows_per_head - 1);
      const ivec2 seen = visible_keys(b, slot / group);
      begin = min(begin, seen.x);
      end = max(end, seen.y);
      const uint64_t from = payload_row(0, (b * queries + slot / group) * heads + g * group + slot % group);
      for (int c = int(lane()); c < kD; c += int(lanes())) {
        query[r * kD + c] = uint16BitsToHalf(uint16_t(load_u16(from + uint64_t(2 * c))));
      }
      for (int c = int(lane()); c < kDv; c += int(lanes())) acc[r * kDv + c] = 0.0;
      if (lane() == 0u) {
        top[r] = -infinity();
        sum[r] = 0.0;
      }
    }
    const int position = length_of(b) - queries;
    for (int first = begin; first < end; first += 16) {
      settle();
      bool odd = false;
      for (int k = 0; k < 16; ++k) {
        const int row = key_row(b, min(first + k, end - 1), g);
        const uint64_t key = payload_row(1, row);
        const uint64_t value = payload_row(2, row);
        for (int c = int(lane()); c < kD; c += int(lanes())) {
          keys[k * kD + c] = uint16BitsToHalf(uint16_t(load_u16(key + uint64_t(2 * c))));
        }
        for (int c = int(lane()); c < kDv; c += int(lanes())) {
          const uint code = load_u16(value + uint64_t(2 * c));
          odd = odd || !is_finite(code_value16(code));
          values[k * kDv + c] = uint16BitsToHalf(uint16_t(code));
        }
      }
      odd = subgroupAny(odd);
      settle();
      coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> dots =
          coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
      for (int c = 0; c < kD; c += 16) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> left;
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> right;
        coopMatLoad(left, query, c, kD, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(right, keys, c, kD, gl_CooperativeMatrixLayoutColumnMajor);
        dots = coopMatMulAdd(left, right, dots);
      }
      coopMatStore(dots, scores, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
      settle();
      // A lane to a row.
      for (int r = int(lane()); r < 16; r += int(lanes())) {
        const int slot = min(tile * 16 + r, rows_per_head - 1);
        const int i = slot / group;
        const int h = g * group + slot % group;
        const ivec2 seen = visible_keys(b, i);
        float block_top = top[r];
        uint mask = 0u;  // of the keys that the row sees
        for (int k = 0; k < 16; ++k) {
          const int j = first + k;
          bool sees = j < end && j >= seen.x && j < seen.y;
          if (kRandomMask && sees) sees = load_u8(tensor_element(1, i * count(4) + j)) != 0u;
          float x = scores[r * 16 + k] * P.real[0];
          if (kSoftcap) x = P.real[1] * tanh_f32(quotient_f32(x, P.real[1]));
          if (kAlibi) x -= load_f32(tensor_element(5, h)) * abs(float(position + i) - float(j));
          scores[r * 16 + k] = x;
          mask |= (sees ? 1u : 0u) << k;
          if (sees && x > block_top) block_top = x;
        }
        float scale = 1.0;
        if (block_top > top[r]) {
          if (top[r] != -infinity()) scale = exp_f32(top[r] - block_top);
          top[r] = block_top;
        }
        factor[r] = scale;
        float total = sum[r] * scale;
        const float shift = top[r] == -infinity() ? 0.0 : top[r];
        for (int k = 0; k < 16; ++k) {
          const bool sees = (mask >> k & 1u) != 0u;
          const float w = sees ? exp_f32(scores[r * 16 + k] - shift) : 0.0;
          total += w;
          // The scalar way tells an unseen key by its sign.
          weights[r * 16 + k] = uint16BitsToHalf(weight_code(odd && !sees ? -1.0 : w));
        }
        sum[r] = total;
      }
      settle();
      for (int c0 = 0; c0 < kDv; c0 += 16) {
        if (!odd) {
          coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> part =
              coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
          coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> left;
          coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> right;
          coopMatLoad(left, weights, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
          coopMatLoad(right, values, c0, kDv, gl_CooperativeMatrixLayoutRowMajor);
          part = coopMatMulAdd(left, right, part);
          coopMatStore(part, scores, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
          settle();
        }
        for (int n = int(lane()); n < 256; n += int(lanes())) {
          const int r = n / 16;
          const int at = r * kDv + c0 + n % 16;
          float more = 0.0;
          if (odd) {
            for (int k = 0; k < 16; ++k) {
              const float w = code_value16(uint(halfBitsToUint16(weights[r * 16 + k])));
              if (!(w < 0.0)) more += w * code_value16(uint(halfBitsToUint16(values[k * kDv + c0 + n % 16])));
            }
          } else {
            more = scores[n];
          }
          acc[at] = acc[at] * factor[r] + more;
        }
        settle();
      }
    }
    settle();
    for (int r = 0; r < 16; ++r) {
      const int slot = tile * 16 + r;
      if (slot >= rows_per_head) continue;
      const int h = g * group + slot % group;
      float sink = -infinity();
      if (kSinks) sink = load_f32(tensor_element(4, h));
      settle();
      finish_row(r * kDv, (b * queries + slot / group) * heads + h, top[r], sum[r], sink);
    }
    settle();
  }
}
