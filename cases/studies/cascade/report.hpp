// The chain report of a run of the "!!!!" cascade: plain data, and how it is printed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace assay {

struct CascadeLink {
  int number = 0;  // 1..14
  std::string name;
  bool fired = false;
  std::size_t order = 0;  // which observation of the run it was
  int layer = -1, token = -1, request = -1;
  double value = 0;
  std::string evidence;
};
struct CascadeRemedy {
  std::string name;        // "variance=welford"
  std::vector<int> links;  // that still fire
  int stopped_at = 0;      // the first link that no longer does; 0: none
  std::string answers;     // what the requests now answer
};
struct CascadeObservation {
  std::string watch;
  int layer, token, request;
  double value;
  std::string detail;
};
// Tokens x layers of one request: '.' clean, 'c' clipped, 'N' NaN, ' ' not computed (a cached prefix).
struct CascadePicture {
  std::string request;
  std::vector<std::string> layers;
};
struct CascadeDivergence {
  std::string against;  // "the same policy in f64", "no quantisation in f64"
  std::string stage;    // "" when there is none
  int layer = -1, token = -1, request = -1;
  std::string what;
};
struct CascadeVariance {
  int width;
  double variance;  // as the norm's own kernel computes it; 0: not below -1e-12
};
struct CascadeReport {
  std::string backend, arithmetic, policy, variance, norm, traffic;
  std::uint64_t seed = 0;
  std::vector<CascadeLink> links;
  bool in_order = false;
  std::string note;  // why the chain stopped where it did; "" when it did not
  std::vector<CascadeVariance> variances;
  std::string first_cause;  // "" when no monitor fired
  std::vector<CascadeRemedy> remedies;
  std::vector<CascadeObservation> observations;
  std::vector<std::pair<std::string, std::string>> answers;  // request, tokens
  std::vector<CascadePicture> pictures;
  std::vector<std::pair<std::string, double>> nan_fraction;  // by stage
  std::vector<CascadeDivergence> divergences;
  double seconds = 0, monitor_seconds = 0;
  int steps = 0, prefix_hits = 0, evictions = 0, reused_pages = 0;

  int fired() const;
  std::string last_line() const;  // "14 of 14 links"
};

std::string cascade_text(const CascadeReport& report);
std::string cascade_json(const CascadeReport& report);
std::string cascade_html(const CascadeReport& report);

}  // namespace assay
