// quantize    x dtype                -> y in format `to`
// dequantize  x in format `from`     -> y dtype
// requantize  x in format `from`     -> y in format `to`
// kv_write    cache[slots[t]] = x[t] quantised
// f32 scales come first (scales.comp), then every block is coded.
#include "backends/vulkan/kernels.hpp"

namespace assay_vulkan {
namespace {

// Scales of `to` from the rows of scale_source, codes from those of source.
struct Encoding {
  DeviceOperand source, scale_source, to;
  const Format *from, *scale_from, *format;
  float divisor;
  bool unit_scales = false;
};

std::string encode_name(const Format& from, const Format& to) {
  return "encode_" + std::string(from.name) + "_" + std::string(to.name);
}

void encode(Session& session, const Trace& trace, const Encoding& e) {
  Params params;
  params.operand[1] = e.to;
  if (e.format->f32_scaled() || e.format->nv()) {
    const std::int64_t scales = e.format->nv() ? 1 : std::int64_t{e.to.scale.rows} * e.to.scale.width;
    params.operand[0] = e.scale_source;
    params.integer[0] = scales;
    params.integer[1] = e.unit_scales ? 1 : 0;
    params.real[0] = e.divisor;
    params.scratch[1] = group_absmax(session, e.scale_source, *e.scale_from, *e.format, e.to, scales);
    session.add("scales_" + std::string(e.format->name), "scales", {e.format->scaling},
                session.groups_of_lanes(scales), params);
  }
  if (e.format->scaling == kNvSwizzled) {
    Params clear;
    clear.tensor[0] = e.to.block_scale;
    const DeviceTensor& scales = e.to.block_scale;
    session.add("clear", "clear", {}, session.groups_of_lanes(std::int64_t{scales.rows} * scales.width),
                clear);
  }
  params.operand[0] = e.source;
  const std::int64_t blocks = std::int64_t{e.source.payload.rows} * ((e.source.payload.width + 15) / 16);
  session.add(encode_name(*e.from, *e.format), "encode",
              {e.from->element, e.from->scaling, e.format->element, e.format->scaling},
              session.groups_of_lanes(blocks), params);
  session.run(trace);
}

}  // namespace

std::uint64_t group_absmax(Session& session, const DeviceOperand& source, const Format& from,
                           const Format& to_format, const DeviceOperand& to, std::int64_t groups) {
  Params params;
  DeviceTensor& counters = params.tensor[0];
  counters.data = session.scratch(4 * groups);
  counters.rank = 2;
  counters.rows = counters.shape[0] = static_cast<std::int32_t>(groups);
  counters.width = counters.shape[1] = 4;
  counters.stride[0] = 4;
  counters.stride[1] = 1;
  session.add("clear", "clear", {}, session.groups_of_lanes(4 * groups), params);
  params.operand[0] = source;
  params.operand[1] = to;
  params.scratch[1] = counters.data;
  const std::int64_t blocks = std::int64_t{source.payload.rows} * ((source.payload.width + 31) / 32);
  session.add("group_absmax_" + std::string(from.name), "group_absmax",
              {from.element, from.scaling, to_format.scaling}, session.groups_of_lanes(blocks), params);
  return counters.data;
}

// Quotients correctly rounded in f32. The 16-bit floats overflow to Inf as the others do not.
std::string quantiser_contract(std::string_view to) {
  const bool half = to == "f16" || to == "bf16" || to == "f32";
  return std::string("scale=divide code=divide nan=propagate int_range=") +
         (to.starts_with("int4") ? "symmetric" : "full") + " overflow=" + (half ? "ieee" : "saturate");
}

void quantize_check(const Call& call, const Device&) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  check_writable(call, "y", call.text("to"));
}
std::string quantize_name(const Call& call, const Device&) {
  return encode_name(format(call.text("dtype")), format(call.text("to")));
}
std::string quantize_contract(const Call& call, const Device&) { return quantiser_contract(call.text("to")); }
void quantize_run(Session& session, const Trace& trace) {
  const Call& call = session.call();
  const Format& from = format(call.text("dtype"));
  const Format& to = format(call.text("to"));
  const DeviceOperand x = session.operand("x", from);
  encode(session, trace, {x, x, session.operand("y", to), &from, &from, &to, to.scale_divisor});
}

void dequantize_check(const Call& call, const Device&) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("from"));
  call.output("y");
}
std::string dequantize_name(const Call& call, const Device&) {
  return "dequantize_" + std::string(call.text("from"));
}
// One f32 rounding, by bit code: of code times scale, of nvfp4's quotient, of the sum with a minimum, of
// tq3_0's transform. Subnormals are kept whatever the device does with them.
std::string dequantize_contract(const Call&, const Device&) { return "mid=f32 roundings=1"; }
void dequantize_run(Session& session, const Trace& trace) {
  const Call& call = session.call();
  const Format& from = format(call.text("from"));
  Params params;
  params.operand[0] = session.operand("x", from);
  params.tensor[0] = session.tensor("y");
  const std::int64_t blocks =
      std::int64_t{params.operand[0].payload.rows} * ((params.operand[0].payload.width + 31) / 32);
  session.add("dequantize_" + std::string(from.name), "dequantize",
              {from.element, from.scaling, dtype_of(call)}, session.groups_of_lanes(blocks), params);
  session.run(trace);
}

void requantize_check(const Call& call, const Device&) {
  check_readable(call, "x", call.text("from"));
  check_writable(call, "y", call.text("to"));
}
std::string requantize_name(const Call& call, const Device&) {
  return encode_name(format(call.text("from")), format(call.text("to")));
}
std::string requantize_contract(const Call& call, const Device&) {
  return quantiser_contract(call.text("to")) + " roundings=1";
}
void requantize_run(Session& session, const Trace& trace) {
  const Call& call = session.call();
  const Format& from = format(call.text("from"));
  const Format& to = format(call.text("to"));
  const DeviceOperand x = session.operand("x", from);
  // scale=one: what lies beyond the largest code is clamped there.
  encode(session, trace,
         {x, x, session.operand("y", to), &from, &from, &to, to.scale_divisor, call.text("scale") == "one"});
}

namespace {

bool looks_back(const Call& call) {
  return call.text("policy") == "locked" || call.text("policy") == "calibrated";
}

}  // namespace

// What the scale is made of, by policy:
//   fixed 1 | locked absmax(first) / constant | calibrated absmax(first) / largest code
//   request, head, token: absmax(x) / largest code, over what the format's scale covers
void kv_write_check(const Call& call, const Device&) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  if (looks_back(call)) check_readable(call, "first", call.text("dtype"));
  call.input("slots");
  check_writable(call, "cache", call.text("to"));
}
std::string kv_write_name(const Call& call, const Device&) {
  return encode_name(format("f32"), format(call.text("to")));
}
std::string kv_write_contract(const Call& call, const Device&) { return quantiser_contract(call.text("to")); }
void kv_write_run(Session& session, const Trace& trace) {
  const Call& call = session.call();
  const Format& dtype = format(call.text("dtype"));
  const Format& to = format(call.text("to"));
  Encoding e{{}, {}, session.operand("cache", to), &dtype, &dtype, &to, to.scale_divisor};
  const DeviceOperand x = session.operand("x", dtype);
  const std::int64_t heads = e.to.middle;
  const std::int64_t tokens = x.payload.rows / heads;
  const assay_tensor& slots = call.input("slots");
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int32_t slot = assay_plugin::int32_at(slots, t);
    if (slot < 0 || slot >= tokens)
      throw Failed("slots names " + std::to_string(slot) + ", outside the cache");
  }
  // The rows in their places, in f32.
  Params place;
  place.operand[0] = x;
  place.operand[1] = session.scratch_rows(x.payload.rows, x.payload.width, kF32, heads);
  place.tensor[0] = session.tensor("slots");
  place.integer[0] = heads;
  session.add("place_" + std::string(dtype.name), "place", {dtype.element}, Session::groups(x.payload.rows),
              place);
  const Format& f32 = format("f32");
  e.source = place.operand[1];
  e.from = &f32;
  if (looks_back(call)) {
    e.scale_source = session.operand("first", dtype);
    if (call.text("policy") == "locked") e.divisor = static_cast<float>(call.real("constant"));
  } else {
    e.scale_source = e.source;
    e.scale_from = &f32;
    e.unit_scales = call.text("policy") == "fixed" && !to.nv();
  }
  encode(session, trace, e);
}

}  // namespace assay_vulkan
