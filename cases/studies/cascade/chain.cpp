#include "cases/studies/cascade/chain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "cases/studies/cascade/divergence.hpp"
#include "reference/error.hpp"
#include "reference/inputs/random.hpp"

namespace assay::scenarios {
namespace {

int pick(const Stream& draw, std::uint64_t index, int first, int count) {
  return first + static_cast<int>(draw.below(index, static_cast<std::uint64_t>(count)));
}
std::vector<int> operator+(std::vector<int> a, const std::vector<int>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string words(const Answer& a) {
  std::string out;
  for (const int t : a.tokens) out += text_of(t);
  return out + (a.aborted ? (out.empty() ? "aborted: NaN logits" : " aborted: NaN logits") : "");
}

struct LinkRule {
  const char* name;
  Watch watch;
};
constexpr LinkRule kLinks[] = {
    {"FP8 KV cache with one-time scales is on", Watch::one_time_scale},
    {"a first request locks the scale", Watch::scale_locked},
    {"a later request has K or V outside the range", Watch::out_of_range},
    {"quantising clips to 448", Watch::saturated},
    {"different tokens become identical", Watch::tokens_identical},
    {"LayerNorm variance becomes 0 or less", Watch::variance_degenerate},
    {"the root of a negative is NaN", Watch::first_nan},
    {"Q, K and V of that token are NaN", Watch::projection_nan},
    {"one column of QK^T is NaN", Watch::score_column_nan},
    {"softmax turns every row NaN", Watch::softmax_row_poisoned},
    {"the residual makes every token NaN", Watch::residual_spread},
    {"NaN goes into the KV cache", Watch::block_poisoned},
    {"later requests attend to it", Watch::poison_inherited},
    {"argmax over NaN gives index 0, \"!\"", Watch::argmax_all_nan},
};

// The variance that the kernel itself computes for a row which it turns to NaN: it plus eps is negative up to
// the eps at which the NaN goes, so that eps is found by bisection, on any backend, without looking inside.
// 0: not negative.
double measured_variance(Arithmetic& arithmetic, std::span<const float> row) {
  std::vector<float> y(row.size());
  const auto negative = [&](float eps) {
    arithmetic.layernorm(row, 1, static_cast<int>(row.size()), eps, y);
    return std::isnan(y[0]);
  };
  float low = 1e-12F, high = 1;  // from the eps of the model's norms
  if (!negative(low) || negative(high)) return 0;
  while (high / low > 1.001F) {
    const float middle = std::sqrt(low * high);
    (negative(middle) ? low : high) = middle;
  }
  return -static_cast<double>(high);
}

void add_measured_variance(const Run& run, Arithmetic& arithmetic, CascadeReport& r) {
  CascadeLink& link = r.links[5];
  for (const auto& stage : run.stages) {
    if (!r.links[6].fired || stage.stage != "attention" || stage.layer != link.layer) continue;
    for (std::size_t i = 0; i < stage.rows.size(); ++i) {
      if (stage.rows[i].request != link.request || stage.rows[i].position != link.token) continue;
      const std::size_t width = stage.values.size() / stage.rows.size();
      link.value = measured_variance(arithmetic, std::span(stage.values).subspan(i * width, width));
      link.evidence += fmt::format("; the kernel's own: {:.4g} (the eps that ends the NaN)", link.value);
      return;
    }
  }
}

// The variance of rows of equal elements, 448 codes of a scale of 0.025, which clipping makes of different
// tokens. The real one is 0. The published report has eight such elements and -3.178e-7.
std::vector<CascadeVariance> variances_by_width(Arithmetic& arithmetic) {
  std::vector<CascadeVariance> list;
  for (const int width : {8, 16, 24, 32, 40, 48, 64, 96, 128, 256, 512, 1024})
    list.push_back({width, measured_variance(arithmetic, std::vector<float>(static_cast<std::size_t>(width),
                                                                            448 * 0.025F))});
  return list;
}

std::string why_it_stopped(const CascadeReport& r, const Settings& s, const CascadeOptions& o) {
  if (!r.links[4].fired || r.links[6].fired) return "";
  if (s.norm == NormKind::rmsnorm)
    return "The chain stops behind link 5: RMSNorm divides by the root of mean(x^2) + eps, a sum of squares, "
           "which nothing is "
           "subtracted from and which no rounding makes negative. Clipped tokens are still identical, so "
           "answers are wrong; "
           "a model with RMSNorm that says \"!!!!\" got its NaN elsewhere.";
  if (o.variance != Variance::one_pass)
    return "The chain stops before link 7: this form of the variance is never negative.";
  return fmt::format(
      "The chain stops before link 7: the variance of {} equal elements plus eps = {:.3g} is not negative in "
      "this "
      "arithmetic.",
      o.shape.kv(), o.shape.eps);
}

}  // namespace

std::vector<int> text_prompt(const Stream& draw, std::uint64_t index, int count) {
  std::vector<int> tokens = {pick(draw, index, kFirstText, kFirstImage - kFirstText)};
  while (static_cast<int>(tokens.size()) < count) tokens.push_back(successor(successor(tokens.back())));
  return tokens;
}
std::vector<int> image_prompt(const Stream& draw, std::uint64_t index) {
  return {pick(draw, index, kFirstImage, 6), pick(draw, index + 1, kMiddleImage, 6),
          pick(draw, index + 2, kWeakImage, 12), pick(draw, index + 3, kFirstText, kFirstImage - kFirstText)};
}
std::vector<Request> published_traffic(std::uint64_t seed) {
  const Stream draw(seed, "traffic");
  const std::vector<int> small = {kStart};
  const auto shared = image_prompt(draw, 0);
  return {{"text, locks the scale", small + text_prompt(draw, 100, 6), 4},
          {"image", shared + text_prompt(draw, 200, 3), 4},
          {"same image, beside it", shared + text_prompt(draw, 300, 2), 4, false, 1},
          {"text, unrelated", text_prompt(draw, 400, 5), 4},
          {"same image, later", shared + text_prompt(draw, 500, 4), 4},
          {"the first text again", small + text_prompt(draw, 100, 6), 4}};
}

std::vector<Request> opposite_traffic(std::uint64_t seed) {
  const Stream draw(seed, "traffic");
  std::vector<int> strong = {kStart};
  for (int i = 0; i < 3; ++i) strong.push_back(kFirstImage + i);
  return {{"image, locks the scale", strong, 2}, {"text", text_prompt(draw, 100, 7), 4}};
}

std::vector<Request> text_traffic(std::uint64_t seed) {
  const Stream draw(seed, "traffic");
  return {{"text, locks the scale", std::vector<int>{kStart} + text_prompt(draw, 100, 6), 4},
          {"text", text_prompt(draw, 200, 6), 4},
          {"text beside it", text_prompt(draw, 300, 5), 4, false, 1}};
}

std::vector<Request> together_traffic(std::uint64_t seed) {
  const Stream draw(seed, "traffic");
  const auto shared = image_prompt(draw, 0) + text_prompt(draw, 100, 4);
  return {{"image", shared + text_prompt(draw, 200, 3), 4},
          {"same image, at once", shared + text_prompt(draw, 300, 2), 4, false, 0}};
}

std::vector<Request> traffic_named(const std::string& name, std::uint64_t seed) {
  if (name == "published") return published_traffic(seed);
  if (name == "opposite") return opposite_traffic(seed);
  if (name == "text") return text_traffic(seed);
  if (name == "together") return together_traffic(seed);
  throw InputError(InputErrorKind::unknown_name,
                   "no traffic '" + name + "'; allowed: published, opposite, text, together");
}

std::vector<CascadeLink> links_of(const Monitors& monitors) {
  std::vector<CascadeLink> links;
  const auto& seen = monitors.observations();
  for (const auto& rule : kLinks) {
    CascadeLink link{static_cast<int>(links.size()) + 1, rule.name, false, 0, -1, -1, -1, 0, ""};
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const Observation& o = seen[i];
      if (o.watch != rule.watch) continue;
      if (link.number == 7 && o.detail.find("norm") == std::string::npos) continue;  // NaN that a root makes
      if (link.number == 14 && o.value != kExclamation) continue;
      link.fired = true;
      link.order = i;
      link.layer = o.layer;
      link.token = o.token;
      link.request = o.request;
      link.value = o.value;
      link.evidence = o.detail;
      break;
    }
    links.push_back(std::move(link));
  }
  return links;
}

bool in_order(const std::vector<CascadeLink>& links) {
  std::size_t before = 0;
  for (const auto& l : links) {
    if (!l.fired) continue;
    if (l.order < before) return false;
    before = l.order;
  }
  return true;
}

CascadeReport run_cascade(const CascadeOptions& o, const MakeArithmetic& make) {
  const Model model = make_model(o.seed, o.layers, o.shape);
  const std::vector<Request> traffic = traffic_named(o.traffic, o.seed);
  const auto arithmetic = make(o.variance);
  Settings settings = o.settings;
  settings.record = o.compare;
  const Run run = run_engine(model, traffic, settings, *arithmetic);
  CascadeReport r;
  r.policy = to_string(settings.policy);
  r.variance = kVarianceNames[static_cast<std::size_t>(o.variance)];
  r.norm = settings.norm == NormKind::layernorm ? "layernorm" : "rmsnorm";
  r.traffic = o.traffic;
  r.seed = o.seed;
  r.links = links_of(run.monitors);
  r.in_order = in_order(r.links);
  r.first_cause = first_cause(run.monitors.observations());
  for (const auto& x : run.monitors.observations())
    r.observations.push_back(
        {std::string(to_string(x.watch)), x.layer, x.token, x.request, x.value, x.detail});
  for (std::size_t i = 0; i < traffic.size(); ++i) {
    r.answers.emplace_back(fmt::format("{} {}", i, traffic[i].name), words(run.answers[i]));
    CascadePicture picture{r.answers.back().first, {}};
    if (const auto found = run.monitors.cells().find(static_cast<int>(i));
        found != run.monitors.cells().end())
      for (const auto& layer : found->second) {
        std::string line;
        for (const Cell c : layer) line += " .cN"[static_cast<std::size_t>(c)];
        picture.layers.push_back(line);
      }
    r.pictures.push_back(std::move(picture));
  }
  for (const auto& [stage, f] : run.monitors.nan_fraction())
    r.nan_fraction.emplace_back(stage, static_cast<double>(f.nan) / static_cast<double>(f.all));
  r.seconds = run.seconds;
  r.monitor_seconds = run.monitor_seconds;
  r.steps = run.steps;
  r.prefix_hits = run.prefix_hits;
  r.evictions = run.evictions;
  r.reused_pages = run.reuses;
  if (o.compare) add_measured_variance(run, *arithmetic, r);
  if (o.compare) r.variances = variances_by_width(*arithmetic);
  r.note = why_it_stopped(r, settings, o);
  if (o.compare) r.divergences = divergences(model, traffic, settings, run);
  const int fired = r.fired();
  if (o.remedies && fired > 2) {
    const auto attempt = [&](const std::string& name, Settings s, Variance variance) {
      s.record = false;
      const auto with = make(variance);
      const Run again = run_engine(model, traffic, s, *with);
      CascadeRemedy remedy{name, {}, 0, ""};
      for (const auto& l : links_of(again.monitors))
        if (l.fired)
          remedy.links.push_back(l.number);
        else if (remedy.stopped_at == 0 && r.links[static_cast<std::size_t>(l.number - 1)].fired)
          remedy.stopped_at = l.number;
      for (std::size_t i = 0; i < again.answers.size(); ++i)
        if (words(again.answers[i]).find('!') != std::string::npos)
          remedy.answers += fmt::format("{}{}", remedy.answers.empty() ? "still \"!\": request " : ", ", i);
      if (remedy.answers.empty()) remedy.answers = "no \"!\"";
      r.remedies.push_back(std::move(remedy));
    };
    for (const Policy p : {Policy::none, Policy::per_request, Policy::per_token, Policy::per_head,
                           Policy::calibrated, Policy::split}) {
      Settings s = settings;
      s.policy = p;
      attempt(fmt::format("policy={}", to_string(p)), s, o.variance);
    }
    for (const Variance v : {Variance::welford, Variance::two_pass, Variance::one_pass_clamped})
      attempt(fmt::format("variance={}", kVarianceNames[static_cast<std::size_t>(v)]), settings, v);
    Settings scrub = settings;
    scrub.scrub = true;
    attempt("scrub=on", scrub, o.variance);
    Settings checked = settings;
    checked.checked_argmax = true;
    attempt("argmax=checked", checked, o.variance);
  }
  r.backend = "";
  r.arithmetic = arithmetic->description();
  return r;
}

}  // namespace assay::scenarios
