// Pairs of formats of K and V, and sizes of heads: what a backend declares it runs, by the kernel that it
// declares, and both ways round where it promises that.
#include <algorithm>
#include <numeric>

#include "cases/studies/properties/families.hpp"
#include "harness/path_check.hpp"
#include "harness/promises.hpp"
#include "reference/inputs/random.hpp"

namespace assay::property_families {
namespace {

using properties::a_case;
using properties::accused;

constexpr std::int64_t kHeadSizes[] = {64, 128, 80, 96, 256};

// So many instances are judged by their numbers; of all others it is seen which kernel ran, in one run.
constexpr std::uint64_t kJudged = 200;

std::string line_of(std::string_view k, std::string_view v, std::int64_t d, std::string_view dtype) {
  return fmt::format("attention heads=2 kv_heads=1 d={} len=33 k={} v={} dtype={}", d, k, v, dtype);
}

// Every pair that the backend declares at every size, in the first format of outputs that it takes any pair
// with.
std::vector<std::string> instances(Subject& subject) {
  std::string why;
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    std::vector<std::string> lines;
    for (const std::int64_t d : kHeadSizes)
      for (const Format& k : formats())
        for (const Format& v : formats()) lines.push_back(line_of(k.name, v.name, d, dtype));
    try {
      return taken(subject, lines);
    } catch (const NotTaken& e) {
      why = e.why;
    }
  }
  throw NotTaken{why};
}

}  // namespace

Draws draw_fallbacks(Subject& subject, std::uint64_t seed) {
  std::vector<std::string> all = instances(subject);
  // None comes twice before each came once.
  const Stream stream(seed, "instances");
  for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[stream.below(i, i)]);
  const auto least = static_cast<std::uint64_t>(all.size());
  return {[all = std::move(all)](std::uint64_t index) {
            return rc::gen::exec([index, line = all[static_cast<std::size_t>(index % all.size())]] {
              const Case c = a_case(line);
              const std::int64_t kv_heads = drawn(1, 2);
              return Steps{{"attention",
                            {{"k", c.attributes.text("k")},
                             {"v", c.attributes.text("v")},
                             {"d", c.attributes.text("d")},
                             {"dtype", c.attributes.text("dtype")},
                             {"heads", number(kv_heads * drawn(1, 2))},
                             {"kv_heads", number(kv_heads)},
                             {"len", number(drawn(1, 40))},
                             {"judge", index < kJudged ? "yes" : "no"},
                             {"seed", number(drawn(1, 1000))}}}};
            });
          },
          least};
}

Verdict check_fallback(Subject& subject, const Steps& steps) {
  const Step& s = only(steps, "attention");
  Step line = s;
  std::erase_if(line.values, [](const auto& pair) { return pair.first == "judge"; });
  const Case c = a_case(line.print());
  Step mirrored = line;
  for (auto& [key, value] : mirrored.values)
    if (key == "k" || key == "v") value = s.text(key == "k" ? "v" : "k");
  const Case other = a_case(mirrored.print());
  const auto declared =
      subject.workers().of(subject.backend()).worker->declare(make_empty_call(c), subject.options().timeout);
  Promises promises;
  std::string why;
  if (declared.status == RunStatus::done && read_promises(declared.declaration.promises, promises, why) &&
      promises.pairs)
    if (const std::string& refusal = subject.reach().refusal(other); !refusal.empty())
      return Broken{
          fmt::format("K and V may be exchanged, it promises, and the other way round is refused: {}",
                      refusal),
          c.line()};
  const Inputs inputs = make_inputs(c, input_lists());
  if (s.text("judge") != "no") return accused(subject.judged(c, inputs).result);
  if (declared.status == RunStatus::unsupported) throw NotTaken{declared.reason};
  subject.last_line = c.line();
  RunRequest request;
  request.call = make_call(c, inputs);
  request.timeout = subject.options().timeout;
  request.second_run = false;
  const RunResult run = subject.workers().of(subject.backend()).worker->run(request);
  if (run.status != RunStatus::done)
    return Broken{fmt::format("it was declared, and not run: {}: {}", to_string(run.status), run.reason),
                  c.line()};
  const PathFinding path = check_path(declared.declaration.path, promises, run.trace, 0);
  if (path.kind == PathFinding::Kind::fallback || path.kind == PathFinding::Kind::failed)
    return Broken{path.summary, c.line()};
  return std::nullopt;
}

}  // namespace assay::property_families
