// The grid of a row: when every product and partial sum of a dot product lies on a grid that is coarse
// enough, no order of summation rounds.
#pragma once

#include <span>

namespace assay {

/// What exactness of a double dot depends on, of one row: sum |x_i|, max |x_i|, the smallest |x_i| that is
/// not 0 (+inf where there is none), and lsb, the largest power of two that divides every element (+inf for a
/// row of zeros). A row with Inf or NaN has lsb NaN and min_abs 0: nothing is exact.
struct RowGrid {
  double sum_abs = 0;
  double max_abs = 0;
  double lsb = 0;
  double min_abs = 0;
};
RowGrid row_grid(std::span<const double> row);
/// The largest power of two that divides x, finite and not 0.
double lowest_bit(double x);

}  // namespace assay
