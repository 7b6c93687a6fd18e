// What an op is to everything outside reference/: attributes, tensors, a contract, and the truth about its
// outputs. One row per op in ops.cpp; the harness works from the rows alone and knows no op by name.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/arithmetic/contract.hpp"
#include "reference/formats/format.hpp"

namespace assay {

// name -> text, every attribute of the op present after Attributes::complete.
class Attributes {
 public:
  // Fills in defaults. Throws InputError: unknown_name (listing the op's attributes), bad_value (saying what
  // is allowed).
  static Attributes complete(std::span<const KeySpec> specs, const std::map<std::string, std::string>& given);
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::map<std::string, std::string>& all() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

enum class TensorRole : std::uint8_t {
  data,  // real numbers: a fill makes them, their format encodes them
  index,  // integers that only the op can make well-formed (page table, lengths, routing): Op::indices makes them
  output,
};

struct TensorSpec {
  std::string name;  // "q"
  TensorRole role;
  std::string format;  // a row of formats()
  Shape shape;
  // Of data: what a fill draws is mapped into this range, where there is one: low + (high - low) (1 + x / (1
  // + |x|)) / 2.
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

using TensorSet = std::map<std::string, Encoded>;  // by tensor name

// What is true of one output.
//   value[i]  the exact result, within certificate; NaN or +-Inf where that is what the op's definition
//             gives. Where the contract declares a rounding in between (mid=bf16): the middle of what that
//             arithmetic admits
//   limit[i]  proven: |kernel's output - value[i]| of a kernel that keeps the contract. It includes the
//             reference's own certificate. +Inf claims nothing: where an intermediate result may overflow,
//             Inf - Inf is right. kAnyNumber says that any finite number may stand there, and nothing else:
//             where the analysis gives up.
// Under a finite limit: where value is NaN the output must be NaN, where it is infinite that infinity, and
// elsewhere a NaN or an infinity is wrong.
inline constexpr double kAnyNumber = std::numeric_limits<double>::max();

struct Truth {
  std::string output;
  std::vector<double> value;
  std::vector<double> limit;
  // "reference/ops/softmax: rounding of exp, sum and quotient": shown with each failure.
  std::string limit_origin;
};

// Elements of an input that no correct kernel reads: pages of no sequence, keys beyond a sequence's length.
// They are poisoned in the run, and the outputs must not change.
struct UnusedRange {
  std::string tensor;
  std::int64_t first;  // row-major element index
  std::int64_t count;
};

// A part of a schedule, step by step: cut(t) are the inputs with what follows its first t steps made zero,
// cut(steps) has all of them. name(t) says what step t >= 1 does ("terms 64..95 are added").
struct ReplayStage {
  std::int64_t steps = 0;
  std::function<TensorSet(std::int64_t)> cut;
  std::function<std::string(std::int64_t)> name;
};

// One of an op's functions: a plain one, or one of an object that a formula made.
template <typename Signature>
class OpCall;
template <typename R, typename... Args>
class OpCall<R(Args...)> {
 public:
  constexpr OpCall() = default;
  constexpr OpCall(std::nullptr_t) {}  // NOLINT: a row of the list says nullptr
  template <typename F>
    requires std::convertible_to<F, R (*)(Args...)>
  constexpr OpCall(F f) : plain_(f) {}  // NOLINT: a row of the list names a function
  constexpr OpCall(const void* object, R (*of)(const void*, Args...)) : object_(object), of_(of) {}
  R operator()(Args... args) const { return of_ != nullptr ? of_(object_, args...) : plain_(args...); }
  constexpr explicit operator bool() const { return plain_ != nullptr || of_ != nullptr; }
  constexpr bool operator==(std::nullptr_t) const { return !static_cast<bool>(*this); }

 private:
  R (*plain_)(Args...) = nullptr;
  const void* object_ = nullptr;
  R (*of_)(const void*, Args...) = nullptr;
};

struct Op {
  std::string_view name;
  std::string_view formula;
  // The tensors as a person reads them, one to a line, inputs first, the outputs after "->":
  //   "mask[rows,cols] int8 if mask=random": name, axes, format, and on what it depends that there is one.
  // An axis is a product or a quotient (rounded up) of attributes and numbers, a format is an attribute or a
  // name. signature.hpp reads it, and makes tensors() of it.
  std::string_view signature;
  std::string_view
      example;  // "rows=4 cols=33 dtype=bf16": attributes of a small case that every kernel should take
  std::span<const KeySpec> attributes;
  std::span<const KeySpec> contract;
  OpCall<std::vector<TensorSpec>(const Attributes&)> tensors;  // throws InputError on an impossible shape
  OpCall<void(const Attributes&, std::uint64_t seed, TensorSet& inputs)>
      indices;  // nullptr when the op has none
  OpCall<std::vector<Truth>(const Attributes&, const TensorSet& inputs, const Contract&)> truth;
  // Elements of the inputs that no correct kernel reads; nullptr when every element is used.
  OpCall<std::vector<UnusedRange>(const Attributes&, const TensorSet& inputs)> unused = nullptr;
  // Of a contract with level=replay (none of others): parts of its schedule, each of which begins where the
  // one before it ends with nothing left: cut(steps) of the second is cut(0) of the first. nullptr, or fewer
  // parts, where the inputs' formats cannot be cut.
  OpCall<std::vector<ReplayStage>(const Attributes&, const TensorSet& inputs, const Contract&)> stages =
      nullptr;
  // "input: output", a line each, of inputs that are not finite; a kernel has to see to it.
  std::string_view special = "";
  // Where later outputs depend on what a kernel stored of earlier ones (codes on their scales): the truths of
  // these outputs. nullptr where no output depends on another.
  OpCall<std::vector<Truth>(const Attributes&, const TensorSet& inputs, const Contract&,
                            const TensorSet& outputs)>
      truth_given = nullptr;
};

std::span<const Op> ops();            // written by hand, each in a file of its own
std::vector<const Op*> every_op();    // and those that are formulas (formula/library.hpp), by name
const Op& op(std::string_view name);  // of all; throws InputError unknown_name
const Op* find_op(std::string_view name);
std::vector<std::string> op_names();                          // of all
std::map<std::string, std::string> example_of(const Op& op);  // the attributes of its example

}  // namespace assay
