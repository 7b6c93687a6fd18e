// The injections behind the rows of faults.cpp, by where they act.
#pragma once

#include "reference/inputs/fault.hpp"

namespace assay::fault_families {

// values.cpp: single numbers, before the format encodes them
void nan_value(const FaultSite&, Values&);
void nan_code(const FaultSite&, Values&);
void inf_value(const FaultSite&, Values&);
void negative_inf_value(const FaultSite&, Values&);
void infinite_row(const FaultSite&, Values&);
void nan_leader(const FaultSite&, Values&);
void nan_follower(const FaultSite&, Values&);
void inf_against_zero(const FaultSite&, Values&);
void outlier_value(const FaultSite&, Values&);
void subnormal_values(const FaultSite&, Values&);
void negative_zeros(const FaultSite&, Values&);
void equal_maxima(const FaultSite&, Values&);
void halfway_values(const FaultSite&, Values&);
void low_scores(const FaultSite&, Values&);
void high_score(const FaultSite&, Values&);
void very_low_scores(const FaultSite&, Values&);

// keys.cpp: keys, pages and lengths of an attention cache
void nan_hidden_keys(const FaultSite&, TensorSet&);
void nan_visible_key(const FaultSite&, TensorSet&);
void nan_visible_value(const FaultSite&, TensorSet&);
void inf_visible_value(const FaultSite&, TensorSet&);
void poison_unused_pages(const FaultSite&, TensorSet&);
void poison_tails(const FaultSite&, TensorSet&);
void page_swap(const FaultSite&, TensorSet&);
void page_bit(const FaultSite&, TensorSet&);
void page_16_bits(const FaultSite&, TensorSet&);
void length_off_by_one(const FaultSite&, TensorSet&);
void stale_tail(const FaultSite&, TensorSet&);
void wrong_head(const FaultSite&, TensorSet&);
void swapped_kv(const FaultSite&, TensorSet&);
void mask_bit(const FaultSite&, TensorSet&);

// scales.cpp: separate f32 scales
void scale_locked(const FaultSite&, TensorSet&);
void scale_zero(const FaultSite&, TensorSet&);
void scale_negative(const FaultSite&, TensorSet&);
void scale_dropped(const FaultSite&, TensorSet&);
void scale_inverted(const FaultSite&, TensorSet&);
void scale_stale_step(const FaultSite&, TensorSet&);
void scale_stale_page(const FaultSite&, TensorSet&);
void scale_coarse(const FaultSite&, TensorSet&);
void scale_swapped_kv(const FaultSite&, TensorSet&);
void scale_bit(const FaultSite&, TensorSet&);
void nan_scale(const FaultSite&, TensorSet&);

// bits.cpp: single bits of payloads and of small index tensors
void nan_all_ones(const FaultSite&, TensorSet&);
void negative_nan(const FaultSite&, TensorSet&);
void payload_bit(const FaultSite&, TensorSet&);
void code_bit(const FaultSite&, TensorSet&);
void sign_mask_bit(const FaultSite&, TensorSet&);
void least_codes(const FaultSite&, TensorSet&);
void inf_code(const FaultSite&, TensorSet&);
void slots_swapped(const FaultSite&, TensorSet&);
void wrong_expert(const FaultSite&, TensorSet&);
void repeated_expert(const FaultSite&, TensorSet&);

// What they share.
[[noreturn]] void no_site(const FaultSite&, std::string_view needs);
const TensorSpec& first_data(const FaultSite&);
// [first, first + count) of the payload's bytes for those elements; whole blocks.
std::span<std::byte> payload_bytes(Encoded& tensor, std::int64_t first, std::int64_t count);
// The code of an infinity or a NaN at one element; no_site for a format without it.
void put_code(const FaultSite& site, Encoded& tensor, std::int64_t element, double special);
std::span<std::int32_t> entries(TensorSet& set, const FaultSite& site, std::string_view index_tensor);
// First element of key j of (batch b, KV head g) in k or v, and how many it has.
struct KeyElements {
  std::int64_t first = 0, count = 0;
};
KeyElements key_elements(const FaultSite& site, std::string_view tensor, std::int64_t b, std::int64_t j,
                         std::int64_t g);
// A key of sequence 0 that some row sees, and as few rows as possible beyond one.
std::int64_t seldom_seen_key(const FaultSite& site);

}  // namespace assay::fault_families
