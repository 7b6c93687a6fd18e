// The one file that somebody with a device that this project has not sends back: what an architecture's
// matrix instructions gave for inputs that a seed determines.
//
//   assay vectors 1
//   device NAME            as its driver says
//   architecture gfx1201   what instructions_of() takes
//   driver VERSION
//   seed S
//   units UNIT...          whose questions these are
//   count N
//   digest H               64 bits over all other lines, by digest_of()
//   then N lines as vector_line() writes them
//
// The digest finds what went wrong on the way (a cut, an editor, a mail program). It does not stop a forger,
// who can compute it as well as we: whether to believe the sender is a question for people.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "cases/studies/silicon/vectors.hpp"

namespace assay::silicon {

struct VectorFile {
  std::string device, architecture, driver;
  std::uint64_t seed = 0;
  std::vector<Vector> vectors;
};

// What an architecture is asked: of each of its instructions the questions written by hand, kEach vectors for
// each neighbour of its unit's model, and kDrawn adversarial draws; d is what the model gives. A pure
// function of both arguments and of the models in this version. Throws InputError unknown_name where no
// instruction is known.
inline constexpr int kEach = 4, kDrawn = 256;
std::vector<Vector> asked_of(const std::string& architecture, std::uint64_t seed);

std::uint64_t digest_of(const std::string& text);
std::string vector_file_text(const VectorFile& file);
// Throws InputError: bad_value, with the line and what is wrong, for a header that is not as above, for fewer
// or more lines than `count`, for another digest, for a line whose inputs are not those that the seed
// determines, and for a result that is not a code of the accumulator.
VectorFile read_vector_file(std::istream& in);

// How far a file agrees with one unit's model.
struct UnitAgreement {
  const MatrixUnit* unit;
  std::size_t vectors = 0;
  std::vector<Vector> differ;  // d is the device's
  struct Fit {
    std::string model;
    std::size_t differ;
  };
  std::vector<Fit> fits;  // only where something differs: the family's models, the best first
};
// For each unit of the file, in its order: the unit's model, its neighbours and every other unit that takes
// the same operands into the same result are judged by all the file's vectors of that unit.
std::vector<UnitAgreement> agreement(const VectorFile& file);

// Golden data of the units that agree in every vector: lines as read_vectors() takes them, the origin in
// comments.
std::string golden_text(const VectorFile& file, const std::vector<UnitAgreement>& units);
// The text of matrix_unit.cpp with the row of `unit` standing `silicon` and `source` as its source, or as it
// was where that row's standing is `silicon` already. Throws InputError
// unknown_name when there is no such row.
std::string with_standing_silicon(const std::string& code, std::string_view unit, const std::string& source);

}  // namespace assay::silicon
