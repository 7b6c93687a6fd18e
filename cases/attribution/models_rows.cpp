// The models of softmax, logsumexp and the norms.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cases/attribution/models.hpp"
#include "reference/ops/op_io.hpp"

namespace assay::attribution {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// What the models of rows share: x by rows, and the store.
class RowModel : public Model {
 public:
  explicit RowModel(const Answer& a)
      : inputs_(a.tensors, a.set),
        x_(inputs_.values("x")),
        rows_(a.attributes.integer("rows")),
        cols_(a.attributes.integer("cols")),
        width_(static_cast<std::int64_t>(a.truths[0].value.size()) / rows_),
        chosen_(some_rows(a, width_, kMostRows)) {
    for (const std::int64_t row : chosen_)
      for (std::int64_t i = 0; i < width_; ++i)
        elements_.push_back(static_cast<std::size_t>(row * width_ + i));
  }
  std::int64_t work() const override { return std::ssize(chosen_) * cols_; }
  std::span<const std::size_t> elements() const override { return elements_; }

 protected:
  double at(std::int64_t row, std::int64_t i) const { return x_[static_cast<std::size_t>(row * cols_ + i)]; }

  static constexpr std::int64_t kMostRows = 16;
  OpInputs inputs_;
  std::vector<double> x_;
  std::int64_t rows_, cols_, width_;  // width: of a row of the output
  std::vector<std::int64_t> chosen_;
  std::vector<std::size_t> elements_;
};

class Softmax final : public RowModel {
 public:
  explicit Softmax(const Answer& a)
      : RowModel(a),
        answer_(a),
        temperature_(static_cast<float>(a.attributes.real("temperature"))),
        softcap_(static_cast<float>(a.attributes.real("softcap"))),
        causal_(a.attributes.text("mask") == "causal") {
    if (a.attributes.text("mask") == "random") mask_ = inputs_.integers("mask");
    if (a.attributes.text("sinks") == "yes") sinks_ = inputs_.values("sinks");
  }
  std::span<const Node> nodes() const override { return kNodes; }
  std::vector<double> run(const Fault& f) const override {
    std::vector<double> y, logits;
    std::vector<std::int64_t> columns;
    for (const std::int64_t row : chosen_) {
      logits.clear(), columns.clear();
      const std::size_t begin = y.size();
      y.resize(begin + static_cast<std::size_t>(cols_), 0.0);
      for (std::int64_t i = 0; i < cols_; ++i) {
        if (!(f.value(visible, seen(row, i) ? 1 : 0) > 0)) continue;
        double s = f.value(read, at(row, i));
        const bool cooled_last = f.at(order) && f.wrong == Wrong::uncalled;
        const auto cool = [&] { s = f.divide(cooled, s, f.value(temperature_read, temperature_)); };
        if (temperature_ != 1 && !cooled_last) cool();
        if (softcap_ > 0) {
          const double cap = f.value(cap_read, softcap_);
          s = f.multiply(cap_product, cap, f.tangent(cap_tanh, f.divide(cap_quotient, s, cap)));
        }
        if (temperature_ != 1 && cooled_last) cool();
        logits.push_back(s), columns.push_back(i);
      }
      if (logits.empty()) continue;
      const auto n = static_cast<std::int64_t>(logits.size());
      double top = largest(f, maximum, logits);
      double sink = kMinusInfinity;
      if (!sinks_.empty()) sink = f.value(sink_read, sinks_[static_cast<std::size_t>(row)]);
      if (f.at(sink_cooled) && f.wrong == Wrong::uncalled) sink /= temperature_;
      top = f.larger(sink_maximum, top, sink);
      Sum weights(f, addition, n);
      for (std::int64_t i = 0; i < n; ++i) {
        double& s = logits[static_cast<std::size_t>(i)];
        s = f.exponential(exponent, f.subtract(shifted, s, top));
        weights.add(s);
      }
      double sum = f.value(total, weights.total());
      if (!sinks_.empty())
        sum = f.add(sink_added, sum, f.exponential(sink_weight, f.subtract(sink_shifted, sink, top)));
      const double inverse = f.divide(reciprocal, 1, sum);
      const double nothing = 0 / sum;  // a masked element of a row with a NaN is NaN
      std::fill(y.begin() + static_cast<std::ptrdiff_t>(begin), y.end(), nothing);
      for (std::int64_t i = 0; i < n; ++i)
        y[begin + static_cast<std::size_t>(columns[static_cast<std::size_t>(i)])] =
            stored(f, result, answer_.attributes.text("dtype"),
                   f.multiply(weighed, logits[static_cast<std::size_t>(i)], inverse));
    }
    return y;
  }

 private:
  enum : int {
    visible,
    read,
    temperature_read,
    cooled,
    cap_read,
    cap_quotient,
    cap_tanh,
    cap_product,
    order,
    maximum,
    sink_read,
    sink_cooled,
    sink_maximum,
    shifted,
    exponent,
    addition,
    total,
    sink_shifted,
    sink_weight,
    sink_added,
    reciprocal,
    weighed,
    result
  };
  static constexpr Node kNodes[] = {{"the mask", "mask"},
                                    {"a logit", "scale"},
                                    {"the temperature", "scale"},
                                    {"logit over temperature", "scale"},
                                    {"the softcap", "scale"},
                                    {"logit over softcap", "scale"},
                                    {"tanh of the softcap", "scale"},
                                    {"softcap times tanh", "scale"},
                                    {"the temperature behind the softcap", "scale"},
                                    {"the maximum", "max"},
                                    {"the sink", "sink"},
                                    {"sink over temperature", "sink"},
                                    {"the maximum with the sink", "sink"},
                                    {"logit less maximum", "exp"},
                                    {"the exponential", "exp", NodeKind::exponential},
                                    {"an addition to the sum of the weights", "row_sum", NodeKind::loop},
                                    {"the sum of the weights", "row_sum"},
                                    {"sink less maximum", "sink"},
                                    {"the sink's weight", "sink"},
                                    {"the addition of the sink's weight", "sink"},
                                    {"the reciprocal of the sum", "output"},
                                    {"weight times reciprocal", "output"},
                                    {"what is stored", "output"}};
  static_assert(std::size(kNodes) == result + 1);

  bool seen(std::int64_t row, std::int64_t i) const {
    if (causal_) return i <= cols_ - rows_ + row;
    return mask_.empty() || mask_[static_cast<std::size_t>(row * cols_ + i)] != 0;
  }

  const Answer& answer_;
  double temperature_, softcap_;
  bool causal_;
  std::vector<std::int64_t> mask_;
  std::vector<double> sinks_;
};

class Logsumexp final : public RowModel {
 public:
  using RowModel::RowModel;
  std::span<const Node> nodes() const override { return kNodes; }
  std::vector<double> run(const Fault& f) const override {
    std::vector<double> y;
    for (const std::int64_t row : chosen_) {
      const double top = largest(
          f, maximum,
          std::span(x_).subspan(static_cast<std::size_t>(row * cols_), static_cast<std::size_t>(cols_)));
      const double shift = std::isfinite(top) ? top : 0, taken = f.value(shift_taken, shift);
      Sum weights(f, addition, cols_);
      for (std::int64_t i = 0; i < cols_; ++i)
        weights.add(f.exponential(exponent, f.subtract(shifted, at(row, i), taken)));
      const double sum = f.value(total, weights.total());
      y.push_back(f.value(result, f.add(joined, shift, f.logarithm(log, sum))));
    }
    return y;
  }

 private:
  enum : int { maximum, shift_taken, shifted, exponent, addition, total, log, joined, result };
  static constexpr Node kNodes[] = {{"the maximum", "max"},
                                    {"the maximum as it is taken off", "max"},
                                    {"logit less maximum", "exp"},
                                    {"the exponential", "exp", NodeKind::exponential},
                                    {"an addition to the sum of the weights", "row_sum", NodeKind::loop},
                                    {"the sum of the weights", "row_sum"},
                                    {"the logarithm", "output"},
                                    {"maximum and logarithm", "output"},
                                    {"what is stored", "output"}};
  static_assert(std::size(kNodes) == result + 1);
};

class Norm final : public RowModel {
 public:
  Norm(const Answer& a, bool centred)
      : RowModel(a),
        answer_(a),
        centred_(centred),
        eps_(static_cast<float>(a.attributes.real("eps"))),
        gamma_(inputs_.values("gamma")) {
    if (centred) beta_ = inputs_.values("beta");
    if (centred) variance_ = a.contract->text("variance");
  }
  std::span<const Node> nodes() const override { return kNodes; }
  std::vector<double> run(const Fault& f) const override {
    std::vector<double> y;
    const auto n = static_cast<double>(cols_);
    for (const std::int64_t row : chosen_) {
      double mean = 0, variance = 0;
      Sum squares(f, square_addition, cols_);
      if (variance_ == "welford") {
        for (std::int64_t i = 0; i < cols_; ++i) {
          const double before = f.subtract(less_mean, at(row, i), mean);
          mean = f.add(addition, mean,
                       f.divide(mean_quotient, before, f.value(counted, static_cast<double>(i + 1))));
          squares.add(f.multiply(square, before, f.subtract(less_new_mean, at(row, i), mean)));
        }
        variance = f.divide(variance_quotient, f.value(whole_squares, squares.total()), n);
      } else {
        const bool one_pass = variance_ == "one_pass";
        if (centred_) {
          Sum sum(f, addition, cols_);
          for (std::int64_t i = 0; i < cols_; ++i) sum.add(at(row, i));
          mean = f.divide(mean_quotient, f.value(whole_sum, sum.total()), n);
        }
        for (std::int64_t i = 0; i < cols_; ++i) {
          const double d = centred_ && !one_pass ? f.subtract(less_mean, at(row, i), mean)
                                                 : f.value(less_mean, at(row, i));
          squares.add(f.multiply(square, d, d));
        }
        variance = f.divide(variance_quotient, f.value(whole_squares, squares.total()), n);
        if (one_pass) {
          variance = f.subtract(less_square, variance, f.multiply(mean_square, mean, mean));
          if (variance < 0) variance = f.value(held_at_0, 0);
        }
      }
      mean = f.value(mean_found, mean), variance = f.value(variance_found, variance);
      const double factor =
          f.divide(reciprocal, 1, f.root(root, f.add(eps_added, variance, f.value(eps_read, eps_))));
      for (std::int64_t i = 0; i < cols_; ++i) {
        const auto c = static_cast<std::size_t>(i);
        double r = centred_ ? f.subtract(centre, at(row, i), mean) : at(row, i);
        r = f.multiply(by_gamma, f.multiply(by_factor, r, factor), gamma_[c]);
        if (centred_) r = f.add(beta_added, r, beta_[c]);
        y.push_back(stored(f, result, answer_.attributes.text("dtype"), r));
      }
    }
    return y;
  }

 private:
  enum : int {
    addition,
    mean_quotient,
    counted,
    less_mean,
    less_new_mean,
    square,
    square_addition,
    whole_sum,
    whole_squares,
    variance_quotient,
    mean_square,
    less_square,
    held_at_0,
    mean_found,
    variance_found,
    eps_read,
    eps_added,
    root,
    reciprocal,
    centre,
    by_factor,
    by_gamma,
    beta_added,
    result
  };
  static constexpr Node kNodes[] = {{"an addition to the sum", "moments", NodeKind::loop},
                                    {"the mean's quotient", "moments"},
                                    {"the count of a running mean", "moments"},
                                    {"element less mean", "moments"},
                                    {"element less new mean", "moments"},
                                    {"a square", "moments"},
                                    {"an addition to the squares", "moments", NodeKind::loop},
                                    {"the sum", "moments"},
                                    {"the sum of squares", "moments"},
                                    {"the variance's quotient", "moments"},
                                    {"the square of the mean", "moments"},
                                    {"mean square less squared mean", "moments"},
                                    {"a negative variance", "moments"},
                                    {"the mean", "moments"},
                                    {"the variance", "moments"},
                                    {"eps", "normalise"},
                                    {"variance and eps", "normalise"},
                                    {"the root", "normalise"},
                                    {"the reciprocal of the root", "normalise"},
                                    {"element less mean, of the result", "normalise"},
                                    {"element times factor", "normalise"},
                                    {"times gamma", "normalise"},
                                    {"plus beta", "normalise"},
                                    {"what is stored", "output"}};
  static_assert(std::size(kNodes) == result + 1);

  const Answer& answer_;
  bool centred_;
  double eps_;
  std::vector<double> gamma_, beta_;
  std::string variance_;
};

}  // namespace

std::unique_ptr<Model> softmax_model(const Answer& a) { return std::make_unique<Softmax>(a); }
std::unique_ptr<Model> logsumexp_model(const Answer& a) { return std::make_unique<Logsumexp>(a); }
std::unique_ptr<Model> norm_model(const Answer& a, bool centred) {
  return std::make_unique<Norm>(a, centred);
}

}  // namespace assay::attribution
