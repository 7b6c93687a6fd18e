// What a backend promises of a call beside its arithmetic: the text `promises` of its declaration
// (backends/assay_backend.h), blank-separated key=word, each key of the table at most once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

struct Promises {
  bool deterministic = true;                    // two calls on the same bytes give the same bits
  bool pairs = false;                           // formats of K and V may be exchanged: that is taken too
  std::optional<std::int64_t> temporary_bytes;  // memory beyond the tensors, at one time
  std::vector<std::string_view> laws;  // that hold bit for bit (harness/laws.hpp), as the table spells them

  bool law(std::string_view name) const;
};
// Throws InputError: unknown_name for a key that the table lacks, bad_value for another word, or a key that
// stands twice.
Promises parse_promises(std::string_view text);
// The same of a declaration, whose text is not to be trusted: false, and why, where it cannot be read.
bool read_promises(std::string_view declared, Promises& promises, std::string& why);

}  // namespace assay
