// The sums of an attention kernel: q.k, the row sum and p.v, by a scalar accumulator in every order or by a
// matrix unit.
#pragma once

#include <string>
#include <vector>

#include "cases/studies/adversary/attention_kernel.hpp"
#include "reference/arithmetic/matrix_unit.hpp"

namespace assay::adversary {

class AttentionSums {
 public:
  explicit AttentionSums(const Problem& p);

  const MatrixUnit* unit() const { return unit_; }
  const Arithmetic& f32() const { return f32_; }
  const Arithmetic& rowsum() const { return rowsum_; }

  double dot(const AttentionQuery& q, std::span<const double> k) const;
  // A tile's weights onto the running row sum.
  double weights_onto(double sum, const std::vector<double>& terms) const {
    return onto(rowsum_, sum, terms, {});
  }
  // A tile's products onto an output; of a unit, weights and values of all keys of the tile.
  double values_onto(double out, const std::vector<double>& weights, const std::vector<double>& column) const;
  // An output times a factor: in f32, or in the register that a unit's sums chain through.
  double rescaled(double o, double factor) const;

 private:
  double chunked(const Arithmetic& m, std::span<const double> x, std::span<const double> y,
                 const std::string& count) const;
  double by_unit(std::vector<double> x, std::string_view x_format, std::vector<double> y,
                 const std::string& count, double c) const;
  double onto(const Arithmetic& m, double sum, std::vector<double> x, std::vector<double> y) const;

  const Problem& p_;
  Arithmetic f32_, qk_, pv_, rowsum_;
  std::string element_;
  const MatrixUnit* unit_ = nullptr;
};

}  // namespace assay::adversary
