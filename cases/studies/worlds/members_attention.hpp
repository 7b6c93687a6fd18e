// Members of fused attention of one row: a few keys, values of one element.
#pragma once

#include <vector>

#include "cases/studies/worlds/members_function.hpp"
#include "cases/studies/worlds/members_sum.hpp"

namespace assay::worlds {

struct Attention {
  Arithmetic qk, scores, p, rowsum, pv;
  Order qk_order, pv_order, rowsum_order;
  double exp_ulp = 2, tanh_ulp = 4, div_ulp = 2;
  double scale = 1, softcap = 0, sink = 0, slope = 0;
  int p_shift = 0, tile = 64, split = 1;
  bool has_sink = false, cast_denominator = false, fused_argument = true, saturates = false;
  // "what the softmax scale multiplies: q.k, or q before it (q_rounded: into its format); any: scores or q".
  bool scales_scores = true, scales_q = false;
  Precision q_scaled = kPrecisionF32;
  bool exp_of_zero_is_one = false;  // as the manual says
  double lag = 0;                   // "a running maximum is kept until a logit is above it by more than this"
  int promote = 0;                  // "keys per partial sum of p.v, then added in f32"; 0: one sum
  bool shaped = false;              // order=tiles tiles=aligned scaling=scores sink=last merge=once
  bool shares = false;              // "what is rounded to p: ... divided by the whole row sum first"
  std::size_t most = 3;             // of an exponential's members
};

struct Keys3 {
  std::vector<double> q;               // d
  std::vector<std::vector<double>> k;  // [n][d]
  std::vector<double> v;               // n
};

// The result in f32, before it is stored.
Set attention_members(const Attention& a, const Keys3& x);

}  // namespace assay::worlds
