// What a property draws, as text: "clip to=int8_tensor times=8; read row=0". One line of it repeats the draw.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay::properties {

struct Step {
  std::string name;
  std::vector<std::pair<std::string, std::string>> values;

  // Throw InputError: bad_value for a value that is missing or outside of what is allowed.
  const std::string& text(std::string_view key) const;
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high) const;
  double real(std::string_view key, double low, double high) const;
  std::string print() const;
};
using Steps = std::vector<Step>;

std::string print(const Steps& steps);
// Throws InputError bad_value for a step without a name, a word without '=', a key that stands twice.
Steps parse_steps(std::string_view text);

}  // namespace assay::properties
