// Attention cases put together by hand: what readers of the manual broke limits with.
#pragma once

#include <cstring>

#include "reference/ops/op_testing.hpp"

namespace assay::testing {

using Given = std::map<std::string, std::string>;

inline OpCase attention(Given given) {
  given.insert({{"heads", "1"}, {"kv", "f32"}, {"dtype", "f32"}});
  return {"attention", given};
}
inline OpCase filled(const Given& given, const Values& q, const Values& k, const Values& v) {
  OpCase c = attention(given);
  c.put("q", q), c.put("k", k), c.put("v", v);
  return c;
}
// q = 0: equal logits.
inline OpCase equal(Given given, const Values& v) {
  given.insert({{"d", "1"}, {"dv", "1"}, {"len", std::to_string(v.size())}});
  return filled(given, {0}, Values(v.size(), 1), v);
}

// The one scale of a tensor of K or V.
inline void set_scale(OpCase& c, const char* tensor, float scale) {
  for (Plane& plane : c.set.at(tensor).planes)
    if (plane.spec.suffix == ".scale") std::memcpy(plane.bytes.data(), &scale, sizeof scale);
}

}  // namespace assay::testing
