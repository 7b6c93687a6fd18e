// A formula: the text of an op, from which everything else about it follows.
//
//   op add_rmsnorm                                   # h = x + residual; y = h gamma / sqrt(mean h^2 + eps)
//   sizes rows 1..1048576, cols 1..16777216
//   attribute eps real 1e-30..1 = 1e-5
//   in  x[rows,cols] dtype, residual[rows,cols] dtype, gamma[cols] f32
//   out h[r,i] dtype = x[r,i] + residual[r,i]
//   let ms[r]        = mean(i: h[r,i]^2)
//   let inv[r]       = rsqrt(ms[r] + eps)
//   out y[r,i] dtype = cast(mid, h[r,i] * inv[r]) * gamma[i]
//   example rows=4 cols=33
//
// One statement a line, which goes on where a bracket is open or behind a comma; # begins a comment. In full:
// docs/formulas.md.
//   op NAME
//   sizes NAME LO..HI, ...             attributes that must be given; LO..HI may be left out
//   attribute NAME real|int LO..HI = V | NAME format|word A|B|C = V
//   in NAME[extent, ...] FORMAT LO..HI [distinct], ...
//                                      LO..HI: integers are drawn in that range, numbers mapped into it
//   require EXPRESSION                 of sizes and attributes
//   let|out NAME[i, j < extent] FORMAT = EXPRESSION
//                                      a let's FORMAT may be left out: it is not rounded
//   along t < extent                   a recurrence: the indented lines below, for each t in turn
//     state NAME[t, ...] FORMAT = EXPRESSION from INPUT|NUMBER
//   example KEY=VALUE ...
// EXPRESSION: + - * / // % ^ and or not, comparisons, f(x, ...), NAME[index, ...],
// sum|mean|max|min|argmax(i: x), sum(i < extent: x), top(rank, i: x), where(c, a, b), cast(WORD, x),
// exponent(x) = floor(log2 |x|). // is the whole division, and so is / inside the brackets of a tensor and in
// extents; elsewhere / is of numbers. `dtype` need not be declared: attribute dtype format f32|f16|bf16 =
// f32.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reference/error.hpp"

namespace assay::formula {

struct At {
  int line = 0, column = 0;
};

enum class NodeKind : std::uint8_t { number, ref, call, reduce, cast, binary, power };

struct Node {
  NodeKind kind = NodeKind::number;
  std::string name;  // of a ref, function, operator, reduction, cast's word
  std::vector<Node> args;
  At at = {};
  double number = 0;              // of a number; the exponent of a power
  bool whole = false;             // a number without point and exponent
  std::string index = {};         // of a reduction
  std::vector<Node> extent = {};  // of a reduction: one, or none
};
std::string print(const Node& node);  // with every bracket; what is equal prints alike

struct Size {
  std::string name, range;
};
struct AttributeLine {
  std::string name, kind, allowed, fallback;
};
struct Input {
  std::string name;
  std::vector<Node> axes;
  std::string format;
  std::vector<Node> range;  // lowest, highest; or none
  bool distinct = false;    // within the innermost axis
  At at = {};
};
struct Index {
  std::string name;
  std::vector<Node> extent;  // one, or none
};
enum class EquationKind : std::uint8_t { let, out, state };
struct Equation {
  EquationKind kind = EquationKind::let;
  std::string name;
  std::vector<Index> indices;
  std::string format;
  Node value;
  std::string source = {};  // of a state: an input, or a number
  std::string along = {};   // the index of its recurrence
  At at = {};
};

struct Text {
  std::string name, comment, example, source;
  std::vector<Size> sizes;
  std::vector<AttributeLine> attributes;
  std::vector<Input> inputs;
  std::vector<Equation> equations;
  std::map<std::string, Node> along;  // index -> extent
  std::vector<Node> require;
};

// Throws InputError bad_value: "line 3, column 12: expected ']', got ','".
Text parse(std::string_view text);

// Functions by name, with the number of their arguments.
struct Function {
  std::string_view name;
  int arguments;
};
const std::vector<Function>& functions();

[[noreturn]] void fail(At at, const std::string& message);

}  // namespace assay::formula
