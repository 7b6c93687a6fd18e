// Inputs that show what drawn ones hide, and schedules that only they tell apart.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cases/studies/identify/subject.hpp"

namespace assay {

// How the lines of these calls begin.
inline constexpr std::string_view kCancelling = "cancelling pairs", kTiny = "tiny numbers",
                                  kWide = "wide numbers", kUneven = "uneven columns";

// Crafted calls of one shape: products that cancel, so that what is stored is rounding errors alone; runs of
// columns that are far apart; numbers far apart; numbers near the least exponents. Those that the formats can
// hold.
std::vector<Answer> crafted_calls(GemmSubject& subject, const GemmShape& shape);

// The columns of a product by what a kernel gives where all columns are one: each list is summed in one way,
// as far as products that cancel show it. Empty where the formats cannot hold such products.
std::vector<std::vector<std::int64_t>> columns_alike(GemmSubject& subject, const GemmShape& shape);

// The schedules that differ from `s` in one field and might pass for it: one block order, one fold, one
// promotion, one rounding.
struct Tampered {
  std::string field;
  Schedule schedule;
};
std::vector<Tampered> tampered(const Schedule& s, std::int64_t n);

}  // namespace assay
