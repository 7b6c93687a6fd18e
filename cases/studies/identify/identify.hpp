// The arithmetic card of a matrix product: which schedule a kernel has at each shape asked for, with the
// evidence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cases/studies/identify/crafted.hpp"
#include "cases/studies/identify/masks.hpp"
#include "cases/studies/identify/search.hpp"
#include "cases/studies/identify/subject.hpp"

namespace assay {

struct IdentifyOptions {
  int most_mask_calls = 8;
  std::int64_t least_outputs =
      10'000;  // compared bit for bit before a schedule is called identified, under two seeds at least
  int most_draws = 64;
  double search_seconds = 20;     // of cuts into chunks and slices, for each shape
  std::int64_t most_outputs = 0;  // more draws until so many outputs are compared; 0: least_outputs
};

// One schedule field with what would have shown another value.
struct Evidence {
  std::string field, value;
  std::string against;       // "fma=no: 812 of 4096 outputs differ"; "" where nothing else is possible
  bool concluded = true;     // false: another value gives the same bits on all that was asked
  std::string columns = {};  // whose schedule it is of; "" where all have one
};

// One shape.
struct ShapeCard {
  GemmShape shape;
  std::vector<RowPiece> pieces;
  std::vector<Evidence> evidence;  // of the first piece's schedule
  std::string masks;               // how term 0 meets the others; "" where masks could not be asked
  std::string tree;
  std::string line;             // the case line of the first drawn call, seed 1
  std::uint64_t last_seed = 1;  // and the seed of the last one
  std::string
      tiny;  // what is not claimed of numbers near the least exponents; "" where all bits are equal there too
  int calls = 0;
  double seconds = 0;
  bool sharp = false;   // products that cancel were asked, and left rounding errors to see
  std::string refused;  // the kernel does not take this shape, or failed
  std::vector<std::string> kernels;
  std::string declared_contract, declared_path;
  std::string operands_rounded;  // as the subject says

  bool identified() const;
  bool concludes(
      std::string_view field) const;  // no other value of it gives the same bits; true where none is possible
  std::int64_t compared() const;
};

// `known`: schedules found at other shapes, tried first.
ShapeCard identify_shape(GemmSubject& subject, const GemmShape& shape, const std::vector<Schedule>& known,
                         const IdentifyOptions& options = {});

// Shapes whose schedules can be one: where an alternative fits all of them it becomes the schedule of each,
// so that a region is as large as it can be.
void unify(std::vector<ShapeCard>& shapes);

// Where the schedule changes between two shapes that differ along one axis ('m', 'n' or 'k') and have other
// schedules: the last value that has the first one, found by halving. Only as good as its premise that it
// changes once; nullopt where a shape in between has neither.
struct Border {
  char axis;
  std::int64_t last, next;
};
std::optional<Border> find_border(GemmSubject& subject, const ShapeCard& low, const ShapeCard& high,
                                  char axis);

}  // namespace assay
