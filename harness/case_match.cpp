// Which cases lie in a set: what lists of expectations are made of.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "harness/backend_names.hpp"
#include "harness/case.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace {

std::optional<std::string> value_of(const Case& c, std::string_view key) {
  if (key == "fill") return c.fill;
  if (key == "fault") return c.fault;
  if (key == "seed") return fmt::format("{}", c.seed);
  if (key == "layout") return c.layout;
  if (key == "backend") return c.backend;
  if (key == "variant") return escaped_text(c.variant);
  if (key == "after") return fmt::format("{}", fmt::join(c.after, "; "));
  const auto found = c.attributes.all().find(std::string(key));
  if (found == c.attributes.all().end()) return std::nullopt;
  return found->second;
}

}  // namespace

bool matches(const CaseSet& set, const Case& c) {
  if (set.op != "*" && set.op != c.op->name) return false;
  return std::ranges::all_of(set.sets, [&](const auto& entry) {
    const auto value = value_of(c, entry.first);
    if (!value) return false;
    const bool excludes = entry.second.front().starts_with('!');
    const bool named = std::ranges::any_of(entry.second, [&](const std::string& v) {
      return std::string_view(v).substr(v.starts_with('!') ? 1 : 0) == *value;
    });
    return named != excludes;
  });
}

void make_matchable(CaseSet& set, std::string_view where) {
  for (auto& [key, values] : set.sets) {
    const bool excludes = values.front().starts_with('!');
    std::unordered_set<std::string> seen;
    for (std::string& value : values) {
      if (value.starts_with('!') != excludes)
        throw InputError(InputErrorKind::bad_value,
                         fmt::format("{}: {}={} mixes values with and without '!'", where, key,
                                     excerpt(fmt::format("{}", fmt::join(values, ",")))));
      const std::string plain = value.substr(excludes ? 1 : 0);
      std::string spelling = spelt_value(key, plain, where);
      if (!is_reserved(key)) {
        // "*" takes what any op with this key takes; the last refusal is as good as the others.
        std::optional<std::string> refusal;
        bool taken = false;
        for (const Op* o : every_op()) {
          if (taken || (set.op != "*" && set.op != o->name)) continue;
          for (const KeySpec& spec : o->attributes) {
            if (spec.name != key) continue;
            try {
              spelling = KeyTable("attribute", o->attributes).canonical(spec, plain);
              taken = true;
            } catch (const InputError& e) {
              refusal = e.what();
            }
          }
        }
        if (!taken)
          throw InputError(InputErrorKind::bad_value, fmt::format("{}: {}", where, refusal.value_or(key)));
      }
      value = (excludes ? "!" : "") + spelling;
      if (!seen.insert(value).second)
        throw InputError(InputErrorKind::bad_value,
                         fmt::format("{}: {} repeats the value '{}'", where, key, excerpt(value)));
    }
  }
}

}  // namespace assay
