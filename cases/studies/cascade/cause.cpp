#include "cases/studies/cascade/monitors.hpp"

namespace assay::scenarios {

std::string first_cause(std::span<const Observation> all) {
  const auto has = [&](Watch w) -> const Observation* {
    for (const auto& o : all)
      if (o.watch == w) return &o;
    return nullptr;
  };
  // Books that do not balance are causes wherever they are seen; numbers follow from them.
  for (const Observation& o : all) {
    switch (o.watch) {
      case Watch::checkpoint_dropped:
        return "checkpoint scales dropped";
      case Watch::checkpoint_swapped:
        return "checkpoint scales of K and V swapped";
      case Watch::copies_diverge:
        return "host and device copies of the scale diverge";
      case Watch::committed_before_written:
        return "prefix block committed before it was written";
      case Watch::nan_appeared:
        return "NaN in a cached prefix";
      case Watch::unused_key_read:
        return "freed page read";
      case Watch::rotation_mismatch:
        return "cache restored under another rotation";
      case Watch::layout_mismatch:
        return "reordered weights read by the old reader";
      case Watch::saturated:
      case Watch::out_of_range:
        switch (o.origin) {
          case Origin::first_request:
            return "scale locked on the first request";
          case Origin::dummy_pass:
            return "scale locked on a dummy pass";
          case Origin::zero_request:
            return "scale locked on an all-zero request";
          case Origin::checkpoint:
            return "checkpoint scales too small";
          case Origin::calibration:
            return "calibration too narrow";
          case Origin::fixed:
            return "fixed scale too small";
          default:
            return "live scale too small";
        }
      case Watch::resolution_lost:
        switch (o.origin) {
          case Origin::first_request:
            return "scale locked too large";
          case Origin::zero_request:
            return "scale locked on an all-zero request";
          case Origin::dummy_pass:
            return "scale locked on a dummy pass";
          case Origin::fixed:
            return "fixed scale too large";
          default:
            return "scale too large";
        }
      case Watch::first_nan:
        return "NaN from " + o.detail;
      default:
        break;
    }
  }
  return has(Watch::answer_changed) != nullptr ? "the answer changed" : "";
}

}  // namespace assay::scenarios
