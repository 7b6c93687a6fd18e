#include "cases/studies/adversary/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cases/lists.hpp"
#include "cases/studies/adversary/inputs.hpp"
#include "reference/arithmetic/contract.hpp"
#include "reference/error.hpp"
#include "reference/inputs/random.hpp"
#include "reference/ops/judged.hpp"
#include "reference/word_list.hpp"

namespace assay::adversary {
namespace {

std::string pick(std::string_view list, Draw& draw) {
  const std::vector<std::string> words = words_of(list);
  return words[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(words.size())))];
}

std::string draw_fill(const Op& op, Draw& draw) {
  if (draw.below(3) != 0) {
    const std::vector<std::string> pools = pool_names();
    return pools[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(pools.size())))];
  }
  std::vector<std::string> names;
  for (const Fill& each : input_lists().fills)
    if (each.op.empty() || each.op == op.name) names.push_back("fill:" + std::string(each.name));
  return names[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(names.size())))];
}

void fix(Point& point, const SearchOptions& options) {
  for (const auto& [name, word] : options.fixed) {
    if (const auto own = point.attributes.find(name); own != point.attributes.end()) own->second = word;
    if (const auto own = point.kernel.find(name); own != point.kernel.end()) own->second = word;
  }
}

}  // namespace

Point draw_point(const Family& family, const SearchOptions& options, Draw& draw) {
  Point point;
  point.family = family.name;
  for (const Axis& axis : family.attributes)
    point.attributes[std::string(axis.name)] = pick(axis.words, draw);
  for (const Axis& axis : family.kernel) point.kernel[std::string(axis.name)] = pick(axis.words, draw);
  point.kernel["noise"] = std::to_string(draw.bits() >> 44);
  if (options.defect != "none") point.kernel["defect"] = options.defect;
  fix(point, options);
  point.inputs = {draw_fill(op(family.op), draw), draw.bits() >> 44, {}};
  // Half of the points get another pool in one tensor: inputs that no single fill makes together.
  if (draw.coin()) try {
      point.inputs.edits.push_back(
          random_edit(op(family.op), Attributes::complete(op(family.op).attributes, point.attributes), draw));
    } catch (const InputError&) {
    }
  return point;
}

Point changed(const Family& family, const SearchOptions& options, Point point, Draw& draw) {
  const std::int64_t what = draw.below(8);
  if (what == 0 && !family.kernel.empty()) {
    const Axis& axis =
        family.kernel[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(family.kernel.size())))];
    point.kernel[std::string(axis.name)] = pick(axis.words, draw);
  } else if (what == 1) {
    point.kernel["noise"] = std::to_string(draw.bits() >> 44);
  } else if (what == 2) {
    const Axis& axis = family.attributes[static_cast<std::size_t>(
        draw.below(static_cast<std::int64_t>(family.attributes.size())))];
    point.attributes[std::string(axis.name)] = pick(axis.words, draw);
  } else if (what == 3 && !point.inputs.edits.empty()) {
    point.inputs.edits.erase(point.inputs.edits.begin() +
                             draw.below(static_cast<std::int64_t>(point.inputs.edits.size())));
  } else if (point.inputs.edits.size() < 40) {
    try {
      point.inputs.edits.push_back(
          random_edit(op(family.op), Attributes::complete(op(family.op).attributes, point.attributes), draw));
    } catch (const InputError&) {
    }
  }
  fix(point, options);
  return point;
}

namespace {

// The kernel's choices: an accumulator "dtype" is of the type of the inputs.
Choices kernel_of(const Point& point, const Attributes& attributes) {
  Choices kernel = point.kernel;
  if (const auto acc = kernel.find("acc"); acc != kernel.end() && acc->second == "dtype")
    acc->second = attributes.text("dtype");
  return kernel;
}

Contract contract_of(const Point& point, const Attributes& attributes) {
  const Family& own = family(point.family);
  Words words(op(own.op));
  own.contract(attributes, kernel_of(point, attributes), words);
  return Contract::parse(words.text(), op(own.op).contract);
}

// What differs from an op's defaults, in the order of its list.
std::string brief(const Contract& contract, const Op& row) {
  std::string text;
  for (const KeySpec& key : row.contract)
    if (contract.text(key.name) != key.fallback)
      text += fmt::format("{}{}={}", text.empty() ? "" : " ", key.name, contract.text(key.name));
  return text;
}

// A run as its kernel says that it is, without inputs and outputs.
Run said_of(const Point& point) {
  Run run{Attributes::complete(op(family(point.family).op).attributes, point.attributes), {}, {}, {}};
  run.contract = contract_of(point, run.attributes);
  return run;
}

Run run_of(const Point& point, Run run) {
  const Family& own = family(point.family);
  const Op& row = op(own.op);
  run.set = make_inputs(row, run.attributes, point.inputs);
  const Choices kernel = kernel_of(point, run.attributes);
  Problem problem{row, run.attributes, kernel, run.set, {}};
  for (const auto& [name, tensor] : run.set) problem.values[name] = decode_tensor(tensor);
  run.outputs = own.run(problem);
  return run;
}

}  // namespace

Run run_of(const Point& point) { return run_of(point, said_of(point)); }

std::vector<Truth> truths_of(const Point& point, const Run& run, const Contract* other) {
  return op(family(point.family).op).truth(run.attributes, run.set, other == nullptr ? run.contract : *other);
}

Shown show(const Point& point) {
  Shown shown;
  try {
    Run said = said_of(point);
    shown.contract = brief(said.contract, op(family(point.family).op));
    const Run run = run_of(point, std::move(said));
    const std::vector<Truth> truths = truths_of(point, run);
    shown.possible = true;
    for (std::size_t o = 0; o < truths.size() && o < run.outputs.size(); ++o) {
      if (run.outputs[o].size() != truths[o].value.size())
        throw std::logic_error(fmt::format("family {}: {} outputs for {}", point.family,
                                           run.outputs[o].size(), truths[o].value.size()));
      for (std::size_t i = 0; i < run.outputs[o].size(); ++i) {
        const double got = run.outputs[o][i], value = truths[o].value[i], limit = truths[o].limit[i];
        Judged judged = judge(got, value, limit);
        if (std::isnan(judged.ratio)) judged.ratio = judged.ok ? 0 : kInf;  // Inf - Inf over Inf
        ++shown.outputs;
        if (shown.where.empty() || judged.ratio > shown.ratio) {
          shown.ratio = judged.ratio;
          shown.where = fmt::format("{}[{}]: got {:.9g}, true {:.9g}, limit {:.4g}", truths[o].output, i, got,
                                    value, limit);
        }
      }
    }
  } catch (const InputError& e) {
    shown.refusal = e.what();
  }
  return shown;
}

Scores search(const Family& family, const SearchOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  Draw draw(Stream(options.seed, family.name).bits(0));
  Scores scores;
  const auto count = [&](const Point& point, const Shown& shown) {
    std::vector<std::string_view> names = {""};
    for (const std::string_view word : listed_words(shown.contract, ' '))
      if (!word.empty()) names.push_back(word);
    for (const std::string_view name : names) {
      Score& score = scores[std::string(name)];
      ++score.points;
      if (!shown.possible) ++score.refused;
      score.outputs += shown.outputs;
      if (shown.ratio > 1) ++score.violations;
      if (shown.possible && (score.repro.empty() || shown.ratio > score.worst)) {
        score.worst = shown.ratio;
        score.repro = print(point);
      }
    }
  };
  while (spent() < options.seconds && (options.outputs == 0 || scores[""].outputs < options.outputs)) {
    Point best = draw_point(family, options, draw);
    Shown shown = options.score(best);
    count(best, shown);
    if (!shown.possible) continue;
    for (int step = 0; step < options.climb && shown.ratio <= 1 && spent() < options.seconds; ++step) {
      const Point next = changed(family, options, best, draw);
      const Shown then = options.score(next);
      count(next, then);
      if (then.possible && then.ratio >= shown.ratio) best = next, shown = then;
    }
    if (shown.ratio > 1) {
      if (options.found) options.found({best, shown});
      if (options.stop_at_violation) break;
    }
  }
  return scores;
}

}  // namespace assay::adversary
