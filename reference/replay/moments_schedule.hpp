// A schedule of the running moments of a row (Welford 1962; merged as Chan, Golub and LeVeque 1979): mean M
// and squares S of n terms.
//
//   moments.lanes=8 moments.chunk=16 moments.merge=carry moments.share=reciprocal moments.fma=yes
//   moments.join=shared
//
//   update    d = x - M; M' = M + d / n or M + d (1 / n) (`share`), n counting x; S' = S + d (x - M')
//   lanes     term i of the whole passes goes to the moments of lane i mod lanes
//   chunks    a lane's moments begin anew after `chunk` terms, and those of the chunks are joined as `merge`
//             says
//   passes=pairs  of two neighbouring passes the second's terms have moments of their own (a vector of 16-bit
//                 numbers becomes two of f32):
//             both begin anew after `chunk` terms each, and are joined as one step of `merge`, the first
//             pass's in front
//   tail      the terms behind the last whole pass have moments of their own, whose shares are quotients; the
//             lanes are joined into them one after another (fold=sequential), or else folded first and then
//             joined into them
//   joined    B into A: d = M_B - M_A, c = n_B / (n_A + n_B);
//             nested  M = M_A + c d, S = S_A + (S_B + ((d d) c) n_A)
//             shared  M = M_A + t, S = (S_A + S_B) + t (d n_A), where t = c d
//             Chunks are joined as `join` says, lanes as `lane_join` says. What joins moments of no terms is
//             left as it is
//   fma=yes   the last product of each of these sums is not rounded, but for t, and a quotient
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/arithmetic/keys.hpp"
#include "reference/replay/fold.hpp"

namespace assay {

struct MomentsSchedule {
  enum Merge : std::uint8_t { sequential, carry };
  enum Join : std::uint8_t { nested, shared };
  std::int64_t lanes = 1, chunk = 0;  // chunk=0: all terms of a lane are one
  Merge merge = sequential;
  bool reciprocal = false, fma = false;
  Join join = nested, lane_join = nested;
  std::string fold = "sequential";
  bool pairs = false;  // passes=pairs
  bool operator==(const MomentsSchedule&) const = default;
};

std::span<const KeySpec> moments_keys();

// Pairs of `text` whose keys begin with "moments."; others are left alone. Throws InputError unknown_name or
// bad_value.
MomentsSchedule parse_moments(std::string_view text);
// Keys at their fallbacks are left out: "" where all are. parse(print(s)) == s.
std::string print_moments(const MomentsSchedule& schedule);

struct RunningMoments {
  float count = 0, mean = 0, squares = 0;
};
RunningMoments moments_of(const MomentsSchedule& schedule, std::span<const float> x);

// The schedules that differ from `s` in one field and in the bits of n terms.
struct TamperedMoments {
  std::string field;
  MomentsSchedule schedule;
};
std::vector<TamperedMoments> tampered(const MomentsSchedule& s, std::int64_t n);

}  // namespace assay
