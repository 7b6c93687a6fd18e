#include "harness/strangers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <map>

#include "harness/stranger_line.hpp"
#include "harness/suites.hpp"

namespace assay {
namespace {

// Of each line so many cases in a round; within one the cheap ones come first.
constexpr std::size_t kRound = 8;

std::string factors_file() { return suites_directory() + "/strangers.factors"; }

struct Made {
  double cost;
  SuiteLine line;
};

// Those that cost least first.
void take_up(std::vector<Made>& round, GeneratedSuite& suite) {
  std::ranges::stable_sort(round, {}, &Made::cost);
  for (Made& m : round) suite.lines.push_back(std::move(m.line));
  round.clear();
}

GeneratedSuite generate(const std::vector<SuiteLine>& factors, const StrangerSuite& wanted,
                        const InputLists& lists, Workers& workers, bool pairs) {
  const ModelShapes models = ModelShapes::known();
  Reach reach(wanted.backend, workers);
  const StrangerSetting setting{wanted.backend, wanted.seed, lists, workers.open(wanted.backend).variants,
                                models,         reach};
  GeneratedSuite suite;
  std::map<std::string, OpReach> known;  // by op
  std::list<StrangerLine> lines;
  for (const SuiteLine& text : factors) {
    StrangerLine& line = lines.emplace_back(text, setting);
    const std::string name(line.op().name);
    if (!line.find_base(known[name])) {
      suite.not_taken.push_back(fmt::format("{}: {}", text.where, name));
      lines.pop_back();
      continue;
    }
    if (std::ranges::find(suite.ops, name) == suite.ops.end()) suite.ops.push_back(name);
  }
  std::vector<Made> round;
  const auto add = [&](const StrangerLine& line, const std::vector<Case>& cases) {
    for (const Case& c : cases) round.push_back({StrangerLine::cost(c), {c.line(), line.where()}});
  };
  if (!pairs) {
    for (StrangerLine& line : lines) add(line, line.singles());
    take_up(round, suite);
    suite.asked = reach.asked(), suite.waits = reach.waits();
    return suite;
  }
  while (!lines.empty() && suite.lines.size() < wanted.most) {
    for (auto line = lines.begin(); line != lines.end();) {
      const auto cases = line->next(kRound);
      add(*line, cases);
      line = cases.size() < kRound ? lines.erase(line) : std::next(line);
    }
    take_up(round, suite);
  }
  suite.asked = reach.asked(), suite.waits = reach.waits();
  if (suite.lines.size() > wanted.most) suite.lines.resize(wanted.most);
  return suite;
}

}  // namespace

std::vector<SuiteLine> stranger_factors() { return read_suite(factors_file()); }
std::string stranger_purpose() { return suite_purpose(factors_file()); }

GeneratedSuite generate_suite(const std::vector<SuiteLine>& factors, const StrangerSuite& wanted,
                              const InputLists& lists, Workers& workers) {
  return generate(factors, wanted, lists, workers, true);
}

GeneratedSuite generate_singles(const std::vector<SuiteLine>& factors, const std::string& backend,
                                std::uint64_t seed, const InputLists& lists, Workers& workers) {
  return generate(factors, {backend, seed}, lists, workers, false);
}

}  // namespace assay
