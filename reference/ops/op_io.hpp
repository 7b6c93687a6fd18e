// What every op does with its tensors: fetch and check the inputs, and turn enclosures of the kernel's last
// unrounded numbers into a Truth.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reference/arithmetic/rounding.hpp"
#include "reference/mix.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/op.hpp"

namespace assay {

// The inputs of one case, checked against the op's tensors. Throws InputError shape_mismatch naming the
// tensor when one is missing or has another format or shape.
class OpInputs {
 public:
  OpInputs(const std::vector<TensorSpec>& specs, const TensorSet& set);
  const Encoded& tensor(std::string_view name) const;
  std::vector<double> values(std::string_view name) const;          // decoded
  std::vector<std::int64_t> integers(std::string_view name) const;  // of an index tensor
  bool has(std::string_view name) const;

 private:
  const TensorSet& set_;
};

// An empty Encoded with allocated planes: what Op::indices fills.
Encoded integer_tensor(std::string_view format, const Shape& shape, const std::vector<std::int64_t>& values);

// The draws of Op::indices: splitmix64 (Steele, Lea, Flood 2014), the same numbers on every platform.
class IndexDraw {
 public:
  explicit IndexDraw(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return next_mixed(state_); }
  std::uint64_t below(std::uint64_t n) { return next() % n; }  // n is small: the bias is below 2^-40
  std::vector<std::int64_t> permutation(std::int64_t n);

 private:
  std::uint64_t state_;
};

// round_to, with the three formats of outputs done by machine instructions.
inline double round_number(const ScalarFormat& to, double x, const EncodePolicy& policy) {
  if (policy.rounding == Rounding::nearest_even && policy.overflow == Overflow::ieee) {
    if (to.bits == 32 && to.kind == ScalarKind::floating) return round_f32(x);
    if (to.bits == 16 && to.exponent_bits == 5) return round_f16(x);
    if (to.bits == 16 && to.exponent_bits == 8) return round_bf16(x);
  }
  return round_to(to, x, policy);
}

// How a result becomes an element of the output: contract keys out, round, overflow, ftz. The rounding on the
// way is a conversion of IEEE 754, to nearest even and beyond the largest number to Inf; `round` and
// `overflow` are of the output alone. Under overflow=saturate an Inf that was made on the way may stay or
// become the output's largest number: nothing is claimed.
struct Store {
  const ScalarFormat* through;  // a rounding before the output's own, or nullptr (out=dtype)
  const ScalarFormat* output;
  EncodePolicy policy;  // of the output
  bool flush;
};
Store store_of(const Contract& contract, std::string_view output_format);
double on_the_way(const Store& store, double z);  // before it is rounded to the output
double stored(const Store& store, double z);      // one number, rounded as the kernel stores it
// Of round=stochastic, which may store either neighbour.
struct StoredEnds {
  double low, high;
};
StoredEnds stored_ends(const Store& store, double low, double high);

// The keys that every rounding op's contract ends with: with_store_keys(std::array{KeySpec{...}, ...}).
inline constexpr std::array kStoreKeys = {
    KeySpec{"out", KeyKind::word, "dtype", "dtype|f32|f16|bf16",
            "where that is another type than the output's: rounded to this first, to nearest even or Inf"},
    KeySpec{"round", KeyKind::word, "nearest_even", "nearest_even|nearest_away|toward_zero|stochastic",
            "rounding to the output; stochastic: to either neighbour"},
    KeySpec{"overflow", KeyKind::word, "ieee", "ieee|saturate", "beyond the output's largest number"},
    KeySpec{
        "ftz", KeyKind::word, "no", "no|yes",
        "what is subnormal in the type computed in, or in one that it is rounded to, before that rounding or "
        "after it, may become zero; in a matrix unit operands and sums below 2^-126 alone, no product; FP8 "
        "and FP4 "
        "keep their subnormals"},
};
template <std::size_t N>
constexpr auto with_store_keys(const std::array<KeySpec, N>& own) {
  return joined(own, kStoreKeys);
}

// Writes element i: `z` encloses the exact result and the kernel's result before it is stored.
// Rounding is monotone, so the stored number lies between the roundings of z's ends, and
//   limit = max(|rd(low) - value|, |rd(high) - value|), rounded up,
// which is 0 where every admissible result rounds to the exact one and one step where the interval straddles
// a rounding boundary (round=stochastic: low is rounded down and high up). ftz=yes admits 0 for results below
// the smallest normal, rounded or not yet. Where every admissible result overflows, the value is that
// infinity; where only some do, the limit is +Inf. Of a kernel's number that is known (error 0) the value is
// what is stored and the limit 0, on a tie too: a rule that rounds it otherwise has the same distance from z.
// A format on the way that is coarser than the output's (out=bf16 of an f32 output) is a declared rounding:
// set_truth_within.
void set_truth(Truth& truth, std::size_t i, Enclosure z, const Store& store);
// The same where the kernel's interval does not contain the exact result (its operands were rounded first):
// `value` is exact within `certificate`.
void set_truth_around(Truth& truth, std::size_t i, double value, double certificate, Enclosure kernel,
                      const Store& store);
// The same for an op whose declared steps include roundings between its inputs and its result (quantised
// operands, a narrow intermediate): `kernel` holds the kernel's number alone, and the truth is the centre of
// what it may store,
//   value = (rd(low) + rd(high)) / 2,  limit = (rd(high) - rd(low)) / 2.
// By rounding's monotony every kernel that keeps the contract is inside; one that skips a declared rounding
// is as far away as that rounding was large, which a limit around the unrounded result could never say. An
// interval inside one rounding cell of the output leaves one number, with limit 0. Where an infinity is one
// of several admissible results, or nothing is known, the element is unclaimed.
void set_truth_within(Truth& truth, std::size_t i, Enclosure kernel, const Store& store);
// Elements that the definition makes NaN or an infinity: nothing else is right.
void set_special(Truth& truth, std::size_t i, double special);
// The same as a kernel stores it: under overflow=saturate an infinity may become the largest number or stay,
// so that nothing is claimed of it.
void set_special(Truth& truth, std::size_t i, double special, const Store& store);
// Elements that the definition leaves open (the absmax of a group with a NaN): value NaN, limit +Inf; any
// bits will do.
void set_unclaimed(Truth& truth, std::size_t i);

Truth make_truth(std::string_view output, std::size_t count, std::string_view origin);
// The truths of an op with one output. An initialiser list would copy it.
std::vector<Truth> alone(Truth truth);

}  // namespace assay
