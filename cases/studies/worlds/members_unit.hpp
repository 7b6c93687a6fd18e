// Members of a sum that a matrix unit forms.
#pragma once

#include <string_view>
#include <vector>

#include "cases/studies/worlds/toy.hpp"
#include "reference/arithmetic/matrix_unit.hpp"

namespace assay::worlds {

// "order: of the additions; with a matrix unit sequential says: blocks in ascending k, padded at the end".
// any: blocks of any products, of any number up to the unit's, in any place of it, beside zeros, in any
// order, chained or summed apart and added. "promote: blocks between promotions to f32; 0: never": so many
// blocks from zero, then an addition in f32. "ftz: in a matrix unit those below 2^-126 alone".
struct UnitOrder {
  bool any = true;
  int promote = 0;
  // "block: products of every block but the last of a partial sum, at least"; "split: partial sums that are
  // added, each rounded, at most; 0: any number".
  int block = 1, split = 0;
  double start = 0;  // what a chain in ascending k begins with
};
Set unit_sums(const MatrixUnit& unit, std::string_view format, const std::vector<double>& a,
              const std::vector<double>& b, const UnitOrder& order, bool flush);

}  // namespace assay::worlds
