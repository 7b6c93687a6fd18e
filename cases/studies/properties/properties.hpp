// Properties that inject: what a backend's kernels owe under clipping, locked scales, NaN, a cascade, pairs
// of formats and changed scales, as draws of RapidCheck that are judged as every case is, and shrunk where
// they fail.
#pragma once

#include <rapidcheck/Gen.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cases/studies/properties/steps.hpp"
#include "cases/subject.hpp"

namespace assay::properties {

// The draws of one subject, by their number.
struct Draws {
  std::function<rc::Gen<Steps>(std::uint64_t index)> draw;
  std::uint64_t least = 0;  // so many meet everything that the subject declares
};

struct Property {
  std::string_view name;
  std::string_view says;  // one line
  // Throws NotTaken where the subject has nothing that the property asks.
  Draws (*draws)(Subject&, std::uint64_t seed);
  // Whether the property holds for a draw. Throws NotTaken, and InputError for steps that cannot be.
  Verdict (*check)(Subject&, const Steps&);
  bool sequence = false;  // calls behind one another: each draw is made in a new process
};

std::span<const Property> properties();           // the one list
const Property& property(std::string_view name);  // throws InputError unknown_name

enum class Outcome : std::uint8_t { holds, broken, not_asked };
constexpr std::string_view to_string(Outcome o) {
  constexpr std::string_view kNames[] = {"holds", "BROKEN", "not asked"};
  return kNames[static_cast<std::size_t>(o)];
}

struct PropertyResult {
  const Property* property = nullptr;
  Outcome outcome = Outcome::not_asked;
  std::uint64_t draws = 0;    // that were judged
  std::uint64_t refused = 0;  // that the backend did not take
  std::string why;            // not asked: the reason; broken: what was found
  std::string line;           // broken: the case that shows it
  Steps found, shrunk;        // broken: the draw as it was, and what is left of it
  std::uint64_t tried = 0;    // broken: draws that shrinking looked at
  // Broken behind the draws before it alone: the shrunk draw by itself holds in a new process.
  bool history = false;
  double seconds = 0;
};

struct Effort {
  std::uint64_t draws = 100, seed = 1;
  bool whole = true;           // more draws where these do not meet everything that the subject declares
  double shrink_seconds = 60;  // after which the smallest draw so far is told
  std::function<bool()> stopped = {};  // asked between draws
};

// Draws until one breaks the property, and shrinks that.
PropertyResult check_property(const Property& property, Subject& subject, const Effort& effort);
// One draw, in a new process.
PropertyResult check_draw(const Property& property, Subject& subject, const Steps& steps);

}  // namespace assay::properties
