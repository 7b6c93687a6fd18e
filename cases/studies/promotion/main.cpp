// Error of FP8 attention against the number of keys, for kernels that move their partial sums out of the
// matrix unit every 1, 4 or 64 steps of 32 keys, or never. The kernels run as in `assay run`; the truth is
// the certified value for the codes that the kernel makes of q, so that the error is that of the logits, the
// cast of the weights and the sums. Prints Markdown.
//   rms    sqrt(sum (got - truth)^2 / sum truth^2)
//   drift  sum (got - truth) sign(truth) / sum |truth|: truncated sums lose always in the same direction
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "cases/lists.hpp"
#include "harness/call.hpp"
#include "harness/judge.hpp"
#include "reference/error.hpp"

namespace assay {
namespace {

struct Errors {
  double rms = 0, drift = 0;
};

Errors errors(std::span<const double> got, std::span<const double> truth) {
  double squares = 0, truth_squares = 0, signed_sum = 0, truth_sum = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double e = got[i] - truth[i];
    squares += e * e;
    truth_squares += truth[i] * truth[i];
    signed_sum += truth[i] < 0 ? -e : e;
    truth_sum += std::fabs(truth[i]);
  }
  return {std::sqrt(squares / truth_squares), signed_sum / truth_sum};
}

std::string cell(const Case& c, Judge& judge) {
  std::vector<double> got;
  judge.options.observe = [&](const RunResult& run) {
    if (auto outputs = decode_outputs(judge.inputs, run.outputs); !outputs.empty()) got = outputs.at(0);
  };
  const CaseResult result = judge.judge(c);
  const std::string_view verdict = to_string(result.verdict.status);
  if (got.empty() || result.contract.empty()) return fmt::format("{}: {}", verdict, result.verdict.summary);
  const Errors e = errors(got, judge.truths_of(result).at(0).value);
  return fmt::format("{:.2e} / {:+.2e} {}", e.rms, e.drift, verdict);
}

int run(const std::string& backend, const std::vector<std::string>& variants,
        const std::vector<std::string>& fills, const std::vector<std::int64_t>& keys, int heads) {
  const std::vector<BackendInfo> known = known_backends();
  Workers workers(known);
  for (const std::string& fill : fills) {
    fmt::print("## fill={}\n\n| variant |", fill);
    for (const std::int64_t n : keys) fmt::print(" K = {} |", n);
    fmt::print("\n|---|");
    for (std::size_t i = 0; i < keys.size(); ++i) fmt::print("---|");
    fmt::print("\n");
    std::vector<std::string> rows;
    for (const std::string& variant : variants) rows.push_back(fmt::format("| `{}` |", variant));
    for (const std::int64_t n : keys) {  // inputs and truth once per number of keys
      const std::string line = fmt::format(
          "attention heads={} kv_heads=1 d=128 len={} kv=e4m3fn fill={} backend={}", heads, n, fill, backend);
      Case c = expand(parse_case(line)).at(0);
      const Inputs inputs = make_inputs(c, input_lists());
      TruthCache truths;
      Judge judge{inputs, truths, workers, {.timeout = std::chrono::seconds(60)}};
      for (std::size_t v = 0; v < variants.size(); ++v) {
        c.variant = variants[v];
        rows[v] += fmt::format(" {} |", cell(c, judge));
        std::fflush(stdout);
      }
    }
    for (const std::string& row : rows) fmt::print("{}\n", row);
    fmt::print("\n");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  std::string backend = "cuda";
  std::vector<std::string> variants = {"fp8_wgmma_p1", "fp8_wgmma_p4", "fp8_wgmma_p64", "fp8_wgmma_p0",
                                       "fp8_wgmma_p4_single_level"};
  std::vector<std::string> fills = {"value_mean", "needle", "gaussian"};
  std::vector<std::int64_t> keys = {4096, 8192, 16384, 32768, 65536, 131072};
  int heads = 8;
  CLI::App app("Error of FP8 attention against the number of keys, by how often sums leave the matrix unit");
  app.footer("Example:\n  assay promotion --fills constant,value_mean --keys 4096,65536");
  app.add_option("--backend", backend)->capture_default_str();
  app.add_option("--variants", variants)->delimiter(',')->capture_default_str();
  app.add_option("--fills", fills)->delimiter(',')->capture_default_str();
  app.add_option("--keys", keys)->delimiter(',')->capture_default_str();
  app.add_option("--heads", heads)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return assay::run(backend, variants, fills, keys, heads);
  } catch (const assay::InputError& refusal) {
    fmt::print(stderr, "assay-promotion: {}\n", refusal.what());
    return 2;
  }
}
