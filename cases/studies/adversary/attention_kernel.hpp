// The attention kernel that every family of attention is a choice of: an online softmax over tiles of keys
// and parts of a split, with sums by a scalar accumulator in every order or by a matrix unit.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cases/studies/adversary/norms.hpp"

namespace assay::adversary {

double attention_tanh_ulps(const Choices& choices);

// A query row as an accumulator takes it: numbers, or codes and the scale that they have (of each block of
// 32: q8_0).
struct AttentionQuery {
  std::vector<double> x, block_scales;
  double scale = 1;
};
// In a scalar format, to nearest; tf32 may be cut.
double as_operand(const Problem& problem, const std::string& format, double x);
// The same as `casts` has it: to nearest, or cut.
double as_cast(const Problem& problem, const std::string& format, double x, Overflow overflow);
AttentionQuery converted_query(const Problem& problem, std::span<const double> row);

// Of an output row under rotate=qkv, as the choice `unrotate` says.
void unrotate_row(const Problem& problem, std::vector<double>& row);

// The choices of family_attention.cpp. Where `unit` is among them a matrix unit stands in place of qk and pv;
// q and p are then of the format that it multiplies.
Outputs run_attention(const Problem& problem);

// Keys to a part of a split: equal runs of tiles; where running maxima are merged one after the other, equal
// runs of keys.
std::int64_t attention_part(const Attributes& attributes, const Choices& choices);

// The format of K and V as a matrix unit is given them.
std::string attention_element(const Attributes& attributes, const Choices& choices);

}  // namespace assay::adversary
