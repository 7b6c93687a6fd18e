// bench_reference [sharpness [MOST_ELEMENTS [OP]]]: every figure that the reference promises, measured here and now, a line each:
// `name value limit ok`, or `short`. Exits 1 if any is short. Run it on a quiet machine; pairs (ours against plain f64)
// alternate in one run. With `sharpness`: how small an error the limits show, as the table of reports/results/sharpness.md.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "reference/arithmetic/bench_arithmetic.hpp"
#include "reference/ops/attention/bench_attention.hpp"
#include "reference/ops/attention/limits/bounds_figures.hpp"
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

}  // namespace

int main(int count, char** arguments) {
  using namespace assay;
  if (count > 1 && std::string_view(arguments[1]) == "sharpness") {
    print_sharpness(count > 2 ? std::strtod(arguments[2], nullptr) : 1e12, count > 3 ? arguments[3] : "");
    return shortfalls == 0 ? 0 : 1;
  }
  for (const auto& f : attention_figures(8)) print(f.name, f.value, f.limit, f.at_most);
  for (const auto& f : attention_bound_figures()) print(f.name, f.value, f.limit, true);
  print("fused_32_term_dots_per_second_and_core", measure_fused_dots_per_second(), 30e6, false);
  // Context for the figures above, without a promise of its own: how much wider arithmetic costs.
  const DotSpeeds dots = measure_dot_speeds(1.0);
  const ExpSpeeds exps = measure_exp_speeds(0.5);
  fmt::print(
      "# Gterm/s in one thread: plain f64 {:.3g}, Dot2 with its bound {:.3g}, float128 "
      "{:.3g}, mpfr113 {:.3g}\n",
      dots.plain_f64, dots.dot2, dots.float128, dots.mpfr113);
  fmt::print("# ns per exp: certified {:.3g}, double-double {:.4g}, mpfr113 {:.4g}\n", exps.vector_ns,
             exps.double_double_ns, exps.mpfr113_ns);
  return shortfalls == 0 ? 0 : 1;
}
