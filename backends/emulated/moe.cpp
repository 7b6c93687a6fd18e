// A mixture of experts on a unit: both products as matmul.cpp's, silu(g) v in f32, and between them what the
// path makes of it: f16 or bf16, or codes under the token's scale absmax / D; then y[t] = sum c w2 h in f32,
// experts in ascending order.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backends/emulated/kernels.hpp"
#include "backends/emulated/products.hpp"
#include "backends/emulated/tensors.hpp"
#include "backends/emulated/variants.hpp"
#include "reference/ops/moe_hidden.hpp"

namespace assay_emulated {
namespace {

using assay_plugin::Call;
using assay_plugin::Unsupported;

struct Plan {
  Variant variant;
  std::string a, w, w2;
  assay::MoePaths paths;
  const assay::MatrixUnit* down = nullptr;  // of the second product

  explicit Plan(const Call& call)
      : a(call.text("a")),
        w(call.text("w")),
        w2(call.text("w2")),
        paths(assay::moe_paths(attributes_of(call, assay::op("moe")))) {
    const std::string element = paths.up == "codes" ? element_of(a) : paths.up;
    variant = parse_variant(call.variant().empty() ? default_variant(element) : call.variant());
    if (variant.mixup || variant.mixup_k || variant.mixup_v || variant.replay())
      throw Unsupported("variant '" + std::string(call.variant()) +
                        "': moe takes a unit, promoted or not, and as_promoteN");
    if (!variant.unit->scales.empty())
      throw Unsupported(std::string(variant.unit->name) + " takes block scales, and no path of moe has them");
    check_operands(*variant.unit, paths.up, a, w);
    down =
        paths.down == paths.up ? variant.unit : sibling(paths.down == "codes" ? element_of(a) : paths.down);
    check_operands(*down, paths.down, a, w2);
  }
  // The same machine's unit for operands of this element: "hopper_bf16" beside hopper_fp8_mma_sync.
  const assay::MatrixUnit* sibling(const std::string& element) const {
    const std::string name(variant.unit->name);
    const std::string wanted =
        name.substr(0, name.find('_')) + "_" + (element.starts_with("e4m3") ? "fp8" : element);
    if (const assay::MatrixUnit* unit = assay::find_matrix_unit(wanted)) return unit;
    throw Unsupported(name + " has no sibling " + wanted + " for the second product");
  }
};

float silu(float g) { return g / (1.0F + std::exp(-g)); }

// h [rows, k] as the second product takes it.
Operand hidden_operand(std::vector<float> h, std::int64_t k, const Plan& plan) {
  Operand made;
  made.k = k, made.rows = static_cast<std::int64_t>(h.size()) / k;
  made.element = plan.paths.down == "codes" ? element_of(plan.a) : plan.paths.down;
  const assay::ScalarFormat& element = assay::scalar_format(made.element);
  const bool codes = plan.paths.down == "codes";
  const auto largest = static_cast<float>(assay::hidden_divisor(assay::format(plan.a)));
  const assay::EncodePolicy policy{.overflow = codes ? assay::Overflow::saturate : assay::Overflow::ieee};
  for (std::int64_t r = 0; r < made.rows; ++r) {
    const std::span<float> row(h.data() + r * k, static_cast<std::size_t>(k));
    float absmax = 0;
    for (const float each : row) absmax = std::max(absmax, std::fabs(each));
    const float scale = codes && absmax != 0 ? absmax / largest : 1.0F;
    for (float& each : row)
      each = static_cast<float>(assay::round_to(element, static_cast<double>(each / scale), policy));
    made.scales.push_back(scale);
  }
  if (made.element == "int4") made.element = "int8";
  made.values = std::move(h);
  return made;
}

Operand rows_from(const Operand& all, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> which(static_cast<std::size_t>(count));
  std::iota(which.begin(), which.end(), first);
  return all.taken(which);
}

}  // namespace

Declared declare_moe(const Call& call) {
  const Plan plan(call);
  const Variant& v = plan.variant;
  std::string contract = "acc=" + std::string(v.unit->name) + " order=sequential";
  if (v.declared_promote > 0) contract += " promote=" + std::to_string(v.declared_promote);
  if (plan.down != v.unit) contract += " down_acc=" + std::string(plan.down->name);
  const int roundings =
      std::max(epilogue_roundings(*v.unit, plan.a, plan.w), epilogue_roundings(*plan.down, plan.a, plan.w2));
  return {contract + " epilogue_roundings=" + std::to_string(roundings) +
              " gate_up=f32 silu_ulp=2 expert_out=f32",
          "run_moe"};
}

void run_moe(const Call& call, const assay_plugin::Trace& trace) {
  const Plan plan(call);
  trace.kernel(__func__);
  const assay::Op& op = assay::op("moe");
  const assay::TensorSet inputs = inputs_of(call, op, attributes_of(call, op));
  const std::int64_t tokens = call.integer("tokens"), hidden = call.integer("hidden"),
                     inter = call.integer("inter"), experts = call.integer("experts"),
                     topk = call.integer("topk");
  const Operand x = operand_of(inputs.at("x"), plan.paths.up, assay::Side::activations),
                w13 = operand_of(inputs.at("w13"), plan.paths.up, assay::Side::weights),
                w2 = operand_of(inputs.at("w2"), plan.paths.down, assay::Side::weights);
  const std::vector<double> ids = assay::decode_tensor(inputs.at("topk_ids")),
                            weights = assay::decode_tensor(inputs.at("topk_weights"));
  std::vector<float> y(static_cast<std::size_t>(tokens * hidden), 0.0F);
  const auto product = [&](const assay::MatrixUnit& unit, const Operand& left, const Operand& right) {
    std::vector<float> sums = unit_sums(unit, plan.variant.promote, left, right);
    apply_scales(sums, left, right);
    return sums;
  };
  for (std::int64_t e = 0; e < experts; ++e) {
    std::vector<std::int64_t> served;
    std::vector<float> weight;
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (ids[i] == static_cast<double>(e)) {
        served.push_back(static_cast<std::int64_t>(i) / topk);
        weight.push_back(static_cast<float>(weights[i]));
      }
    if (served.empty()) continue;
    const std::vector<float> first =
        product(*plan.variant.unit, x.taken(served), rows_from(w13, e * 2 * inter, 2 * inter));
    std::vector<float> h;
    for (std::size_t r = 0; r < served.size(); ++r)
      for (std::int64_t i = 0; i < inter; ++i) {
        const float* gate = first.data() + static_cast<std::int64_t>(r) * 2 * inter + i;
        h.push_back(silu(gate[0]) * gate[inter]);
      }
    const std::vector<float> out =
        product(*plan.down, hidden_operand(std::move(h), inter, plan), rows_from(w2, e * hidden, hidden));
    for (std::size_t r = 0; r < served.size(); ++r)
      for (std::int64_t c = 0; c < hidden; ++c)
        y[static_cast<std::size_t>(served[r] * hidden + c)] +=
            weight[r] * out[r * static_cast<std::size_t>(hidden) + static_cast<std::size_t>(c)];
  }
  store(call.output("y"), y);
}

}  // namespace assay_emulated
