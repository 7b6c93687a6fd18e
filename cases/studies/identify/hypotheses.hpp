// Schedules that a kernel may have, from the simple to the involved, and the search among them by replay.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cases/studies/identify/subject.hpp"

namespace assay {

// Sums of one slice in one chunk. Of products in formats `a` and `b` (scalar formats): every matrix unit that
// takes both and whose model is no assumption, what silicon was seen to do first.
std::vector<Schedule> unit_schedules(std::string_view a, std::string_view b);
// Lanes of every width, fold and tail, in cascades and behind heads, of f32 and, in one lane, of the other
// floating accumulators, for `n` terms. Sums of plain numbers have no fma.
std::vector<Schedule> lane_schedules(std::int64_t n, bool products = true);
// Vectors of lanes that are folded in f32 and added one after another in f64.
std::vector<Schedule> double_schedules(std::int64_t n, bool products);
// How a kernel may cut n terms into chunks and slices: `inner` in each of them.
std::vector<Schedule> outer_schedules(const Schedule& inner, std::int64_t n);
// A unit's sums promoted within slices: chunks of 1, 2, 4, 8 and 16 blocks in each way of slicing that cuts
// no chunk.
std::vector<Schedule> promoted_slices(const Schedule& unit, std::int64_t n);

}  // namespace assay
