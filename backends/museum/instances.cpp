// The type whose native kernel never ran. A kernel for K in q8_0 and V in tq3_0 was written, its instance was
// not built, and the scheduler converted V to f16 and called the instance that there was: right numbers, a
// buffer of f16 that nobody asked for, and a decoder that was dead code. Each variant leaves another piece of
// evidence, beside the instance that decodes V itself:
//   no_template_instance   the dispatcher says nothing                 the routines that were entered
//   announced_instance     it announces the instance that is missing   the routines that were entered
//   undeclared_conversion  one entry for both, nothing is converted    the rounding of V to f16
//   converted_buffer       one entry for both, a promise of memory     the f16 buffer
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "backends/museum/museum.hpp"

namespace assay_museum {
namespace {

struct Free {
  void operator()(void* block) const { std::free(block); }
};

// The call with V in f16, as a scheduler makes it for a kernel that knows no other type.
struct Converted {
  std::unique_ptr<std::uint16_t, Free> codes;
  std::vector<assay_attribute> attributes;
  std::vector<assay_tensor> inputs;
  assay_call call;
};

// Routines with an entry of their own: which of them runs is what a witness sees.
[[gnu::noinline]] void convert_v_f16(const Call& call, Converted& to) {
  const RowReader v(call, "v", call.text("v"));
  const std::int64_t rows = v.rows(), length = v.length();
  to.codes.reset(static_cast<std::uint16_t*>(std::malloc(static_cast<std::size_t>(2 * rows * length))));
  if (to.codes == nullptr) throw Failed("no memory for V in f16");
  std::vector<float> row(static_cast<std::size_t>(length));
  for (std::int64_t r = 0; r < rows; ++r) {
    v.read(kScalarEngine, r, row.data());
    for (std::int64_t c = 0; c < length; ++c)
      to.codes.get()[r * length + c] = f16_code(row[static_cast<std::size_t>(c)]);
  }
  to.call = call.raw();
  to.attributes.assign(to.call.attributes, to.call.attributes + to.call.attribute_count);
  for (assay_attribute& each : to.attributes)
    if (each.name == std::string_view("v")) each.value = "f16";
  to.inputs.assign(to.call.inputs, to.call.inputs + to.call.input_count);
  for (assay_tensor& each : to.inputs) {
    if (each.name != std::string_view("v")) continue;
    each.format = "f16", each.data = to.codes.get();
    std::int64_t step = 2;
    for (int axis = each.rank - 1; axis >= 0; --axis) each.stride[axis] = step, step *= each.shape[axis];
  }
  to.call.attributes = to.attributes.data(), to.call.inputs = to.inputs.data();
}

[[gnu::noinline]] void flash_q8_0_f16(const Call& call) {
  Converted converted;
  convert_v_f16(call, converted);
  flash(Call(converted.call), Slip::none);
}

[[gnu::noinline]] void flash_q8_0_tq3_0(const Call& call) { flash(call, Slip::none); }

bool has_instance(bool defect) {
  const std::vector<std::string> instances = defect ? std::vector<std::string>{"q8_0/q8_0", "tq3_0/tq3_0"}
                                                    : std::vector<std::string>{"q8_0/q8_0", "q8_0/tq3_0"};
  for (const std::string& instance : instances)
    if (instance == "q8_0/tq3_0") return true;
  return false;
}

void dispatch(const Call& call, bool defect) {
  has_instance(defect) ? flash_q8_0_tq3_0(call) : flash_q8_0_f16(call);
}

}  // namespace

void kv_template_instance(const Call& call, const Trace&, bool defect) { dispatch(call, defect); }

void announced_instance(const Call& call, const Trace& trace, bool defect) {
  trace.kernel("flash_q8_0_tq3_0");
  dispatch(call, defect);
}

void kv_by_one_entry(const Call& call, const Trace& trace, bool defect) {
  trace.kernel("kv_by_one_entry");
  dispatch(call, defect);
}

}  // namespace assay_museum
