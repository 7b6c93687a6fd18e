#include "harness/strangers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "harness/stranger_line.hpp"
#include "harness/suites.hpp"
#include "reference/ops/formula/library.hpp"
#include "reference/word_list.hpp"

namespace assay {
namespace {

// Of each line so many cases in a round; within one the cheap ones come first.
constexpr std::size_t kRound = 7;

// Of each line so many calls behind another, at most.
constexpr std::size_t kHistories = 24;

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
  // Behind the first round; of the last lines first, whose values lie far apart.
  std::map<std::string, std::set<std::string>> seen;  // keys of histories, by op
  for (StrangerLine& line : std::views::reverse(lines))
    add(line, line.histories(seen[std::string(line.op().name)], kHistories));
  std::vector<Made> late = std::exchange(round, {});
  while (!lines.empty() && suite.lines.size() < wanted.most) {
    for (auto line = lines.begin(); line != lines.end();) {
      const auto cases = line->next(kRound);
      add(*line, cases);
      line = cases.size() < kRound ? lines.erase(line) : std::next(line);
    }
    take_up(round, suite);
    round = std::exchange(late, {});
  }
  take_up(round, suite);
  suite.asked = reach.asked(), suite.waits = reach.waits();
  if (suite.lines.size() > wanted.most) suite.lines.resize(wanted.most);
  return suite;
}

}  // namespace

namespace {

// A formula's own line: the sizes of its example and others around them, every format and word, inputs that
// aim at sums, ends and ranges.
std::string line_of(const formula::FormulaOp& f) {
  const Op& o = f.op();
  const Attributes example = Attributes::complete(o.attributes, example_of(o));
  std::string line(o.name);
  for (const KeySpec& spec : o.attributes) {
    const std::string name(spec.name);
    line += fmt::format(" {}={}", name, example.text(name));
    if (spec.kind == KeyKind::real) {  // a kernel that has a constant in its place
      for (const double x : {8 * example.real(name), example.real(name) / 2}) {
        try {
          line += "," + KeyTable("attribute", o.attributes).canonical(spec, fmt::format("{}", x));
        } catch (const InputError&) {  // beyond the attribute's own range
        }
      }
      continue;
    }
    if (spec.kind != KeyKind::integer) {
      for (const std::string_view word : listed_words(spec.allowed))
        if (!word.empty() && word != example.text(name)) line += fmt::format(",{}", word);
      continue;
    }
    std::vector<std::int64_t> sizes{example.integer(name)};
    for (const std::int64_t n :
         {2 * sizes[0], 1L, 2L, 3L, sizes[0] + 1, 16L, 33L, 4 * sizes[0], 64L, 128L, 100L}) {
      if (std::ranges::find(sizes, n) != sizes.end()) continue;
      try {
        (void)KeyTable("attribute", o.attributes).canonical(spec, fmt::format("{}", n));
        line += fmt::format(",{}", n);
        sizes.push_back(n);
      } catch (const InputError&) {  // beyond the attribute's own range
      }
    }
  }
  return line +
         " fill=gaussian,trained,last_element,outlier,roll_call,cancel,ramp,ties,subnormal,extreme,sparse,"
         "front_load layout=dense,gaps,unaligned,far variant=all";
}

}  // namespace

std::vector<SuiteLine> stranger_factors() {
  std::vector<SuiteLine> lines = read_suite(factors_file());
  for (const Op* o : formula::ops())
    lines.push_back({line_of(*formula::find(o->name)), fmt::format("formula {}", o->name)});
  return lines;
}
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
