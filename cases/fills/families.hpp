// The fill functions that the list in fills.cpp names.
#pragma once

#include "reference/inputs/fill.hpp"

namespace assay::fill_families {

// general.cpp: any op; every data tensor is filled by the same rule, from its own stream.
void gaussian(const FillRequest&, Values&);
void uniform(const FillRequest&, Values&);
void integers(const FillRequest&, Values&);
void constant(const FillRequest&, Values&);
void ramp(const FillRequest&, Values&);
void peaked(const FillRequest&, Values&);
void deep(const FillRequest&, Values&);
void outlier(const FillRequest&, Values&);
void cancel(const FillRequest&, Values&);
void offset(const FillRequest&, Values&);
void two_levels(const FillRequest&, Values&);
void subnormal(const FillRequest&, Values&);
void extreme(const FillRequest&, Values&);
void codes(const FillRequest&, Values&);
void ties(const FillRequest&, Values&);
void sparse(const FillRequest&, Values&);
void wide(const FillRequest&, Values&);
void ladder(const FillRequest&, Values&);
void below_powers(const FillRequest&, Values&);

// trained.cpp: any op; each tensor by what it is of a model.
void trained(const FillRequest&, Values&);

// reductions.cpp: any op; one element of a row, or of each run, carries what is summed or compared.
void last_element(const FillRequest&, Values&);
void carrier(const FillRequest&, Values&);
void one_per_tile(const FillRequest&, Values&);
void negative_extreme(const FillRequest&, Values&);
void roll_call(const FillRequest&, Values&);
void front_load(const FillRequest&, Values&);

// quotients.cpp: any op; aims at the quantiser of its output.
void output_ties(const FillRequest&, Values&);
void quotient_ties(const FillRequest&, Values&);

// attention.cpp: q, k and v are shaped together.
void needle(const FillRequest&, Values&);
void crowd(const FillRequest&, Values&);
void equal_onehot(const FillRequest&, Values&);
void window_onehot(const FillRequest&, Values&);
void onehot_attention(const FillRequest&, Values&);
void attention_ramp(const FillRequest&, Values&);
void steps(const FillRequest&, Values&);
void descent(const FillRequest&, Values&);
void low_logits(const FillRequest&, Values&);
void future(const FillRequest&, Values&);
void equal_constant(const FillRequest&, Values&);
void cancel_qk(const FillRequest&, Values&);
void huge_logits(const FillRequest&, Values&);
void near_ties(const FillRequest&, Values&);
void deep_logits(const FillRequest&, Values&);
void abyss(const FillRequest&, Values&);
void distractors(const FillRequest&, Values&);
void value_mean(const FillRequest&, Values&);
void outlier_channels(const FillRequest&, Values&);
void subnormal_values(const FillRequest&, Values&);
void extreme_values(const FillRequest&, Values&);
void roll_call_of_keys(const FillRequest&, Values&);
std::optional<std::int64_t> keys_called(const Attributes&, double loosest);
void front_key(const FillRequest&, Values&);

}  // namespace assay::fill_families
