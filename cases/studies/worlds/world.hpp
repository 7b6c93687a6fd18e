// A small world: an op, a contract, and for every output element of a batch of inputs the set of all numbers
// that a kernel of that contract may store. judge() holds them against the op's value and limit.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cases/studies/worlds/toy.hpp"
#include "reference/ops/op.hpp"

namespace assay::worlds {

using Words = std::map<std::string, std::string>;               // attributes
using Keys = std::vector<std::pair<std::string, std::string>>;  // of a contract; a toy may stand for a type

struct Batch {
  Words attributes;
  TensorSet inputs;
  std::vector<Set> members;  // of each element of the output, as stored; empty: not asked
  // The inputs of element i, for the line of a violation: "x=[0x1p+0,...]".
  std::function<std::string(std::size_t)> inputs_of;
};

struct World {
  std::string op;
  std::string name;  // op, attributes and keys: "softmax n=2 acc=e4m3fn exp_ulp=1"
  Words attributes;
  Keys contract;
  std::string sentence;  // of the manual, which admits the members
  // About `budget` output elements in all.
  std::function<std::vector<Batch>(const World&, std::size_t budget)> batches;
};
// The world with its name: "softmax n=2 acc=e4m3fn exp_ulp=1" of the size "n=2"; "" is no size.
World named(std::string op, std::string_view size, Words attributes, Keys contract, std::string sentence,
            std::function<std::vector<Batch>(const World&, std::size_t budget)> batches);

struct Tally {
  std::string name;
  std::string sentence;
  std::size_t elements = 0, members = 0, violations = 0;
  std::size_t unclaimed = 0;  // elements of which nothing is claimed
  std::size_t silent = 0;     // elements left out: the format cannot say what a member is
  double tightest = 0;        // largest |member - value| / limit
  double loosest = 0;         // largest limit / (largest |member - value|), where that is not 0
  double median = 0;          // of the same
  double seconds = 0;
  std::vector<std::pair<double, std::string>>
      lines;  // the worst violations by their ratio; each can be made a test
};

Tally judge(const World& world, std::size_t budget);

// Keys out, round, overflow and ftz: "rounded to this before the output's type", "rounding to the output",
// "beyond the output's largest number", "subnormal inputs and results may become zero".
Set stored(const Set& results, const World& world, std::string_view dtype);
std::string_view declared(const World& world,
                          std::string_view key);  // its value, the op's default where none is given

// What the manual says of a key; "" where the op has no such key. A word that came later is read where it
// stands.
std::string_view meaning(const World& world, std::string_view key);
bool has_word(std::string_view op, std::string_view key, std::string_view word);

// A tensor of numbers that its format holds.
Encoded tensor(const std::string& format, const Shape& shape, const std::vector<double>& values);
std::string hex(const std::vector<double>& values);
// A matmul of each row against each column, all of one format; `sums` of both are the members before they are
// stored.
Batch products_batch(const World& world, const std::vector<std::vector<double>>& rows,
                     const std::vector<std::vector<double>>& columns,
                     const std::function<Set(const std::vector<double>&, const std::vector<double>&)>& sums);

// All worlds, in the order of the report; `op` chooses, "" is all.
std::vector<World> worlds(std::string_view op);
// Families. rows: softmax and logsumexp.
std::vector<World> row_worlds();
std::vector<World> norm_worlds();
std::vector<World> product_worlds();
std::vector<World> unit_worlds();
std::vector<World> transform_worlds();
std::vector<World> quantise_worlds();
std::vector<World> scaled_product_worlds();
std::vector<World> moe_worlds();
std::vector<World> attention_worlds();

std::string json_line(const Tally& tally);
std::string table(const std::vector<Tally>& tallies);

}  // namespace assay::worlds
