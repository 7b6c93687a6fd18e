// The model of the matrix product: operands as the path takes them, a sum, the scales behind it.
#include <cmath>

#include "cases/attribution/models.hpp"
#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ops/operand.hpp"

namespace assay::attribution {
namespace {

class Matmul final : public Model {
 public:
  explicit Matmul(const Answer& a)
      : answer_(a),
        m_(a.attributes.integer("m")),
        n_(a.attributes.integer("n")),
        k_(a.attributes.integer("k")),
        path_(resolve_path(a.attributes.text("path"), format(a.set.at("a").format),
                           format(a.set.at("b").format))) {
    const OpInputs inputs(a.tensors, a.set);
    a_ = inputs.values("a"), b_ = inputs.values("b");
    if (path_ == "codes") {
      to_codes(a.set.at("a"), m_, a_, scale_a_);
      to_codes(a.set.at("b"), n_, b_, scale_b_);
    }
    const std::int64_t worst = worst_element(a);
    const std::int64_t step_m = (m_ + kMost - 1) / kMost, step_n = (n_ + kMost - 1) / kMost;
    for (std::int64_t i = worst / n_ % step_m; i < m_; i += step_m)
      for (std::int64_t j = worst % n_ % step_n; j < n_; j += step_n) {
        elements_.push_back(static_cast<std::size_t>(i * n_ + j));
      }
  }
  std::span<const Node> nodes() const override { return kNodes; }
  std::int64_t work() const override {
    return std::ssize(elements_) * k_ + (path_ == "e4m3fn" ? m_ * k_ : 0);
  }
  std::span<const std::size_t> elements() const override { return elements_; }
  std::vector<double> run(const Fault& f) const override {
    std::vector<double> y, left(static_cast<std::size_t>(k_));
    const double whole = path_ == "e4m3fn" ? tensor_scale(f) : 1;
    std::int64_t taken = -1;
    for (const std::size_t e : elements_) {
      const auto i = static_cast<std::int64_t>(e) / n_, j = static_cast<std::int64_t>(e) % n_;
      if (i != taken) take_row(f, i, whole, left), taken = i;
      Sum products(f, addition, k_);
      for (std::int64_t c = 0; c < k_; ++c)
        products.add(f.multiply(product, left[static_cast<std::size_t>(c)], f.value(weight, right(j, c))));
      double sum = f.value(dot, products.total());
      if (path_ == "e4m3fn") sum = f.multiply(epilogue, sum, whole);
      if (path_ == "codes") {
        sum = f.multiply(epilogue, sum, f.value(scale_of_a, scale_a_[static_cast<std::size_t>(i)]));
        sum = f.multiply(second_epilogue, sum, f.value(scale_of_b, scale_b_[static_cast<std::size_t>(j)]));
      }
      y.push_back(stored(f, result, answer_.attributes.text("dtype"), sum));
    }
    return y;
  }

 private:
  enum : int {
    activation,
    weight,
    product,
    addition,
    dot,
    largest,
    step,
    inverse,
    scaled,
    code,
    stored_scale,
    decoded,
    epilogue,
    scale_of_a,
    second_epilogue,
    scale_of_b,
    result
  };
  static constexpr Node kNodes[] = {{"an element of a", "codec"},
                                    {"an element of b", "codec"},
                                    {"a product", "dot"},
                                    {"an addition", "dot", NodeKind::loop},
                                    {"the dot product", "dot"},
                                    {"the largest of a group", "codec"},
                                    {"largest over largest code", "codec"},
                                    {"the inverse of the scale", "codec"},
                                    {"element over scale", "codec"},
                                    {"a code", "codec"},
                                    {"the stored scale", "codec"},
                                    {"code times scale", "codec"},
                                    {"dot product times scale", "scale"},
                                    {"the scale of a", "scale"},
                                    {"product times the scale of b", "scale"},
                                    {"the scale of b", "scale"},
                                    {"what is stored", "output"}};
  static_assert(std::size(kNodes) == result + 1);
  static constexpr std::int64_t kMost = 6;

  // Numbers to the codes under one scale a row, or one of all.
  static void to_codes(const Encoded& stored, std::int64_t rows, std::vector<double>& x,
                       std::vector<double>& scales) {
    scales.assign(static_cast<std::size_t>(rows), 1);
    if (format(stored.format).kind != FormatKind::scaled) return;
    const Plane& plane = plane_of(stored, ".scale");
    std::vector<double> given(plane.bytes.size() / sizeof(float));
    decode_plane(scalar_format("f32"), plane.bytes, 0, std::span<double>(given));
    const std::size_t columns = x.size() / static_cast<std::size_t>(rows);
    for (std::size_t row = 0; row < scales.size(); ++row) {
      scales[row] = given.size() == scales.size() ? given[row] : given[0];
      for (std::size_t c = 0; c < columns && scales[row] != 0; ++c) {
        double& each = x[row * columns + c];
        // The number is the product's f32 rounding: a code has 8 bits at most.
        each = in_bits(each / scales[row], 12, -126, false);
      }
    }
  }

  double halved(double x) const {
    return path_ == "f16" || path_ == "bf16" ? round_to(scalar_format(path_), x) : x;
  }
  double right(std::int64_t j, std::int64_t c) const {
    const double x = b_[static_cast<std::size_t>(j * k_ + c)];
    return path_ == "e4m3fn" ? round_to(scalar_format("e4m3fn"), x) : halved(x);
  }
  double tensor_scale(const Fault& f) const {
    double most = 0;
    for (const double x : a_)
      if (std::isfinite(x)) most = std::fmax(most, std::fabs(x));
    most = f.value(largest, most);
    return most == 0 ? 1 : static_cast<float>(f.divide(step, most, 448));
  }
  void take_row(const Fault& f, std::int64_t i, double whole, std::vector<double>& left) const {
    const double* x = &a_[static_cast<std::size_t>(i * k_)];
    for (std::int64_t c = 0; c < k_; ++c)
      left[static_cast<std::size_t>(c)] = f.value(activation, halved(x[c]));
    if (path_ == "e4m3fn")
      for (double& each : left)
        each = f.value(code, round_to(scalar_format("e4m3fn"), f.divide(scaled, each, whole)));
    if (path_ != "q8") return;
    for (std::int64_t first = 0; first + 32 <= k_; first += 32) {
      double most = 0;
      for (std::int64_t c = first; c < first + 32; ++c)
        most = std::fmax(most, std::fabs(left[static_cast<std::size_t>(c)]));
      const double d = f.divide(step, f.value(largest, most), 127);
      const double by = d == 0 ? 0 : f.divide(inverse, 1, d);
      const double stored = f.value(stored_scale, round_to(scalar_format("f16"), d));
      for (std::int64_t c = first; c < first + 32; ++c) {
        double& each = left[static_cast<std::size_t>(c)];
        each = f.multiply(decoded, f.value(code, std::nearbyint(f.multiply(scaled, each, by))), stored);
      }
    }
  }

  const Answer& answer_;
  std::int64_t m_, n_, k_;
  std::string path_;
  std::vector<double> a_, b_, scale_a_, scale_b_;
  std::vector<std::size_t> elements_;
};

}  // namespace

std::unique_ptr<Model> matmul_model(const Answer& a) { return std::make_unique<Matmul>(a); }

}  // namespace assay::attribution
