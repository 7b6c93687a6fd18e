// The place of a fault in a matrix product: which k. a[i,k] = 1 in one row i and b[j,k] = 1 in one row j for
// each k, so that an element of y shows one product alone, and what is lost or doubled along k is seen by
// itself. Asked twice: what lies in rows and columns of y moves when each k goes to another element, what
// lies in k does not.
#include <fmt/format.h>

#include "cases/attribution/conclusion.hpp"
#include "cases/attribution/place_axis.hpp"

namespace assay::attribution {
namespace {

constexpr std::int64_t kMostQuestions = 2;  // of either way; a smaller y cannot show so many products

// Each k in element (k / n + shift mod m, k + shift mod n), by as many questions as there are m n of them.
Axis ask_products(Bench& bench, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t shift) {
  Axis axis(k);
  for (std::int64_t first = 0; first < k; first += m * n) {
    const Answer a = bench.ask(Edit([=](const TensorSpec& t, std::vector<float>& x) {
      for (std::int64_t i = 0; i < std::ssize(x); ++i) {
        const std::int64_t at = i % k - first;
        const bool own = at >= 0 && at < m * n &&
                         (t.name == "a" ? (at / n + shift) % m == i / k : (at + shift) % n == i / k);
        x[static_cast<std::size_t>(i)] = own ? 1.0F : 0.0F;
      }
    }));
    if (!a.ran || a.got.empty()) continue;
    for (std::int64_t at = 0; at < std::min(m * n, k - first); ++at) {
      const auto e = static_cast<std::size_t>((at / n + shift) % m * n + (at + shift) % n);
      const Part p{at, at, a.truths[0].value[e], a.got[0][e], a.truths[0].limit[e]};
      axis.marks[static_cast<std::size_t>(first + at)] = mark_of(p, 1);
      axis.some_lost = axis.some_lost || p.lost();
    }
  }
  return axis;
}

}  // namespace

std::string matmul_place(Bench& bench) {
  const Attributes& all = bench.the_case().attributes;
  const std::int64_t m = all.integer("m"), n = all.integer("n"), k = all.integer("k");
  if (k > kMostQuestions * m * n) return "";
  const Axis axis = ask_products(bench, m, n, k, 0);
  const auto run = run_of(axis);
  if (!run || ask_products(bench, m, n, k, 1).marks != axis.marks) return "";
  return fmt::format("k {}..{}{}", run->first, run->last,
                     run->of_each > 0 ? fmt::format(" of each {}", run->of_each) : "");
}

}  // namespace assay::attribution
