#include "harness/promises.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "reference/error.hpp"
#include "reference/ops/op.hpp"

namespace assay {
namespace {

constexpr std::string_view kBitwise = "bitwise";

// What is not promised has no value: there are no fallbacks.
constexpr KeySpec law(std::string_view name, std::string_view meaning) {
  return {name, KeyKind::word, "", kBitwise, meaning};
}
constexpr KeySpec kRows[] = {
    {"deterministic", KeyKind::word, "", "yes|no",
     "two calls on the same bytes give the same bits; yes unless it is denied"},
    {"nan", KeyKind::word, "", "propagate", "a NaN that is read reaches every output that depends on it"},
    {"temporary_bytes", KeyKind::integer, "", "0..", "bytes that are taken beyond the tensors, at one time"},
    {"pairs", KeyKind::word, "", "symmetric",
     "the formats of K and V may be exchanged: what takes one pair takes the other"},
    law("batch", "a row does not depend on how many are beside it"),
    law("order", "rows, sequences or tokens may come in any order"),
    law("chunk", "a causal prefill may come in two chunks"),
    law("heads", "groups of heads may come in any order"),
    law("pages", "keys may lie on any pages"),
    law("padding", "rows may have gaps behind them, and lie far apart"),
    law("replay", "an earlier call at the same addresses leaves nothing"),
    law("paths", "codes are multiplied as codes and decoded first alike"),
    law("calls", "earlier calls of other shapes leave nothing"),
};
constexpr KeyTable kTable("promise", kRows);

}  // namespace

bool Promises::law(std::string_view name) const { return std::ranges::find(laws, name) != laws.end(); }

Promises parse_promises(std::string_view text) {
  Promises promises;
  for (const auto& [name, given] : kTable.pairs(text, KeyText::plain)) {
    const KeySpec& row = kTable.key(name);
    const std::string value = kTable.canonical(row, given);
    if (row.kind == KeyKind::integer) promises.temporary_bytes = kTable.number(name, value);
    if (name == "deterministic") promises.deterministic = value == "yes";
    if (name == "pairs") promises.pairs = true;
    if (row.allowed == kBitwise) promises.laws.push_back(row.name);
  }
  return promises;
}

bool read_promises(std::string_view declared, Promises& promises, std::string& why) {
  try {
    promises = parse_promises(declared);
    return true;
  } catch (const InputError& e) {
    why = fmt::format("declared promises '{}': {}", declared, e.what());
    return false;
  }
}

}  // namespace assay
