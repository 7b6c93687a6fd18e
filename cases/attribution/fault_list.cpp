#include "cases/attribution/fault_list.hpp"

#include <fmt/format.h>

#include <iterator>
#include <span>
#include <utility>

namespace assay::attribution {
namespace {

constexpr std::string_view kWords[] = {"right",
                                       "in {} bits",
                                       "in f16",
                                       "cut to {} bits",
                                       "NaN is lost",
                                       "clipped to f16's range",
                                       "flushed below 2^-24",
                                       "0",
                                       "the first operand alone",
                                       "the second operand alone",
                                       "added instead",
                                       "subtracted instead",
                                       "multiplied instead",
                                       "divided instead",
                                       "negated",
                                       "1.01 times it",
                                       "it over 1.01",
                                       "twice it",
                                       "half of it",
                                       "without the first element",
                                       "without the last element",
                                       "another function of its kind",
                                       "expm1 or log1p",
                                       "its argument",
                                       "rounded down",
                                       "rounded up",
                                       "rounded towards zero",
                                       "rounded away from zero",
                                       "1 more than it is",
                                       "1 less than it is",
                                       "started at 1",
                                       "without every second element",
                                       "done where there is none",
                                       "its argument no less than -{}",
                                       "0 where its argument is less than -{}",
                                       "",
                                       "-{} where a key is hidden"};
constexpr std::string_view kSources[] = {"the first's",
                                         "the one's before",
                                         "the next one's",
                                         "the one's of that number modulo their count",
                                         "the last one's that there is, of that number or less",
                                         "that of half the number",
                                         "the first one's of each two",
                                         "the first one's of each four"};
static_assert(std::size(kSources) == static_cast<std::size_t>(Source::count));
static_assert(std::size(kWords) == static_cast<std::size_t>(Wrong::count));

// What kernels hold an exponential's argument above, and what they add to a logit, or put in its place, to
// hide a key.
constexpr int kHeldAbove[] = {4,  5,  6,  7,  8,  10, 12, 14, 15, 16, 18, 20, 24, 25,
                              30, 32, 40, 44, 48, 50, 60, 64, 70, 80, 86, 87, 88, 100};
constexpr int kHiddenBy[] = {100,    1000,   9999,   10'000, 30'000,  32'752,    32'767,       32'768,
                             50'000, 60'000, 65'000, 65'504, 100'000, 1'000'000, 1'000'000'000};

// From the fewest bits of a format that kernels compute in to the most that f32's own roundings do not hide.
constexpr int kFewestBits = 7, kMostBits = 21;

}  // namespace

std::string in_words(const Node& at, const Fault& f) {
  const std::string how = fmt::format(fmt::runtime(kWords[static_cast<int>(f.wrong)]), f.bits);
  if (f.wrong == Wrong::elsewhere) return fmt::format("{}: {}", at.name, kSources[f.lane]);
  const std::string words = fmt::format("{}: {}", at.name, how);
  switch (f.where) {
    case Where::whole:
      return words;
    case Where::lanes:
      return fmt::format("{}, in {} sums side by side", words, kLanes);
    case Where::full_lanes:
      return fmt::format("{}, in full vectors of {}", words, kLanes);
    case Where::tail:
      return fmt::format("{}, behind the last full vector of {}", words, kLanes);
    case Where::one_lane:
      return fmt::format("{}, in lane {} of {}", words, f.lane, kLanes);
    case Where::other_lane:
      return fmt::format("{}: lane {} of {} in place of lane {}", at.name, f.other, kLanes, f.lane);
  }
  return words;
}

std::vector<Fault> faults(std::span<const Node> nodes) {
  std::vector<Fault> all;
  for (int node = 0; std::cmp_less(node, nodes.size()); ++node) {
    const NodeKind kind = nodes[static_cast<std::size_t>(node)].kind;
    const bool loop = kind == NodeKind::loop;
    if (kind == NodeKind::source) {
      for (int source = 0; std::cmp_less(source, std::size(kSources)); ++source)
        all.push_back({node, Wrong::elsewhere, Where::whole, source});
      continue;
    }
    const auto numbers = [&](Wrong wrong, std::span<const int> each) {
      for (const int n : each) all.push_back({node, wrong, Where::whole, 0, 0, n});
    };
    if (kind == NodeKind::exponential)
      numbers(Wrong::held_up, kHeldAbove), numbers(Wrong::dropped, kHeldAbove);
    if (kind == NodeKind::hidden) numbers(Wrong::low_logit, kHiddenBy);
    for (int pair = 0; pair < kLanes * kLanes && loop; ++pair)
      if (pair / kLanes != pair % kLanes)
        all.push_back({node, Wrong::none, Where::other_lane, pair / kLanes, pair % kLanes});
    const auto each_lane = [&](Fault f) {
      all.push_back(f);
      if (!loop || f.wrong == Wrong::uncalled) return;
      for (f.where = Where::lanes; f.where != Where::one_lane;
           f.where = static_cast<Where>(static_cast<int>(f.where) + 1))
        all.push_back(f);
      for (f.lane = 0; f.lane < kLanes; ++f.lane) all.push_back(f);
    };
    for (int w = 1; w < static_cast<int>(Wrong::held_up); ++w) {
      Fault f{node, static_cast<Wrong>(w)};
      if (f.wrong != Wrong::narrow && f.wrong != Wrong::cut) {
        each_lane(f);
        continue;
      }
      for (f.bits = kFewestBits; f.bits <= kMostBits; ++f.bits) each_lane(f);
    }
  }
  return all;
}

}  // namespace assay::attribution
