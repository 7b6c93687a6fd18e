#include "cases/studies/adversary/corpus.hpp"

#include <fmt/format.h>

#include <fstream>

#include "reference/error.hpp"

namespace assay::adversary {

std::vector<KnownPoint> read_corpus(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw InputError(InputErrorKind::bad_value, "cannot read " + file);
  std::vector<KnownPoint> points;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos)
      throw InputError(InputErrorKind::bad_value, fmt::format("{}: '{}' has no name", file, line));
    points.push_back({line.substr(0, colon), line.substr(colon + 2)});
  }
  return points;
}

}  // namespace assay::adversary
