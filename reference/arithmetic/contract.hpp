// A contract: the arithmetic that a kernel declares, as one line of text.
//   qk=hopper_fp8 chunk=128 p=e4m3fn pv=hopper_fp8 promote=4 rowsum=f32 out=bf16 order=sequential
// Keys are rows of an op's table (keys.hpp). Parse and print are a fixed point: print(parse(s)) is canonical,
// parse(print(c)) == c.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/arithmetic/keys.hpp"

namespace assay {

// Of an error in ulps: 65536 ulps of f32 are 2^-8 of a number, what bf16 keeps. A function that errs by more
// computes another function, and its limit would excuse any constant.
inline constexpr std::string_view kUlps = "0..65536";
// Of roundings of one number between two steps: no decoder has more.
inline constexpr std::string_view kMostRoundings = "0..16";

// The keys of `first`, then those of `second`.
template <std::size_t N, std::size_t M>
constexpr std::array<KeySpec, N + M> joined(const std::array<KeySpec, N>& first,
                                            const std::array<KeySpec, M>& second) {
  std::array<KeySpec, N + M> all;
  std::copy(first.begin(), first.end(), all.begin());
  std::copy(second.begin(), second.end(), all.begin() + N);
  return all;
}

class Contract;
// The contract with one step as exact as its key allows: f64, f32, 0 ulps, a tree. nullopt where it is that
// already, where no value of the key is more exact, or where the other keys do not allow it.
std::optional<Contract> made_exact(const Contract& contract, const KeySpec& key,
                                   std::span<const KeySpec> keys);

class Contract {
 public:
  Contract() = default;
  // Throws InputError: unknown_name for a key that `keys` lacks (listing them), bad_value for its value.
  static Contract parse(std::string_view text, std::span<const KeySpec> keys);
  std::string print() const;  // "key=value ..." in the order of the op's list, defaults included

  std::string_view text(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  // The same with another value, which is taken as it stands. Throws InputError unknown_name.
  Contract with(std::string_view key, std::string_view value) const;
  bool operator==(const Contract&) const = default;

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

}  // namespace assay
