// The search: points are drawn, and climbed by one change at a time towards a larger error / limit.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "cases/studies/adversary/family.hpp"
#include "reference/arithmetic/contract.hpp"

namespace assay::adversary {

// What a point shows.
struct Shown {
  bool possible = false;    // the op takes it
  std::string refusal;      // why not
  std::string contract;     // as it was said
  std::size_t outputs = 0;  // judged
  double ratio = 0;         // the largest error / limit
  std::string where;        // of it: "y[3]: got 1, true 0, limit 0.5"
};
Shown show(const Point& point);

// A point taken apart: its inputs, what its kernel says, and what it returns. Each throws InputError where
// the op does not take it.
struct Run {
  Attributes attributes;
  TensorSet set;
  Contract contract;
  Outputs outputs;
};
Run run_of(const Point& point);
// other: judged by this contract instead.
std::vector<Truth> truths_of(const Point& point, const Run& run, const Contract* other = nullptr);

struct Finding {
  Point point;
  Shown shown;
};

struct Score {
  std::size_t outputs = 0, points = 0, refused = 0, violations = 0;
  double worst = 0;
  std::string repro;
};

struct SearchOptions {
  std::uint64_t seed = 1;
  double seconds = 10;
  std::size_t outputs = 0;  // 0: as many as the time allows
  int climb = 24;           // changes that are tried from each drawn point
  std::string defect = "none";
  Choices fixed;  // attributes and choices that are not drawn
  bool stop_at_violation = false;
  std::function<Shown(const Point&)> score = show;  // what is climbed; above 1 it is a finding
  std::function<void(const Finding&)> found;        // each point whose ratio is above 1, after its climb
};

// A point of the family's space, and one that differs from `point` by one change.
Point draw_point(const Family& family, const SearchOptions& options, Draw& draw);
Point changed(const Family& family, const SearchOptions& options, Point point, Draw& draw);

// By contract word ("order=tree"), and under "" all of them.
using Scores = std::map<std::string, Score>;
Scores search(const Family& family, const SearchOptions& options);

}  // namespace assay::adversary
