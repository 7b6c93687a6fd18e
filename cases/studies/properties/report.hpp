// What `assay properties` found, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cases/studies/properties/properties.hpp"

namespace assay::properties {

// One line of a property that holds, or was not asked; of one that is broken what was found and the command
// that repeats it.
std::string describe(const PropertyResult& result, const std::string& backend, std::uint64_t seed);
std::string command_of(const PropertyResult& result, const std::string& backend, std::uint64_t seed);
// "5 of 6 properties hold, 1 is broken".
std::string headline(const std::vector<PropertyResult>& results);
// Schema "assay-properties" version 1: reports/schema.md.
std::string as_json(const std::vector<PropertyResult>& results, const std::string& backend,
                    const Effort& effort, bool complete);
// How many values a draw has in all its steps.
std::size_t values_of(const Steps& steps);

}  // namespace assay::properties
