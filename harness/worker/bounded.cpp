#include "harness/worker/bounded.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace assay {
namespace {

// At most; the rest of an entry of a list is what its numbers take.
std::size_t json_bytes(std::string_view text) {
  constexpr std::size_t kEntry = 16;
  std::size_t bytes = kEntry;
  for (const char c : text) bytes += c < ' ' || c == 0x7f ? 6 : c == '"' || c == '\\' ? 2 : 1;
  return bytes;
}

// `name_of`: gives the name of an entry. Returns how many were left out.
template <typename Entry, typename NameOf>
std::size_t thin_out(std::vector<Entry>& entries, std::size_t bytes, std::size_t rest, NameOf name_of) {
  std::vector<bool> kept(entries.size(), false), first(entries.size(), false);
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < entries.size(); ++i) first[i] = names.insert(name_of(entries[i])).second;
  std::size_t count = 0;
  for (const bool of_first : {true, false})
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::size_t size = rest + json_bytes(name_of(entries[i]));
      if (first[i] != of_first || size > bytes) continue;
      bytes -= size;
      kept[i] = true;
      ++count;
    }
  const std::size_t left_out = entries.size() - count;
  if (left_out == 0) return 0;
  std::vector<Entry> some;
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (kept[i]) some.push_back(std::move(entries[i]));
  entries = std::move(some);
  return left_out;
}

std::size_t thin_out(std::vector<std::string>& names, std::size_t bytes) {
  for (std::string& name : names)
    if (name.size() > kTextBytes) name = cut(name);
  return thin_out(names, bytes, 0, [](const std::string& name) -> std::string_view { return name; });
}

}  // namespace

std::string cut(std::string_view text, std::size_t most) {
  std::string out(text.substr(0, most));
  if (text.size() > most) out += "... (" + std::to_string(text.size() - most) + " bytes more)";
  return out;
}

void bound(Trace& trace, const TraceBounds& bounds) {
  std::vector<std::pair<std::string, std::size_t>> left;
  left.emplace_back("kernels_left_out", thin_out(trace.kernels, bounds.kernels));
  if (trace.witness) {
    constexpr std::size_t kNumbers = 160;  // grid, block, time and stream, with their keys
    Witness& witness = *trace.witness;
    for (SeenKernel& seen : witness.kernels)
      if (seen.name.size() > kTextBytes) seen.name = cut(seen.name);
    left.emplace_back("seen_left_out",
                      thin_out(witness.kernels, bounds.witness, kNumbers,
                               [](const SeenKernel& seen) -> std::string_view { return seen.name; }));
    thin_out(witness.unwatched, bounds.kernels);
    witness.by = cut(witness.by), witness.error = cut(witness.error);
  }
  std::size_t notes = 0;
  TextPairs kept;
  std::size_t bytes = bounds.notes;
  for (auto& [key, value] : trace.notes) {
    key = cut(key), value = cut(value);
    const std::size_t size = json_bytes(key) + json_bytes(value);
    if (size > bytes && key != kLeftBehindNote) {
      ++notes;
      continue;
    }
    bytes -= std::min(bytes, size);
    kept.emplace_back(std::move(key), std::move(value));
  }
  trace.notes = std::move(kept);
  left.emplace_back("notes_left_out", notes);
  for (const auto& [what, count] : left)
    if (count > 0) trace.notes.emplace_back(what, std::to_string(count));
}

}  // namespace assay
