// Which arithmetic a fused mixture of experts has, from the bits of its outputs.
//
// Each product is seen by itself, as a matrix product (subject.hpp), through weights that make all the rest
// exact:
//   up    x's last column is 1 and gate's rows read it alone, 32 times: g = 32, and silu(32) = 32 in f32
//         (e^-32 < 2^-25). w2 is 2^-5 on its diagonal: y = v, rounded as h and y are
//   down  gate as before; token t's x is 2^-5 in column t, by which up's rows give it any h there is: y = w2
//         h, rounded as y is
// All tokens go to one expert with weight 1; the token's other slots have weight 0. Where h becomes codes
// with a scale absmax / D, one of its elements is D times a power of two, so that the scale is one too. What
// is left, the roundings between the products, the exponential, the place of the weight and the order of the
// slots, is held against whole calls on drawn inputs, as is everything.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cases/studies/identify/call_card.hpp"
#include "cases/studies/identify/identify.hpp"
#include "cases/studies/identify/subject.hpp"
#include "reference/replay/grouped_schedule.hpp"

namespace assay {

// A contract of moe under level=replay.
struct MoeArithmetic {
  GroupedSchedule up, down;
  std::string gate_up = "f32", h = "f32", expert_out = "f32", weight = "after";  // keys of the contract
  std::string exp = "libm", silu = "quotient", combine = "experts",
              code = "division";  // words of the schedule
  bool operator==(const MoeArithmetic&) const = default;
};
// "exp=nearest up.acc=f32 up.lanes=16 down.acc=f32 down.lanes=16": what replayed_moe.hpp reads.
std::string print_schedule(const MoeArithmetic& arithmetic);
// "acc=f32 gate_up=bf16 level=replay schedule=...": keys at their defaults are left out.
std::string print_contract(const MoeArithmetic& arithmetic);

// A whole call on drawn inputs.
struct MoeAnswer {
  std::string line;
  std::vector<double> got;
  // What a kernel of this contract stores of the same inputs; NaN where nothing is claimed. Throws InputError
  // where it fits none.
  std::function<std::vector<double>(const std::string& contract)> replay;
};

class MoeSubject {
 public:
  virtual ~MoeSubject() = default;
  // Products of `rows` tokens; n of what one call shows.
  virtual GemmSubject& up() = 0;
  virtual GemmSubject& down() = 0;
  virtual GemmShape up_shape() const = 0;
  virtual GemmShape down_shape() const = 0;
  virtual bool scaled() const = 0;  // whether the products have scales in their epilogue
  virtual std::string hidden_format()
      const = 0;  // what the second path makes of h: f32, f16, bf16, or an element of codes
  // One call of each product, which shows to what it is rounded before y's store.
  virtual void look() = 0;
  // nullopt where the kernel does not take the call; throws std::runtime_error where it fails.
  virtual std::optional<MoeAnswer> drawn(std::uint64_t seed) = 0;
  // The value of a key of the declared contract, its default where it is left out. Throws InputError for a
  // contract that is none.
  virtual std::string declared(const std::string& key) const = 0;
  int calls = 0;
  std::string declared_contract, declared_path;  // of the last call
  std::vector<std::string> kernels;
};

using MoeCard = CallCard<MoeArithmetic>;

struct MoeSearchOptions {
  std::int64_t outputs = 10'000;  // to compare at least, under two seeds at least
  int most_draws = 1000, masks = 8;
  double seconds = 20;  // of search, for each product
};

// What a product's rows admit: the schedule of all of them and its alternatives, or of rows in groups, with
// each order of scales where the operands have some. Empty where a row has none.
std::vector<GroupedSchedule> schedules_of_rows(const ShapeCard& card, bool scaled);
// Of a product whose rows have one schedule at most.shape.m rows: what 1, 2, 4, ... rows have instead, each
// with the count from which on it is another one, ascending. Empty where it is the same everywhere, and where
// one of them is not found or a border is not.
std::vector<std::pair<std::int64_t, Schedule>> schedules_of_few_rows(GemmSubject& part, const ShapeCard& most,
                                                                     IdentifyOptions options);

// `known`: found at other calls, tried first.
MoeCard identify_moe(MoeSubject& subject, const std::vector<MoeArithmetic>& known,
                     const MoeSearchOptions& options = {});

}  // namespace assay
