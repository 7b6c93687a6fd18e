// softmax, logsumexp, layernorm, rmsnorm, wht: a scale, or bits, of one row; a place that the sum of every
// row lacks, and that is written all the same.
#include <algorithm>
#include <cmath>

#include "cases/studies/planted/kernel.hpp"
#include "reference/error.hpp"

namespace assay::planted {
namespace {

class Rows : public Kernel {
 public:
  explicit Rows(const Call& call)
      : call_(call), x_(call.values("x")), rows_(call.size("rows")), cols_(call.size("cols")) {
    const std::string_view op = call.c.op->name;
    row_ = op == "softmax"     ? &Rows::softmax
           : op == "logsumexp" ? &Rows::logsumexp
           : op == "layernorm" ? &Rows::layernorm
           : op == "rmsnorm"   ? &Rows::rmsnorm
           : op == "wht"       ? &Rows::wht
                               : nullptr;
    if (row_ == nullptr)
      throw InputError(InputErrorKind::bad_value, "no planted kernel of " + std::string(op));
    if (call.inputs.set.contains("gamma")) gamma_ = call.values("gamma");
    if (call.inputs.set.contains("beta")) beta_ = call.values("beta");
    honest_.resize(at(rows_ * width()));
    for (std::int64_t r = 0; r < rows_; ++r) row(r, {}, honest_);
  }

 private:
  void spoil(const Plant& plant, std::vector<double>& y) override {
    if (plant.kind == Kind::terms ||
        plant.kind == Kind::block)  // a place that a loop leaves out, it does in every row
      for (std::int64_t r = 0; r < rows_; ++r) row(r, plant, y);
    else
      row(place(call_, 0, rows_), plant, y);
  }

  using Row = void (Rows::*)(const double*, const Plant&, const std::vector<char>&, double*) const;

  std::int64_t width() const { return row_ == &Rows::logsumexp ? 1 : cols_; }
  void row(std::int64_t r, const Plant& plant, std::vector<double>& y) const {
    double* out = &y[at(r * width())];
    (this->*row_)(&x_[at(r * cols_)], plant, kept(call_, plant, terms()), out);
    const double off = plant.kind == Kind::scale ? 1 + plant.size : 1;
    for (std::int64_t c = 0; c < width(); ++c)
      out[c] = rounded(row_ == &Rows::logsumexp ? "f32" : call_.text("dtype"), rounded("f32", out[c] * off));
  }
  std::int64_t terms() const { return row_ == &Rows::wht ? call_.size("points") : cols_; }
  // Of the numbers f(i) over a row.
  template <typename F>
  double total(const Plant& plant, const std::vector<char>& keep, F f) const {
    return rounded("f32", sum(cols_, plant, [&](std::int64_t i) { return keep[at(i)] != 0 ? f(i) : 0.0; }));
  }

  double top_and_sum(const double* x, const Plant& plant, const std::vector<char>& keep, double factor,
                     double& top) const {
    top = *std::max_element(x, x + cols_) * factor;
    return total(plant, keep, [&](std::int64_t i) { return rounded("f32", std::exp(x[i] * factor - top)); });
  }
  void softmax(const double* x, const Plant& plant, const std::vector<char>& keep, double* y) const {
    const double factor = plant.kind == Kind::logits ? 1 + plant.size : 1;
    double top = 0;
    const double all = top_and_sum(x, plant, keep, factor, top);
    for (std::int64_t i = 0; i < cols_; ++i) y[i] = std::exp(x[i] * factor - top) / all;
  }
  void logsumexp(const double* x, const Plant& plant, const std::vector<char>& keep, double* y) const {
    const double factor = plant.kind == Kind::logits ? 1 + plant.size : 1;
    double top = 0;
    const double all = top_and_sum(x, plant, keep, factor, top);
    y[0] = top + rounded("f32", std::log(all));
  }
  double scaled(double x, std::int64_t i) const {
    return x * (gamma_.empty() ? 1 : gamma_[at(i)]) + (beta_.empty() ? 0 : beta_[at(i)]);
  }
  void rmsnorm(const double* x, const Plant& plant, const std::vector<char>& keep, double* y) const {
    const double squares = total(plant, keep, [&](std::int64_t i) { return x[i] * x[i]; });
    const double inverse =
        1 / std::sqrt(squares / static_cast<double>(cols_) + call_.c.attributes.real("eps"));
    for (std::int64_t i = 0; i < cols_; ++i) y[i] = scaled(x[i] * inverse, i);
  }
  void layernorm(const double* x, const Plant& plant, const std::vector<char>& keep, double* y) const {
    const auto n = static_cast<double>(cols_);
    const double mean = total(plant, keep, [&](std::int64_t i) { return x[i]; }) / n;
    const double squares = total(plant, keep, [&](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); });
    const double inverse = 1 / std::sqrt(squares / n + call_.c.attributes.real("eps"));
    for (std::int64_t i = 0; i < cols_; ++i) y[i] = scaled((x[i] - mean) * inverse, i);
  }
  // The defect is in every group of the row.
  void wht(const double* x, const Plant& plant, const std::vector<char>& keep, double* y) const {
    const std::int64_t points = call_.size("points");
    for (std::int64_t g = 0; g < cols_; g += points)
      for (std::int64_t r = 0; r < points; ++r) {
        const double s = sum(points, plant, [&](std::int64_t i) {
          const bool odd = __builtin_popcountll(static_cast<unsigned long long>(i & r)) % 2 != 0;
          return keep[at(i)] == 0 ? 0.0 : odd ? -x[g + i] : x[g + i];
        });
        y[g + r] = s / std::sqrt(static_cast<double>(points));
      }
  }

  const Call& call_;
  std::vector<double> x_, gamma_, beta_;
  std::int64_t rows_, cols_;
  Row row_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> make_rows(const Call& call) { return std::make_unique<Rows>(call); }

}  // namespace assay::planted
