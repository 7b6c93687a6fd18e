// Attention by a workgroup of one subgroup: kRows query rows of one kv head against a run of keys, online softmax.
//   out[b,i,h,:] = sum_j p_j v[b,j,g,:],  p = softmax_j(cap(scale q[b,i,h,:] . k[b,j,g,:]) - slope_h |i_abs - j|)
//   g = h / (heads / kv_heads), i_abs = length_b - q + i. A sink is one more logit of the denominator.
// Scores: a lane to a key, which it reads in its own format; sums f32. Output: a lane to every lanes()-th
// column. q, k, v: operands 0, 1, 2; out, mask, lengths, page_table, sinks, slopes: tensors 0 to 5.
// integer: batch, heads, kv_heads, q, len, page, causal, window, parts, keys of a part, first and end of the keys of
// this dispatch. real: scale, softcap. kPart: instead of out, (top, sum, acc[dv]) per part and row in scratch[0];
// kResume: starts from these.
layout(constant_id = 1) const int kKElement = 0;
layout(constant_id = 2) const int kKScaling = 0;
layout(constant_id = 3) const int kVElement = 0;
layout(constant_id = 4) const int kVScaling = 0;
layout(constant_id = 5) const int kDtype = 0;
layout(constant_id = 6) const int kRows = 1;
layout(constant_id = 7) const int kD = 32;
layout(constant_id = 8) const int kDv = 32;
layout(constant_id = 9) const int kFlags = 0;
const bool kRandomMask = (kFlags & 1) != 0, kSinks = (kFlags & 2) != 0, kAlibi = (kFlags & 4) != 0;
const bool kSoftcap = (kFlags & 8) != 0, kUnrotate = (kFlags & 16) != 0, kPaged = (kFlags & 32) != 0;
const bool kRagged = (kFlags & 64) != 0, kPart = (kFlags & 128) != 0, kRoundP = (kFlags & 256) != 0;
const bool kResume = (kFlags & 512) != 0;
const int kUnroll = 4;  // elements or keys in one iteration of the inner loops

#ifdef ASSAY_F16
#define ELEMENT float16_t
#else
#define ELEMENT float
#endif
shared float query[kRows * kD];
shared float acc[kRows * kDv];

int count(int which) { return int(P.integer[which]); }
int length_of(int b) { return kRagged ? load_i32(tensor_element(2, b)) : count(4); }
int key_row(int b, int j, int g) {
  const int kv_heads = count(2);
  if (!kPaged) return (b * count(4) + j) * kv_heads + g;
  const int page = count(5);
  const int pages = (count(4) + page - 1) / page;
  return (load_i32(tensor_element(3, b * pages + j / page)) * page + j % page) * kv_heads + g;
}
// Keys that query i may see, before a random mask.
ivec2 visible_keys(int b, int i) {
  const int length_ = length_of(b);
  const int position = length_ - count(3) + i;
  ivec2 keys = ivec2(0, length_);
  if (count(6) != 0) keys.y = clamp(position + 1, 0, length_);
  if (count(7) > 0) keys.x = clamp(position - count(7) + 1, 0, keys.y);
  return keys;
}
// Of a part and query row: top, sum, acc[dv].
uint64_t state_of(int part, int row) {
  return P.scratch[0] + uint64_t(part * (count(0) * count(3) * count(1)) + row) * uint64_t(4 * (kDv + 2));
}
void settle() {
  subgroupMemoryBarrierShared();
  subgroupBarrier();
}

#include "attention_finish.glsl"
#include "rotated.glsl"

#ifdef ASSAY_Q8
// q in blocks of 32 int8 with an f16 scale absmax / 127; its product with a block of K is an exact int32 dot.
shared int query_codes[kRows * kD / 4];
shared float query_scales[kRows * kD / 32];

void quantise_queries() {
  const int blocks = kD / 32;
  for (int n = int(lane()); n < kRows * blocks; n += int(lanes())) {
    float absmax = 0.0;
    bool nan = false;
    for (int e = 0; e < 32; ++e) {
      const float x = query[n * 32 + e];
      absmax = max(absmax, is_nan(x) ? 0.0 : magnitude(x));
      nan = nan || is_nan(x);
    }
    const float step_ = div_exact(absmax, 127.0);
    const float inverse_ = floatBitsToUint(step_) == 0u ? 0.0 : div_exact(1.0, step_);
    for (int w = 0; w < 8; ++w) {
      int packed = 0;
      for (int e = 0; e < 4; ++e) {
        packed |= (round_to_integer(mul_exact(query[n * 32 + 4 * w + e], inverse_), -127, 127) & 0xFF) << (8 * e);
      }
      query_codes[n * 8 + w] = packed;
    }
    query_scales[n] = nan ? not_a_number() : f16_value(f16_code(step_));
  }
  settle();
}

// Four codes of a block of q8_0 or q4_0 as int8.
int key_codes(uint64_t at, int w) {
  if (kKElement == kQ8_0) return int(load_u32_bytes(at + uint64_t(2 + 4 * w)));
  const uint pairs = load_u32_bytes(at + uint64_t(2 + 4 * (w & 3)));
  const uint nibbles = (w < 4 ? pairs : pairs >> 4) & 0x0F0F0F0Fu;
  return int((nibbles | 0x80808080u) - 0x08080808u ^ 0x80808080u);  // each byte less 8
}
#endif

void main() {
  const int heads = count(1), kv_heads = count(2), queries = count(3);
  const int group = heads / kv_heads;
  const int rows_per_head = queries * group;
  const int tiles = (rows_per_head + kRows - 1) / kRows;
  const int parts = count(8);
  const int items = count(0) * kv_heads * tiles * parts;
  for (int item = int(work_item()); item < items; item += int(work_items())) {
    const int part = item % parts;
    const int tile = item / parts % tiles;
    const int g = item / parts / tiles % kv_heads;
    const int b = item / parts / tiles / kv_heads;

    float top[kRows];
    float sum[kRows];
    ivec2 seen[kRows];  // keys
    int begin = 0x7FFFFFFF;
    int end = 0;
    for (int r = 0; r < kRows; ++r) {
      const int slot = min(tile * kRows + r, rows_per_head - 1);
      const int i = slot / group;
      seen[r] = visible_keys(b, i);
      begin = min(begin, seen[r].x);
      end = max(end, seen[r].y);
      top[r] = -infinity();
      sum[r] = 0.0;
      const Row from = open_row(0, (b * queries + i) * heads + g * group + slot % group, kDtype, kUnscaled);
      for (int c = int(lane()); c < kD; c += int(lanes())) {
        query[r * kD + c] = row_value(0, from, c, kDtype, kUnscaled, false);
      }
      for (int c = int(lane()); c < kDv; c += int(lanes())) acc[r * kDv + c] = 0.0;
      if (kResume) {
        const uint64_t at = state_of(part, (b * queries + i) * heads + g * group + slot % group);
        top[r] = load_f32(at);
        sum[r] = load_f32(at + 4);
        for (int c = int(lane()); c < kDv; c += int(lanes())) acc[r * kDv + c] = load_f32(at + uint64_t(8 + 4 * c));
      }
    }
    settle();
#ifdef ASSAY_Q8
    quantise_queries();
#endif
    begin = max(begin, max(part * count(9), count(10)));
    end = min(end, min((part + 1) * count(9), count(11)));
    const int position = length_of(b) - queries;

    for (int first = begin; first < end; first += int(lanes())) {
      const int j = min(first + int(lane()), end - 1);
      const bool inside = first + int(lane()) < end;
      const int row = key_row(b, j, g);
      const Row key = open_row(1, row, kKElement, kKScaling);
      float score[kRows];
      for (int r = 0; r < kRows; ++r) score[r] = 0.0;
#ifdef ASSAY_Q8
      const int bytes = kKElement == kQ8_0 ? 34 : 18;
      for (int n = 0; n < kD / 32; ++n) {
        const uint64_t at = key.payload + uint64_t(n * bytes);
        int dots[kRows];
        for (int r = 0; r < kRows; ++r) dots[r] = 0;
        for (int w = 0; w < 8; ++w) {
          const int codes = key_codes(at, w);
          for (int r = 0; r < kRows; ++r) dots[r] += dot_int8(query_codes[(r * (kD / 32) + n) * 8 + w], codes);
        }
        const float scale = f16_value(load_u16_bytes(at));
        for (int r = 0; r < kRows; ++r) score[r] += float(dots[r]) * (scale * query_scales[r * (kD / 32) + n]);
      }
#else
      ELEMENT sums[kRows];
      for (int r = 0; r < kRows; ++r) sums[r] = ELEMENT(0.0);
      for (int c0 = 0; c0 < kD; c0 += 32) {
        const Block block = open_block(1, key, c0 >> 5, kKElement, kKScaling);
        const int n = min(32, kD - c0);
        [[dont_unroll]] for (int e0 = 0; e0 < n; e0 += kUnroll) {
          [[unroll]] for (int u = 0; u < kUnroll; ++u) {
            const bool real = kD % kUnroll == 0 || e0 + u < n;
            const int e = real ? e0 + u : e0;
            const ELEMENT k = ELEMENT(block_value(block, e, kKElement, kKScaling, false));
            for (int r = 0; r < kRows; ++r) sums[r] += real ? ELEMENT(query[r * kD + c0 + e]) * k : ELEMENT(0.0);
          }
        }
      }
      for (int r = 0; r < kRows; ++r) score[r] = float(sums[r]);
#endif
      // Weights of this lane's key; -1: not seen. What lies under an unseen key, NaN included, cannot show.
      float weight[kRows];
      for (int r = 0; r < kRows; ++r) {
        const int slot = min(tile * kRows + r, rows_per_head - 1);
        const int i = slot / group;
        const int h = g * group + slot % group;
        bool sees = inside && j >= seen[r].x && j < seen[r].y;
        if (kRandomMask) sees = sees && load_u8(tensor_element(1, i * count(4) + j)) != 0u;
        float x = score[r] * P.real[0];
        if (kSoftcap) x = P.real[1] * tanh_f32(quotient_f32(x, P.real[1]));
        if (kAlibi) x -= load_f32(tensor_element(5, h)) * abs(float(position + i) - float(j));
        const float block_top = subgroupMax(sees && !is_nan(x) ? x : -infinity());
        if (block_top > top[r]) {
          if (top[r] != -infinity()) {  // nothing to rescale before the first finite logit
            const float factor = exp_f32(top[r] - block_top);
            sum[r] *= factor;
            for (int c = int(lane()); c < kDv; c += int(lanes())) acc[r * kDv + c] *= factor;
          }
          top[r] = block_top;
        }
        // While every logit so far is -inf, or NaN hides the maximum, any finite shift will do.
        const float w = exp_f32(x - (top[r] == -infinity() ? 0.0 : top[r]));
        sum[r] += subgroupAdd(sees ? w : 0.0);
        weight[r] = !sees ? -1.0 : kRoundP ? f16_value(f16_code(w)) : w;
      }
      const int keys = min(int(lanes()), end - first);
      for (int n0 = 0; n0 < keys; n0 += kUnroll) {
        Row value[kUnroll];
        float w[kUnroll * kRows];
        [[unroll]] for (int u = 0; u < kUnroll; ++u) {
          const uint n = uint(min(n0 + u, keys - 1));
          value[u] = open_row(2, subgroupShuffle(row, n), stored_element(kVElement), kVScaling);
          for (int r = 0; r < kRows; ++r) {
            const float shuffled = subgroupShuffle(weight[r], n);
            w[u * kRows + r] = n0 + u < keys ? shuffled : -1.0;
          }
        }
        [[dont_unroll]] for (int c = int(lane()); c < kDv; c += int(lanes())) {
          [[unroll]] for (int u = 0; u < kUnroll; ++u) {
            const float v = kVElement < kTq3C2s1Rotated ? row_value(2, value[u], c, kVElement, kVScaling, false)
                                                        : rotated_value(2, value[u], c, kVElement, kVScaling);
            for (int r = 0; r < kRows; ++r) acc[r * kDv + c] += w[u * kRows + r] < 0.0 ? 0.0 : w[u * kRows + r] * v;
          }
        }
      }
    }

    for (int r = 0; r < kRows; ++r) {
      const int slot = tile * kRows + r;
      if (slot >= rows_per_head) continue;
      const int h = g * group + slot % group;
      const int out_row = (b * queries + slot / group) * heads + h;
      if (kPart) {
        const uint64_t at = state_of(part, out_row);
        if (lane() == 0u) {
          store_f32(at, top[r]);
          store_f32(at + 4, sum[r]);
        }
        for (int c = int(lane()); c < kDv; c += int(lanes())) store_f32(at + uint64_t(8 + 4 * c), acc[r * kDv + c]);
      } else {
        float sink = -infinity();
        if (kSinks) sink = load_f32(tensor_element(4, h));
        finish_row(r * kDv, out_row, top[r], sum[r], sink);
      }
    }
    settle();
  }
}
