// The fourteen links from an FP8 cache with a scale made once to "!!!!", found in what the monitors saw.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cases/studies/cascade/engine.hpp"
#include "cases/studies/cascade/report.hpp"
#include "reference/inputs/random.hpp"

namespace assay::scenarios {

// What prompts are made of, by the draws of `draw` from `index` on. Text tokens, all different: they walk the
// successor cycle backwards in even steps. Four tokens of an image: one beyond every range, one of which K
// alone clips throughout, a weaker one, and text.
std::vector<int> text_prompt(const Stream& draw, std::uint64_t index, int count);
std::vector<int> image_prompt(const Stream& draw, std::uint64_t index);

// The published traffic: a text request that locks the scales, then an image request whose K reaches 50, a
// request that shares its image while it still runs, a text request, and later the shared image again.
std::vector<Request> published_traffic(std::uint64_t seed);
// The other way round: the image first, then text that uses a small part of the codes.
std::vector<Request> opposite_traffic(std::uint64_t seed);
// Text only; nothing leaves the range.
std::vector<Request> text_traffic(std::uint64_t seed);
// Two requests that share two pages and arrive in the same step.
std::vector<Request> together_traffic(std::uint64_t seed);

std::vector<CascadeLink> links_of(const Monitors& monitors);
bool in_order(const std::vector<CascadeLink>& links);

struct CascadeOptions {
  std::uint64_t seed = 1;
  int layers = 3;
  Variance variance = Variance::one_pass;
  std::string traffic = "published";
  Settings settings;
  ModelShape shape;  // layers above
  bool remedies = true;
  bool compare = true;
};
using MakeArithmetic = std::function<std::unique_ptr<Arithmetic>(Variance)>;
std::vector<Request> traffic_named(const std::string& name, std::uint64_t seed);  // throws InputError
CascadeReport run_cascade(const CascadeOptions& options, const MakeArithmetic& make);

}  // namespace assay::scenarios
