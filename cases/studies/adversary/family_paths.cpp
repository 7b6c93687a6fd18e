// matmul on matrix units and by every path: operands as each path makes them, blocks of a unit chained,
// promoted to f32, or in another order; codes with their scales afterwards; activations quantised as a kernel
// does it on its way.
#include <algorithm>
#include <cmath>
#include <span>

#include "cases/studies/adversary/families.hpp"
#include "cases/studies/adversary/products.hpp"
#include "cases/studies/adversary/units.hpp"
#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"
#include "reference/ops/op_io.hpp"

namespace assay::adversary {
namespace {

#define ASSAY_UNIT_AXES                                                                              \
  {"unit", kArchitectures}, {"pick", "0|0|1|2"}, {"promote", kPromotions}, {"blocks", kBlockOrders}, \
      {"instruction", kInstructions}, {"parts", kParts}, {"say", "any|sharp|sharp"},                 \
      {"epilogue", "in_turn|b_first|scales_first"}

constexpr Axis kUnitShape[] = {{"m", "1|2"},
                               {"n", "1|4"},
                               {"k", "1|8|17|64|64|256|1024"},
                               {"a", "f16|bf16|e4m3fn|e4m3fn_tok|e5m2_tok|e4m3fnuz_tok|e4m3fn_tensor"},
                               {"dtype", "f32|f32|f16|bf16"}};
constexpr Axis kTf32Shape[] = {{"m", "1|2"}, {"n", "1|4"},     {"k", "1|8|17|64|256"},
                               {"a", "f32"}, {"path", "tf32"}, {"dtype", "f32|f32|f16|bf16"}};
constexpr Axis kE4m3fnShape[] = {
    {"m", "1|2"},   {"n", "1|4"},       {"k", "16|32|64|128|512"},     {"a", "f32|f16|bf16|bf16"},
    {"b", "nvfp4"}, {"path", "e4m3fn"}, {"dtype", "f32|f32|f16|bf16"},
};
constexpr Axis kBlocksShape[] = {{"m", "1|2"},        {"n", "1|4"},
                                 {"k", "64|128|512"}, {"a", "nvfp4|nvfp4|mxfp4|mxfp8|mxfp8_e5m2"},
                                 {"path", "blocks"},  {"dtype", "f32|f32|f16|bf16"}};
constexpr Axis kUnitKernel[] = {ASSAY_UNIT_AXES, ASSAY_STORE_AXES};
constexpr Axis kTf32Kernel[] = {
    {"tf32", "nearest_even|nearest_away|toward_zero"}, ASSAY_UNIT_AXES, ASSAY_STORE_AXES};
constexpr Axis kE4m3fnKernel[] = {{"scale", "divide|reciprocal|inverse"},
                                  {"code", "divide|reciprocal|direct"},
                                  {"dequant", "1|1|2"},
                                  ASSAY_UNIT_AXES,
                                  ASSAY_STORE_AXES};
std::string path_of(const Attributes& a) {
  return a.text("path") == "auto" ? own_path(a.text("a"), a.text("b")) : a.text("path");
}
std::string block_scale_format(const std::string& name) { return name == "nvfp4" ? "ue4m3" : "e8m0"; }
// Of the operands that a unit is given.
std::string element_of(const Attributes& a, const std::string& path) {
  if (path == "codes") return std::string(format(a.text("a")).element);
  if (path == "blocks")
    return a.text("a").starts_with("mxfp8") ? (a.text("a") == "mxfp8" ? "e4m3fn" : "e5m2") : "e2m1";
  return path;
}
const MatrixUnit& unit_for(const Attributes& a, const Choices& c) {
  const std::string path = path_of(a), element = element_of(a, path);
  return unit_of(choice(c, "unit"), element, element, static_cast<std::int64_t>(positive_number(c, "pick")),
                 path == "blocks" ? block_scale_format(a.text("a")) : "");
}

void unit_contract(const Attributes& a, const Choices& c, Words& words) {
  const bool sharp = choice(c, "say") == "sharp";
  say_unit(unit_for(a, c), c, words);
  if (path_of(a) == "tf32")
    words.say("tf32", sharp || choice(c, "tf32") == "nearest_even" ? choice(c, "tf32") : "any");
  if (path_of(a) == "e4m3fn") {
    words.say("scale", sharp ? choice(c, "scale") : "any");
    words.say("code", sharp ? choice(c, "code") : "any");
    words.say("dequant_roundings", choice(c, "dequant"));
  }
  say_store(c, words);
}

struct UnitRow {
  std::vector<double> x;
  std::vector<float> block_scales;
  double scale = 1;         // applied afterwards
  bool reciprocal = false;  // `scale` divides
};

class UnitKernel {
 public:
  explicit UnitKernel(const Problem& p)
      : p_(p),
        path_(path_of(p.attributes)),
        element_(element_of(p.attributes, path_)),
        unit_(unit_for(p.attributes, p.choices)),
        flush_(p.is("ftz", "yes")),
        f32_("f32", flush_) {}

  Outputs run() const {
    const std::int64_t m = p_.attributes.integer("m"), n = p_.attributes.integer("n");
    Outputs out(1, std::vector<double>(static_cast<std::size_t>(m * n)));
    std::vector<UnitRow> weights;
    for (std::int64_t j = 0; j < n; ++j) weights.push_back(row("b", j));
    for (std::int64_t i = 0; i < m; ++i) {
      const UnitRow a = row("a", i);
      for (std::int64_t j = 0; j < n; ++j)
        out[0][static_cast<std::size_t>(i * n + j)] = store(
            p_, scaled(sum(a, weights[static_cast<std::size_t>(j)]), a, weights[static_cast<std::size_t>(j)]),
            p_.attributes.text("dtype"));
    }
    return out;
  }

 private:
  UnitRow row(const std::string& name, std::int64_t index) const {
    if (path_ == "codes") {
      Row r = operand_row(p_, name, index, path_);
      return {std::move(r.x), {}, r.scale};
    }
    if (path_ == "blocks") return blocks(name, index);
    const std::int64_t n = p_.shape(name).back();
    const double* first = p_.tensor(name).data() + index * n;
    UnitRow r{{first, first + n}, {}, 1};
    if (path_ == "e4m3fn") {
      if (name == "a") return quantised(std::move(r));
      for (double& each : r.x) each = round_to(scalar_format("e4m3fn"), decoded(each));
    } else if (path_ == "tf32") {
      EncodePolicy policy{.overflow = Overflow::ieee};
      policy.rounding = p_.is("tf32", "nearest_even")   ? Rounding::nearest_even
                        : p_.is("tf32", "nearest_away") ? Rounding::nearest_away
                                                        : Rounding::toward_zero;
      for (double& each : r.x) each = round_number(scalar_format("tf32"), each, policy);
    } else {
      const Arithmetic type(path_);  // flushed as f32, if at all
      for (double& each : r.x) each = type.round(f32_.round(each));
    }
    return r;
  }

  // Of a weight in NVFP4: its code times the block's scale is exact, and is divided by the scale of the
  // tensor, or multiplied by its reciprocal.
  double decoded(double exact) const {
    if (p_.is("dequant", "1")) return f32_.round(exact);
    const double global = global_scale("b");
    return f32_.mul(std::nearbyint(exact * global * 0x1p20) * 0x1p-20, f32_.div(1, global));
  }
  double global_scale(const std::string& name) const {
    std::vector<double> one(1);
    decode_plane(scalar_format("f32"), plane_of(p_.set.at(name), ".global_scale").bytes, 0,
                 std::span<double>(one));
    return one[0];
  }

  // One scale of the whole tensor: absmax / 448.
  UnitRow quantised(UnitRow r) const {
    double absmax = 0;
    for (const double each : p_.tensor("a"))
      if (std::isfinite(each)) absmax = std::max(absmax, std::fabs(each));
    const Arithmetic f32("f32");
    const double inverse_most = f32.div(448, absmax);
    const auto how = [&](const char* axis) { return p_.text(axis); };
    if (absmax > 0)
      r.scale = how("scale") == "divide"       ? f32.div(absmax, 448)
                : how("scale") == "reciprocal" ? f32.mul(absmax, f32.div(1, 448))
                                               : f32.div(1, inverse_most);
    for (double& each : r.x) {
      const double x = f32_.round(each);  // under ftz a subnormal number is read as 0
      const double q = how("code") == "divide"       ? f32.div(x, r.scale)
                       : how("code") == "reciprocal" ? f32.mul(x, f32.div(1, r.scale))
                                                     : f32.mul(x, absmax > 0 ? inverse_most : 1);
      each = round_to(scalar_format("e4m3fn"), q);
    }
    return r;
  }

  UnitRow blocks(const std::string& name, std::int64_t index) const {
    const Encoded& tensor = p_.set.at(name);
    const bool nvfp4 = tensor.format == "nvfp4";
    const std::size_t n = static_cast<std::size_t>(tensor.shape.back()), size = nvfp4 ? 16 : 32;
    const Plane& plane = plane_of(tensor, nvfp4 ? ".block_scale" : ".scale");
    UnitRow r{std::vector<double>(n), {}, 1};
    std::vector<double> scales(n / size);
    decode_plane(scalar_format(tensor.planes[0].spec.format), tensor.planes[0].bytes,
                 index * static_cast<std::int64_t>(n), std::span<double>(r.x));
    decode_plane(scalar_format(plane.spec.format), plane.bytes,
                 index * static_cast<std::int64_t>(scales.size()), std::span<double>(scales));
    r.block_scales.assign(scales.begin(), scales.end());
    if (nvfp4) r.scale = global_scale(name), r.reciprocal = true;
    return r;
  }

  double sum(const UnitRow& a, const UnitRow& b) const {
    return unit_sum(p_, unit_, {a.x, element_, a.block_scales}, {b.x, element_, b.block_scales});
  }

  double scaled(double c, const UnitRow& a, const UnitRow& b) const {
    if (a.scale == 1 && b.scale == 1) return c;
    const auto by = [&](double z, const UnitRow& r) {
      return r.reciprocal ? f32_.mul(z, f32_.div(1, r.scale)) : f32_.mul(z, r.scale);
    };
    c = f32_.read(c);
    if (p_.is("epilogue", "in_turn")) return by(by(c, a), b);
    if (p_.is("epilogue", "b_first")) return by(by(c, b), a);
    return f32_.mul(c, by(by(1, a), b));
  }

  const Problem& p_;
  std::string path_, element_;
  const MatrixUnit& unit_;
  bool flush_;
  Arithmetic f32_;
};

Outputs unit_run(const Problem& p) { return UnitKernel(p).run(); }

}  // namespace

extern const Family kMatmulUnitFamily{"matmul_unit",  "matmul",      kUnitShape, kUnitKernel,
                                      "last_dropped", unit_contract, unit_run};
extern const Family kMatmulTf32Family{"matmul_tf32",  "matmul",      kTf32Shape, kTf32Kernel,
                                      "last_dropped", unit_contract, unit_run};
extern const Family kMatmulE4m3fnFamily{"matmul_e4m3fn", "matmul",      kE4m3fnShape, kE4m3fnKernel,
                                        "last_dropped",  unit_contract, unit_run};
extern const Family kMatmulBlocksFamily{"matmul_blocks", "matmul",      kBlocksShape, kUnitKernel,
                                        "last_dropped",  unit_contract, unit_run};
}  // namespace assay::adversary
