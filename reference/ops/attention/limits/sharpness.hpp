// How small an error the limit of a declaration sees: limit / |value| over the outputs of one row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reference/ops/attention/test_fills.hpp"

namespace assay {

struct AttentionDeclaration {
  std::string_view name;
  std::string_view dtype, kv;
  std::string_view contract;
};
// What real kernels declare: the same arithmetic with nothing said of order, with tiles and depths (T), and with the unit
// and its k blocks (U).
std::span<const AttentionDeclaration> attention_declarations();

struct AttentionSharpness {
  double median = 0,
         least = 0;  // of limit / |value|: what is seen in half of the elements, and in some element
};
// One row over `keys` keys, d = dv = 128.
AttentionSharpness attention_sharpness(const AttentionDeclaration& declaration, Design fill,
                                       std::int64_t keys, std::uint64_t seed = 1);

}  // namespace assay
