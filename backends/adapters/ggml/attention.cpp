// ggml_flash_attn_ext. Our q [batch, rows, heads, d] is ggml's {d, heads, rows, batch}; the op wants
// {d, rows, heads, batch}, which is a view of it, as llama.cpp passes it.
#include <ggml-cpu.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/adapters/ggml/ggml.hpp"

namespace assay_ggml {
namespace {

// What asks attention for GGML_PREC_F32 has another name in newer versions of ggml, where it may refuse. The
// name is looked up where the template is used, so that each version is compiled with the one it has.
template <typename Tensor>
bool asked_for_f32(Tensor* node) {
  if constexpr (requires { ggml_prec_set_acc(node, GGML_PREC_F32); }) {
    return ggml_prec_set_acc(node, GGML_PREC_F32);
  } else {
    ggml_flash_attn_ext_set_prec(node, GGML_PREC_F32);
    return true;
  }
}

// Older versions want the mask's rows filled up to a multiple of this; the rows that are more hide every key.
#ifdef GGML_KQ_MASK_PAD
constexpr std::int64_t kMaskPad = GGML_KQ_MASK_PAD;
#else
constexpr std::int64_t kMaskPad = 1;
#endif
std::int64_t mask_rows(std::int64_t rows) { return (rows + kMaskPad - 1) / kMaskPad * kMaskPad; }

// 0 where row i of sequence b sees key j, -inf elsewhere; {keys, mask_rows, 1, batch} in f16.
std::vector<char> mask_bytes(const Call& call, std::int64_t batch, std::int64_t rows, std::int64_t keys) {
  const std::string_view mask = call.text("mask");
  const std::int64_t window = call.integer("window");
  const assay_tensor* lengths = call.find_input("lengths");
  const assay_tensor* given = call.find_input("mask");
  const ggml_fp16_t hidden = ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity()),
                    seen = ggml_fp32_to_fp16(0.0F);
  std::vector<ggml_fp16_t> cells(static_cast<std::size_t>(batch * mask_rows(rows) * keys), hidden);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = lengths ? static_cast<const std::int32_t*>(lengths->data)[b] : keys;
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t self = length - rows + i;
      for (std::int64_t j = 0; j < keys; ++j) {
        bool visible = j < length;
        if (mask == "causal" || mask == "window") visible = visible && j <= self;
        if (mask == "window") visible = visible && j > self - window;
        if (given)
          visible = visible && static_cast<const std::int8_t*>(given->data)[i * given->stride[0] + j] != 0;
        cells[static_cast<std::size_t>((b * mask_rows(rows) + i) * keys + j)] = visible ? seen : hidden;
      }
    }
  }
  std::vector<char> bytes(cells.size() * sizeof cells[0]);
  std::memcpy(bytes.data(), cells.data(), bytes.size());
  return bytes;
}

// Whether the library that was loaded, not the headers, is older than this.
bool version_before(int major, int minor, int patch) {
  std::array<int, 3> here{};
  const char* text = ggml_version();
  const char* const end = text + std::strlen(text);
  for (int& number : here) {
    text = std::from_chars(text, end, number).ptr;
    if (text != end) ++text;  // the point
  }
  return here < std::array{major, minor, patch};
}

// GGML_F32_EPR of the library that was loaded: the width of the vectors that it was compiled for.
std::int64_t floats_of_a_vector() {
  if (ggml_cpu_has_avx512()) return 16;
  if (ggml_cpu_has_avx()) return 8;
  if (ggml_cpu_has_sve()) return ggml_cpu_get_sve_cnt() / static_cast<std::int64_t>(sizeof(float));
  return 4;
}

}  // namespace

void build_attention(const Call& call, Graph& graph) {
  call.only("dtype", "f32");
  call.only("rotate", "none");
  call.only("alibi", "no");
  if (call.integer("page") != 0) throw Unsupported("no paged K and V");
  const assay_tensor &q = call.input("q"), &k = call.input("k"), &v = call.input("v");
  const std::int64_t batch = q.shape[0], rows = q.shape[1], keys = k.shape[1], d = q.shape[3];
  ggml_context* c = graph.context();
  const auto heads_outside = [&](ggml_tensor* t) { return ggml_permute(c, t, 0, 2, 1, 3); };
  const assay_tensor* lengths = call.find_input("lengths");
  ggml_tensor *k_given = graph.input(k, lengths), *qt = heads_outside(graph.input(q)),
              *vt = heads_outside(graph.input(v, lengths));
  // Variant k_to_f16 is a planted fault: what an engine does that lacks an instance for K's type. It declares
  // that type's path.
  for (const ggml_type type : {k_given->type, vt->type})
    if (ggml_is_quantized(type) && !ggml_get_type_traits(type)->to_float)
      throw Unsupported(std::string(ggml_type_name(type)) + " holds activations only");
  const bool planted = call.variant() == "k_to_f16";
  if (planted && !ggml_is_quantized(k_given->type)) throw Unsupported("k_to_f16: K is no block format");
  ggml_tensor* kt =
      heads_outside(planted ? ggml_cast(c, ggml_cast(c, k_given, GGML_TYPE_F32), GGML_TYPE_F16) : k_given);
  ggml_tensor* mask = nullptr;
  if (call.text("mask") != "none" || call.text("lengths") == "ragged")
    mask = graph.own(GGML_TYPE_F16, {keys, mask_rows(rows), 1, batch},
                     q.data ? mask_bytes(call, batch, rows, keys) : std::vector<char>{});
  const double scale = call.real("scale") > 0 ? call.real("scale") : 1.0 / std::sqrt(static_cast<double>(d));
  ggml_tensor* node = ggml_flash_attn_ext(c, qt, kt, vt, mask, static_cast<float>(scale), 0.0F,
                                          static_cast<float>(call.real("softcap")));
  if (const assay_tensor* sinks = call.find_input("sinks"))
    ggml_flash_attn_ext_add_sinks(node, graph.input(*sinks));
  const ggml_type k_type = k_given->type, v_type = vt->type;
  const std::string k_name = ggml_type_name(k_type), v_name = ggml_type_name(v_type),
                    op_name = "flash_attn_ext_";
  graph.name = op_name + k_name + "_" + v_name;
  // Variant prec_f32 asks ggml for GGML_PREC_F32, and declares what that promises.
  const bool asks_f32 = call.variant() == "prec_f32";
  if (asks_f32 && !asked_for_f32(node)) throw Unsupported("ggml refuses GGML_PREC_F32");
  const ggml_type q_type = ggml_get_type_traits_cpu(k_type)->vec_dot_type;
  // As ggml-cpu computes it (ops.cpp). From 64 query rows on, with K and V both of f32 or f16 and a width of
  // V that vectors divide: tiles of 64 keys, q as it is, all sums in f32.
  constexpr std::int64_t kTile = 64;  // GGML_FA_TILE_Q and _KV
  const bool one_wide_type = k_type == v_type && (k_type == GGML_TYPE_F32 || k_type == GGML_TYPE_F16);
  if (one_wide_type && rows >= kTile && v.shape[3] % floats_of_a_vector() == 0 && !version_before(0, 9, 6)) {
    if (version_before(0, 9, 8))
      throw Unsupported("64 query rows or more: how ggml 0.9.6 and 0.9.7 sum them is not described");
    graph.name += "_tiled";
    // The only path that multiplies by no routine of the tables.
    graph.evidence = [declared = graph.name, op_name](const Entered& seen) {
      return seen.products.empty() && seen.encoders.empty()
                 ? declared
                 : op_name + names_of(seen.products) + "_one_key_at_a_time";
    };
    graph.contract = "qk=f32 tile=64 exp_ulp=2 p=f32 rowsum=f32 pv=f32 out=f32";
    return graph.finish(node, call.output("out"));
  }
  // Otherwise q goes to the partner type of K first; one key at a time, its weight in f32; with V in f16 the
  // running output is f16, with any other V it is f32. One row of one sequence over 512 keys or more is split
  // among the threads.
  const bool split = one_wide_type && rows == 1 && batch == 1 && keys >= 512 && graph.threads > 1 &&
                     !version_before(0, 9, 6);
  if (split) graph.name += "_split";
  graph.routine = library_symbol("ggml_compute_forward_flash_attn_ext");
  graph.others = [=](const Entered& seen) {
    std::vector<std::string> all{encoder_name(q_type)};
    const bool nothing_to_see = seen.products.empty() && !seen.encoders.empty();  // no row sees a key
    if (!nothing_to_see)
      all.insert(all.end(), {product_name(k_type), ggml_is_quantized(v_type) ? decoder_name(v_type) : ""});
    return all;
  };
  // Of K the product is entered, of q the encoder to its partner, of V the decoder, if it has one that is not
  // built in.
  graph.evidence = [=, suffix = std::string(split ? "_split" : "")](const Entered& seen) {
    if (seen.products.empty() && seen.encoders.empty()) return op_name + k_name + "_" + v_name + "_tiled";
    // Where q was encoded and no key was seen by any row, there was nothing to multiply.
    std::string name = op_name + (seen.products.empty() ? k_name : names_of(seen.products)) + "_" +
                       (seen.decoders.empty() ? v_name : names_of(seen.decoders));
    for (const ggml_type type : seen.encoders)
      if (type != q_type) name += std::string("_through_") + ggml_type_name(type);
    return name + suffix;
  };
  graph.contract =
      "qk=f32 q=" + std::string(k_type == GGML_TYPE_F32 ? "none" : ggml_type_name(q_type)) +
      " tile=1 exp_ulp=2 p=f32 rowsum=f32 pv=" + (v_type == GGML_TYPE_F16 && !asks_f32 ? "f16" : "f32") +
      " out=f32" + (split ? " merge=states split=" + std::to_string(graph.threads) : "");
  graph.finish(node, call.output("out"));
}

}  // namespace assay_ggml
