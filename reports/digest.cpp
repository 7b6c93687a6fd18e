#include "reports/digest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>

namespace assay {
namespace {

constexpr std::size_t kFewest = 3;      // red cases that are worth a digest
constexpr std::size_t kMostShared = 3;  // conditions that are told
constexpr std::int64_t kModuli[] = {256, 128, 64, 32, 16, 8, 4, 2};

using Values = std::map<std::string, std::string>;

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

struct Condition {
  std::string text;
  std::function<bool(const Values&)> holds;
};

// All that is true of every red case in one key: its value; else for whole numbers a remainder and the
// bounds.
std::vector<Condition> conditions(const std::string& key, const std::vector<Values>& red) {
  std::vector<Condition> found;
  const std::string& first = red.front().at(key);
  if (std::ranges::all_of(red, [&](const Values& v) { return v.at(key) == first; })) {
    found.push_back({fmt::format("{}={}", key, first.empty() ? "(none)" : first),
                     [key, first](const Values& v) { return v.at(key) == first; }});
    return found;
  }
  std::vector<std::int64_t> numbers;
  for (const Values& v : red)
    if (const auto n = whole_number(v.at(key))) numbers.push_back(*n);
  if (numbers.size() != red.size()) return found;
  const auto number = [key](const Values& v) { return whole_number(v.at(key)).value_or(0); };
  for (const std::int64_t m : kModuli)
    if (std::ranges::all_of(numbers, [&](std::int64_t n) { return n % m == numbers[0] % m; })) {
      found.push_back({fmt::format("{} % {} == {}", key, m, numbers[0] % m),
                       [number, m, r = numbers[0] % m](const Values& v) { return number(v) % m == r; }});
      break;
    }
  if (std::ranges::none_of(numbers, [](std::int64_t n) { return n % 8 == 0; }))
    found.push_back(
        {fmt::format("{} % 8 != 0", key), [number](const Values& v) { return number(v) % 8 != 0; }});
  const auto [low, high] = std::ranges::minmax(numbers);
  found.push_back(
      {fmt::format("{} >= {}", key, low), [number, low](const Values& v) { return number(v) >= low; }});
  found.push_back(
      {fmt::format("{} <= {}", key, high), [number, high](const Values& v) { return number(v) <= high; }});
  return found;
}

}  // namespace

std::string DigestLine::text() const {
  return fmt::format("all {} red cases of {} on {} have {}; of {} passes {} ha{} the same", red, op, backend,
                     fmt::join(shared, ", "), passes, passes_too, passes_too == 1 ? "s" : "ve");
}

void Digest::add(const CaseResult& r) {
  const bool pass = r.verdict.status == Status::pass;
  if (!pass && r.verdict.green()) return;  // known, or a gap: neither
  Values values = r.c.attributes.all();
  values["fill"] = r.c.fill, values["fault"] = r.c.fault, values["layout"] = r.c.layout,
  values["variant"] = r.c.variant;
  if (!pass) values["verdict"] = to_string(r.verdict.status);
  Side& side = sides_[{std::string(r.c.op->name), r.c.backend}];
  (pass ? side.passes : side.red).push_back(std::move(values));
}

std::vector<DigestLine> Digest::lines() const {
  std::vector<DigestLine> all;
  for (const auto& [of, side] : sides_) {
    if (side.red.size() < kFewest || side.passes.empty()) continue;
    DigestLine line{of.first, of.second, side.red.size(), side.passes.size(), {}, 0};
    std::vector<Condition> candidates;
    for (const auto& [key, value] : side.passes.front())
      for (auto& c : conditions(key, side.red)) candidates.push_back(std::move(c));
    // One after the other, the condition that leaves fewest passes, as long as it leaves clearly fewer.
    std::vector<const Values*> left;
    for (const Values& v : side.passes) left.push_back(&v);
    while (line.shared.size() < kMostShared && !left.empty()) {
      const Condition* best = nullptr;
      std::size_t fewest = left.size();
      for (const Condition& c : candidates) {
        const auto n = static_cast<std::size_t>(
            std::ranges::count_if(left, [&](const Values* v) { return c.holds(*v); }));
        if (n < fewest) best = &c, fewest = n;
      }
      if (best == nullptr || 4 * fewest > 3 * left.size()) break;
      std::erase_if(left, [&](const Values* v) { return !best->holds(*v); });
      line.shared.push_back(best->text);
    }
    line.passes_too = left.size();
    if (!line.shared.empty()) all.push_back(std::move(line));
  }
  return all;
}

}  // namespace assay
