// Cells measured: the op runs and is judged as a case is, and its output is read for the fingerprints.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cases/studies/sweep/planting.hpp"
#include "harness/judge.hpp"

namespace assay::sweep {

// Keeps the inputs of the last cell: cells that differ in backend and variant only share them, and their
// truths.
class Measurer {
 public:
  // keep: a folder for the case file of each cell that is red, which `assay hunt`, `shrink` and `attribute`
  // take; "" for none.
  Measurer(Workers& workers, JudgeOptions options, double memory_bytes, std::string keep = {})
      : workers_(workers),
        options_(std::move(options)),
        memory_bytes_(memory_bytes),
        keep_(std::move(keep)) {}

  // One object of the sweep's JSON Lines (README.md names its fields). What ends a cell is its verdict;
  // throws Stopped when the run is ended, and InputError for a backend that is not there.
  nlohmann::ordered_json measure(const Cell& cell);

 private:
  Workers& workers_;
  JudgeOptions options_;
  double memory_bytes_;
  std::string keep_;
  std::string inputs_;
  std::optional<Planted> planted_;
  std::optional<TruthCache> truths_;
};

// What is counted of one reading: right answers in all, by depth, and by rung of a ladder.
nlohmann::ordered_json counts(const Planted& planted, const Reading& reading, std::int64_t keys);

}  // namespace assay::sweep
