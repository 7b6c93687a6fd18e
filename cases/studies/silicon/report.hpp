// What assay-silicon prints and writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cases/studies/silicon/campaign.hpp"

namespace assay::silicon {

std::string timestamp();       // UTC, ISO 8601
std::string driver_version();  // of /proc/driver/nvidia/version, "" where there is none

void print_tally(const Instruction& how, const Tally& tally, double seconds);
// {"device", "driver", "date", "command", "seed", "instructions": {name: {...}}}
std::string tally_json(const std::string& provenance_json,
                       const std::vector<std::pair<std::string, Tally>>& tallies);

std::string_view function_name(Function f);
void absorb(UlpRow& row, const UlpRow& other);  // one row for the inputs of both
// One line a function, sign and binade:
//   function,sign,exponent,inputs,not_nearest,max_ulp,worst,max_relative,max_ulp_subnormal,worst_subnormal
// Neighbouring rows all of whose results are the nearest are one: "low..high".
std::string table_csv(Function f, const std::vector<UlpRow>& rows);

}  // namespace assay::silicon
