// Fused attention whose sums are in f32: exponential, then sums, then products, each by the inputs that show
// it alone.
#pragma once

#include <functional>
#include <vector>

#include "cases/studies/identify/attention.hpp"

namespace assay {

struct VectorSearch {
  std::vector<AttentionSchedule> left;  // every bit of every crafted call and of the first drawn one
  AttentionSchedule nearest;            // of the stage that no hypothesis passed
  std::string stage;                    // what it shows, in words; "" where some are left
  std::vector<AttentionHead> shown;     // few heads of the first calls of each design
};
// `first`: drawn inputs. over: no new hypotheses once it says so.
VectorSearch search_vector_attention(const AttentionAsk& ask, const AttentionAnswer& first,
                                     const std::function<bool()>& over);

}  // namespace assay
