// A family of honest kernels of one op: a space of choices, the contract that is true at each point of it,
// and the kernel itself. A point is text, and the text runs it again.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cases/studies/adversary/arithmetic.hpp"
#include "reference/ops/op.hpp"

namespace assay::adversary {

// One choice: its name, and its words separated by "|". Where a word stands twice it is drawn twice as often.
struct Axis {
  std::string_view name, words;
};
using Choices = std::map<std::string, std::string>;

// The inputs: a fill of the project or a pool of inputs.cpp, and edits of single elements afterwards.
struct InputPlan {
  std::string fill;
  std::uint64_t seed = 1;
  std::vector<std::string> edits;  // "x:set:3:0x1p-3": inputs.hpp
  bool operator==(const InputPlan&) const = default;
};

struct Point {
  std::string family;
  Choices attributes, kernel;
  InputPlan inputs;
  bool operator==(const Point&) const = default;
};
std::string print(const Point& point);
Point parse_point(std::string_view text);  // throws InputError bad_value

// The contract under construction: only words that the op's contract knows are said. What a contract cannot
// say yet is left out, and the kernel is judged by what remains.
class Words {
 public:
  explicit Words(const Op& op) : op_(op) {}
  bool knows(std::string_view key) const;
  // True when it was said.
  bool say(std::string_view key, std::string_view value);
  bool say(std::string_view key, double number);
  const std::string& text() const { return text_; }

 private:
  const Op& op_;
  std::string text_;
};

// A point with its inputs made: what a kernel runs on.
struct Problem {
  const Op& op;
  const Attributes& attributes;
  const Choices& choices;
  const TensorSet& set;
  std::map<std::string, std::vector<double>> values;  // decoded, by tensor

  const std::string& text(const std::string& choice) const;
  bool is(const std::string& choice, std::string_view word) const { return text(choice) == word; }
  double number(const std::string& choice) const;
  std::uint64_t seed() const;
  const std::vector<double>& tensor(const std::string& name) const { return values.at(name); }
  bool has(const std::string& name) const { return values.contains(name); }
  Shape shape(const std::string& name) const { return set.at(name).shape; }
};

using Outputs = std::vector<std::vector<double>>;

struct Family {
  std::string_view name;  // "softmax", "attention_online": the op's name, or it with a word after "_"
  std::string_view op;
  std::span<const Axis> attributes, kernel;
  // Defects that the choice `defect` plants: each breaks the contract that is said, and the search must find
  // it.
  std::string_view defects;
  void (*contract)(const Attributes&, const Choices&, Words&);
  Outputs (*run)(const Problem&);
};

std::span<const Family> families();
const Family& family(std::string_view name);  // throws InputError unknown_name

// The words that end the contract of every op that stores a rounded number, their axes, and the store itself.
inline constexpr Axis kStoreAxes[] = {
    {"out", "dtype|dtype|dtype|f32|f16|bf16"},
    {"round", "nearest_even|nearest_even|nearest_even|nearest_away|toward_zero"},
    {"overflow", "ieee|ieee|saturate"},
    {"ftz", "no|no|no|yes"}};
#define ASSAY_STORE_AXES kStoreAxes[0], kStoreAxes[1], kStoreAxes[2], kStoreAxes[3]
void say_store(const Choices& choices, Words& words);
double store(const Problem& problem, double z, std::string_view dtype);

std::vector<std::string> words_of(std::string_view list);  // "a|b|c"

}  // namespace assay::adversary
