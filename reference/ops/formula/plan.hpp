// A plan: a formula with the sizes of a case and a declared arithmetic, as steps. Where a kernel may round,
// reorder or be off, the formula gives that place a name, and the contract a key for it: EQUATION.WHAT. Which
// keys there are follows from the formula alone, never from a size or from another key.
//
//   acc ftz round overflow          of all equations; EQUATION.acc is acc where it is not said
//   E.acc                           every operation of E is rounded to it
//   E.order, E.fma                  of a sum; fma: of a product that one sum, addition or
//                                   difference alone takes
//   E.products                      of three to five factors: any order, or as written
//   E.div_ulp, E.exp_ulp, ...       of a quotient and of each function; E.sin_abs, ...: an absolute
//                                   error beside it
//   E.WORD                          of cast(WORD, x): acc (not rounded) or a format
//   E.read                          of a rounded result that is read again: stored, computed, or any of both
//   E.ties                          of argmax and top: of equal numbers any, or the lower index first
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "reference/arithmetic/contract.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/formula/text.hpp"
#include "reference/ops/op.hpp"

namespace assay::formula {

enum class Do : std::uint8_t {
  constant,  // a number that the kernel holds in its accumulator or in f32
  index,
  whole,  // of integers: + - * / % min max, and a constant
  compare,
  both,
  either,
  invert,
  gather,
  real,  // an integer as a number
  add,
  subtract,
  multiply,
  divide,
  negate,
  absolute,
  function,
  least,
  most,
  to_whole,  // round to even, floor, or the exponent of a number
  where,
  cast,
  largest,
  smallest,
  sum,
  top,
};

// What a step's operator or function is.
enum class Word : std::uint8_t {
  none,
  constant,
  plus,
  minus,
  times,
  over,
  modulo,
  least,
  most,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  unequal,
  exp,
  exp2,
  log,
  log2,
  sin,
  cos,
  tanh,
  erf,
  sigmoid,
  softplus,
  sqrt,
  rsqrt,
  round,
  floor,
  exponent,
};

enum class Fused : std::uint8_t { no, yes, any };
enum class Read : std::uint8_t { stored, computed, any };

inline constexpr std::size_t kMostDims = 12;  // of an equation

// f64, which no tensor has, and the scalar formats.
const ScalarFormat& accumulator_format(std::string_view name);

// One accumulator of a contract.
struct Arithmetic {
  const ScalarFormat* format = nullptr;
  Machine machine = {};
};

struct Step {
  Do what = Do::constant;
  std::array<int, 3> args = {-1, -1, -1};
  bool real = true;        // else an integer, or a truth value
  std::uint32_t dims = 0;  // the dimensions that it depends on, one bit each
  double number = 0;       // of a constant
  std::int64_t integer = 0;
  int axis = -1;  // of index and reductions
  int tensor = -1;
  std::vector<int> indices =
      {};                 // of a gather: the steps of its indices; of a product: its factors, in any order
  bool previous = false;  // of a state
  Word word = Word::none;
  double ulp = 0.5, off = 0;  // a function's errors: units in the last place, and absolute
  Order order = {};
  Fused fused = Fused::no;           // of a product
  const ScalarFormat* to = nullptr;  // of a cast
  bool held = false;  // its value is a number of the equation's accumulator: to read it costs no rounding
  bool lower_first = false;  // of top: of equal numbers the lower index goes first
};

struct Dim {
  std::string name;
  std::int64_t extent = 1;
  Node text;
};

struct Tensor {
  std::string name, format;  // format "": as it was computed
  std::vector<std::int64_t> shape;
  std::vector<Node> axes;
  bool whole = false;
  bool input = false;
  std::string along = {};  // of what a recurrence makes
  bool current = false;    // only this step's values are held (and, of a state, the step's before)
  int equation = -1;
};

struct Planned {
  const Equation* equation = nullptr;
  std::vector<Dim> dims;  // of the left side first
  std::size_t width = 0;  // how many these are
  std::vector<Step> steps;
  Arithmetic acc = {};
  const ScalarFormat* format = nullptr;  // that the result is rounded to, or nullptr
  bool whole = false;                    // the result is an integer
  Read read = Read::any;
  int tensor = -1;
  int source = -1;   // of a state: the input that it starts from
  double start = 0;  // or the number
};

struct Plan {
  std::vector<Tensor> tensors;
  std::vector<Planned> equations;
  bool flush = false;
  Rounding round = Rounding::nearest_even;
  std::string overflow = "format";
};

// The keys of a formula's contract, with the texts that they refer to.
class Keys {
 public:
  void add(const std::string& name, KeyKind kind, const std::string& fallback, const std::string& words,
           const std::string& meaning);
  const std::vector<KeySpec>& rows() const { return rows_; }
  bool has(std::string_view name) const;

 private:
  std::deque<std::string> texts_;
  std::vector<KeySpec> rows_;
};
// What follows from a text alone: the contract's keys, and each output's axes.
struct Outline {
  Keys keys;
  std::map<std::string, std::vector<Node>> axes;
};
// Throws what parse() throws, of indices, ranges and names.
Outline outline_of(const Text& text);
// Throws InputError: bad_value of a size for which the formula has no meaning.
Plan plan_of(const Text& text, const Attributes& attributes, const Contract& contract);

// An integer expression of sizes and attributes. Throws InputError bad_value where it is none.
std::int64_t integer_of(const Node& node, const Attributes& attributes);
// Whether it is made of numbers, sizes and attributes alone.
bool is_constant(const Node& node, const Text& text);

}  // namespace assay::formula
