// Members of rmsnorm and layernorm.
#pragma once

#include <string_view>
#include <vector>

#include "cases/studies/worlds/members_function.hpp"
#include "cases/studies/worlds/members_sum.hpp"

namespace assay::worlds {

struct Norm {
  Arithmetic acc;
  Order order;
  double rsqrt_ulp = 2, div_ulp = 2, eps = 1e-5;
  std::string_view mid = "acc", product = "any", gamma_format = "f32", variance = "two_pass";
  bool layer = false;
  bool clamped = false;            // "a variance that comes out negative is clamped at 0"
  bool reciprocal_length = false;  // "or of 1/length, which is then multiplied"
};

// Before they are stored.
std::vector<Set> norm_members(const Norm& k, const std::vector<double>& x, const std::vector<double>& gamma,
                              const std::vector<double>& beta);

}  // namespace assay::worlds
