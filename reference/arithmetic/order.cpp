#include "reference/arithmetic/order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "reference/arithmetic/contract.hpp"
#include "reference/error.hpp"

namespace assay {
namespace {

struct Row {
  std::string_view name;
  Order::Word word;
  bool counted;
};
constexpr std::array kRows = {
    Row{"any", Order::any, false},      Row{"sequential", Order::sequential, false},
    Row{"tree", Order::tree, false},    Row{"lanes", Order::lanes, true},
    Row{"blocks", Order::blocks, true}, Row{"depth", Order::depth, true},
};

}  // namespace

double Order::height(double n) const {
  if (n <= 1) return 0;
  const double counted = static_cast<double>(count), fewer = std::min(counted, n);
  switch (word) {
    case any:
    case sequential:
      return n - 1;
    case tree:
      return std::ceil(std::log2(n));
    case lanes:
      return std::ceil(n / counted) - 1 + std::ceil(std::log2(fewer));
    case blocks:
      return fewer - 1 + std::ceil(n / counted) - 1;
    case depth:
      return std::min(std::max(counted, std::ceil(std::log2(n))), n - 1);
    case likely:
      return std::min(kLikely * std::sqrt(n - 1), n - 1);
  }
  return n - 1;
}

double Order::height_with_start(double n) const {
  return word == likely || word == depth ? height(n + 1) : height(n) + 1;
}

bool find_order(std::string_view text, Order& found) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.name == name; });
  if (row == kRows.end() || row->counted != (colon != std::string_view::npos)) return false;
  found = row->word;
  if (!row->counted) return true;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), found.count);
  return error == std::errc{} && end == digits.data() + digits.size() && !digits.starts_with('0') &&
         found.count >= 1 && found.count <= kMostDeclared;
}

Order order_of(std::string_view word) {
  Order found;
  if (word == "likely") return Order::likely;
  if (!find_order(word, found))
    throw InputError(InputErrorKind::bad_value, fmt::format("order={}: allowed is {}", word, kOrderWords));
  return found;
}

std::string to_string(Order order) {
  if (order == Order::likely) return "likely";
  const auto row =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.word == order.word; });
  return row->counted ? fmt::format("{}:{}", row->name, order.count) : std::string(row->name);
}

}  // namespace assay
