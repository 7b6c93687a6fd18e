#include "cases/studies/silicon/vector_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <istream>
#include <regex>

#include "reference/error.hpp"
#include "reference/mix.hpp"
#include "reference/near_names.hpp"

namespace assay::silicon {
namespace {

constexpr std::string_view kFirstLine = "assay vectors 1";

[[noreturn]] void refuse(const std::string& why) {
  throw InputError(InputErrorKind::bad_value, "not a file of vectors to import: " + why);
}

template <class Number>
Number number_of(const std::string& text, int base, const std::string& what) {
  Number n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    refuse(fmt::format("{} '{}' is no number", what, text));
  return n;
}

std::string units_of(const std::vector<Vector>& vectors) {
  std::vector<std::string_view> names;
  for (const Vector& v : vectors)
    if (std::ranges::find(names, v.how->unit) == names.end()) names.push_back(v.how->unit);
  return fmt::format("{}", fmt::join(names, " "));
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string head_of(const VectorFile& f, const std::string& units, std::size_t count) {
  return fmt::format("{}\ndevice {}\narchitecture {}\ndriver {}\nseed {}\nunits {}\ncount {}\n", kFirstLine,
                     one_line(f.device), f.architecture, one_line(f.driver), f.seed, units, count);
}

// The part of a vector's line in front of d, and behind it.
std::pair<std::string, std::string> around_result(const Vector& v) {
  const std::string line = vector_line(v);
  const std::size_t tail = v.what.size() + 1,
                    digits = 2 * static_cast<std::size_t>(v.how->accumulator_bytes());
  return {line.substr(0, line.size() - tail - digits), line.substr(line.size() - tail)};
}

void read_result(Vector& v, const std::string& line, std::size_t number, std::uint64_t seed) {
  const auto [before, after] = around_result(v);
  if (!line.starts_with(before) || !line.ends_with(after) || line.size() < before.size() + after.size()) {
    refuse(fmt::format("line {} is not what seed {} asks of {}: got '{}', wanted '{}d{}'", number, seed,
                       v.how->name, line, before, after));
  }
  const std::string code = line.substr(before.size(), line.size() - before.size() - after.size());
  const auto digits = 2 * static_cast<std::size_t>(v.how->accumulator_bytes());
  if (code.size() != digits || code.find_first_not_of("0123456789abcdef") != std::string::npos)
    refuse(fmt::format("line {}: the result '{}' is not {} hex digits", number, code, digits));
  v.d = number_of<std::uint32_t>(code, 16, "the result");
}

std::vector<Neighbour> family(const MatrixUnit& unit, const Instruction& how) {
  std::vector<Neighbour> all = neighbours(unit);
  for (const MatrixUnit& other : matrix_units()) {
    if (&other == &unit || other.out != unit.out || other.scale_block != 0 || !accepts(other, how.a_format) ||
        !accepts(other, how.b_format))
      continue;
    all.push_back({std::string(other.name), [&other](const Operand& a, const Operand& b, double c) {
                     return fused_dot(other, a, b, c);
                   }});
  }
  return all;
}

std::vector<UnitAgreement::Fit> fits_of(const MatrixUnit& unit, const std::vector<const Vector*>& vectors) {
  std::vector<UnitAgreement::Fit> fits;
  for (const Neighbour& model : family(unit, *vectors.front()->how)) {
    std::size_t differ = 0;
    for (const Vector* v : vectors) {
      const Element e = element_of(*v);
      differ += agrees(*v, model.compute({e.a, v->how->a_format}, {e.b, v->how->b_format},
                                         static_cast<double>(e.c)))
                    ? 0
                    : 1;
    }
    fits.push_back({model.what, differ});
  }
  std::ranges::stable_sort(fits, {}, &UnitAgreement::Fit::differ);
  return fits;
}

}  // namespace

std::vector<Vector> asked_of(const std::string& architecture, std::uint64_t seed) {
  std::vector<Vector> all;
  for (const Instruction* how : instructions_of(architecture)) {
    for (std::vector<Vector> some :
         {questions(*how), discriminating_vectors(*how, kEach, seed), drawn_vectors(*how, kDrawn, seed)})
      all.insert(all.end(), some.begin(), some.end());
  }
  if (all.empty()) {
    throw InputError(InputErrorKind::unknown_name,
                     fmt::format("no matrix instruction of architecture '{}' is known; known: {}",
                                 architecture, fmt::join(architectures(), " ")));
  }
  return all;
}

std::uint64_t digest_of(const std::string& text) {
  std::uint64_t state = text.size();
  for (const char c : text) state = mix(state ^ static_cast<unsigned char>(c));
  return state;
}

std::string vector_file_text(const VectorFile& file) {
  const std::string head = head_of(file, units_of(file.vectors), file.vectors.size());
  std::string lines;
  for (const Vector& v : file.vectors) lines += vector_line(v) + "\n";
  return fmt::format("{}digest {:016x}\n{}", head, digest_of(head + lines), lines);
}

VectorFile read_vector_file(std::istream& in) {
  std::string line;
  if (!std::getline(in, line) || line != kFirstLine)
    refuse(fmt::format("it does not begin with '{}'", kFirstLine));
  std::array<std::string, 7> field;
  constexpr std::array<std::string_view, 7> kKeys = {"device", "architecture", "driver", "seed",
                                                     "units",  "count",        "digest"};
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    const std::string key = fmt::format("{} ", kKeys[i]);
    if (!std::getline(in, line) || !line.starts_with(key))
      refuse(fmt::format("its line {} is not '{}...'", i + 2, key));
    field[i] = line.substr(key.size());
  }
  VectorFile file{field[0], field[1], field[2], number_of<std::uint64_t>(field[3], 10, "seed"), {}};
  const auto count = number_of<std::size_t>(field[5], 10, "count");
  const auto digest = number_of<std::uint64_t>(field[6], 16, "digest");
  std::vector<std::string> lines;
  std::string text = head_of(file, field[4], count);
  while (std::getline(in, line)) {
    if (in.eof()) refuse(fmt::format("truncated: line {} has no end", lines.size() + kKeys.size() + 2));
    text += line + "\n";
    lines.push_back(line);
  }
  if (lines.size() != count) {
    refuse(fmt::format("{}: it holds {} vectors, its header says {}",
                       lines.size() < count ? "truncated" : "something was added", lines.size(), count));
  }
  if (digest_of(text) != digest) {
    refuse(fmt::format("it was changed after it was written: its digest is {:016x}, its header says {:016x}",
                       digest_of(text), digest));
  }
  file.vectors = asked_of(file.architecture, file.seed);
  for (std::size_t i = 0; i < std::min(count, file.vectors.size()); ++i)
    read_result(file.vectors[i], lines[i], i + kKeys.size() + 2, file.seed);
  if (count != file.vectors.size()) {
    refuse(fmt::format("it answers {} questions; seed {} asks {} of {}", count, file.seed,
                       file.vectors.size(), file.architecture));
  }
  if (field[4] != units_of(file.vectors)) refuse(fmt::format("its units are '{}'", field[4]));
  return file;
}

std::vector<UnitAgreement> agreement(const VectorFile& file) {
  std::vector<UnitAgreement> all;
  for (const Vector& v : file.vectors) {
    const MatrixUnit* unit = &matrix_unit(v.how->unit);
    auto one = std::ranges::find(all, unit, &UnitAgreement::unit);
    if (one == all.end()) {
      all.push_back({unit, 0, {}, {}});
      one = all.end() - 1;
    }
    ++one->vectors;
    if (!agrees(v, model_result(v, *unit))) one->differ.push_back(v);
  }
  for (UnitAgreement& one : all) {
    if (one.differ.empty()) continue;
    std::vector<const Vector*> its;
    for (const Vector& v : file.vectors)
      if (v.how->unit == one.unit->name) its.push_back(&v);
    one.fits = fits_of(*one.unit, its);
  }
  return all;
}

std::string golden_text(const VectorFile& file, const std::vector<UnitAgreement>& units) {
  std::string text = fmt::format(
      "# instruction;a;b;c;d;what it shows or tells apart. Codes in hex, k ascending; d is what the GPU "
      "gave.\n"
      "# {}; architecture {}; driver {}; seed {}; imported from a file of vectors by assay-vectors\n",
      one_line(file.device), file.architecture, one_line(file.driver), file.seed);
  for (const Vector& v : file.vectors) {
    const auto one = std::ranges::find(units, &matrix_unit(v.how->unit), &UnitAgreement::unit);
    if (one != units.end() && one->differ.empty()) text += vector_line(v) + "\n";
  }
  return text;
}

std::string with_standing_silicon(const std::string& code, std::string_view unit, const std::string& source) {
  // name, combine, F, g, inputs, out, rounding, scales, per | standing, | source | least exponent and end
  const std::regex row(fmt::format(
      R"re((\n *\{{"{}", *\w+, *\d+, *\d+, *"[^"]*", *"[^"]*", *\w+, *"[^"]*", *\d+, *)(\w+, *)(\w+|"[^"]*")((, *[-\w]+)?\}},))re",
      unit));
  std::smatch found;
  if (!std::regex_search(code, found, row))
    throw InputError(InputErrorKind::unknown_name,
                     fmt::format("no row of matrix unit '{}' in that file", unit));
  if (found.str(2).starts_with("silicon,")) return code;
  return fmt::format("{}{}silicon,    \"{}\"{}{}", found.prefix().str(), found.str(1), source, found.str(4),
                     found.suffix().str());
}

}  // namespace assay::silicon
