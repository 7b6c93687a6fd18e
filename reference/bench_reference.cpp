// bench_reference [sharpness [MOST_ELEMENTS [OP]] | second_opinion [OUTPUTS]]: every figure that the
// reference promises, measured here and now, a line each: `name value limit ok`, or `short`. Exits 1 if any
// is short. Run it on a quiet machine; pairs (ours against plain f64) alternate in one run. With `sharpness`:
// how small an error the limits show, as the table of reports/results/sharpness.md. With `second_opinion`:
// how often it doubts kernels that are right, as the table of reports/results/second_opinion.md.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "reference/arithmetic/bench_arithmetic.hpp"
#include "reference/ops/attention/bench_attention.hpp"
#include "reference/ops/attention/limits/bounds_figures.hpp"
#include "reference/ops/bench_second_opinion.hpp"
#include "reference/ops/bench_sharpness.hpp"
#include "reference/real/bench_real.hpp"

namespace {

int shortfalls = 0;

void print(const std::string& name, double value, double limit, bool at_most) {
  const bool ok = at_most ? value <= limit : value >= limit;  // a NaN is short
  if (!ok) ++shortfalls;
  fmt::print("{} {:.6g} {:.6g} {}\n", name, value, limit, ok ? "ok" : "short");
  std::fflush(stdout);
}

void print_sharpness(double longest, const std::string& only) {
  using namespace assay;
  constexpr const char* kDeclared[] = {"0", "T", "U"};
  fmt::print(
      "| declared | what | case | contract | half | some | loosest | goal | s "
      "|\n|---|---|---|---|--:|--:|--:|--:|--:|\n");
  measure_sharpness(longest, only, [&](const SharpnessFigure& f) {
    const SharpnessRow& row = f.row;
    const bool ok = row.goal == 0 || f.seen.half <= row.goal;
    if (!ok) ++shortfalls;
    fmt::print("| {} | {} | {} {}{} | {} | {} | {} | {} | {} | {:.2g} |\n",
               kDeclared[static_cast<int>(row.declared)], row.name, row.op, row.attributes,
               row.needle ? " fill=needle" : "", row.contract, percent(f.seen.half), percent(f.seen.some),
               percent(f.seen.loosest),
               row.goal == 0 ? "" : fmt::format("{}{}", percent(row.goal), ok ? "" : " short"), f.seconds);
    std::fflush(stdout);
  });
}

void print_second_opinion(std::size_t outputs) {
  using namespace assay;
  std::size_t all = 0, suspect = 0;
  fmt::print(
      "| sums | order | terms | fill | outputs | suspect | 1 in 10,000 above | largest | proof / likely |\n"
      "|---|---|--:|---|--:|--:|--:|--:|--:|\n");
  measure_second_opinion(outputs, [&](const OpinionFigure& f) {
    all += f.outputs, suspect += f.suspect;
    if (f.outputs == 0)
      fmt::print("| {} | {} | {} | {} | refused | | | | |\n", f.accumulator, f.order, f.terms, f.fill);
    else
      fmt::print("| {} | {} | {} | {} | {} | {} | {:.3g} | {:.3g} | {:.3g} |\n", f.accumulator, f.order,
                 f.terms, f.fill, f.outputs, f.suspect, f.one_in_10000, f.largest, f.proof_over_it);
    std::fflush(stdout);
  });
  fmt::print("\n{} outputs of kernels that are right, {} of them suspect\n", all, suspect);
  constexpr double kPromised = 1e-4;  // the rate that the second opinion is calibrated at
  if (!(static_cast<double>(suspect) <= kPromised * static_cast<double>(all)) || all < outputs) ++shortfalls;
}

}  // namespace

int main(int count, char** arguments) {
  using namespace assay;
  if (count > 1 && std::string_view(arguments[1]) == "sharpness") {
    print_sharpness(count > 2 ? std::strtod(arguments[2], nullptr) : 1e12, count > 3 ? arguments[3] : "");
    return shortfalls == 0 ? 0 : 1;
  }
  if (count > 1 && std::string_view(arguments[1]) == "second_opinion") {
    print_second_opinion(count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 10'000'000);
    return shortfalls == 0 ? 0 : 1;
  }
  // Plain f64 dot products, data in cache, are the measure of this machine that the other figures are ratios
  // to.
  const DotSpeeds dots = measure_dot_speeds(1.0);
  for (const auto& f : attention_figures(8, 1 / dots.plain_f64)) print(f.name, f.value, f.limit, f.at_most);
  for (const auto& f : attention_bound_figures()) print(f.name, f.value, f.limit, true);
  print("emulated_fp8_dot_over_f64_dot_of_its_terms",
        dots.plain_f64 * 1e9 / (32 * measure_fused_dots_per_second()), 1, true);
  // Context for the figures above, without a promise of its own: nanoseconds of this machine, and what wider
  // arithmetic costs.
  for (const std::string& line : attention_context()) fmt::print("# {}\n", line);
  const ExpSpeeds exps = measure_exp_speeds(0.5);
  fmt::print(
      "# Gterm/s in one thread: plain f64 {:.3g}, Dot2 with its bound {:.3g}, float128 "
      "{:.3g}, mpfr113 {:.3g}\n",
      dots.plain_f64, dots.dot2, dots.float128, dots.mpfr113);
  fmt::print("# ns per exp: certified {:.3g}, double-double {:.4g}, mpfr113 {:.4g}\n", exps.vector_ns,
             exps.double_double_ns, exps.mpfr113_ns);
  return shortfalls == 0 ? 0 : 1;
}
