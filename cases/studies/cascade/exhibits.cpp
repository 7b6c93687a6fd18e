#include "cases/studies/cascade/exhibits.hpp"

#include <vector>

namespace assay::scenarios {
namespace {

Settings with(Policy policy, Events events = {}, Defects defects = {}, bool rotate = false,
              bool scrub = false) {
  Settings s;
  s.policy = policy;
  s.events = events;
  s.defects = defects;
  s.rotate = rotate;
  s.scrub = scrub;
  return s;
}

const std::vector<Exhibit>& list() {
  constexpr Policy kToken = Policy::per_token;
  static const std::vector<Exhibit> all = {
      {"scale_locked_on_first_request", "vLLM #11906 until #49389", "scale locked on the first request",
       "published", with(Policy::locked), with(Policy::per_request)},
      {"scale_locked_on_dummy_pass", "vLLM #37554", "scale locked on a dummy pass", "text",
       with(Policy::locked_dummy), with(Policy::calibrated)},
      {"reordered_weights_old_reader", "llama.cpp #21638", "reordered weights read by the old reader", "text",
       with(kToken, {.reorder_after = 0}, {.old_reader = true}), with(kToken, {.reorder_after = 0})},
      {"restored_cache_other_rotation", "llama.cpp #28498", "cache restored under another rotation",
       "published", with(kToken, {.restart_after = 1}, {.blind_restore = true}, true),
       with(kToken, {.restart_after = 1}, {}, true)},
      {"nan_in_cached_prefix", "llama.cpp, vLLM: a cached NaN outlives its request", "NaN in a cached prefix",
       "published", with(kToken, {.nan_in_prefix_after = 1}),
       with(kToken, {.nan_in_prefix_after = 1}, {}, false, true)},
      {"freed_page_holds_nan", "vLLM #641, #39444, FA3 #2374, FlashInfer #942", "freed page read",
       "published", with(kToken, {.nan_in_freed_after = 0}, {.whole_pages = true}),
       with(kToken, {.nan_in_freed_after = 0})},
      {"committed_before_written", "vLLM #50283", "prefix block committed before it was written", "together",
       with(kToken, {}, {.commit_early = true}), with(kToken)},
      {"checkpoint_scales_dropped", "vLLM #27232, #54623", "checkpoint scales dropped", "text",
       with(Policy::checkpoint_dropped), with(Policy::checkpoint)},
      {"checkpoint_scales_swapped", "k_scale and v_scale exchanged by a loader",
       "checkpoint scales of K and V swapped", "published", with(Policy::checkpoint_swapped),
       with(Policy::checkpoint)},
      {"scale_copies_diverge", "host float and device tensor of one scale",
       "host and device copies of the scale diverge", "text", with(Policy::diverging),
       with(Policy::calibrated)},
  };
  return all;
}

}  // namespace

std::span<const Exhibit> exhibits() { return list(); }

}  // namespace assay::scenarios
