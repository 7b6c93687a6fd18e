// The contract is found, not written: the narrowest words under which recorded calls of a kernel stay
// within their limits.
//
//   every key has a ladder of values (accumulators, orders, ulps, the words of its list). From a first
//   contract the one change of a key is made that brings most calls inside of their limits, until all are;
//   then each key takes the narrowest value under which they stay: that of the smallest mean of log2(limit)
//   over all outputs.
//
// That is the narrowest contract; of errors that are a tenth of their limit it asks too much of the kernel.
// In the proposed one every word that the calls do not force is the op's default. A word is forced where,
// beside the others as proposed, a call is outside of its limit under a narrower one. Keys that are counts
// of a schedule (chunk, tile, split) and texts stay as the first contract has them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/inputs.hpp"
#include "reference/ops/op.hpp"

namespace assay {

struct RecordedCall {
  Case c;
  Inputs inputs;
  TensorSet outputs;
};

struct RuledOut {
  std::string value;  // the next narrower one
  std::string line;   // of the call that shows it
  std::string what;   // "y: 3 of 33 elements beyond the limit, worst 2.1 x"
};

struct ProposedWord {
  std::string key, value;
  std::optional<RuledOut> narrower;  // none: no call is outside under a narrower value, or there is none
};

struct Proposal {
  Contract proposed, narrowest;
  std::size_t calls = 0, inside = 0;  // all of them, where the proposed contract holds
  std::size_t tried = 0;              // contracts
  std::vector<ProposedWord> words;  // of the proposed one, in the op's order, of the keys that have a ladder
  std::string outside;              // where it does not hold: a call that shows it
};

// `calls` are of one op, and at least one. `stopped` ends the search with what there is.
Proposal propose_contract(
    const Contract& first, std::span<const RecordedCall> calls,
    const std::function<bool()>& stopped = [] { return false; });

}  // namespace assay
