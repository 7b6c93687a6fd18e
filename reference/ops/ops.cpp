// The one list of ops. Adding an op: one file beside this one, one row here, one line in CMakeLists.txt.
#include <algorithm>
#include <array>

#include "reference/near_names.hpp"
#include "reference/ops/attention/attention.hpp"
#include "reference/ops/formula/library.hpp"
#include "reference/ops/op.hpp"
#include "reference/word_list.hpp"

namespace assay {

extern const Op kArgmax, kDequantize, kKvWrite, kLayernorm, kLogsumexp, kMatmul, kMoe, kQuantize, kRequantize,
    kRmsnorm, kSoftmax, kWht;

std::span<const Op> ops() {
  static const std::array kOps = {
      kArgmax, kAttention, kDequantize, kKvWrite, kLayernorm, kLogsumexp, kMatmul,
      kMoe,    kQuantize,  kRequantize, kRmsnorm, kSoftmax,   kWht,
  };
  return kOps;
}

std::vector<const Op*> every_op() {
  std::vector<const Op*> all;
  for (const Op& each : ops()) all.push_back(&each);
  for (const Op* each : formula::ops()) all.push_back(each);
  std::ranges::sort(all, {}, &Op::name);
  return all;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const Op* each : every_op()) names.emplace_back(each->name);
  return names;
}

std::map<std::string, std::string> example_of(const Op& op) {
  std::map<std::string, std::string> given;
  for (const std::string_view word : listed_words(op.example, ' ')) {
    const auto equals = word.find('=');
    if (equals != std::string_view::npos) given.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return given;
}

const Op* find_op(std::string_view name) {
  for (const Op& each : ops())
    if (each.name == name) return &each;
  for (const Op* each : formula::ops())
    if (each->name == name) return each;
  return nullptr;
}

const Op& op(std::string_view name) {
  if (const Op* found = find_op(name)) return *found;
  throw unknown_name("op", name, op_names());
}

}  // namespace assay
