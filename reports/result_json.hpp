// One result as JSON: a row of the report, and a line of the record. Read back, it is the same result.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "harness/result.hpp"

namespace assay {

nlohmann::ordered_json to_json(const CaseResult& r);
// The result of the case `c`, of which `row` holds all but the case itself. Throws nlohmann::json::exception
// or InputError for a row that is none, and for one of another case.
CaseResult result_of(const nlohmann::ordered_json& row, const Case& c);

// Where an output is wrong (field "where").
nlohmann::ordered_json where_json(const BadElements& where);

// JSON has no infinity: a ratio that no limit would allow is the text "inf".
nlohmann::ordered_json json_number(double x);

}  // namespace assay
