// Whether a name that somebody gives to a kernel is the name of one that was seen.
#pragma once

#include <cctype>
#include <string_view>

namespace assay {

// Whether `declared` names the kernel `seen` (demangled): it occurs there as a whole, so that "softmax" is
// not "online_softmax" nor "softmax_split"; "ns::f" and "f<float>" name "void ns::f<float>(int)". A `*` at
// its end leaves the rest of the last word open: "nvjet_sm90_*".
inline bool names_kernel(std::string_view declared, std::string_view seen) {
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  const bool open = declared.ends_with('*');
  if (open) declared.remove_suffix(1);
  if (declared.empty()) return false;
  for (auto at = seen.find(declared); at != std::string_view::npos; at = seen.find(declared, at + 1)) {
    const auto end = at + declared.size();
    const bool begins = at == 0 || !in_word(declared.front()) || !in_word(seen[at - 1]);
    const bool ends = open || end == seen.size() || !in_word(declared.back()) || !in_word(seen[end]);
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace assay
