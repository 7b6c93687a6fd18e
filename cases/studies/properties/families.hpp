// The draws and checks that the list in properties.cpp names, and what they draw with.
#pragma once

#include <rapidcheck.h>

#include <string>
#include <vector>

#include "cases/studies/properties/properties.hpp"

namespace assay::property_families {

using properties::Broken;
using properties::Draws;
using properties::NotTaken;
using properties::Step;
using properties::Steps;
using properties::Subject;
using properties::Verdict;

Draws draw_clip(Subject&, std::uint64_t seed);
Verdict check_clip(Subject&, const Steps&);
Draws draw_locked(Subject&, std::uint64_t seed);
Draws draw_nan(Subject&, std::uint64_t seed);
Verdict check_requests(Subject&, const Steps&);
Draws draw_cascade(Subject&, std::uint64_t seed);
Verdict check_cascade(Subject&, const Steps&);
Draws draw_fallbacks(Subject&, std::uint64_t seed);
Verdict check_fallback(Subject&, const Steps&);
Draws draw_scales(Subject&, std::uint64_t seed);
Verdict check_scales(Subject&, const Steps&);

// Inside of rc::gen::exec. A whole number of [low, high], which shrinks to low, whatever RapidCheck's size
// is.
std::int64_t drawn(std::int64_t low, std::int64_t high);
// One of a list; it shrinks to the first.
template <typename List>
auto one_of(const List& list) {
  return list[static_cast<std::size_t>(drawn(0, static_cast<std::int64_t>(std::size(list)) - 1))];
}
std::string number(std::int64_t n);

// The lines that the subject takes, of those that are possible. Asked once: declarations touch no data.
std::vector<std::string> taken(Subject& subject, const std::vector<std::string>& lines);
// The same draws, whatever their number.
Draws always(rc::Gen<Steps> draws);
// The one step of a draw. Throws InputError where there are others, or it has another name.
const Step& only(const Steps& steps, std::string_view name);

}  // namespace assay::property_families
