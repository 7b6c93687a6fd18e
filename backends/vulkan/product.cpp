// matmul: y[m,n] = a[m,k] b[n,k]^T
// moe, gate and up fused: [g, u] = w13[e] x,  h = silu(g) u,  y += c w2[e] h
//   path f32 f16 bf16  rows decoded to f32 and rounded to that format
//   path codes         the codes themselves; the scales come in the epilogue
//   path e4m3fn        weights rounded to e4m3fn; activations with one scale absmax / 448
//   path q8            activations in blocks of 32 int8 with an f16 scale
// Sums are f32, or int32 for integer codes, by packed dot products where the device has them.
#include <algorithm>

#include "backends/vulkan/kernels.hpp"
#include "backends/vulkan/shaders.hpp"

namespace assay_vulkan {
namespace {

bool integers(const Format& f) { return f.element == kInt8 || f.element == kInt4; }

enum Path : std::uint32_t { kDecoded, kHalf, kBrain, kCodes, kEight, kBlocks8, kHidden };

struct Product {
  Product(const Call& call, std::string_view left, std::string_view right)
      : a(format(call.text(left))), b(format(call.text(right))), path(call.text("path")) {
    if (path == "auto") {
      path = "f32";
      for (const Format* side : {&b, &a}) {
        if (side->element == kF16 || side->element == kBf16) path = side->name;
      }
      if (a.row_scaled() && b.row_scaled()) path = "codes";
    }
    integer = path == "codes" && integers(a) && integers(b);
  }
  void check() const {
    if (path == "codes" && !(a.row_scaled() && b.row_scaled())) {
      throw Unsupported("path=codes needs one scale per row on both sides, not " + std::string(a.name) +
                        " and " + std::string(b.name));
    }
    number();
  }
  Path number() const {
    if (path == "f32") return kDecoded;
    if (path == "f16") return kHalf;
    if (path == "bf16") return kBrain;
    if (path == "codes") return kCodes;
    if (path == "e4m3fn") return kEight;
    if (path == "q8") return kBlocks8;
    throw Unsupported("path=" + std::string(path) +
                      " has no kernel: f32, f16, bf16, codes, e4m3fn and q8 have");
  }
  std::string contract(const Device& device) const {
    // Two scales of one side are one number first, which is a rounding.
    if (integer)
      return "acc=i32 epilogue_roundings=" + std::to_string(3 + a.two_scales() + b.two_scales()) +
             ftz(device);
    return "acc=f32" + epilogue() + ftz(device);
  }
  // Of sums that are not integers.
  std::string epilogue() const {
    const int scales = path == "codes" ? 2 + a.two_scales() + b.two_scales() : path == "e4m3fn" ? 1 : 0;
    return " order=any dequant_roundings=1 epilogue_roundings=" + std::to_string(scales);
  }
  // matmul_codes_int8_tok_int4_ch; matmul_dot_...: sums by packed dot products
  std::string name(const char* shader) const {
    return std::string(shader) + "_" + std::string(path) + "_" + std::string(a.name) + "_" +
           std::string(b.name);
  }
  // The shader that sums as this device can.
  const char* shader(const Device& device, const char* plain, const char* dot) const {
    return integer && device.can().integer_dot ? dot : plain;
  }
  const Format& a;
  const Format& b;
  std::string_view path;
  bool integer;
};

// How rows lie that a product takes: f32, f16, int8 or e4m3fn, padded with zeros.
struct Shape {
  Element element;
  std::int64_t rows, length;
};
struct Prepared {
  DeviceOperand rows;
  std::uint64_t scales;
};
// Rows of `source`, of format `from`, as operands on `path`.
Prepared prepare(Session& session, const DeviceOperand& source, const Format& from, const Product& how,
                 Path path, const Shape& shape) {
  Params params;
  params.operand[0] = source;
  params.operand[1] = session.scratch_rows(shape.rows, shape.length, shape.element, 1);
  params.scratch[0] = session.scratch(std::int64_t{4} * source.payload.rows);
  params.real[0] = how.a.scale_divisor;
  if (shape.rows != source.payload.rows || shape.length != source.payload.width) {
    Params clear;
    DeviceTensor& bytes = clear.tensor[0];
    bytes = params.operand[1].payload;
    bytes.width = bytes.shape[1] = static_cast<std::int32_t>(bytes.stride[0]);
    bytes.stride[1] = 1;
    session.add("clear", "clear", {}, session.groups_of_lanes(std::int64_t{bytes.rows} * bytes.width), clear);
  }
  if (path == kEight) params.scratch[1] = group_absmax(session, source, from, format("f32"), source, 1);
  const std::uint32_t codes = how.integer                                        ? kInt8
                              : how.a.element == kInt8 || how.a.element == kInt4 ? kE4m3fn
                                                                                 : how.a.element;
  session.add("operands_" + std::string(how.path) + "_" + std::string(from.name), "operands",
              {from.element, from.scaling, path, codes, shape.element}, Session::groups(source.payload.rows),
              params);
  return {params.operand[1], params.scratch[0]};
}
// As the scalar shaders take them.
void prepare(Session& session, const DeviceOperand& source, const Format& from, const Product& how, Path path,
             Params& product) {
  const Shape shape{how.integer ? kInt8 : kF32, source.payload.rows, source.payload.width};
  const Prepared prepared = prepare(session, source, from, how, path, shape);
  product.operand[0] = prepared.rows;
  product.scratch[0] = prepared.scales;
}

}  // namespace

void matmul_scalar_check(const Call& call, const Device& device) {
  const Product product(call, "a", "b");
  check_dtype(call.text("dtype"));
  check_readable(call, "a", product.a.name);
  check_readable(call, "b", product.b.name);
  product.check();
  const std::int64_t tiles = call.integer("m") * (call.integer("n") / device.subgroup() + 1);
  Session::check_loops(device, Session::passes(tiles) * call.integer("k"));
  if (product.path == "q8" && call.integer("k") % 32 != 0)
    throw Unsupported("path=q8 needs k in blocks of 32");
  call.output("y");
}
std::string matmul_scalar_name(const Call& call, const Device& device) {
  const Product product(call, "a", "b");
  return product.name(product.shader(device, "matmul", "matmul_dot"));
}
std::string matmul_scalar_contract(const Call& call, const Device& device) {
  const Product product(call, "a", "b");
  return product.contract(device) + (product.path == "q8" ? " ties=even" : "");
}
void matmul_scalar_run(Session& session, const Trace& trace) {
  const Call& call = session.call();
  const Product product(call, "a", "b");
  Params params;
  prepare(session, session.operand("a", product.a), product.a, product, product.number(), params);
  params.operand[1] = session.operand("b", product.b);
  params.tensor[0] = session.tensor("y");
  const std::int64_t m = params.operand[0].payload.rows;
  const std::uint32_t rows = m >= 8 ? 8 : m >= 4 ? 4 : 1;
  const std::int64_t items = (m + rows - 1) / rows * session.groups_of_lanes(params.operand[1].payload.rows);
  const char* const shader = product.shader(session.device(), "matmul", "matmul_dot");
  session.add(product.name(shader), shader,
              {product.b.element, product.b.scaling, product.number(), rows, product.integer ? 1U : 0U,
               dtype_of(call)},
              Session::groups(items), params);
  session.run(trace);
}

namespace {

// What cooperative matrices multiply: operands of one element, of which `unit` is the name of the arithmetic.
struct MatrixProduct {
  Element element;
  const char* unit;  // nullptr: int32 sums, exact on every device
  const char* shader;
};
MatrixProduct matrix_product(const Product& product) {
  if (product.integer) return {kInt8, nullptr, "matmul_matrix_int8"};
  if (product.path == "f16") return {kF16, "f16", "matmul_matrix_f16"};
  const bool codes = product.path == "codes" && product.a.element == kE4m3fn && product.b.element == kE4m3fn;
  if (codes || product.path == "e4m3fn") return {kE4m3fn, "fp8", "matmul_matrix_e4m3fn"};
  throw Unsupported("cooperative matrices multiply integer codes, path=f16, codes of e4m3fn and path=e4m3fn");
}

}  // namespace

void matmul_matrix_check(const Call& call, const Device& device) {
  matmul_scalar_check(call, device);
  const Capabilities& can = device.can();
  const MatrixProduct how = matrix_product(Product(call, "a", "b"));
  const auto need = [&](bool there, const char* operands, const std::string& why) {
    if (!there) throw Unsupported(can.name + " has no cooperative matrices of " + operands + why);
  };
  if (how.element == kInt8) need(can.matrix_int8, "int8", "");
  if (how.element == kF16) need(can.matrix_f16, "f16", "");
  if (how.element == kE4m3fn) need(can.fp8_depth != 0, "e4m3fn", ": " + can.no_fp8);
  if (how.unit != nullptr && can.matrix_unit(how.unit).empty())
    throw Unsupported("the arithmetic of the matrix unit of " + can.name + " is not known");
  need_matrix_shader(how.shader);
}
std::string matmul_matrix_name(const Call& call, const Device&) {
  return Product(call, "a", "b").name("matmul_matrix");
}
std::string matmul_matrix_contract(const Call& call, const Device& device) {
  const Product product(call, "a", "b");
  const MatrixProduct how = matrix_product(product);
  if (how.unit == nullptr) return product.contract(device);
  // One accumulator; how many products an instruction takes is the driver's affair.
  return "acc=" + device.can().matrix_unit(how.unit) + " split=1" + product.epilogue() + ftz(device);
}
void matmul_matrix_run(Session& session, const Trace& trace) {
  const Call& call = session.call();
  const Product product(call, "a", "b");
  const DeviceOperand a = session.operand("a", product.a);
  const DeviceOperand b = session.operand("b", product.b);
  const auto padded = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
  const MatrixProduct how = matrix_product(product);
  const std::uint32_t fp8_depth = session.device().can().fp8_depth;
  const std::int64_t depth = how.element == kInt8 ? 32 : how.element == kE4m3fn ? fp8_depth : 16;
  const std::int64_t length = padded(a.payload.width, depth);
  const Path path = product.number();
  const Prepared left =
      prepare(session, a, product.a, product, path, {how.element, padded(a.payload.rows, 16), length});
  // Weights of path=e4m3fn are rounded to it without a scale.
  const Prepared right = prepare(session, b, product.b, product, path == kEight ? kDecoded : path,
                                 {how.element, padded(b.payload.rows, 16), length});
  Params params;
  params.operand[0] = left.rows;
  params.operand[1] = right.rows;
  params.tensor[0] = session.tensor("y");
  params.scratch[0] = left.scales;
  params.scratch[2] = right.scales;
  params.integer[0] = a.payload.rows;
  params.integer[1] = b.payload.rows;
  params.integer[2] = length;
  std::vector<std::uint32_t> constants{path == kCodes || path == kEight ? 1U : 0U, dtype_of(call)};
  if (how.element == kE4m3fn) constants.push_back(fp8_depth);
  session.add(product.name("matmul_matrix"), how.shader, constants,
              Session::groups(padded(a.payload.rows, 16) / 16 * (padded(b.payload.rows, 16) / 16)), params);
  session.run(trace);
}

void moe_check(const Call& call, const Device& device) {
  const Product product(call, "a", "w");
  if (call.text("w2") != call.text("w")) throw Unsupported("moe takes one format for w13 and w2");
  check_dtype(call.text("dtype"));
  check_readable(call, "x", product.a.name);
  check_readable(call, "w13", product.b.name);
  check_readable(call, "w2", product.b.name);
  product.check();
  if (product.path == "e4m3fn" || product.path == "q8")
    throw Unsupported("no moe kernel takes path=" + std::string(product.path));
  const std::int64_t rows = call.integer("tokens") * call.integer("topk");
  const std::int64_t hidden = call.integer("hidden"), inter = call.integer("inter");
  Session::check_loops(device, Session::passes(rows * (std::max(hidden, inter) / device.subgroup() + 1)) *
                                   std::max(2 * hidden, call.integer("topk") * inter));
  call.input("topk_ids");
  call.input("topk_weights");
  call.output("y");
}
std::string moe_name(const Call& call, const Device& device) {
  const Product product(call, "a", "w");
  return product.name(product.shader(device, "moe_up", "moe_up_dot"));
}
std::string moe_contract(const Call& call, const Device& device) {
  // silu: exp within 0.51 ulp, an addition and a quotient.
  return Product(call, "a", "w").contract(device) + " gate_up=f32 silu_ulp=2 expert_out=f32";
}
void moe_run(Session& session, const Trace& trace) {
  const Call& call = session.call();
  const Product product(call, "a", "w");
  const std::int64_t tokens = call.integer("tokens");
  const std::int64_t topk = call.integer("topk");
  const std::int64_t inter = call.integer("inter");
  const std::int64_t hidden = call.integer("hidden");
  const std::int64_t experts = call.integer("experts");
  const assay_tensor& ids = call.input("topk_ids");
  for (std::int64_t i = 0; i < tokens * topk; ++i) {
    const std::int32_t expert = assay_plugin::int32_at(ids, i);
    if (expert < 0 || expert >= experts) throw Failed("topk_ids names expert " + std::to_string(expert));
  }
  const auto constants = [&](Path path) {
    return std::vector<std::uint32_t>{product.b.element,         product.b.scaling, path, 1,
                                      product.integer ? 1U : 0U, dtype_of(call)};
  };
  const std::int64_t lanes = session.device().subgroup();
  Params up;
  prepare(session, session.operand("x", product.a), product.a, product, product.number(), up);
  up.operand[1] = session.operand("w13", product.b);
  up.tensor[1] = session.tensor("topk_ids");
  up.integer[0] = topk;
  up.integer[1] = inter;
  const DeviceOperand h = session.scratch_rows(tokens * topk, inter, kF32, 1);
  up.scratch[2] = h.payload.data;
  const char* shader = product.shader(session.device(), "moe_up", "moe_up_dot");
  session.add(product.name(shader), shader, constants(product.number()),
              Session::groups(tokens * topk * ((inter + lanes - 1) / lanes)), up);
  Params down;
  const Path path = product.path == "codes" ? kHidden : product.number();
  prepare(session, h, format("f32"), product, path, down);
  down.operand[1] = session.operand("w2", product.b);
  down.tensor[0] = session.tensor("y");
  down.tensor[1] = session.tensor("topk_ids");
  down.tensor[2] = session.tensor("topk_weights");
  down.integer[0] = topk;
  down.integer[1] = hidden;
  shader = product.shader(session.device(), "moe_down", "moe_down_dot");
  session.add(product.name(shader), shader, constants(path),
              Session::groups(tokens * ((hidden + lanes - 1) / lanes)), down);
  session.run(trace);
}

}  // namespace assay_vulkan
