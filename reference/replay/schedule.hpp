// A schedule: everything that decides the bits of one sum of n terms, as one line of text in the style of a
// contract.
//
//   acc=hopper_fp8 chunk=128 split=3 slicing=even quantum=64 merge=sequential scales=a_b
//   acc=f32 fma=yes lanes=64 fold=16.32.8.4.2.1 tail=lanes
//
// A contract bounds a set of kernels; a schedule names one. From the outside in:
//   slices    the terms are cut into `split` slices (slicing, quantum, cuts), each summed by itself, its sum
//             stored as `part`, and the slices' sums added in `merge` order in `merge_acc`
//   chunks    a slice is summed in chunks of `chunk` terms, each from zero, and the chunks' sums are added
//             one after another in `chunk_acc`: promotion out of a matrix unit, a blocked K loop. 0: the
//             whole slice is one chunk
//   lanes     within a chunk, term i goes to partial sum (i / pack) mod lanes, ascending or descending or, as
//             VDPBF16PS does, with the terms of each pair swapped (1 0 3 2 ...), or with a lane's second term
//             ahead of its first (second: of x0 x0 + x1 x1 a compiler fuses the left product); the partial
//             sums are then added as `fold` says. The first `head` terms go to the first lane ahead of the
//             first pass or, with head_at=apart, are a sum of their own, in sequence, that is added to all
//             the others' at the end; terms behind the last whole pass over the lanes go where `tail` says
//   cascade   the sum of a lane's `cascade` terms joins a sum one level up and begins anew, and so does a
//             level's of as many joins; behind the passes what the levels hold joins the lane's own sum, the
//             lowest level first
//   a step    acc=f64|f32|f16|bf16: product rounded, sum rounded, or with fma=yes one rounding of both.
//             acc=UNIT: blocks of the unit's g terms chained through its accumulator (matrix_unit.hpp); lanes
//             is then 1. acc=i32: codes of integers, exact in every order, the sum then rounded to f32
//   epilogue  the order in which two scales multiply the result (`scales`), then the store
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/arithmetic/accumulator.hpp"
#include "reference/arithmetic/keys.hpp"
#include "reference/replay/fold.hpp"

namespace assay {

enum class Slicing : std::uint8_t {
  even,          // ceil(T / split) quanta each, the last slices shorter or empty (T quanta in all)
  balanced,      // T / split quanta each, the first T mod split of them one more
  proportional,  // slice s is quanta [s T / split, (s + 1) T / split), rounded down
  interleaved,   // quantum t belongs to slice t mod split
  cuts,          // slices begin at 0 and at each of `cuts`
};
enum class Tail : std::uint8_t {
  lanes,   // as if the terms were padded by zeros: they go on over the lanes
  vector,  // whole vectors of `tail_width` to the first lanes, what is left to the lanes after those
  first,   // all of them to the first `tail_width` lanes, in turn
  after,   // one by one to the folded sum
  apart,   // a sum of their own, in sequence, then added to the folded one
  refold,  // one to each lane of a new vector whose first lane is the folded sum, and that folded again
  before,  // whole vectors of `tail_width` to the first lanes; what is left a sum of its own, with which the last chain of the
           // fold begins
  folded,  // on over the `tail_width` sums that are left behind a step of the fold, in turn, and the fold goes on
};

struct Schedule {
  std::string acc = "f32";
  bool fma = false;
  std::int64_t lanes = 1, pack = 1;
  std::string fold = "halving";
  Tail tail = Tail::lanes;
  std::int64_t tail_width = 0;  // tail=vector|first|before|folded; 0: a lane is one
  std::int64_t head = 0, cascade = 0;
  bool head_apart = false;
  bool descending = false, swapped = false, second_first = false;
  std::int64_t chunk = 0;
  std::string chunk_acc = "f32";
  std::int64_t split = 1;
  Slicing slicing = Slicing::even;
  std::int64_t quantum = 1;
  std::vector<std::int64_t> cuts;
  std::string part = "f32";
  std::string merge = "sequential";
  std::string merge_acc = "f32";
  std::string scales = "none";  // none | a_b: (c sa) sb | b_a: (c sb) sa | product: c (sa sb)
  bool operator==(const Schedule&) const = default;

  // nullptr for a floating accumulator.
  const MatrixUnit* unit() const { return find_matrix_unit(acc); }
};

// What `assay identify --help` and the errors are made of.
std::span<const KeySpec> schedule_keys();

// `text` as above; keys that are left out have their defaults. With a prefix ("qk.") only keys that begin
// with it are taken, and others are left alone: attention has three sums. A value may also be separated by
// ':' and pairs by '/', the form in which a schedule is one value of a contract: "acc:hopper_fp8/chunk:128".
// Throws InputError unknown_name or bad_value.
Schedule parse_schedule(std::string_view text, std::string_view prefix = "");
// Canonical: keys in the table's order, those at their defaults left out (acc always stays).
// parse(print(s)) == s, and print(parse(t)) is a fixed point.
std::string print_schedule(const Schedule& schedule, std::string_view prefix = "");
std::string as_contract_value(std::string_view printed);  // "acc:f32/lanes:16"
// The way back, of a schedule of any kind: a '/' separates pairs, the first ':' of each a key from its value.
std::string from_contract_value(std::string_view value);  // "acc=f32 lanes=16"

// Terms of one slice: runs of consecutive terms, in order.
struct TermRun {
  std::int64_t begin, end;
  std::int64_t length() const { return end - begin; }
  bool operator==(const TermRun&) const = default;
};
// The slices of n terms, `split` of them, each a list of runs; one without terms has none.
std::vector<std::vector<TermRun>> slices(const Schedule& schedule, std::int64_t n);
// The slice's terms in chunks, each a list of runs again.
std::vector<std::vector<TermRun>> chunks(const Schedule& schedule, const std::vector<TermRun>& slice);

}  // namespace assay
