// The JSON report of a live run, schema "assay-cascade-live" version 1 (README.md), and reading it back.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cases/studies/cascade/live/detectors.hpp"

namespace assay::live {

nlohmann::ordered_json report_json(const LiveOptions& options, const Transcript& transcript,
                                   const std::vector<Verdict>& verdicts, int requests,
                                   const std::vector<std::string>& notes);

// One member of its `exchanges`, and a line of the file that is written while they come.
nlohmann::ordered_json exchange_json(const Exchange& exchange);

struct EarlierRun {
  std::string nonce, order;
  std::vector<Exchange> exchanges;
};
// Of the option that named the path. Throws InputError.
EarlierRun read_report(const std::string& path, const char* option = "--against");

}  // namespace assay::live
