// f32 rounded to a narrower format and back, as round_to does (reference/formats/scalar.hpp): in few
// instructions for f16 and bf16, which overflow to infinity, as conversions do. Those to 8 bits saturate, for
// hardware has no other.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "reference/formats/scalar.hpp"

namespace assay {

class Rounded {
 public:
  // "f32" leaves numbers as they are.
  explicit Rounded(std::string_view format)
      : format_(format == "f32" ? nullptr : &scalar_format(format)),
        dropped_(format == "f16"    ? 13
                 : format == "bf16" ? 16
                                    : 0),
        beyond_(format == "f16" ? 65520 : 0x1.FFp127F) {}

  float operator()(float x) const {
    if (format_ == nullptr) return x;
    if (dropped_ == 0 || !(std::fabs(x) < beyond_)) return general(x);
    // Of a sum with 0.75 the last bit is f16's least subnormal number.
    if (dropped_ == 13 && std::fabs(x) < 0x1p-14F) return std::copysign((std::fabs(x) + 0.75F) - 0.75F, x);
    std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    bits += (std::uint32_t{1} << (dropped_ - 1)) - 1 + (bits >> dropped_ & 1);
    return std::bit_cast<float>(bits >> dropped_ << dropped_);
  }

 private:
  float general(float x) const {
    return static_cast<float>(round_to(*format_, static_cast<double>(x),
                                       {.overflow = dropped_ > 0 ? Overflow::ieee : Overflow::saturate}));
  }
  const ScalarFormat* format_;
  int dropped_;   // bits of f32's fraction
  float beyond_;  // what is rounded beyond the largest number
};

}  // namespace assay
