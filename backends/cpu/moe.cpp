// Mixture of experts, gate and up fused: for token t and its k-th expert e with weight c
//   [g, u] = w13[e] x[t],  h = silu(g) * u,  y[t] += c * w2[e] h,   silu(g) = g / (1 + exp(-g))
// Each product takes its path (operands.hpp), under path=auto by its own weights. On the path of codes h is
// quantised per token to the format of the activations, scale absmax / largest code. Tokens are grouped by
// expert, so that each weight row is decoded once.
#include <cmath>
#include <vector>

#include "backends/cpu/codecs.hpp"
#include "backends/cpu/operands.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

struct Product {
  Product(const Call& call, std::string_view weights)
      : a(call.text("a")),
        w(call.text(weights)),
        path(resolve_path(call.text("path"), a, w)),
        integer(integer_product(path, a, w)) {}
  std::string a, w, path;
  bool integer;
};

struct Products {
  explicit Products(const Call& call) : up(call, "w"), down(call, "w2") {}
  Product up, down;
};

struct Assigned {
  std::vector<std::int64_t> tokens;
  std::vector<float> weights;
};

std::vector<Assigned> group_by_expert(const Call& call) {
  const std::int64_t topk = call.integer("topk");
  std::vector<Assigned> experts(static_cast<std::size_t>(call.integer("experts")));
  const assay_tensor& ids = call.input("topk_ids");
  const assay_tensor& weights = call.input("topk_weights");
  for (std::int64_t i = 0; i < call.integer("tokens") * topk; ++i) {
    const std::int32_t expert = int32_at(ids, i);
    if (expert < 0 || static_cast<std::size_t>(expert) >= experts.size()) {
      throw Failed("topk_ids names expert " + std::to_string(expert));
    }
    experts[static_cast<std::size_t>(expert)].tokens.push_back(i / topk);
    experts[static_cast<std::size_t>(expert)].weights.push_back(f32_at(weights, i));
  }
  return experts;
}

float silu(float g) { return g / (1.0F + std::exp(-g)); }

// h as activations of the second product.
Activations take_hidden(const Engine& engine, const Product& product, std::vector<float>&& h,
                        std::size_t rows, std::size_t length) {
  Activations taken;
  taken.rows = rows;
  taken.length = length;
  taken.values = std::move(h);
  if (product.path != "codes") {
    prepare_values(engine, product.path, taken);
    return taken;
  }
  const float largest = layout(product.a).scale_divisor;
  const bool integers = product.a.starts_with("int");  // also where the weights are not, and the sums are f32
  if (product.integer) taken.codes.resize(rows * length);
  for (std::size_t r = 0; r < rows; ++r) {
    float* row = taken.values.data() + r * length;
    float absmax = 0;
    for (std::size_t i = 0; i < length; ++i) absmax = std::fmax(absmax, std::fabs(row[i]));
    const float scale = absmax == 0 ? 1.0F : absmax / largest;
    taken.scales.push_back(scale);
    for (std::size_t i = 0; i < length; ++i) {
      const float quotient = row[i] / scale;
      if (product.integer) {
        taken.codes[r * length + i] = static_cast<std::int8_t>(round_to_integer(quotient, -127, 127));
      } else if (integers) {
        row[i] = static_cast<float>(round_to_integer(quotient, -127, 127));
      } else {
        const SmallFloat& format = product.a.starts_with("e4m3fnuz") ? kE4m3fnuz
                                   : product.a.starts_with("e5m2")   ? kE5m2
                                                                     : kE4m3fn;
        row[i] = small_value(format, small_code(format, quotient));
      }
    }
  }
  return taken;
}

}  // namespace

void moe_check(const Call& call) {
  const Products products(call);
  check_dtype(call.text("dtype"));
  check_readable(call, "x", products.up.a);
  check_readable(call, "w13", products.up.w);
  check_readable(call, "w2", products.down.w);
  for (const Product* product : {&products.up, &products.down}) {
    check_path(product->path, product->a, product->w);
    if (product->path == "e4m3fn" || product->path == "q8")
      throw Unsupported("no moe kernel takes path=" + product->path);
  }
  call.input("topk_ids");
  call.input("topk_weights");
  call.output("y");
}

std::string moe_contract(const Call& call, const Engine& engine) {
  const auto& [up, down] = Products(call);
  // Of two unlike products that of integers says acc=, and the one with scales their roundings; order= is of
  // the other.
  const Product& first = up.integer || (!down.integer && up.path == "codes") ? up : down;
  std::string products = product_contract(engine, first.path, first.a, first.w);
  if (up.integer != down.integer)
    products += " order=lanes:" + std::to_string(engine.dot_lanes) + " dequant_roundings=1";
  // silu: exp within 1 ulp, an addition and a quotient.
  return products + " gate_up=f32 silu_ulp=2 expert_out=f32";
}

std::string moe_replay_contract(const Call& call, const Engine& engine) {
  const auto& [up, down] = Products(call);
  return moe_contract(call, engine) + " level=replay schedule=" +
         product_schedule(engine, up.path, up.integer, call.integer("hidden"), "up.") + "/" +
         product_schedule(engine, down.path, down.integer, call.integer("inter"), "down.");
}

void moe_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  const auto& [up_product, down_product] = Products(call);
  const std::vector<Assigned> experts = group_by_expert(call);
  const RowReader x(call, "x", up_product.a);
  const RowReader w13(call, "w13", up_product.w);
  const RowReader w2(call, "w2", down_product.w);
  WeightRows up_rows(engine, w13, up_product.w, up_product.path, up_product.integer);
  WeightRows down_rows(engine, w2, down_product.w, down_product.path, down_product.integer);
  const std::int64_t hidden = call.integer("hidden");
  const std::int64_t inter = call.integer("inter");
  std::vector<float> result(static_cast<std::size_t>(call.integer("tokens") * hidden), 0.0F);
  for (std::size_t e = 0; e < experts.size(); ++e) {
    const std::vector<std::int64_t>& tokens = experts[e].tokens;
    if (tokens.empty()) continue;
    const Activations taken =
        take_activations(engine, x, up_product.a, up_product.path, up_product.integer, tokens);
    std::vector<float> gate(tokens.size());
    std::vector<float> up(tokens.size());
    std::vector<float> h(tokens.size() * static_cast<std::size_t>(inter));
    for (std::int64_t i = 0; i < inter; ++i) {
      const std::int64_t row = static_cast<std::int64_t>(e) * 2 * inter + i;
      up_rows.dot(row, taken, gate.data());
      up_rows.dot(row + inter, taken, up.data());
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        h[t * static_cast<std::size_t>(inter) + static_cast<std::size_t>(i)] = silu(gate[t]) * up[t];
      }
    }
    const Activations hidden_rows =
        take_hidden(engine, down_product, std::move(h), tokens.size(), static_cast<std::size_t>(inter));
    for (std::int64_t c = 0; c < hidden; ++c) {
      down_rows.dot(static_cast<std::int64_t>(e) * hidden + c, hidden_rows, up.data());
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        result[static_cast<std::size_t>(tokens[t] * hidden + c)] += experts[e].weights[t] * up[t];
      }
    }
  }
  const assay_tensor& y = call.output("y");
  for (std::int64_t t = 0; t < call.integer("tokens"); ++t) {
    write_row(engine, call.text("dtype"), result.data() + t * hidden, hidden, mutable_row(y, t));
  }
}

}  // namespace assay_cpu
