// y[m,n] = a[m,k] b[n,k]^T on a unit: the operands that the path makes of the stored tensors (the reference's
// own, of several admissible ones the least), products and sums as the unit forms them, blocks of g in
// ascending k chained through its accumulator or, with promotion, from zero each and added to f32; then (c
// s_a) s_b in f32.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "backends/emulated/kernels.hpp"
#include "backends/emulated/products.hpp"
#include "backends/emulated/tensors.hpp"
#include "backends/emulated/variants.hpp"
#include "reference/ops/dot.hpp"
#include "reference/ops/operand.hpp"

namespace assay_emulated {
namespace {

using assay_plugin::Call;
using assay_plugin::Unsupported;

// Elements and block scales of the format are those of the unit.
bool takes_blocks(const assay::MatrixUnit& unit, const std::string& name) {
  constexpr std::int64_t kRow = 256;
  const std::vector<assay::PlaneSpec> planes = assay::planes(assay::format(name), {1, kRow});
  if (planes.size() < 2 || !assay::accepts(unit, planes[0].format)) return false;
  return assay::element_count(planes[1].shape) * unit.scale_block == kRow;
}

struct Plan {
  Variant variant;
  std::string a, b, path;

  explicit Plan(const Call& call) {
    a = call.text("a"), b = call.text("b");
    path = assay::resolve_path(call.text("path"), assay::format(a), assay::format(b));
    const bool floating = path == "f32" || path == "f16" || path == "bf16";
    const std::string element = floating ? path : path == "e4m3fn" ? path : element_of(a);
    variant = parse_variant(call.variant().empty() ? default_variant(element) : call.variant());
    if (variant.mixup_k || variant.mixup_v) throw Unsupported("mixup_k and mixup_v are of attention: mixup");
    if (path.starts_with("q8"))
      throw Unsupported("path=" + path + " multiplies f32 numbers: no matrix unit takes them");
    const assay::MatrixUnit& unit = *variant.unit;
    if (path == "blocks") {
      if (unit.scales.empty())
        throw Unsupported(std::string(unit.name) +
                          " takes no block scales: path=blocks needs blackwell_mxfp8, " +
                          "blackwell_mxfp4 or blackwell_nvfp4");
      for (const std::string& side : {a, b})
        if (!takes_blocks(unit, side))
          throw Unsupported(fmt::format("{} takes {} with a scale for {} elements, not {}", unit.name,
                                        unit.inputs, unit.scale_block, side));
      return;
    }
    if (!unit.scales.empty()) throw Unsupported(std::string(unit.name) + " takes block scales: path=blocks");
    check_operands(unit, path, a, b);
  }
  bool integer() const { return variant.unit->out == "i32"; }
};

// How far the sums are from the exact ones of the same operands, in units of sum |a b|: the signed mean over
// the outputs and the largest magnitude. Truncation shows as a mean that is not about zero.
void note_error(const assay_plugin::Trace& trace, const Operand& a, const Operand& b,
                const std::vector<float>& sums) {
  const auto widen = [](const Operand& side) {
    std::vector<double> x(side.values.begin(), side.values.end());
    const auto block = side.block_scales.empty() ? x.size() : x.size() / side.block_scales.size();
    for (std::size_t i = 0; i < x.size() && !side.block_scales.empty(); ++i)
      x[i] *= static_cast<double>(side.block_scales[i / block]);
    return x;
  };
  const std::vector<double> left = widen(a), right = widen(b);
  double mean = 0, worst = 0;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < b.rows; ++j) {
      const assay::DotSums exact = assay::dot_sums(left.data() + i * a.k, right.data() + j * a.k, a.k);
      if (exact.abs_sum == 0) continue;
      const double error =
          (static_cast<double>(sums[static_cast<std::size_t>(i * b.rows + j)]) - exact.sum) / exact.abs_sum;
      mean += error / static_cast<double>(sums.size());
      worst = std::fmax(worst, std::fabs(error));
    }
  trace.note("accumulation_error_mean", fmt::format("{:.3e}", mean));
  trace.note("accumulation_error_worst", fmt::format("{:.3e}", worst));
}

}  // namespace

Declared declare_matmul(const Call& call) {
  const Plan plan(call);
  const Variant& v = plan.variant;
  std::string contract = "acc=" + std::string(v.unit->name);
  if (v.declared_promote > 0) contract += " promote=" + std::to_string(v.declared_promote);
  if (v.replay()) {
    if (plan.integer()) throw Unsupported("a schedule is of sums of floating-point products: no " + v.name);
    std::string sum = "acc:" + std::string(v.unit->name) + "/scales:a_b";
    if (v.declared_promote > 0) sum += "/chunk:" + std::to_string(v.declared_promote * v.unit->group);
    contract += " level=replay schedule=" + v.schedule(sum);
  }
  // What is declared of the blocks' order on purpose wrongly must not contradict itself.
  const std::string order = v.declared_key.empty() ? " order=sequential" : "";
  return {contract + order +
              " epilogue_roundings=" + std::to_string(epilogue_roundings(*v.unit, plan.a, plan.b)) +
              (plan.path == "e4m3fn" ? " scale=divide code=divide" : ""),
          "run_matmul"};
}

void run_matmul(const Call& call, const assay_plugin::Trace& trace) {
  const Plan plan(call);
  trace.kernel(__func__);
  const assay::Op& op = assay::op("matmul");
  const assay::Attributes attributes = attributes_of(call, op);
  assay::TensorSet inputs = inputs_of(call, op, attributes);
  const assay::MatrixUnit* unit = plan.variant.unit;
  if (plan.variant.mixup) {
    unit = &counterpart(*unit);
    for (auto& [name, tensor] : inputs) {
      tensor.format = other_kind(tensor.format);
      tensor.planes[0].spec.format = other_kind(tensor.planes[0].spec.format);
    }
  }
  const Operand a = operand_of(inputs.at("a"), plan.path, assay::Side::activations);
  const Operand b = operand_of(inputs.at("b"), plan.path, assay::Side::weights);
  std::vector<float> y = unit_sums(*unit, plan.variant.promote, a, b);
  note_error(trace, a, b, y);
  apply_scales(y, a, b);
  store(call.output("y"), y);
}

}  // namespace assay_emulated
