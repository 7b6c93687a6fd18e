// Members of fused attention of one row: a few keys, values of one element.
#pragma once

#include <map>
#include <vector>

#include "cases/studies/worlds/members_function.hpp"
#include "cases/studies/worlds/members_sum.hpp"
#include "reference/arithmetic/matrix_unit.hpp"

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
  // Of keys that a mask hides: none; "-Inf is added to their logits and their weight of 0 meets V"; "the
  // lowest number of f32 is added as a mask to logits in base e, of every row".
  enum class Mask { none, infinite, lowest } mask = Mask::none;
  std::vector<bool> hidden;  // of the keys that stand in the row; empty: all are seen
  bool is_emulated = false;  // level=emu
  const MatrixUnit *qk_unit = nullptr, *pv_unit = nullptr;  // there in place of qk and pv
};

struct Keys3 {
  std::vector<double> q;               // d
  std::vector<std::vector<double>> k;  // [n][d]
  std::vector<double> v;               // n
};

// The result in f32, before it is stored.
Set attention_members(const Attention& a, const Keys3& x);
// The same of level=emu, "one kernel, step by step".
Set emulated_members(const Attention& a, const Keys3& x);

const Arithmetic& f32();

// exp within its ulps, one function: the same of an argument that has been met.
using Exponentials = std::map<double, double>;
Set exp_of(const Attention& a, const Exponentials& met, double argument);

}  // namespace assay::worlds
