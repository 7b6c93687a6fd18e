// Mixture of experts, gate and up fused: for token t and its k-th expert e with weight c
//   [g, u] = w13[e] x[t],  h = silu(g) * u,  y[t] += c * w2[e] h,   silu(g) = g / (1 + exp(-g))
// Tokens are grouped by expert, so that each weight row is decoded once. Two kernels: f32 products of decoded
// rows, and int8 x int8 -> int32 for int8 tokens and integer weights, where h is quantised per token (absmax
// / 127) before w2.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cpu/codecs.hpp"
#include "backends/cpu/integer_rows.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

struct Assignment {
  std::int64_t token;
  float weight;
};

struct Problem {
  explicit Problem(const Call& call)
      : tokens(call.integer("tokens")),
        hidden(call.integer("hidden")),
        inter(call.integer("inter")),
        experts(call.integer("experts")),
        topk(call.integer("topk")),
        x(call, "x", call.text("a")),
        w13(call, "w13", call.text("w")),
        w2(call, "w2", call.text("w")) {
    const assay_tensor& ids = call.input("topk_ids");
    const assay_tensor& weights = call.input("topk_weights");
    of_expert.resize(static_cast<std::size_t>(experts));
    for (std::int64_t i = 0; i < tokens * topk; ++i) {
      const std::int32_t e = int32_at(ids, i);
      if (e < 0 || e >= experts) throw Failed("topk_ids names expert " + std::to_string(e));
      of_expert[static_cast<std::size_t>(e)].push_back({i / topk, f32_at(weights, i)});
    }
  }
  std::int64_t tokens, hidden, inter, experts, topk;
  RowReader x, w13, w2;
  std::vector<std::vector<Assignment>> of_expert;
};

float silu(float g) { return g / (1.0F + std::exp(-g)); }

// Both kernels: `Arithmetic` turns rows of activations and rows of weights into dot products.
//   void take(const float* rows, count, length)       the activations of one product
//   void dot_row(const RowReader& weights, row, out)  out[i] = activation i . weight row
template <class Arithmetic>
void run(const Call& call, const Engine& engine, Arithmetic& first, Arithmetic& second) {
  const Problem problem(call);
  const std::size_t hidden = static_cast<std::size_t>(problem.hidden);
  const std::size_t inter = static_cast<std::size_t>(problem.inter);
  std::vector<float> result(static_cast<std::size_t>(problem.tokens) * hidden, 0.0F);
  std::vector<float> gate, up, h, down;
  for (std::int64_t e = 0; e < problem.experts; ++e) {
    const std::vector<Assignment>& assigned = problem.of_expert[static_cast<std::size_t>(e)];
    if (assigned.empty()) continue;
    const std::size_t count = assigned.size();
    first.take_tokens(problem.x, assigned);
    gate.resize(count);
    up.resize(count);
    down.resize(count);
    h.resize(count * inter);
    for (std::size_t i = 0; i < inter; ++i) {
      const std::int64_t row = e * 2 * problem.inter + static_cast<std::int64_t>(i);
      first.dot_row(problem.w13, row, gate.data());
      first.dot_row(problem.w13, row + problem.inter, up.data());
      for (std::size_t t = 0; t < count; ++t) h[t * inter + i] = silu(gate[t]) * up[t];
    }
    second.take(h.data(), count, inter);
    for (std::size_t c = 0; c < hidden; ++c) {
      second.dot_row(problem.w2, e * problem.hidden + static_cast<std::int64_t>(c), down.data());
      for (std::size_t t = 0; t < count; ++t) {
        result[static_cast<std::size_t>(assigned[t].token) * hidden + c] += assigned[t].weight * down[t];
      }
    }
  }
  const assay_tensor& y = call.output("y");
  for (std::int64_t t = 0; t < problem.tokens; ++t) {
    write_row(engine, call.text("dtype"), result.data() + t * problem.hidden, problem.hidden,
              mutable_row(y, t));
  }
}

class FloatRows {
 public:
  explicit FloatRows(const Engine& engine) : engine_(engine) {}
  void take_tokens(const RowReader& x, const std::vector<Assignment>& assigned) {
    length_ = static_cast<std::size_t>(x.length());
    rows_.resize(assigned.size() * length_);
    for (std::size_t t = 0; t < assigned.size(); ++t)
      x.read(engine_, assigned[t].token, rows_.data() + t * length_);
  }
  void take(const float* rows, std::size_t count, std::size_t length) {
    length_ = length;
    rows_.assign(rows, rows + count * length);
  }
  void dot_row(const RowReader& weights, std::int64_t row, float* out) {
    weight_.resize(length_);
    weights.read(engine_, row, weight_.data());
    engine_.dot_rows(weight_.data(), rows_.data(), length_, rows_.size() / length_, length_, out);
  }

 private:
  const Engine& engine_;
  std::size_t length_ = 0;
  std::vector<float> rows_, weight_;
};

class IntegerRows {
 public:
  IntegerRows(const Engine& engine, std::string_view a, std::string_view w) : engine_(engine), a_(a), w_(w) {}
  void take_tokens(const RowReader& x, const std::vector<Assignment>& assigned) {
    length_ = static_cast<std::size_t>(x.length());
    codes_.resize(assigned.size() * length_);
    scales_.resize(assigned.size());
    for (std::size_t t = 0; t < assigned.size(); ++t) {
      read_integers(x.planes(), a_, assigned[t].token, codes_.data() + t * length_);
      scales_[t] = integer_scale(x.planes(), a_, assigned[t].token);
    }
  }
  void take(const float* rows, std::size_t count, std::size_t length) {
    length_ = length;
    codes_.resize(count * length);
    scales_.resize(count);
    for (std::size_t t = 0; t < count; ++t) {
      float absmax = 0;
      for (std::size_t i = 0; i < length; ++i) absmax = std::fmax(absmax, std::fabs(rows[t * length + i]));
      scales_[t] = absmax > 0 ? absmax / 127.0F : 1.0F;
      for (std::size_t i = 0; i < length; ++i) {
        codes_[t * length + i] =
            static_cast<std::int8_t>(round_to_integer(rows[t * length + i] / scales_[t], -127, 127));
      }
    }
  }
  void dot_row(const RowReader& weights, std::int64_t row, float* out) {
    weight_.resize(length_);
    read_integers(weights.planes(), w_, row, weight_.data());
    const float weight_scale = integer_scale(weights.planes(), w_, row);
    for (std::size_t t = 0; t < scales_.size(); ++t) {
      const std::int32_t dot = engine_.dot_int8(codes_.data() + t * length_, weight_.data(), length_);
      out[t] = static_cast<float>(dot) * scales_[t] * weight_scale;
    }
  }

 private:
  const Engine& engine_;
  std::string_view a_, w_;
  std::size_t length_ = 0;
  std::vector<std::int8_t> codes_, weight_;
  std::vector<float> scales_;
};

}  // namespace

void moe_check(const Call& call) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("a"));
  check_readable(call, "w13", call.text("w"));
  check_readable(call, "w2", call.text("w"));
  call.input("topk_ids");
  call.input("topk_weights");
  call.output("y");
}

void moe_int8_check(const Call& call) {
  moe_check(call);
  if (!moe_int8_chosen(call)) {
    throw Unsupported("the int8 kernel needs integer codes with one scale per row, not a=" +
                      std::string(call.text("a")) + " w=" + std::string(call.text("w")));
  }
}

bool moe_int8_chosen(const Call& call) {
  return is_integer_rows(call.text("a")) && is_integer_rows(call.text("w"));
}
bool moe_f32_chosen(const Call& call) { return !moe_int8_chosen(call); }

std::string moe_f32_name(const Call& call) {
  return "moe_f32_" + std::string(call.text("a")) + "_" + std::string(call.text("w"));
}
std::string moe_int8_name(const Call& call) {
  return "moe_int8_" + std::string(call.text("a")) + "_" + std::string(call.text("w"));
}

std::string moe_f32_contract(const Call&, const Engine&) { return "acc=f32"; }
std::string moe_int8_contract(const Call&, const Engine&) { return "acc=i32"; }

void moe_f32_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(moe_f32_name(call));
  FloatRows first(engine);
  FloatRows second(engine);
  run(call, engine, first, second);
}

void moe_int8_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(moe_int8_name(call));
  IntegerRows first(engine, call.text("a"), call.text("w"));
  IntegerRows second(engine, call.text("a"), call.text("w"));
  run(call, engine, first, second);
}

}  // namespace assay_cpu
