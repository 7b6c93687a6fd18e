// assay cascade: the chain from an FP8 cache with a locked scale to "!!!!", link by link, on any backend.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "cases/studies/cascade/chain.hpp"
#include "cases/studies/cascade/live/live.hpp"
#include "cases/studies/cascade/live_options.hpp"
#include "cases/studies/cascade/report.hpp"
#include "cases/studies/cascade/worker_arithmetic.hpp"
#include "harness/cli/program.hpp"
#include "reference/error.hpp"

namespace assay {
namespace {

struct CascadeArguments {
  scenarios::CascadeOptions options;
  LiveOptions live;  // a running server instead of the engine, where it has an endpoint
  std::string backend = "cpu", policy = "locked", variance = "one_pass", norm = "layernorm", argmax = "plain";
  std::string json, html;
  bool quick = false;
  int width = scenarios::ModelShape{}.kv();
  double eps = scenarios::ModelShape{}.eps;
};

template <class E, std::size_t kCount>
E named(const std::string& option, const std::string& word, const std::string_view (&names)[kCount]) {
  std::string allowed;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (names[i] == word) return static_cast<E>(i);
    allowed += (i ? ", " : "") + std::string(names[i]);
  }
  throw InputError(InputErrorKind::bad_value, fmt::format("--{} {}: allowed: {}", option, word, allowed));
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file) throw InputError(InputErrorKind::bad_value, path + " cannot be written");
}

// What the settings are meant to show. Links that the policy cannot have are not expected, and the other way.
bool as_expected(const CascadeReport& r, const scenarios::Settings& s, scenarios::Variance variance,
                 const scenarios::ModelShape& shape, bool own_norm) {
  using scenarios::Policy;
  switch (s.policy) {
    case Policy::per_request:
    case Policy::per_token:
    case Policy::per_head:
    case Policy::calibrated:
    case Policy::split:
    case Policy::none:
    case Policy::checkpoint:
      return r.fired() == 0 && r.first_cause.empty();
    case Policy::locked:
      if (r.traffic == "text") return r.fired() == 2 && r.first_cause.empty();
      if (r.traffic == "opposite") return r.fired() == 2 && r.first_cause == "scale locked too large";
      // Another backend's layer norm has a variance form of its own, which may end the chain at link 6.
      if (own_norm && r.fired() < 7)
        return r.fired() >= 5 && r.first_cause == "scale locked on the first request";
      if (s.norm == scenarios::NormKind::rmsnorm || variance != scenarios::Variance::one_pass)
        return r.fired() >= 5 && r.fired() < 7;
      if (const scenarios::ModelShape usual; shape.eps != usual.eps || shape.heads != usual.heads)
        if (r.fired() < 7) return r.fired() >= 5 && r.first_cause == "scale locked on the first request";
      if (s.defects.null_block)  // every request behind the one that locked the scale
        for (std::size_t i = 1; i < r.answers.size(); ++i)
          if (r.answers[i].second.find_first_not_of(scenarios::text_of(0)) != std::string::npos) return false;
      return r.in_order && r.fired() == 14 - (s.scrub ? 2 : 0) - (s.checked_argmax ? 1 : 0);
    default:
      return !r.first_cause.empty();
  }
}

int cascade(CascadeArguments a) {
  using namespace scenarios;
  a.options.settings.policy = named<Policy>("policy", a.policy, kPolicyNames);
  a.options.variance = named<Variance>("variance", a.variance, kVarianceNames);
  constexpr std::string_view kNorms[] = {"layernorm", "rmsnorm"}, kArgmax[] = {"plain", "checked"};
  a.options.settings.norm = named<NormKind>("norm", a.norm, kNorms);
  a.options.settings.checked_argmax = named<int>("argmax", a.argmax, kArgmax) == 1;
  (void)traffic_named(a.options.traffic, 1);
  if (a.width % a.options.shape.d != 0)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("--width {}: allowed: multiples of {}", a.width, a.options.shape.d));
  a.options.shape.heads = a.width / a.options.shape.d;
  a.options.shape.eps = static_cast<float>(a.eps);
  a.options.remedies = a.options.compare = !a.quick;
  const auto known = known_backends();
  CascadeReport report = run_cascade(
      a.options, [&](Variance v) { return std::make_unique<WorkerArithmetic>(a.backend, v, known); });
  report.backend = a.backend;
  if (!a.json.empty()) write_file(a.json, cascade_json(report));
  if (!a.html.empty()) write_file(a.html, cascade_html(report));
  fmt::print("{}{}\n", cascade_text(report), report.last_line());
  return as_expected(report, a.options.settings, a.options.variance, a.options.shape, a.backend != "cpu")
             ? kGreen
             : kFinding;
}

}  // namespace

}  // namespace assay

int main(int argc, char** argv) {
  using namespace assay;
  CLI::App app{"Runs the chain from a locked FP8 KV scale to \"!!!!\", link by link, on any backend"};
  app.name("assay cascade");
  app.footer("Examples:\n  assay cascade\n  assay cascade --policy per_token --html page.html");
  CascadeArguments a;
  app.add_option("--backend,-b", a.backend, "Whose ops the engine runs");
  app.add_option("--policy", a.policy, "How KV scales are made: locked, per_token, calibrated, none, ...");
  app.add_option("--variance", a.variance, "one_pass, one_pass_clamped, welford or two_pass");
  app.add_option("--norm", a.norm, "layernorm or rmsnorm");
  app.add_option("--traffic", a.options.traffic, "published, opposite (large range first), text or together");
  app.add_option("--argmax", a.argmax, "plain or checked");
  app.add_flag("--scrub", a.options.settings.scrub, "Never keep a page with NaN");
  app.add_option("--seed", a.options.seed, "Of weights and traffic");
  app.add_option("--layers", a.options.layers, "Layers of the model")->check(CLI::Range(2, 64));
  app.add_option("--eps", a.eps, "Of the model's norms")->check(CLI::Range(0.0, 1.0));
  app.add_option("--width", a.width, "Elements of the norm between attention and its projection")
      ->check(CLI::Range(8, 1024));
  app.add_flag(
      "--null-block", a.options.settings.defects.null_block,
      "Attention multiplies the null block by 0, and padding is written to it: every later request fails");
  app.add_option("--json", a.json, "File for the report as JSON");
  app.add_option("--html", a.html, "File for the report as a page");
  app.add_flag("--quick", a.quick, "Neither remedies nor the reference beside it");
  add_live_options(app, a.live);
  int exit_code = kGreen;
  app.callback([&] {
    if (app.count("--endpoint") == 0) {
      exit_code = cascade(a);
      return;
    }
    a.live.json = a.json;
    if (app.count("--seed") > 0) a.live.seed = static_cast<int>(a.options.seed);
    exit_code = run_live_cascade(a.live);
  });
  return run_program(app, argc, argv, exit_code);
}
