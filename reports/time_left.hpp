// How long a run will still take: by what its cases weigh, not by how many there are.
#pragma once

#include <map>
#include <string>

namespace assay {

// Of each op the seconds per weight are those of its cases so far; of an op that none has come from yet,
// those of all ops together. Weights: weight_of() in harness/budget.hpp.
//   seconds left = sum over ops of (weight to come) * (seconds per weight) / jobs
class TimeLeft {
 public:
  void expect(const std::string& op, double weight) { ops_[op].to_come += weight; }
  void done(const std::string& op, double weight, double seconds) {
    Part& part = ops_[op];
    part.to_come -= weight;
    for (Part* p : {&part, &all_}) p->weight += weight, p->seconds += seconds;
  }
  double seconds(int jobs) const {
    double left = 0;
    for (const auto& [op, part] : ops_) {
      const Part& known = part.weight > 0 ? part : all_;
      if (known.weight > 0 && part.to_come > 0) left += part.to_come * known.seconds / known.weight;
    }
    return left / jobs;
  }

 private:
  struct Part {
    double to_come = 0, weight = 0, seconds = 0;
  };
  std::map<std::string, Part> ops_;
  Part all_;
};

}  // namespace assay
