// The mini decode engine: continuous batching over a paged KV cache with prefix caching, layer by layer
//   n = norm(x)   Q, K, V = n W   K, V -> cache (quantised on write)   o = attention(Q, cache)
//   x += subnorm(o) Wo            x += relu(norm(x) Wup) Wdown         logits = norm(x) U   argmax
// subnorm is the second norm of an attention block that sits before its output projection (Sub-LN, Magneto,
// arXiv:2210.06423). All activations f32. Prompts are fed a page at a time; decode steps of several requests
// run in one batch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cases/studies/cascade/arithmetic.hpp"
#include "cases/studies/cascade/cache.hpp"
#include "cases/studies/cascade/model.hpp"
#include "cases/studies/cascade/monitors.hpp"

namespace assay::scenarios {

enum class Policy : std::uint8_t {
  locked,
  locked_dummy,
  locked_zero,
  per_request,
  per_token,
  per_head,
  calibrated,
  split,
  fixed,
  none,
  checkpoint,
  checkpoint_dropped,
  checkpoint_swapped,
  diverging,
};
inline constexpr std::string_view kPolicyNames[] = {"locked",
                                                    "locked_dummy",
                                                    "locked_zero",
                                                    "per_request",
                                                    "per_token",
                                                    "per_head",
                                                    "calibrated",
                                                    "split",
                                                    "fixed",
                                                    "none",
                                                    "checkpoint",
                                                    "checkpoint_dropped",
                                                    "checkpoint_swapped",
                                                    "diverging"};
constexpr std::string_view to_string(Policy p) { return kPolicyNames[static_cast<std::size_t>(p)]; }

enum class NormKind : std::uint8_t { layernorm, rmsnorm };

// What a scenario does wrong apart from its policy; all off in a sound engine. -1: never; else after that
// request.
struct Defects {
  bool commit_early = false;  // a prompt's pages are found by others before they are written
  bool whole_pages = false;   // attention multiplies the tail of the last page by a weight of 0
  // A table of pages is padded with one that is nobody's, the null block, which attention reads and
  // multiplies by 0. What pads a batch that has shrunk, the row of the request that left it, still writes its
  // K and V: there.
  bool null_block = false;
  bool old_reader = false;     // reordered weights are read as if they were not
  bool blind_restore = false;  // cached pages are used whatever rotation they were written with
};
// What happens to a sound engine and to a defective one alike.
struct Events {
  int nan_in_prefix_after = -1;  // a NaN appears in the request's first page
  int nan_in_freed_after = -1;   // the pages that the request frees hold NaN, as memory may
  int reorder_after = -1;        // layer 0's up-projection is reordered for another kernel
  int restart_after = -1;        // the engine is restarted with K no longer rotated, and its cache restored
};

struct Settings {
  Policy policy = Policy::locked;
  NormKind norm = NormKind::layernorm;
  bool scrub = false;           // pages with NaN are never committed, and are cleared when freed
  bool checked_argmax = false;  // NaN logits end the request
  bool monitors = true;
  bool record = false;  // keep every stage, for comparison
  int page = 4, pages = 64;
  float k_constant = 200, v_constant = 100;
  bool rotate = false;  // K is stored rotated by an 8-point Walsh-Hadamard transform, and so is Q
  Defects defects;
  Events events;
};

struct Request {
  std::string name;
  std::vector<int> prompt;
  int generate = 4;
  bool waits = true;  // starts when all earlier ones are finished; else `delay` steps after the one before it
  int delay = 0;
};
struct Answer {
  std::vector<int> tokens;
  std::vector<float> logits;  // of the last step
  bool aborted = false;
};

struct StageRecord {
  std::string stage;
  int step, layer;
  std::vector<Row> rows;
  std::vector<float> values;
};

struct Run {
  std::vector<Answer> answers;
  Monitors monitors;
  std::vector<StageRecord> stages;
  int steps = 0, prefix_hits = 0, evictions = 0, reuses = 0;
  double seconds = 0, monitor_seconds = 0;
};

// absmax of K and V per layer and head over every token of the vocabulary, times 1.1: what a good calibration
// set gives.
struct Ranges {
  std::vector<std::vector<float>> k, v;  // [layer][head]
};
Ranges calibrate(const Model& model);

// `forced`: the tokens to continue with instead of the engine's own choices, by request.
Run run_engine(const Model& model, const std::vector<Request>& requests, const Settings& settings,
               Arithmetic& arithmetic, const std::vector<std::vector<int>>* forced = nullptr);

}  // namespace assay::scenarios
