// A contract: the arithmetic that a kernel declares, as one line of text.
//   qk=hopper_fp8 chunk=128 p=e4m3fn pv=hopper_fp8 promote=4 rowsum=f32 out=bf16 order=sequential
// Keys are those of an op's list; values are accumulators (f32, f16, ...), matrix units (hopper_fp8), scalar formats,
// integers, or words. Parse and print are a fixed point: print(parse(s)) is canonical, parse(print(c)) == c.
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

namespace assay {

enum class ContractValue : std::uint8_t {
  accumulator,  // f64 f32 f16 bf16 i32, or a row of matrix_units(): how a sum of products is formed
  format,       // a scalar format: a rounding
  integer,      // a count, 1..kMostDeclared
  number,       // a decimal, 0..kMostDeclared or the key's own most (exp_ulp=2)
  order,        // the order of a sum (order.hpp)
  word,         // one of the key's listed words
  text,         // anything that has no blank in it: what it says is the op's to read
};

// No count of steps and no error in ulps is larger; what is computed from one stays an exact integer in f64.
inline constexpr std::int64_t kMostDeclared = INT32_MAX;

// Of an error in ulps: 65536 ulps of f32 are 2^-8 of a number, what bf16 keeps. A function that errs by more computes another
// function, and its limit would excuse any constant.
inline constexpr std::string_view kUlps = "0..65536";
// Of roundings of one number between two steps: no decoder has more.
inline constexpr std::string_view kMostRoundings = "0..16";

struct ContractKey {
  std::string_view name;
  ContractValue kind;
  std::string_view
      fallback;  // the value when the text does not name the key, "@KEY": that of an earlier one; "": required
  std::string_view words;    // kind word: "any|sequential|tree"; kind number: "" or "0..MOST"
  std::string_view meaning;  // one line, shown by `assay explain`
  // The value that makes the step as exact as can be, where its kind does not say it; "none": no value does.
  std::string_view ideal = {};
};

// The keys of `first`, then those of `second`.
template <std::size_t N, std::size_t M>
constexpr std::array<ContractKey, N + M> joined(const std::array<ContractKey, N>& first,
                                                const std::array<ContractKey, M>& second) {
  std::array<ContractKey, N + M> all;
  std::copy(first.begin(), first.end(), all.begin());
  std::copy(second.begin(), second.end(), all.begin() + N);
  return all;
}

class Contract;
// The contract with one step as exact as its key allows: f64, f32, 0 ulps, a tree. nullopt where it is that already, where no value
// of the key is more exact, or where the other keys do not allow it.
std::optional<Contract> made_exact(const Contract& contract, const ContractKey& key,
                                   std::span<const ContractKey> keys);

class Contract {
 public:
  Contract() = default;
  // Throws InputError: unknown_name for a key that `keys` lacks (listing them), bad_value for its value.
  static Contract parse(std::string_view text, std::span<const ContractKey> keys);
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
