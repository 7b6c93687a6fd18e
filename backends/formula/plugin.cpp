// Every formula as a kernel: slow and plain, straight from the text, in the accumulators of the default
// contract. It is what a new op is judged with on its first day; with the option FILE, a user's own formula.
#include <fstream>
#include <sstream>

#include "backends/emulated/tensors.hpp"
#include "backends/plugin/kernels.hpp"
#include "backends/plugin/options.hpp"
#include "reference/error.hpp"
#include "reference/ops/formula/library.hpp"
#include "reference/ops/formula/member.hpp"
#include "reference/ordinary_file.hpp"

namespace assay_formula {

using assay_plugin::Call;
using assay_plugin::Failed;
using assay_plugin::Unsupported;

namespace {

const assay::formula::FormulaOp& formula_of(const Call& call) {
  const assay::formula::FormulaOp* f = assay::formula::find(call.op());
  if (f == nullptr) throw Unsupported("op " + std::string(call.op()) + " is no formula; assay list ops");
  return *f;
}

// What the plain kernel does: sums in sequence, nothing fused, functions of the C library in more than f64.
std::string contract_of(const assay::Op& op) {
  std::string text;
  for (const assay::KeySpec& key : op.contract) {
    const std::string_view name = key.name;
    const auto says = [&](std::string_view value) {
      text += std::string(name) + "=" + std::string(value) + " ";
    };
    if (name.ends_with(".order")) says("sequential");
    if (name.ends_with(".fma")) says("no");
    if (name.ends_with(".read")) says("stored");
    if (name.ends_with(".ties")) says("lower");
    if (name.ends_with(".products")) says("written");
    if (name.ends_with(".div_ulp"))
      says("0.5");
    else if (name.ends_with("_ulp"))
      says("1");
    if (name.ends_with("_abs")) says("0");
  }
  return text;
}

}  // namespace

// The path that is declared, and that the witness looks for.
[[gnu::noinline]] void formula_kernel(const Call& call) {
  const assay::formula::FormulaOp& f = formula_of(call);
  const assay::Op& op = f.op();
  const assay::Attributes attributes = assay_emulated::attributes_of(call, op);
  const assay::TensorSet inputs = assay_emulated::inputs_of(call, op, attributes);
  const assay::Contract contract = assay::Contract::parse(contract_of(op), op.contract);
  assay::formula::Member member(op.contract, contract, 0);
  for (const auto& [name, values] : assay::formula::outputs_of(f.text(), attributes, inputs, member)) {
    const assay_tensor& output = call.output(name);
    const bool saturates = assay::scalar_format(output.format).bits <= 8;
    assay_emulated::store(output, values, saturates ? assay::Overflow::saturate : assay::Overflow::ieee);
  }
}

namespace {

template <typename F>
auto refusing(F f) {
  try {
    return f();
  } catch (const assay::InputError& e) {
    throw Unsupported(e.what());
  }
}

assay_status declare(void*, const assay_call* raw, assay_declaration* declaration) {
  return assay_plugin::declared(declaration, [&] {
    const Call call(*raw);
    return refusing([&] {
      return assay_plugin::Declared{contract_of(formula_of(call).op()), "formula_kernel",
                                    "deterministic=yes"};
    });
  });
}

assay_status run(void*, const assay_call* raw, const assay_trace* raw_trace, char* reason) {
  return assay_plugin::guarded(reason, [&] {
    const Call call(*raw);
    assay_plugin::Trace(raw_trace).kernel("formula_kernel");
    refusing([&] { formula_kernel(call); });
  });
}

// A file beside those of the library.
void add_formula(const std::string& path) {
  std::ifstream stream;
  std::ostringstream text;
  if (assay::why_no_file(path).empty()) stream.open(path), text << stream.rdbuf();
  if (!stream.is_open() || !stream)
    assay_plugin::refuse_option(path, "none, or a file with a formula that can be read");
  try {
    (void)assay::formula::add(text.str());
  } catch (const assay::InputError& e) {
    throw Failed("option '" + path + "': " + e.what());
  }
}

}  // namespace
}  // namespace assay_formula

extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  return assay_plugin::opened(reason, [&] {
    if (options != nullptr && options[0] != '\0') assay_formula::add_formula(options);
    static const assay_backend backend = {
        ASSAY_BACKEND_VERSION,
        "formula",
        "ops that are formulas, read aloud on a CPU: slow and plain",
        "",
        nullptr,
        assay_formula::declare,
        assay_formula::run,
        [](void*) {},
    };
    return &backend;
  });
}
