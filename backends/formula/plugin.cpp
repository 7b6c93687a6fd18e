// Every formula as a kernel: slow and plain, straight from the text, in the accumulators of the default contract. It is what a new
// op is judged with on its first day; with the option FILE, a user's own formula.
#include <fstream>
#include <sstream>

#include "backends/emulated/tensors.hpp"
#include "backends/plugin/kernels.hpp"
#include "reference/error.hpp"
#include "reference/formats/plane.hpp"
#include "reference/ops/formula/library.hpp"
#include "reference/ops/formula/member.hpp"
#include "reference/ops/formula/walk.hpp"

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
  for (const assay::ContractKey& key : op.contract) {
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

void store(const assay_tensor& output, const std::vector<double>& values) {
  const assay::ScalarFormat& format = assay::scalar_format(output.format);
  const auto columns = static_cast<std::size_t>(assay_plugin::row_length(output));
  const std::size_t bytes = assay::plane_bytes(format, static_cast<std::int64_t>(columns));
  const bool saturates = format.bits <= 8;
  const assay::EncodePolicy policy{.overflow = saturates ? assay::Overflow::saturate : assay::Overflow::ieee};
  for (std::int64_t r = 0; r < assay_plugin::row_count(output); ++r) {
    const std::span<std::byte> row(assay_plugin::mutable_row(output, r), bytes);
    for (std::size_t c = 0; c < columns; ++c)
      assay::store_code(format, row, static_cast<std::int64_t>(c),
                        assay::encode(format, values[static_cast<std::size_t>(r) * columns + c], policy));
  }
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
  assay::formula::Walk<assay::formula::Member> walk(f.text(), attributes, member);
  for (const assay::formula::Input& in : f.text().inputs) {
    const assay::Encoded& tensor = inputs.at(in.name);
    const assay::ScalarFormat* scalar = assay::find_scalar_format(tensor.format);
    walk.give(in.name, in.axes.empty() ? assay::Shape{} : tensor.shape, assay::decode_tensor(tensor),
              scalar != nullptr && scalar->kind == assay::ScalarKind::integer);
  }
  walk.run();
  for (const assay::TensorSpec& spec : op.tensors(attributes)) {
    if (spec.role != assay::TensorRole::output) continue;
    const auto& held = walk.held(spec.name);
    std::vector<double> values;
    for (std::size_t i = 0; i < held.stored.size(); ++i)
      values.push_back(held.whole ? static_cast<double>(held.integers[i]) : held.stored[i].value);
    store(call.output(spec.name), values);
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
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw Failed("no formula can be read from '" + path + "'; allowed: formula, or formula:FILE");
  try {
    (void)assay::formula::add(text.str());
  } catch (const assay::InputError& e) {
    throw Failed(path + ": " + e.what());
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
