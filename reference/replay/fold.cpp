#include "reference/replay/fold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "reference/near_names.hpp"

namespace assay {
namespace {

[[noreturn]] void refuse(std::string_view text) {
  throw InputError(InputErrorKind::bad_value,
                   fmt::format("schedule: fold {}; allowed: {}", excerpt(text), kFoldWords));
}

std::int64_t number(std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < least ||
      value > most || text.front() == '0')
    refuse(text);
  return value;
}

Fold halving(std::int64_t count) {
  Fold fold;
  for (std::int64_t left = count; left > 1; left = (left + 1) / 2) fold.steps.push_back({(left + 1) / 2, 2});
  return fold;
}
Fold adjacent(std::int64_t count) {
  Fold fold;
  for (std::int64_t stride = 1; stride < count; stride *= 2) fold.steps.push_back({stride, 2});
  return fold;
}
Fold sequential(std::int64_t count, bool reverse) {
  Fold fold{reverse, {}};
  if (count > 1) fold.steps.push_back({1, count});
  return fold;
}

}  // namespace

Fold fold_of(std::string_view text, std::int64_t count) {
  if (text == "halving") return halving(count);
  if (text == "adjacent") return adjacent(count);
  if (text == "sequential" || text == "reverse") return sequential(count, text == "reverse");
  Fold fold;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('.', at), text.size());
    const std::string_view step = text.substr(at, end - at);
    at = end + 1;
    const std::size_t star = step.find('*');
    FoldStep s;
    s.stride = number(step.substr(0, star), 1, 65536);
    s.count = star == std::string_view::npos ? 2 : number(step.substr(star + 1), 2, 65536);
    fold.steps.push_back(s);
  }
  std::int64_t product = 1;
  for (const FoldStep& s : fold.steps) product = std::min<std::int64_t>(product * s.count, 1 << 30);
  std::int32_t result = 0;
  if (product != count || additions(fold, count, result).size() != static_cast<std::size_t>(count - 1))
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("schedule: the steps {} do not fold {} sums into one", excerpt(text), count));
  return fold;
}

std::string to_string(const Fold& fold, std::int64_t count) {
  if (fold == halving(count)) return "halving";
  if (fold == adjacent(count)) return "adjacent";
  if (fold == sequential(count, false)) return "sequential";
  if (fold.reverse) return "reverse";
  std::string text;
  for (const FoldStep& s : fold.steps)
    text += fmt::format("{}{}{}", text.empty() ? "" : ".", s.stride,
                        s.count == 2 ? "" : fmt::format("*{}", s.count));
  return text;
}

std::vector<FoldAddition> additions(const Fold& fold, std::int64_t count, std::int32_t& result) {
  std::vector<FoldAddition> list;
  result = 0;
  if (fold.reverse) {
    result = static_cast<std::int32_t>(count - 1);
    for (std::int64_t j = count - 2; j >= 0; --j) list.push_back({result, static_cast<std::int32_t>(j)});
    return list;
  }
  std::vector<char> there(static_cast<std::size_t>(count), 1);
  for (const FoldStep& step : fold.steps)
    for (std::int64_t j = 0; j < count; ++j) {
      if (there[static_cast<std::size_t>(j)] == 0) continue;
      for (std::int64_t c = 1; c < step.count; ++c) {
        const std::int64_t from = j + c * step.stride;
        if (from >= count || there[static_cast<std::size_t>(from)] == 0) continue;
        list.push_back({static_cast<std::int32_t>(j), static_cast<std::int32_t>(from)});
        there[static_cast<std::size_t>(from)] = 0;
      }
    }
  return list;
}

std::vector<std::size_t> left_of(const Fold& fold, std::int64_t count, std::int64_t sums) {
  std::int32_t result = 0;
  for (Fold some{fold.reverse, {}}; !fold.reverse && some.steps.size() + 1 < fold.steps.size();) {
    some.steps.push_back(fold.steps[some.steps.size()]);
    const std::vector<FoldAddition> list = additions(some, count, result);
    if (count - std::ssize(list) != sums) continue;
    std::vector<std::size_t> left(static_cast<std::size_t>(count));
    std::iota(left.begin(), left.end(), std::size_t{0});
    for (const FoldAddition& a : list) std::erase(left, static_cast<std::size_t>(a.from));
    return left;
  }
  return {};
}

}  // namespace assay
