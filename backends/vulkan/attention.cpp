// The attention kernels: one shader (shaders/attention.glsl) by its constants, and what is done before or
// after it.
//   whole        up to eight query rows of a kv head share each key
//   split        parts of the keys apart, merged by weight exp(top_part - top)
//   p_f16        weights rounded to f16 before the product with V
//   matrix       cooperative matrices of f16 or bf16 (shaders/matrix)
//   f16          scores by f16 products and sums, q and K in f16
//   q8           scores by integer dot products: q in blocks of 32 int8, K in q8_0 or q4_0
//   deferred     V in tq3_0 by its codebook alone, the inverse transform once per output row
//   convert_f16  what an engine without a kernel for these types does: the whole cache to f16 first
#include <algorithm>
#include <cmath>

#include "backends/plugin/attention.hpp"
#include "backends/vulkan/attention_plan.hpp"
#include "backends/vulkan/kernels.hpp"
#include "backends/vulkan/shaders.hpp"

namespace assay_vulkan {
namespace {

enum Flag : std::uint32_t {
  kRandomMask = 1,
  kSinks = 2,
  kAlibi = 4,
  kSoftcap = 8,
  kUnrotate = 16,
  kPaged = 32,
  kRagged = 64,
  kPart = 128,
  kRoundP = 256,
  kResume = 512,
};
constexpr std::int64_t kLargestHead = 1024;

std::string name_of(const char* kind, const Format& k, const Format& v) {
  return std::string("attention_") + kind + "_" + std::string(k.name) + "_" + std::string(v.name);
}

struct Attention {
  Attention(Session& given, std::uint32_t given_flags)
      : session(given), call(given.call()), flags(given_flags) {
    params.operand[0] = session.operand("q", format(call.text("dtype")));
    params.operand[1] = session.operand("k", format(call.text("k")));
    params.operand[2] = session.operand("v", format(call.text("v")));
    params.tensor[0] = session.tensor("out");
    const auto optional = [&](bool wanted, Flag flag, int index, const char* name) {
      if (!wanted) return;
      flags |= flag;
      if (name != nullptr) params.tensor[index] = session.tensor(name);
    };
    const std::string_view mask = call.text("mask");
    optional(mask == "random", kRandomMask, 1, "mask");
    optional(call.text("lengths") == "ragged", kRagged, 2, "lengths");
    optional(call.integer("page") > 0, kPaged, 3, "page_table");
    optional(call.yes("sinks"), kSinks, 4, "sinks");
    optional(call.yes("alibi"), kAlibi, 5, "slopes");
    optional(call.real("softcap") > 0, kSoftcap, 0, nullptr);
    optional(call.text("rotate") == "qkv", kUnrotate, 0, nullptr);
    int next = 0;
    for (const char* name : {"batch", "heads", "kv_heads", "q", "len", "page"})
      params.integer[next++] = call.integer(name);
    params.integer[6] = mask == "causal" || mask == "window" ? 1 : 0;
    params.integer[7] = mask == "window" ? call.integer("window") : 0;
    const double scale = call.real("scale");
    params.real[0] =
        static_cast<float>(scale == 0 ? 1.0 / std::sqrt(static_cast<double>(call.integer("d"))) : scale);
    params.real[1] = static_cast<float>(call.real("softcap"));
  }

  void add(const char* kind, const char* shader, const Format& k, const Format& v) {
    const std::uint32_t rows = rows_of(call, session.device());
    const std::int64_t parts = (flags & kPart) != 0 ? params.integer[8] : 1;
    const std::int64_t len = call.integer("len");
    const std::int64_t query_rows = call.integer("batch") * call.integer("q") * call.integer("heads");
    params.integer[8] = parts;
    params.integer[9] = part_keys(len, parts);
    const std::int64_t rows_per_head = call.integer("q") * (call.integer("heads") / call.integer("kv_heads"));
    const std::int64_t items =
        call.integer("batch") * call.integer("kv_heads") * ((rows_per_head + rows - 1) / rows) * parts;
    const std::int64_t keys = parts > 1 ? len : keys_at_a_time(call, session.device());
    if (parts > 1 || keys < len)
      params.scratch[0] = session.scratch(parts * query_rows * (call.integer("dv") + 2) * 4);
    for (std::int64_t first = 0; first < len; first += keys) {
      params.integer[10] = first;
      params.integer[11] = std::min(len, first + keys);
      const std::uint32_t piece = (first > 0 ? kResume : 0U) | (first + keys < len ? kPart : 0U);
      session.add(name_of(kind, k, v), shader,
                  {k.element, k.scaling, v.element, v.scaling, dtype_of(call), rows,
                   static_cast<std::uint32_t>(call.integer("d")),
                   static_cast<std::uint32_t>(call.integer("dv")), flags | piece},
                  Session::groups(items), params);
    }
  }

  Session& session;
  const Call& call;
  std::uint32_t flags;
  Params params;
};

void attention_check(const Call& call, const Device& device) {
  const std::string_view dtype = call.text("dtype");
  check_dtype(dtype);
  check_readable(call, "q", dtype);
  check_readable(call, "k", call.text("k"));
  check_readable(call, "v", call.text("v"));
  attention_shape_check(call, kLargestHead);
  if (6 * call.integer("d") + 4 * call.integer("dv") > device.can().shared_bytes) {
    throw Unsupported("a query row and its sums need more than the device's shared memory");
  }
}

std::string contract(const Device& device, const char* p = "f32") {
  return "qk=f32 tile=" + std::to_string(device.subgroup()) + " exp_ulp=1 p=" + p + " pv=f32";
}
std::string path_name(const Call& call, const char* kind) {
  return name_of(kind, format(call.text("k")), format(call.text("v")));
}
void run_whole(Session& session, const Trace& trace, const char* kind, const char* shader,
               std::uint32_t flags) {
  Attention attention(session, flags);
  attention.add(kind, shader, format(session.call().text("k")), format(session.call().text("v")));
  session.run(trace);
}

}  // namespace

#define ASSAY_WHOLE(kind, shader, flags, p)                                                                  \
  std::string attention_##kind##_name(const Call& call, const Device&) { return path_name(call, #kind); }    \
  std::string attention_##kind##_contract(const Call&, const Device& device) { return contract(device, p); } \
  void attention_##kind##_check(const Call& call, const Device& device) { attention_check(call, device); }   \
  void attention_##kind##_run(Session& session, const Trace& trace) {                                        \
    run_whole(session, trace, #kind, shader, flags);                                                         \
  }
ASSAY_WHOLE(whole, "attention", 0, "f32")
ASSAY_WHOLE(p_f16, "attention", kRoundP, "f16")
#undef ASSAY_WHOLE

// V in tq3_0 is a look-up in its codebook inside the loop; the inverse transform is linear, and made once per
// output row.
void attention_deferred_check(const Call& call, const Device& device) {
  attention_check(call, device);
  if (call.text("rotate") == "qkv") throw Unsupported("rotate=qkv asks for a second transform of its own");
  if (!call.text("v").starts_with("tq3_0_"))
    throw Unsupported("format " + std::string(call.text("v")) + " is not stored rotated");
}
std::string attention_deferred_name(const Call& call, const Device&) { return path_name(call, "deferred"); }
std::string attention_deferred_contract(const Call&, const Device& device) {
  return "v_inverse=row " + contract(device);
}
void attention_deferred_run(Session& session, const Trace& trace) {
  Format v = format(session.call().text("v"));
  v.element = v.element == kTq3C2s1 ? kTq3C2s1Rotated : kTq3C2Rotated;
  Attention attention(session, kUnrotate);
  attention.add("deferred", "attention", format(session.call().text("k")), v);
  session.run(trace);
}

void attention_split_check(const Call& call, const Device& device) { attention_check(call, device); }
std::string attention_split_name(const Call& call, const Device&) { return path_name(call, "split"); }
std::string attention_split_contract(const Call& call, const Device& device) {
  return contract(device) + " merge=once split=" + std::to_string(part_count(call, device));
}
void attention_split_run(Session& session, const Trace& trace) {
  const Call& call = session.call();
  Attention attention(session, kPart);
  const std::int64_t parts = part_count(call, session.device());
  Params& params = attention.params;
  params.integer[8] = parts;
  const std::int64_t rows = call.integer("batch") * call.integer("q") * call.integer("heads");
  attention.add("split", "attention", format(call.text("k")), format(call.text("v")));
  session.add("attention_merge", "attention_merge",
              {0, 0, 0, 0, dtype_of(call), 0, 0, static_cast<std::uint32_t>(call.integer("dv")),
               attention.flags & (kSinks | kUnrotate)},
              Session::groups(rows), params);
  session.run(trace);
}

namespace {
const char* attention_matrix_shader(std::string_view type) {
  return type == "f16" ? "attention_matrix_f16" : "attention_matrix_bf16";
}
}  // namespace

// On cooperative matrices, q, K, V and out all f16 or all bf16, where the unit's arithmetic is known.
void attention_matrix_check(const Call& call, const Device& device) {
  attention_check(call, device);
  const Capabilities& can = device.can();
  const std::string_view type = call.text("dtype");
  if ((type != "f16" && type != "bf16") || call.text("k") != type || call.text("v") != type) {
    throw Unsupported("cooperative matrices take q, k, v and out in f16, or all in bf16");
  }
  if (!(type == "f16" ? can.matrix_f16 : can.matrix_bf16)) {
    throw Unsupported(can.name + " has no cooperative matrices of " + std::string(type));
  }
  if (can.matrix_unit(type).empty())
    throw Unsupported("the arithmetic of the matrix unit of " + can.name + " is not known");
  need_matrix_shader(attention_matrix_shader(type));
  if (call.integer("d") % 16 != 0 || call.integer("dv") % 16 != 0)
    throw Unsupported("head dimensions in whole tiles of 16");
  if (16 * (4 * call.integer("d") + 6 * call.integer("dv")) + 2048 > device.can().shared_bytes) {
    throw Unsupported("16 rows of this width need more than the device's shared memory");
  }
}
std::string attention_matrix_name(const Call& call, const Device&) { return path_name(call, "matrix"); }
std::string attention_matrix_contract(const Call& call, const Device& device) {
  const std::string type(call.text("dtype"));
  const std::string unit = device.can().matrix_unit(type);
  return "qk=" + unit + " tile=16 exp_ulp=1 p=" + type + " pv=" + unit + " promote=16";
}
void attention_matrix_run(Session& session, const Trace& trace) {
  const Call& call = session.call();
  Attention attention(session, 0);
  const Format& type = format(call.text("dtype"));
  const std::int64_t rows = call.integer("q") * (call.integer("heads") / call.integer("kv_heads"));
  session.add(path_name(call, "matrix"), attention_matrix_shader(call.text("dtype")),
              {type.element, 0, 0, 0, 0, 0, static_cast<std::uint32_t>(call.integer("d")),
               static_cast<std::uint32_t>(call.integer("dv")), attention.flags},
              Session::groups(call.integer("batch") * call.integer("kv_heads") * ((rows + 15) / 16)),
              attention.params);
  session.run(trace);
}

void attention_f16_check(const Call& call, const Device& device) {
  attention_check(call, device);
  if (!device.can().half_arithmetic) throw Unsupported(device.can().name + " has no shaderFloat16");
  if (call.text("dtype") != "f16" || call.text("k") != "f16")
    throw Unsupported("f16 multiplies q and k in f16");
}
std::string attention_f16_name(const Call& call, const Device&) { return path_name(call, "f16"); }
std::string attention_f16_contract(const Call&, const Device& device) {
  std::string declared = contract(device);
  return declared.replace(declared.find("qk=f32"), 6, "qk=f16");
}
void attention_f16_run(Session& session, const Trace& trace) {
  run_whole(session, trace, "f16", "attention_f16", 0);
}

void attention_q8_check(const Call& call, const Device& device) {
  attention_check(call, device);
  if (!device.can().integer_dot) throw Unsupported(device.can().name + " has no shaderIntegerDotProduct");
  if (call.text("k") != "q8_0" && call.text("k") != "q4_0") {
    throw Unsupported("q8 multiplies blocks of q8_0 and q4_0, not k=" + std::string(call.text("k")));
  }
}
std::string attention_q8_name(const Call& call, const Device&) { return path_name(call, "q8"); }
std::string attention_q8_contract(const Call&, const Device& device) { return "q=q8_0 " + contract(device); }
void attention_q8_run(Session& session, const Trace& trace) {
  run_whole(session, trace, "q8", "attention_q8", 0);
}

void attention_convert_f16_check(const Call& call, const Device& device) { attention_check(call, device); }
// The kernel that multiplies; the conversions are announced beside it.
std::string attention_convert_f16_name(const Call&, const Device&) { return "attention_whole_f16_f16"; }
std::string attention_convert_f16_contract(const Call&, const Device& device) {
  return "convert=f16 " + contract(device);
}
void attention_convert_f16_run(Session& session, const Trace& trace) {
  const Call& call = session.call();
  Attention attention(session, 0);
  for (const auto& [index, name] : {std::pair{1, "k"}, std::pair{2, "v"}}) {
    // Every row of the cache: whatever lies in rows that no request uses is converted, and read by none.
    const Format& from = format(call.text(name));
    DeviceOperand& operand = attention.params.operand[index];
    Params convert;
    convert.operand[0] = operand;
    const DeviceOperand half = session.scratch_rows(operand.payload.rows, operand.payload.width, kF16, 1);
    convert.tensor[0] = half.payload;
    session.add(
        "dequantize_" + std::string(from.name), "dequantize", {from.element, from.scaling, kF16},
        session.groups_of_lanes(std::int64_t{operand.payload.rows} * ((operand.payload.width + 31) / 32)),
        convert);
    operand = half;
  }
  attention.add("whole", "attention", format("f16"), format("f16"));
  session.run(trace);
}

}  // namespace assay_vulkan
