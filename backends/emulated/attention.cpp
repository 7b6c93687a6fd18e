// Attention by the reference's own model of a flash-attention kernel
// (reference/ops/attention/emulated/emulated.hpp) on a unit: q.k and p.v on it, weights cast to its operand
// format, everything else in f32.
//
//   q        as stored where the unit takes it; else rounded to f16 or bf16; for FP8 units codes with one
//            scale per row and head, absmax / largest finite number
//   K, V     codes where the unit takes them and one scale serves a head; else converted to f16 or bf16 first
//   weights  in the unit's format, times 2^8 (e4m3fn), 2^7 (e4m3fnuz): below its largest number
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/emulated/kernels.hpp"
#include "backends/emulated/tensors.hpp"
#include "backends/emulated/variants.hpp"
#include "reference/ops/attention/attention.hpp"
#include "reference/ops/attention/conversions.hpp"
#include "reference/ops/attention/emulated/emulated.hpp"

namespace assay_emulated {
namespace {

using assay_plugin::Call;
using assay_plugin::Unsupported;

// The formats of one matrix product of the kernel.
struct Product {
  const assay::MatrixUnit* unit;
  std::string operand;  // of q or p; also what K or V is converted to
  bool fp8() const { return operand.starts_with("e4m3"); }
};

Product product_on(const assay::MatrixUnit& unit) {
  if (!unit.scales.empty() || unit.out == "i32")
    throw Unsupported(std::string(unit.name) +
                      ": attention needs a unit without block scales and with a floating result");
  for (const char* format : {"f16", "bf16", "e4m3fn", "e4m3fnuz"})
    if (assay::accepts(unit, format)) return {&unit, format};
  throw Unsupported(std::string(unit.name) + " takes " + std::string(unit.inputs) +
                    ", to which attention converts nothing: f16, bf16, e4m3fn or e4m3fnuz");
}

struct Plan {
  Variant variant;
  std::string k, v, dtype;
  Product qk, pv;
  bool converts = false;
  std::string k_as, v_as;  // formats that the bytes are read as

  explicit Plan(const Call& call)
      : variant(chosen(call)),
        k(call.text("k")),
        v(call.text("v")),
        dtype(call.text("dtype")),
        qk(product_on(*variant.unit)),
        pv(qk),
        k_as(k),
        v_as(v) {
    if (variant.mixup) throw Unsupported("mixup is of matmul: mixup_k, mixup_v or mixup_kv");
    const bool native = takes(*variant.unit, k) && takes(*variant.unit, v);
    if (!native && qk.fp8())
      throw Unsupported(std::string(variant.unit->name) + " takes " + std::string(variant.unit->inputs) +
                        " with one scale per tensor or head, not k=" + k + " v=" + v);
    converts = !native;
    if (variant.mixup_k) k_as = other_kind(k), qk = product_on(counterpart(*variant.unit));
    if (variant.mixup_v) v_as = other_kind(v), pv = product_on(counterpart(*variant.unit));
  }

  static Variant chosen(const Call& call) {
    if (!call.variant().empty()) return parse_variant(call.variant());
    const assay::Format& row = assay::format(call.text("k"));
    return parse_variant(default_variant(row.kind == assay::FormatKind::block ? "" : row.element));
  }
  static bool takes(const assay::MatrixUnit& unit, const std::string& format) {
    const assay::Format& row = assay::format(format);
    const bool one_scale = row.axis == assay::ScaleAxis::tensor || row.axis == assay::ScaleAxis::head;
    return row.kind != assay::FormatKind::block && (row.kind == assay::FormatKind::scalar || one_scale) &&
           assay::accepts(unit, row.element);
  }

  std::string q_convert(const Product& product) const {
    return product.operand == dtype ? "none" : product.operand;
  }
  std::int64_t keys_per_chain(int promote) const { return std::int64_t{promote} * variant.unit->group; }
  std::int64_t tile() const {
    return std::max(
        {std::int64_t{64}, keys_per_chain(variant.promote), keys_per_chain(variant.declared_promote)});
  }
  static int p_shift(const Product& product) {
    return product.operand == "e4m3fn" ? 8 : product.operand == "e4m3fnuz" ? 7 : 0;
  }

  std::string contract() const {
    const Product declared = product_on(*variant.unit);
    const std::string unit(variant.unit->name);
    std::string text = "qk=" + unit + " pv=" + unit + " q=" + q_convert(declared) + " p=" + declared.operand +
                       " p_shift=" + std::to_string(p_shift(declared)) + " tile=" + std::to_string(tile()) +
                       " exp_ulp=1 div_ulp=1";
    if (converts) text += " convert=" + declared.operand;
    if (variant.declared_promote > 0) {
      const std::string chain = std::to_string(keys_per_chain(variant.declared_promote));
      text += " chunk=" + chain + " promote=" + chain;
    }
    const std::string block = std::to_string(variant.unit->group);
    text += " qk_block=" + block + " pv_block=" + block;
    if (variant.replay()) text += " schedule=" + schedule();
    // The kernel of reference/ops/attention/emulated, step for step.
    text += " scaling=scores sink=last tiles=aligned merge=once";
    return text + (variant.level == "detap" ? " order=any" : " order=sequential") + " level=" + variant.level;
  }
  std::string schedule() const {
    const std::string unit(variant.unit->name);
    return variant.schedule("qk:" + unit + "/pv:" + unit + "/p:" + pv.operand + "/out:" + dtype +
                            "/tile:" + std::to_string(tile()) +
                            "/argument:scaled/exp:nearest/sum_fma:no/lanes:1/pack:1");
  }

  assay::AttentionArithmetic arithmetic() const {
    assay::AttentionArithmetic how;
    how.qk = qk.unit->name, how.pv = pv.unit->name, how.p = pv.operand, how.out = dtype;
    how.p_shift = p_shift(pv);
    how.tile = tile();
    how.exp_ulp = 1;
    // On another unit the chains keep their length in products.
    how.chunk = how.promote = keys_per_chain(variant.promote);
    return how;
  }
};

// One head of K or V as the unit takes it: values * scale are the numbers.
struct Stored {
  std::vector<float> values;
  std::string format;
  double scale = 1;
};

float scale_of(const assay::Encoded& tensor, const assay::Format& format, std::int64_t head) {
  if (format.kind != assay::FormatKind::scaled) return 1;
  float scale = 1;
  const auto index = static_cast<std::size_t>(format.axis == assay::ScaleAxis::head ? head : 0);
  std::memcpy(&scale, tensor.planes.at(1).bytes.data() + index * sizeof scale, sizeof scale);
  return scale;
}

Stored stored(const assay::Encoded& tensor, const std::vector<double>& decoded, std::int64_t head,
              const std::string& convert) {
  const assay::Format& format = assay::format(tensor.format);
  Stored r{{}, convert.empty() ? std::string(format.element) : convert, 1};
  if (convert.empty()) r.scale = static_cast<double>(scale_of(tensor, format, head));
  for (const double x : decoded)
    r.values.push_back(static_cast<float>(
        convert.empty()
            ? x / r.scale
            : assay::round_to(assay::scalar_format(convert), static_cast<double>(static_cast<float>(x)))));
  return r;
}

// Without the keys that a row does not see: their weight of 0 times NaN or Inf would be NaN.
Stored seen_of(const Stored& all, const std::vector<std::uint8_t>& visible, std::int64_t width) {
  Stored seen = all;
  for (std::size_t j = 0; j < visible.size(); ++j)
    if (visible[j] == 0) std::fill_n(seen.values.begin() + static_cast<std::int64_t>(j) * width, width, 0.0F);
  return seen;
}

void read_as(assay::Encoded& tensor, const std::string& format) {
  if (tensor.format == format) return;
  tensor.format = format;
  tensor.planes[0].spec.format = other_kind(tensor.planes[0].spec.format);
}

}  // namespace

Declared declare_attention(const Call& call) {
  const Plan plan(call);
  if (call.text("rotate") == "qkv" && plan.variant.level != "detap")
    throw Unsupported(
        "rotate=qkv is judged by level=detap only, and the inverse is not of the emulated unit");
  if (plan.variant.replay() && (plan.variant.promote > 0 || plan.k != plan.dtype || plan.v != plan.dtype))
    throw Unsupported("a schedule of attention has one chain per product, and q, k and v of one format");
  assay::attention_geometry(attributes_of(call, assay::kAttention));
  plan.arithmetic().check("", "", "");
  return {plan.contract(), "run_attention"};
}

void run_attention(const Call& call, const assay_plugin::Trace& trace) {
  const Plan plan(call);
  trace.kernel(__func__);
  assay::TensorSet inputs;
  auto given = attributes_of(call, assay::kAttention).all();
  inputs =
      inputs_of(call, assay::kAttention, assay::Attributes::complete(assay::kAttention.attributes, given));
  given["k"] = plan.k_as, given["v"] = plan.v_as;
  read_as(inputs.at("k"), plan.k_as);
  read_as(inputs.at("v"), plan.v_as);
  const assay::AttentionProblem problem(assay::Attributes::complete(assay::kAttention.attributes, given),
                                        inputs);
  const assay::AttentionGeometry& g = problem.geometry();
  const assay::AttentionArithmetic how = plan.arithmetic();
  const std::string convert = plan.converts ? plan.qk.operand : "";
  const std::string q_convert = plan.q_convert(plan.qk);
  std::vector<float> out(static_cast<std::size_t>(problem.out_size()));
  for (std::int64_t b = 0; b < g.batch; ++b) {
    const std::int64_t keys = problem.length(b);
    for (std::int64_t kv_head = 0; kv_head < g.kv_heads; ++kv_head) {
      std::vector<double> k(static_cast<std::size_t>(keys * g.d)), v(static_cast<std::size_t>(keys * g.dv));
      problem.decode_k(b, kv_head, 0, keys, k.data());
      problem.decode_v(b, kv_head, 0, keys, v.data());
      const Stored keys_in = stored(problem.k(), k, kv_head, convert),
                   values_in = stored(problem.v(), v, kv_head, convert);
      const assay::AttentionEmulator emulator(
          how, {keys, g.d, g.dv, keys_in.values, values_in.values, keys_in.format, values_in.format});
      const auto finite = [](float x) { return std::isfinite(x); };
      const bool all_finite =
          std::ranges::all_of(keys_in.values, finite) && std::ranges::all_of(values_in.values, finite);
      for (std::int64_t i = 0; i < g.rows; ++i)
        for (std::int64_t head = kv_head * g.group(); head < (kv_head + 1) * g.group(); ++head) {
          const std::span<const double> stored_q = problem.q(b, i, head);
          std::vector<float> q(stored_q.begin(), stored_q.end());
          assay::QueryRow row;
          row.q_format = q_convert == "none" ? g.dtype : q_convert;
          double q_scale = 1;
          if (assay::quantises_rows(q_convert)) {
            assay::QuantisedRow codes = assay::quantise_row(assay::scalar_format(q_convert), stored_q, 0.5);
            q = std::move(codes.codes), q_scale = static_cast<double>(codes.scale);
          } else if (q_convert != "none") {
            for (float& x : q)
              x = static_cast<float>(
                  assay::round_to(assay::scalar_format(q_convert), static_cast<double>(x)));
          }
          row.q = q;
          row.scale = g.scale * keys_in.scale * q_scale, row.v_scale = values_in.scale,
          row.softcap = g.softcap;
          std::vector<std::uint8_t> visible(static_cast<std::size_t>(keys));
          for (std::int64_t j = 0; j < keys; ++j)
            visible[static_cast<std::size_t>(j)] = problem.visible(b, i, j) ? 1 : 0;
          row.visible = visible;
          std::vector<float> bias;
          if (g.alibi) {
            for (std::int64_t j = 0; j < keys; ++j)
              bias.push_back(static_cast<float>(-problem.slope(head) *
                                                std::fabs(static_cast<double>(problem.position(b, i) - j))));
            row.bias = bias;
          }
          if (g.sinks) row.sink = static_cast<float>(problem.sink(head));
          const std::span<float> to = std::span<float>(out).subspan(
              static_cast<std::size_t>(problem.out_index(b, i, head)), static_cast<std::size_t>(g.dv));
          if (all_finite) {
            emulator.run(row, to);
            continue;
          }
          const Stored k_seen = seen_of(keys_in, visible, g.d), v_seen = seen_of(values_in, visible, g.dv);
          const assay::AttentionEmulator selecting(
              how, {keys, g.d, g.dv, k_seen.values, v_seen.values, k_seen.format, v_seen.format});
          selecting.run(row, to);
        }
    }
  }
  store(call.output("out"), out);
}

}  // namespace assay_emulated
