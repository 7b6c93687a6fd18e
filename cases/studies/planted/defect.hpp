// What is planted: the smallest defects that engines ship, each in sizes from the least on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace assay::planted {

enum class Kind : std::uint8_t { none, terms, block, scale, logits, bits };

// A defect and its size: `terms` dropped terms, a run of `block` terms that is lost, a scale (logits: that of
// q.k) off by the factor 1 + size, a sum kept in `bits` bits, cut off at each addition.
struct Plant {
  Kind kind = Kind::none;
  double size = 0;
};

struct Defect {
  Kind kind;
  std::string_view name, of_ops;  // of_ops: "" for all that have such a thing
  std::span<const double> sizes;  // from the least
  double asked;                   // the size that has to be seen
  std::string_view made;          // the fill that was made for it
};
std::span<const Defect> defects();
bool has(const Defect& defect, std::string_view op);
std::string spelt(Kind kind, double size);  // "1 key", "2 %", "23 bits"

}  // namespace assay::planted
