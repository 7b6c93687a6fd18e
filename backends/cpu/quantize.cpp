// quantize    x[rows,cols] dtype     -> y in format `to`
// dequantize  x in format `from`     -> y dtype
// requantize  x in format `from`     -> y in format `to`, decoded to f32 in between
// f32 scales come from the whole tensor first; then row after row is coded.
#include <vector>

#include "backends/cpu/layouts.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

void encode(const Call& call, const Engine& engine, const RowReader& reader, bool unit_scales = false) {
  const Layout& to = layout(call.text("to"));
  const Planes planes = output_planes(call, "y", to);
  std::vector<float> values(static_cast<std::size_t>(reader.rows() * reader.length()));
  for (std::int64_t row = 0; row < reader.rows(); ++row) {
    reader.read(engine, row, values.data() + row * reader.length());
  }
  if (unit_scales) {
    write_unit_scales(to, planes);
  } else {
    write_scales(to, planes, values.data(), reader.rows());
  }
  for (std::int64_t row = 0; row < reader.rows(); ++row) {
    to.write(planes, engine, row, values.data() + row * reader.length());
  }
}

}  // namespace

// Quotients in f32 by true divisions; a scale sees the finite elements alone. The 16-bit floats overflow to
// Inf as the others do not.
std::string quantiser_contract(std::string_view to) {
  const bool half = to == "f16" || to == "bf16" || to == "f32";
  // A block whose elements have no NaN: its scale becomes one, or whatever the comparisons leave.
  const auto is_one_of = [&](auto... beginnings) { return (to.starts_with(beginnings) || ...); };
  const bool undefined = is_one_of("q", "iq4", "tq3", "mxfp4", "nvfp4");
  return std::string("scale=divide code=divide nan=propagate absmax=") + (undefined ? "any" : "finite") +
         " int_range=" + (to.starts_with("int4") ? "symmetric" : "full") +
         " overflow=" + (half ? "ieee" : "saturate");
}

void quantize_check(const Call& call) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  output_planes(call, "y", layout(call.text("to")));
}

std::string quantize_contract(const Call& call, const Engine&) { return quantiser_contract(call.text("to")); }

void quantize_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  encode(call, engine, RowReader(call, "x", call.text("dtype")));
}

void dequantize_check(const Call& call) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("from"));
  call.output("y");
}

// One f32 rounding: of code times scale, of nvfp4's quotient, of the sum with a minimum, of tq3_0's
// transform.
std::string dequantize_contract(const Call&, const Engine&) { return "mid=f32 roundings=1"; }

void dequantize_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  const RowReader reader(call, "x", call.text("from"));
  const assay_tensor& y = call.output("y");
  std::vector<float> row(static_cast<std::size_t>(reader.length()));
  for (std::int64_t r = 0; r < reader.rows(); ++r) {
    reader.read(engine, r, row.data());
    write_row(engine, call.text("dtype"), row.data(), reader.length(), mutable_row(y, r));
  }
}

void requantize_check(const Call& call) {
  check_readable(call, "x", call.text("from"));
  output_planes(call, "y", layout(call.text("to")));
}

std::string requantize_contract(const Call& call, const Engine&) {
  return quantiser_contract(call.text("to")) + " roundings=1";
}

void requantize_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  // scale=one: what lies beyond the largest code is clamped there.
  encode(call, engine, RowReader(call, "x", call.text("from")), call.text("scale") == "one");
}

}  // namespace assay_cpu
