// What a cell plants into q, K and V, and how a kernel's output is read.
//
// Fingerprints. R is an orthonormal basis of d dimensions; a key's value is  v_j = m + sqrt(d) R[label_j],  m
// the channel
// means. An output o is read as  argmax_l (o - mean) . R[l], with the stored V's mean.
//
// qk: K lies in d/2 dimensions U, the query has a part outside of them, or errors of K across the query would
// be hidden:
//   k = sqrt(d) U x + outliers,   q . k / sqrt(d) = beta cos(x_query, x_key),   q = beta sqrt(d)/d (k_needle + eta w),  w orthogonal to U
// pv: K is noise, and the needle's key is moved along its query until its logit is `score`; the values' mean
// is what a truncating accumulator loses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cases/studies/sweep/cell.hpp"
#include "harness/inputs.hpp"

namespace assay::sweep {

inline constexpr int kRungs = 14;  // of the ladder: delta = 2^-1 .. 2^-14
inline constexpr int kDepths = 8;  // parts of the keys that results are counted by

struct Needle {
  std::int64_t position = 0;  // of its key
  int label = 0;
  int rung = 0;  // 1..kRungs where the cell is a ladder
};

struct Planted {
  Inputs inputs;                   // of the attention op
  std::vector<Needle> needles;     // of query n: row n / heads, head n % heads
  std::vector<double> basis;       // R, [d][d]
  std::vector<double> value_mean;  // pv: of the stored V, over the keys; qk: 0
};

// A pure function of cell.inputs().
Planted plant(const Cell& cell);

// Orthonormal rows [d][d], by Gram-Schmidt on draws of the named stream.
std::vector<double> orthonormal(std::uint64_t seed, const std::string& name, std::int64_t d);

// What one output holds.
struct Reading {
  std::vector<int> label;  // of each needle; -1 where the output has no largest code (NaN)
};
// `out` as attention writes it: [row][head][d].
Reading read_fingerprints(const Planted& planted, const std::vector<double>& out);

// A kernel's output against the truth, over all needles.
struct Fidelity {
  double gain = 0;            // mean over needles of got.truth / truth.truth
  double relative_error = 0;  // mean over needles of |got - truth| / |truth|
};
Fidelity fidelity(const Planted& planted, const std::vector<double>& got, const std::vector<double>& truth);

}  // namespace assay::sweep
