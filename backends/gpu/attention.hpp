// What the attention kernels share: the problem as plain data for the device, and the host's side of it.
//   x[j]         = cap(scale * q[b,i,h,:] . k[b,j,g,:]) - slope_h * |i_abs - j|     over the visible keys j
//   p            = softmax_j(x);  a sink is one more logit of the denominator
//   out[b,i,h,:] = sum_j p[j] v[b,j,g,:];  0 when query i sees no key
//   g            = h / group                       the kv head that head h reads
//   i_abs        = length_b - q + i                the position of query i among the keys
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/gpu/kernels.hpp"
#include "backends/gpu/view.hpp"

namespace assay_gpu {

struct AttentionArgs {
  int batch, heads, kv_heads, group, d, dv, q;
  int len;        // of K and V, and the largest length
  int page;       // keys per page, 0: contiguous
  int window;     // 0: none
  bool causal;    // a row sees no key beyond its own position
  bool unrotate;  // the output is in the rotated basis of V until it is transformed back
  float scale;    // of q.k
  float softcap;  // 0: none
  Element dtype;  // of q and out
  View queries;   // [batch, q, heads, d]
  Planes keys;    // [batch, len, kv_heads, d], or [pages, page, kv_heads, d]
  Planes values;
  View page_table;  // int32 [batch, ceil(len / page)]
  View lengths;     // int32 [batch]; no data: every length is len
  View mask;        // int8 [q, len]; no data: none
  View sinks;       // f32 [heads]
  View slopes;      // f32 [heads]
  View out;         // [batch, q, heads, dv]
};

AttentionArgs attention_args(const Run& run);

// Throws Unsupported for what no kernel here can do.
void attention_check(const Call& call);

// Partial results of parts of the keys, for the merge: of row r (of out) and part p, the largest logit times
// log2 e at tops[r * parts + p], the sum of 2^(x - top) at sums[...], and the unnormalised output at
// outputs[(r * parts + p) * dv]. A part that saw no key has top -inf and sum 0; its output is not read.
struct Partials {
  float* tops;
  float* sums;
  float* outputs;
  int parts;
};
Partials allocate_partials(Run& run, const AttentionArgs& args, int parts);
// The kernel attention_merge: weighs the parts by 2^(top - largest top), adds sinks, divides, multiplies by
// v_scale (one per kv head or one for all; no data: 1), transforms back where asked, and stores.
void merge_partials(Run& run, const AttentionArgs& args, const Partials& partials, const View& v_scale);
void launch_merge(const AttentionArgs& args, const Partials& partials,
                  const View& v_scale);  // the same, unobserved

// "qk=... tile=... ..." with every step that the kernels here have in common: online softmax of base two with
// an exp within 2 ulp, weights summed in f32 before they are rounded to p, which is what a contract says by
// default. promote: keys per partial sum of p.v.
std::string attention_contract(std::string_view qk, std::string_view p, std::string_view pv,
                               std::int64_t tile, std::int64_t promote, std::int64_t split, int block = 1);

// Keys of a part, a multiple of `unit`, so that blocks * parts is close to `wanted` blocks on the device; two
// parts at least where there are two units.
std::int64_t split_part_keys(std::int64_t len, std::int64_t unit, std::int64_t blocks, std::int64_t wanted);

// 16-byte loads: the payload where it lies, or a copy of it at an aligned address. Strides must be multiples
// of 16.
View aligned_payload(Run& run, const View& view, std::int64_t row_bytes);
// Every stride but the innermost is a multiple of 16 bytes.
bool rows_are_vectors(const assay_tensor& tensor);

// Keys of a tile of the vector kernel, and how the split one cuts the keys.
std::int64_t attention_vector_tile(const Call& call);
struct AttentionParts {
  std::int64_t keys, count;
};
AttentionParts attention_split_parts(const Call& call, const DeviceInfo& device);
// Threads of the merge, a part to each in turn; groups of them that have a row of dv columns between them.
inline constexpr int kMergeThreads = 512;
int attention_merge_groups(int dv);

// attention_kernels() is the first list, then the second.
std::span<const Kernel> attention_unit_kernels();  // on matrix units of this vendor, in a file of that vendor
std::span<const Kernel> attention_vector_kernels();  // attention_kernels.cpp

// The decode kernel on other operands than the call's.
void attention_decode_with(Run& run, const AttentionArgs& args);

// Rows of the lists.
std::string_view attention_decode_name(const Call& call);
std::string_view attention_split_name(const Call& call);
void attention_decode_run(Run& run);
void attention_split_run(Run& run);
void attention_deferred_run(Run& run);
void attention_deferred_check(const Call& call, const DeviceInfo& device);
std::string attention_deferred_contract(const Call& call, const DeviceInfo& device);
void attention_convert_f16_run(Run& run);
std::string attention_decode_contract(const Call& call, const DeviceInfo& device);
std::string attention_split_contract(const Call& call, const DeviceInfo& device);
std::string attention_convert_f16_contract(const Call& call, const DeviceInfo& device);

}  // namespace assay_gpu
