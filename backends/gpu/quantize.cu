// quantize    x[rows,cols] dtype     -> y in format `to`
// dequantize  x in format `from`     -> y dtype
// requantize  x in format `from`     -> y in format `to`
// kv_write    cache[slots[t]] = x[t] quantised. What its scale is made of, by policy:
//   fixed 1 | locked absmax(first) / constant | calibrated absmax(first) / largest code
//   request, head, token: absmax(x) / largest code, over what the format's scale covers
// Three steps: absmax of the finite elements per scale (a maximum of bits: no order shows), the f32 scales,
// the codes. Codes saturate. Formats with scales inside their blocks find those by their own rule.
#include "backends/gpu/quantize.cuh"

#include "backends/gpu/formats.hpp"
#include "backends/gpu/ops.hpp"

namespace assay_gpu {
namespace {

__global__ void quantize_bits(const GPU_GRID_CONSTANT QuantizeArgs a) { quantize_units<BitCodes>(a); }
__global__ void dequantize_bits(const GPU_GRID_CONSTANT Planes from, const GPU_GRID_CONSTANT RowTensor to) {
  dequantize_elements<BitCodes>(from, to);
}

// absmax[s] = bits of the largest finite magnitude that scale s covers; zero before.
__global__ void quantize_absmax(const GPU_GRID_CONSTANT QuantizeArgs a, unsigned* absmax) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= a.from.rows * a.from.length) return;
  const std::int64_t row = at / a.from.length;
  const std::int64_t column = at % a.from.length;
  const float value = decode(a.from, row, column);
  if (is_finite(value))
    atomicMax(absmax + scale_index(a.to, target_row(a, row), column), bits_of(magnitude(value)));
}

// absmax / divisor, 1 for 0; nvfp4: 448 * 6 / absmax. absmax == nullptr: 1.
__global__ void quantize_scales(const GPU_GRID_CONSTANT View plane, std::int64_t count,
                                const unsigned* absmax, float divisor, bool global) {
  const std::int64_t s = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (s >= count) return;
  float scale = 1.0F;
  if (absmax != nullptr) {
    const float largest = float_of(absmax[s]);
    scale = global ? 448.0F * 6.0F / largest : largest / divisor;
    if (global && !is_finite(scale)) scale = largest > 0 ? float_of(0x7F7FFFFFU) : 1.0F;
    if (scale == 0) scale = 1.0F;
  }
  store_f32(plane, s, scale);
}

// Block scales of padding rows and columns are 0.
__global__ void quantize_clear_padding(const GPU_GRID_CONSTANT View plane, std::int64_t count) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at < count) plane.data[element_offset(plane, at)] = 0;
}

std::int64_t elements_of(const View& view) {
  std::int64_t count = 1;
  for (std::int32_t a = 0; a < view.rank; ++a) count *= view.shape[a];
  return count;
}

enum class Scales : std::uint8_t { unit, absmax };

// The f32 scales of args.to, from the rows of `measured`.
void write_scales(Run& run, const QuantizeArgs& measured, Scales kind, float divisor) {
  const Format& format = measured.to.format;
  if (format.scaling == Scaling::none) return;
  const bool global = format.scaling == Scaling::global;
  const View& plane = global ? measured.to.global_scale : measured.to.scale;
  const std::int64_t count = elements_of(plane);
  unsigned* absmax = nullptr;
  if (kind == Scales::absmax) {
    absmax = run.memory.upload(std::vector<unsigned>(static_cast<std::size_t>(count), 0U));
    quantize_absmax<<<blocks_of(measured.from.rows * measured.from.length), kRowThreads>>>(measured, absmax);
    run.launched("quantize_absmax");
  }
  quantize_scales<<<blocks_of(count), kRowThreads>>>(plane, count, absmax,
                                                     divisor == 0 ? format.divisor : divisor, global);
  run.launched("quantize_scales");
}

void write_codes(Run& run, const QuantizeArgs& args, const Conversions& kind) {
  if (args.to.format.block == Block::nvfp4_swizzled) {
    const std::int64_t count = elements_of(args.to.block_scale);
    quantize_clear_padding<<<blocks_of(count), kRowThreads>>>(args.to.block_scale, count);
    run.launched("quantize_clear_padding");
  }
  kind.quantize(run, args);
}

bool looks_back(std::string_view policy) { return policy == "locked" || policy == "calibrated"; }

const Conversions kBits = {
    [](Run& run, const QuantizeArgs& args) {
      quantize_bits<<<blocks_of(args.from.rows * (args.to.length / args.to.format.unit)), kRowThreads>>>(
          args);
      run.launched("quantize_bits");
    },
    [](Run& run, const Planes& from, const RowTensor& to) {
      dequantize_bits<<<blocks_of(from.rows * from.length), kRowThreads>>>(from, to);
      run.launched("dequantize_bits");
    }};

}  // namespace

void run_quantize(Run& run, const Conversions& kind) {
  const QuantizeArgs args{run.memory.input_planes("x", run.call.text("dtype")),
                          run.memory.output_planes("y", run.call.text("to")), View(), 1};
  write_scales(run, args, Scales::absmax, 0);
  write_codes(run, args, kind);
}

void run_requantize(Run& run, const Conversions& kind) {
  const QuantizeArgs args{run.memory.input_planes("x", run.call.text("from")),
                          run.memory.output_planes("y", run.call.text("to")), View(), 1};
  // scale=one: what lies beyond the largest code is clamped there.
  write_scales(run, args, run.call.text("scale") == "one" ? Scales::unit : Scales::absmax, 0);
  write_codes(run, args, kind);
}

void run_dequantize(Run& run, const Conversions& kind) {
  kind.dequantize(run, run.memory.input_planes("x", run.call.text("from")),
                  {run.memory.output("y"), format_row(run.call.text("dtype")).format.element});
}

void run_kv_write(Run& run, const Conversions& kind) {
  const std::string_view policy = run.call.text("policy");
  const std::string_view dtype = run.call.text("dtype");
  const Planes cache = run.memory.output_planes("cache", run.call.text("to"));
  const QuantizeArgs args{run.memory.input_planes("x", dtype), cache, run.memory.input("slots"),
                          cache.middle};
  const std::int64_t tokens = args.from.rows / args.heads;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int32_t slot = assay_plugin::int32_at(run.call.input("slots"), t);
    if (slot < 0 || slot >= tokens)
      throw Failed("slots names " + std::to_string(slot) + ", outside the cache");
  }
  if (looks_back(policy)) {
    const float divisor =
        policy == "locked" ? static_cast<float>(run.call.real("constant")) : cache.format.divisor;
    write_scales(run, {run.memory.input_planes("first", dtype), cache, View(), 1}, Scales::absmax, divisor);
  } else if (policy == "fixed" && cache.format.scaling != Scaling::global) {
    write_scales(run, args, Scales::unit, 0);
  } else {
    write_scales(run, args, Scales::absmax, 0);
  }
  write_codes(run, args, kind);
}

// Quotients in f32 by true divisions. The 16-bit floats overflow to Inf as the others do not.
std::string quantiser_contract(const Call& call, const DeviceInfo&) {
  const std::string_view to = call.text("to");
  const bool half = to == "f16" || to == "bf16" || to == "f32";
  return std::string("scale=divide code=divide nan=propagate int_range=") +
         (to.substr(0, 4) == "int4" ? "symmetric" : "full") + " overflow=" + (half ? "ieee" : "saturate");
}

// One f32 rounding: of code times scale, of nvfp4's quotient, of the sum with a minimum, of tq3_0's
// transform.
std::string dequantize_contract(const Call&, const DeviceInfo&) { return "mid=f32 roundings=1"; }

void quantize_check(const Call& call, const DeviceInfo&) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  check_writable(call, "y", call.text("to"));
}
void dequantize_check(const Call& call, const DeviceInfo&) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("from"));
  check_writable(call, "y", call.text("dtype"));
}
void requantize_check(const Call& call, const DeviceInfo&) {
  check_readable(call, "x", call.text("from"));
  check_writable(call, "y", call.text("to"));
}
void kv_write_check(const Call& call, const DeviceInfo&) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  if (looks_back(call.text("policy"))) check_readable(call, "first", call.text("dtype"));
  call.input("slots");
  check_writable(call, "cache", call.text("to"));
}

std::string_view quantize_bits_name(const Call&) { return "quantize_bits"; }
std::string_view dequantize_bits_name(const Call&) { return "dequantize_bits"; }
std::string_view requantize_bits_name(const Call&) { return "quantize_bits"; }
std::string_view kv_write_bits_name(const Call&) { return "quantize_bits"; }
std::string quantize_bits_contract(const Call& call, const DeviceInfo& d) {
  return quantiser_contract(call, d);
}
std::string dequantize_bits_contract(const Call& call, const DeviceInfo& d) {
  return dequantize_contract(call, d);
}
std::string requantize_bits_contract(const Call& call, const DeviceInfo& d) {
  return quantiser_contract(call, d) + " roundings=1";
}
std::string kv_write_bits_contract(const Call& call, const DeviceInfo& d) {
  return quantiser_contract(call, d);
}
void quantize_bits_run(Run& run) { run_quantize(run, kBits); }
void dequantize_bits_run(Run& run) { run_dequantize(run, kBits); }
void requantize_bits_run(Run& run) { run_requantize(run, kBits); }
void kv_write_bits_run(Run& run) { run_kv_write(run, kBits); }

}  // namespace assay_gpu
