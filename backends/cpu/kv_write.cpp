// cache[slots[t]] = x[t] quantised. What the scale is made of, by policy:
//   fixed 1 | locked absmax(first) / constant | calibrated absmax(first) / largest code
//   request, head, token: absmax(x) / largest code, over what the format's scale covers
// Codes saturate. Formats with scales inside their blocks find those by their own rule.
#include <vector>

#include "backends/cpu/layouts.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

std::vector<float> read_all(const RowReader& reader, const Engine& engine) {
  std::vector<float> values(static_cast<std::size_t>(reader.rows() * reader.length()));
  for (std::int64_t row = 0; row < reader.rows(); ++row) {
    reader.read(engine, row, values.data() + row * reader.length());
  }
  return values;
}

bool looks_back(std::string_view policy) { return policy == "locked" || policy == "calibrated"; }

}  // namespace

void kv_write_check(const Call& call) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  if (looks_back(call.text("policy"))) check_readable(call, "first", call.text("dtype"));
  call.input("slots");
  output_planes(call, "cache", layout(call.text("to")));
}

std::string kv_write_contract(const Call& call, const Engine&) { return quantiser_contract(call.text("to")); }

void kv_write_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  const Layout& to = layout(call.text("to"));
  const Planes planes = output_planes(call, "cache", to);
  const RowReader x(call, "x", call.text("dtype"));
  const assay_tensor& slots = call.input("slots");
  const std::string_view policy = call.text("policy");
  const std::int64_t heads = planes.middle;
  const std::int64_t tokens = x.rows() / heads;
  std::vector<float> placed(static_cast<std::size_t>(x.rows() * x.length()));
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t slot = int32_at(slots, t);
    if (slot < 0 || slot >= tokens)
      throw Failed("slots names " + std::to_string(slot) + ", outside the cache");
    for (std::int64_t h = 0; h < heads; ++h) {
      x.read(engine, t * heads + h, placed.data() + (slot * heads + h) * x.length());
    }
  }
  if (looks_back(policy)) {
    const RowReader first(call, "first", call.text("dtype"));
    const std::vector<float> earlier = read_all(first, engine);
    const float divisor = policy == "locked" ? static_cast<float>(call.real("constant")) : to.scale_divisor;
    write_scales(to, planes, earlier.data(), first.rows(), divisor);
  } else if (policy == "fixed" && to.scaling != Scaling::global && to.scaling != Scaling::second) {
    write_unit_scales(to, planes);
  } else {
    write_scales(to, planes, placed.data(), x.rows());
  }
  for (std::int64_t row = 0; row < x.rows(); ++row)
    to.write(planes, engine, row, placed.data() + row * x.length());
}

}  // namespace assay_cpu
