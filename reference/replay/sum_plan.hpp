// A schedule spelt out for n terms: the additions themselves, one after another. What replays execute and
// trees are drawn from.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/replay/schedule.hpp"

namespace assay {

enum class Width : std::uint8_t { f64, f32, f16, bf16 };
Width width_of(std::string_view name);  // of the four names that a schedule takes
double round_to_width(double x, Width width);

struct SumOp {
  enum Kind : std::uint8_t {
    first,  // r[at] = term `begin`, its product rounded
    step,   // r[at] = r[at] + term `begin`
    block,  // r[at] = the unit's chain over terms [begin, end) from r[at]
    zero,   // r[at] = 0
    add,    // r[at] = r[at] + r[from]
    round,  // r[at] = r[at], rounded
  };
  Kind kind;
  Width width;  // of the rounding; of `block` the unit's own
  std::int32_t at, from;
  std::int64_t begin, end;
  int promote;        // of `block`: GemmOptions::promote
  const char* where;  // "head", "step", "cascade", "fold", "tail", "chunk", "merge": what a message calls it
};

struct SumPlan {
  const MatrixUnit* unit = nullptr;
  bool fma = false;
  std::int64_t terms = 0;
  std::int32_t registers = 0, result = 0;
  std::vector<SumOp> ops;
};

// Two rows of matrix_units() with one model: no output tells them apart.
bool same_arithmetic(const MatrixUnit& a, const MatrixUnit& b);

// Equal for two plans that make the same bits of any terms because they make the same additions, whatever
// their schedules are called: additions commute, and where a sum is kept does not matter. (Different plans
// differ here but for a collision of 64 bits.)
std::uint64_t signature(const SumPlan& plan);

// Throws InputError bad_value where slices cut a block of the unit.
SumPlan plan_sum(const Schedule& schedule, std::int64_t n);

}  // namespace assay
