// Products whose columns are not all summed alike: kernels serve columns in vectors, and what is left behind
// the last whole one by another loop.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cases/studies/identify/identify.hpp"
#include "reference/replay/grouped_schedule.hpp"

namespace assay {

// identify_shape; where columns_alike tells columns apart each kind is asked as a kernel of its own, and has
// pieces and evidence of its own.
ShapeCard identify_columns(GemmSubject& subject, const GemmShape& shape, const std::vector<Schedule>& known,
                           const IdentifyOptions& options = {});

// The schedule of a shape whose rows are summed alike; nullopt where it is unknown, or no schedule by groups
// of columns. Of the groups that leave these columns the smallest, of four at least.
std::optional<GroupedSchedule> schedule_of_rows(const ShapeCard& card);

// "0..3,7": places, ascending.
std::string places_text(const std::vector<std::int64_t>& places);

}  // namespace assay
