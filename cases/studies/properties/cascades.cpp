// The "!!!!" cascade as a property: a decoding model on the subject's own ops, under any policy of scales and
// any requests.
#include <algorithm>
#include <cmath>

#include "cases/studies/cascade/chain.hpp"
#include "cases/studies/cascade/worker_arithmetic.hpp"
#include "cases/studies/properties/families.hpp"

namespace assay::property_families {
namespace {

using namespace scenarios;

// The first of each list is what a draw shrinks to. eps: from where a variance of clipped rows is told from 0
// to what models use.
constexpr const char* kEps[] = {"1e-12", "1e-08", "1e-06", "1e-05"};
constexpr std::string_view kNorms[] = {"layernorm", "rmsnorm"};
constexpr const char* kKinds[] = {"text", "start", "image"};
constexpr std::int64_t kMostRequests = 5;
constexpr int kPool = 64;  // pages: more than the requests of a draw take

template <class E, std::size_t kCount>
E named(const Step& s, std::string_view key, const std::string_view (&names)[kCount]) {
  const auto at = std::ranges::find(names, s.text(key));
  if (at == std::end(names))
    throw InputError(InputErrorKind::bad_value, fmt::format("{} {}={}: {} is allowed", s.name, key,
                                                            s.text(key), fmt::join(names, ", ")));
  return static_cast<E>(at - std::begin(names));
}

// Scales that are made of what is stored, of every token that there is, or of nothing at all.
bool is_sound(Policy p) {
  return p == Policy::per_request || p == Policy::per_token || p == Policy::per_head ||
         p == Policy::calibrated || p == Policy::split || p == Policy::none || p == Policy::checkpoint;
}

std::vector<scenarios::Request> requests_of(const Steps& steps) {
  std::vector<scenarios::Request> list;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const Step& s = steps[i];
    if (s.name != "request")
      throw InputError(InputErrorKind::bad_value, "steps behind the model are requests");
    const auto tokens = static_cast<int>(s.integer("tokens", 1, 16));
    const Stream draw(static_cast<std::uint64_t>(s.integer("seed", 1, 1'000'000)), "traffic");
    scenarios::Request r{s.name,
                         {},
                         static_cast<int>(s.integer("generate", 1, 8)),
                         s.text("beside") != "yes",
                         s.text("beside") == "yes" ? 1 : 0};
    const std::string& kind = s.text("kind");
    if (kind == "image")
      r.prompt = image_prompt(draw, 0);
    else if (kind == "start")
      r.prompt = {kStart};
    else if (kind != "text")
      throw InputError(InputErrorKind::bad_value,
                       "request kind=" + kind + ": text, start or image is allowed");
    const auto more = text_prompt(draw, 100, tokens);
    r.prompt.insert(r.prompt.end(), more.begin(), more.end());
    list.push_back(std::move(r));
  }
  return list;
}

Steps model_and_requests() {
  Steps steps{{"model",
               {{"policy", std::string(one_of(kPolicyNames))},
                {"norm", std::string(one_of(kNorms))},
                {"variance", std::string(one_of(kVarianceNames))},
                {"eps", one_of(kEps)},
                {"layers", number(drawn(1, 3))},
                {"heads", number(drawn(1, 5))},
                {"seed", number(drawn(1, 50))}}}};
  const auto count = static_cast<std::size_t>(drawn(1, kMostRequests));
  const auto requests = *rc::gen::container<std::vector<Step>>(
      count, rc::gen::exec([] {
        return Step{"request",
                    {{"kind", one_of(kKinds)},
                     {"tokens", number(drawn(1, 8))},
                     {"generate", number(drawn(1, 4))},
                     {"beside", one_of(std::vector<std::string>{"no", "yes"})},
                     {"seed", number(drawn(1, 4))}}};  // few: images and prefixes come again
      }));
  steps.insert(steps.end(), requests.begin(), requests.end());
  return steps;
}

bool has_nan(const Run& run) {
  return std::ranges::any_of(run.answers, [](const Answer& a) {
    return std::ranges::any_of(a.logits, [](float x) { return std::isnan(x); });
  });
}

std::string fired(const std::vector<CascadeLink>& links) {
  std::vector<int> numbers;
  for (const CascadeLink& l : links)
    if (l.fired) numbers.push_back(l.number);
  return numbers.empty() ? "none" : fmt::format("{}", fmt::join(numbers, " "));
}

}  // namespace

Draws draw_cascade(Subject& subject, std::uint64_t) {
  // What the engine asks; the rest is borrowed from cpu.
  (void)taken(subject, {"kv_write tokens=4 heads=5 d=8 to=e4m3fn_tensor policy=calibrated dtype=f32",
                        "kv_write tokens=4 heads=5 d=8 to=e4m3fn_tok policy=token dtype=f32",
                        "attention heads=5 d=8 q=4 len=4 page=4 mask=causal kv=e4m3fn_tok dtype=f32",
                        "attention heads=5 d=8 q=4 len=4 page=4 mask=causal kv=f32 dtype=f32",
                        "layernorm rows=4 cols=40 dtype=f32", "rmsnorm rows=4 cols=40 dtype=f32",
                        "matmul m=4 n=40 k=128 a=f32 b=f32 dtype=f32", "argmax rows=1 cols=64 dtype=f32"});
  return always(rc::gen::exec(model_and_requests));
}

Verdict check_cascade(Subject& subject, const Steps& steps) {
  const Step& m = steps[0];
  if (m.name != "model")
    throw InputError(InputErrorKind::bad_value, "a draw of a cascade begins with 'model ...'");
  ModelShape shape;
  shape.heads = static_cast<int>(m.integer("heads", 1, 16));
  shape.eps = static_cast<float>(m.real("eps", 1e-20, 1));
  const Model model = make_model(static_cast<std::uint64_t>(m.integer("seed", 1, 1'000'000)),
                                 static_cast<int>(m.integer("layers", 1, 8)), shape);
  Settings settings;
  settings.policy = named<Policy>(m, "policy", kPolicyNames);
  settings.norm = named<NormKind>(m, "norm", kNorms);
  settings.pages = kPool;
  WorkerArithmetic arithmetic(subject.backend(), named<Variance>(m, "variance", kVarianceNames),
                              subject.known());
  const Run run = run_engine(model, requests_of(steps), settings, arithmetic);
  const auto links = links_of(run.monitors);
  const std::string line = print(steps);
  if (is_sound(settings.policy) && (links[5].fired || has_nan(run)))
    return Broken{fmt::format("the sound policy {} reached link 6, a variance of 0 or less; links: {}",
                              to_string(settings.policy), fired(links)),
                  line};
  if (!links[6].fired && !has_nan(run)) return std::nullopt;
  // From the range that is left to the NaN, one behind the other; how the scale was made is told where it was
  // made once.
  const bool told = in_order(links) && std::all_of(links.begin() + 2, links.begin() + 7,
                                                   [](const CascadeLink& l) { return l.fired; });
  if (told) return std::nullopt;
  return Broken{fmt::format("a NaN was born and its chain is not told; links: {}", fired(links)), line};
}

}  // namespace assay::property_families
