// Matrix products and experts. Operands are what the path makes of them; scales of rows are applied to the
// sum.
#include <cmath>

#include "cases/studies/planted/kernel.hpp"
#include "reference/error.hpp"

namespace assay::planted {
namespace {

bool is_wide(std::string_view f) { return f == "f32" || f == "f16" || f == "bf16"; }

// Rows of a tensor as a path multiplies them, and a scale for each row.
struct Operand {
  std::vector<double> x;
  std::vector<double> scale;
  std::int64_t width = 0;
  const double* row(std::int64_t i) const { return &x[at(i * width)]; }
};

// f16 or bf16 where one of the two is that, codes where both have a scale for each row alone, else f32.
std::string path_of(const Call& call, const std::string& a, const std::string& b) {
  if (call.text("path") != "auto") return call.text("path");
  const auto by_row = [](const std::string& name) {
    const Format& f = format(name);
    return f.kind == FormatKind::scaled && f.axis != ScaleAxis::group32 && f.axis != ScaleAxis::channel;
  };
  if (!is_wide(a) && !is_wide(b) && by_row(a)) return "codes";
  for (const char* narrow : {"bf16", "f16"})
    if (a == narrow || b == narrow) return narrow;
  return "f32";
}

std::vector<float> floats(const std::vector<double>& x) { return {x.begin(), x.end()}; }
std::vector<double> through(const std::string& to, const Shape& shape, const std::vector<double>& x) {
  return decode_tensor(encode_tensor(format(to), shape, floats(x)));
}

Operand operand(const Call& call, const std::string& tensor, const std::string& path, bool activations) {
  const Encoded& given = call.inputs.set.at(tensor);
  Operand o{decode_tensor(given), {}, given.shape.back()};
  o.scale.assign(o.x.size() / at(o.width), 1.0);
  if (path == "q8" && activations) o.x = through("q8_0", given.shape, o.x);
  if (path == "q8_1" && activations) o.x = through("q8_1", given.shape, o.x);
  if (path == "e4m3fn" && activations) o.x = through("e4m3fn_tensor", given.shape, o.x);
  if (path == "bf16" || path == "f16" || path == "tf32" || (path == "e4m3fn" && !activations))
    for (double& x : o.x) x = rounded(path, rounded("f32", x));  // dequant_roundings=1
  if (path == "codes") {                                         // the sum is one of codes
    const Plane& plane = given.planes.at(1);
    const auto* scales = reinterpret_cast<const float*>(plane.bytes.data());
    const std::size_t count = plane.bytes.size() / sizeof(float);
    for (std::size_t r = 0; r < o.scale.size(); ++r) {
      o.scale[r] = static_cast<double>(scales[r * count / o.scale.size()]);
      for (std::int64_t c = 0; c < o.width; ++c) o.x[r * at(o.width) + at(c)] /= o.scale[r];
    }
  }
  return o;
}

double dot(const Plant& plant, const std::vector<char>& keep, const double* a, const double* b,
           std::int64_t n) {
  return rounded("f32", sum(n, plant, [&](std::int64_t i) { return keep[at(i)] != 0 ? a[i] * b[i] : 0.0; }));
}

class Matmul : public Kernel {
 public:
  explicit Matmul(const Call& call)
      : call_(call),
        path_(path_of(call, call.text("a"), call.text("b"))),
        a_(operand(call, "a", path_, true)),
        b_(operand(call, "b", path_, false)),
        m_(call.size("m")),
        n_(call.size("n")),
        k_(call.size("k")),
        row_(place(call, 0, m_)) {
    honest_.resize(at(m_ * n_));
    for (std::int64_t i = 0; i < m_; ++i) row(i, {}, honest_);
  }

 private:
  void spoil(const Plant& plant, std::vector<double>& y) override { row(row_, plant, y); }
  void row(std::int64_t i, const Plant& plant, std::vector<double>& y) const {
    const std::vector<char> keep = kept(call_, plant, k_);
    const double off = plant.kind == Kind::scale ? 1 + plant.size : 1;
    for (std::int64_t j = 0; j < n_; ++j) {
      const double s = dot(plant, keep, a_.row(i), b_.row(j), k_);
      y[at(i * n_ + j)] =
          rounded(call_.text("dtype"), rounded("f32", s * a_.scale[at(i)] * b_.scale[at(j)] * off));
    }
  }

  const Call& call_;
  std::string path_;
  Operand a_, b_;
  std::int64_t m_, n_, k_, row_;
};

class Moe : public Kernel {
 public:
  explicit Moe(const Call& call)
      : call_(call),
        path_(path_of(call, call.text("a"), call.text("w"))),
        x_(operand(call, "x", path_, true)),
        w13_(operand(call, "w13", path_, false)),
        w2_(operand(call, "w2", path_, false)),
        weights_(call.values("topk_weights")),
        hidden_(call.size("hidden")),
        inter_(call.size("inter")),
        topk_(call.size("topk")),
        token_(place(call, 0, call.size("tokens"))) {
    honest_.resize(at(call.size("tokens") * hidden_));
    const auto& ids = call.inputs.set.at("topk_ids").planes.at(0);
    const auto* first = reinterpret_cast<const std::int32_t*>(ids.bytes.data());
    ids_.assign(first, first + ids.bytes.size() / sizeof(std::int32_t));
    for (std::int64_t t = 0; t < call.size("tokens"); ++t) token(t, {}, honest_);
  }

 private:
  void spoil(const Plant& plant, std::vector<double>& y) override { token(token_, plant, y); }
  // Terms go from the first product; the scale is that of one expert's output.
  void token(std::int64_t t, const Plant& plant, std::vector<double>& y) const {
    const std::vector<char> keep = kept(call_, plant, hidden_), all(at(inter_), 1);
    std::vector<double> out(at(hidden_));
    for (std::int64_t s = 0; s < topk_; ++s) {
      const std::int64_t e = ids_[at(t * topk_ + s)];
      std::vector<double> h(at(inter_));
      double h_scale = 1;
      for (std::int64_t i = 0; i < inter_; ++i) {
        const auto product = [&](std::int64_t r) {
          return rounded(
              "f32", dot(plant, keep, x_.row(t), w13_.row(r), hidden_) * x_.scale[at(t)] * w13_.scale[at(r)]);
        };
        const double gate = product(e * 2 * inter_ + i), up = product((e * 2 + 1) * inter_ + i);
        h[at(i)] = rounded("f32", rounded("f32", gate / (1 + std::exp(-gate))) * up);
      }
      if (path_ == "bf16" || path_ == "f16")
        for (double& each : h) each = rounded(path_, each);
      if (path_ == "codes") h = through(call_.text("a"), {1, inter_}, h);
      const double off = plant.kind == Kind::scale && s == 0 ? 1 + plant.size : 1;
      for (std::int64_t c = 0; c < hidden_; ++c) {
        const std::int64_t r = e * hidden_ + c;
        const double down = dot(plant, all, h.data(), w2_.row(r), inter_) * h_scale * w2_.scale[at(r)];
        out[at(c)] += weights_[at(t * topk_ + s)] * rounded("f32", down * off);
      }
    }
    for (std::int64_t c = 0; c < hidden_; ++c)
      y[at(t * hidden_ + c)] = rounded(call_.text("dtype"), rounded("f32", out[at(c)]));
  }

  const Call& call_;
  std::string path_;
  Operand x_, w13_, w2_;
  std::vector<double> weights_;
  std::int64_t hidden_, inter_, topk_, token_;
  std::vector<std::int64_t> ids_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul(const Call& call) { return std::make_unique<Matmul>(call); }
std::unique_ptr<Kernel> make_moe(const Call& call) { return std::make_unique<Moe>(call); }

}  // namespace assay::planted
