// The bits of a schedule: many sums at once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/arithmetic/fused_gemm.hpp"
#include "reference/replay/schedule.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {

// One side of a product: rows [rows, k] of numbers that are exact in `format` (a scalar format; it decides
// nothing but the exponents that a matrix unit aligns by), and for units with block scales those.
struct ReplayOperand {
  std::int64_t rows = 0, k = 0;
  std::string format;
  std::vector<float> values;
  std::vector<float> block_scales = {};
};

// y[m,n] = sum_k a[m,k] b[n,k]: operands once, any number of schedules. Results are the numbers that a kernel
// of that schedule holds before its epilogue. By up to reference_threads() threads (parallel.hpp).
class GemmReplay {
 public:
  GemmReplay(ReplayOperand a, ReplayOperand b);
  ~GemmReplay();
  GemmReplay(GemmReplay&&) noexcept;
  std::int64_t rows() const;
  std::int64_t columns() const;
  std::int64_t terms() const;
  // Throws InputError bad_value where the schedule's unit does not take the formats, or its slices cut a
  // block.
  std::vector<double> sums(const Schedule& schedule) const;
  // The same of terms [0, terms) alone, the rest as if it were not there: what a kernel gives whose inputs
  // end there in zeros.
  std::vector<double> sums(const SumPlan& plan) const;

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

// A sum with the scales of its row and column, each product rounded to f32 in the order of Schedule::scales;
// none leaves it as it is.
double with_scales(double sum, float a_scale, float b_scale, std::string_view order);

// Rows [rows, k] once, for any number of sums of each.
class SummedRows {
 public:
  SummedRows(std::vector<float> x, std::int64_t rows, std::int64_t k);
  std::span<const float> values() const { return x_; }
  // sum_k x[r,k] of each row r, or sum_k x[r,k]^2. No matrix units (bad_value).
  std::vector<double> sums(const Schedule& schedule) const { return sums(schedule, nullptr); }
  std::vector<double> squares(const Schedule& schedule) const { return sums(schedule, this); }
  // sum_k x[r,k] y[r,k]. Throws InputError shape_mismatch.
  std::vector<double> products(const Schedule& schedule, const SummedRows& y) const {
    return sums(schedule, &y);
  }

 private:
  std::vector<double> sums(const Schedule& schedule, const SummedRows* y) const;

  std::int64_t rows_, k_;
  std::vector<float> x_;
  std::vector<float> side_by_side_;  // groups of rows, [k][kSumLanes] each, zeros behind the last row
};

}  // namespace assay
