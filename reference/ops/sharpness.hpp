// How small an error the limits of a case would have shown: what a pass is worth.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "reference/ops/op.hpp"

namespace assay {

// Of limit / |value| over the elements whose value is a normal number of the output's format; below it a
// relative error says nothing, for the format itself has none to give. An element of which nothing is claimed
// counts as infinite. An output off by the factor 1 +- r everywhere is beyond its limit in the elements where
// limit / |value| < r, so that
//   some     is the smallest r that some element would have shown
//   half     is the smallest r that half of them would have shown: the median
//   loosest  is the r that it takes in the loosest element of which anything is claimed
// Where the output has no such element (every value is 0, subnormal, NaN or an infinity) there is nothing
// relative to tell: elements is 0, and the three are 0 if anything is claimed, infinite if nothing is.
struct Sharpness {
  std::size_t elements = 0;
  double some = std::numeric_limits<double>::infinity();
  double half = std::numeric_limits<double>::infinity();
  double loosest = std::numeric_limits<double>::infinity();
};

// The least sharp of the outputs, field by field. tensors: of the op; they name the outputs' formats.
Sharpness sharpness(std::span<const Truth> truths, std::span<const TensorSpec> tensors);

// "0.31 %"; `never` where no error is seen.
std::string percent(double ratio, std::string_view never = "nothing");

// A case that cannot show an error of 10 % in half of its elements is blind.
inline constexpr double kBlindError = 0.1;
inline bool is_blind(const Sharpness& s) { return !(s.half <= kBlindError); }

}  // namespace assay
