#include "cases/studies/properties/properties.hpp"

#include <rapidcheck.h>
#include <rapidcheck/detail/TestListenerAdapter.h>

#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "cases/studies/properties/families.hpp"
#include "reference/mix.hpp"
#include "reference/near_names.hpp"

namespace assay::properties {
namespace {

using namespace property_families;

constexpr Property kProperties[] = {
    {"clipping",
     "beyond a scale's range a code is the last one of its sign, never NaN, and a renewed scale recovers",
     draw_clip, check_clip},
    {"locked",
     "a scale that is locked stays, and what it stores is what its range explains; other scales know no "
     "history",
     draw_locked, check_requests, true},
    {"nan",
     "a NaN stays in its rows, heads, requests and pages; a page that is used again tells nothing of its "
     "past",
     draw_nan, check_requests, true},
    {"cascade",
     "no NaN is born in a decoding model, or its links are told; a sound policy of scales never gets there",
     draw_cascade, check_cascade, true},
    {"fallbacks",
     "each pair of formats of K and V that is declared runs by its declared kernel, both ways round if "
     "promised",
     draw_fallbacks, check_fallback},
    {"scales", "scales multiply, whatever they span; sums split, merge and move to other pages", draw_scales,
     check_scales},
};

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What a draw came to; a failure of the backend's own is one of the property.
Verdict outcome(const Property& p, Subject& s, const Steps& steps) {
  try {
    return p.check(s, steps);
  } catch (const InputError&) {
    throw;
  } catch (const std::runtime_error& e) {
    return Broken{e.what(), s.last_line};
  }
}

}  // namespace

std::span<const Property> properties() { return kProperties; }

const Property& property(std::string_view name) {
  for (const Property& p : kProperties)
    if (p.name == name) return p;
  throw unknown_name("property", name, names_of(kProperties));
}

PropertyResult check_property(const Property& p, Subject& subject, const Effort& effort) {
  const auto start = Clock::now();
  PropertyResult r;
  r.property = &p;
  Draws draws;
  try {
    draws = p.draws(subject, effort.seed);
  } catch (const NotTaken& e) {
    r.why = e.why;
    return r;
  }
  const std::uint64_t wanted = std::max(effort.draws, effort.whole ? draws.least : 0);
  std::optional<Broken> broken;
  rc::detail::TestListenerAdapter listener;  // says nothing
  for (std::uint64_t i = 0; i < wanted && !broken; ++i) {
    if (effort.stopped && effort.stopped()) break;
    std::optional<Clock::time_point> found;
    std::exception_ptr trouble;
    // RapidCheck draws once and shrinks what fails; how many draws there are, and which one is the next, is
    // known here alone.
    const auto once = [&] {
      if (found && seconds_since(*found) > effort.shrink_seconds) return;
      try {
        const Steps steps = *draws.draw(i);
        if (p.sequence || found) subject.restart();
        const auto verdict = outcome(p, subject, steps);
        if (found) ++r.tried;
        if (!verdict) {
          r.draws += found ? 0 : 1;
          return;
        }
        if (!found) {
          r.found = steps;
          found = Clock::now();
          r.draws += 1;
        }
        broken = verdict, r.shrunk = steps;
      } catch (const NotTaken& e) {
        r.refused += found ? 0 : 1;
        if (r.why.empty()) r.why = e.why;
        return;
      } catch (const InputError&) {  // of a draw that cannot be: ours, and no kernel's
        trouble = std::current_exception();
        return;
      }
      RC_FAIL("broken");
    };
    rc::detail::TestParams params;
    params.seed = mix(effort.seed ^ mix(i));
    params.maxSuccess = 1;
    const auto result = rc::detail::checkTestable(once, rc::detail::TestMetadata{}, params, listener,
                                                  std::unordered_map<std::string, rc::detail::Reproduce>{});
    if (trouble) std::rethrow_exception(trouble);
    if (rc::detail::Error error; result.match(error)) throw std::runtime_error(error.description);
  }
  if (broken) {
    r.outcome = Outcome::broken, r.why = broken->why, r.line = broken->line;
    subject.restart();
    r.history = !outcome(p, subject, r.shrunk);
  } else if (r.draws > 0) {
    r.outcome = Outcome::holds, r.why.clear();
  }
  r.seconds = seconds_since(start);
  return r;
}

PropertyResult check_draw(const Property& p, Subject& subject, const Steps& steps) {
  const auto start = Clock::now();
  PropertyResult r;
  r.property = &p, r.found = r.shrunk = steps;
  subject.restart();
  try {
    const auto broken = outcome(p, subject, steps);
    r.draws = 1, r.outcome = broken ? Outcome::broken : Outcome::holds;
    if (broken) r.why = broken->why, r.line = broken->line;
  } catch (const NotTaken& e) {
    r.why = e.why, r.refused = 1;
  }
  r.seconds = seconds_since(start);
  return r;
}

}  // namespace assay::properties
