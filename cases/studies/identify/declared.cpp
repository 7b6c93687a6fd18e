#include "cases/studies/identify/declared.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/arithmetic/order.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {
namespace {

// The most additions that a term goes through.
std::int64_t height(const SumPlan& plan) {
  std::vector<std::int64_t> of(static_cast<std::size_t>(plan.registers), 0);
  for (const SumOp& op : plan.ops) {
    std::int64_t& at = of[static_cast<std::size_t>(op.at)];
    if (op.kind == SumOp::first || op.kind == SumOp::zero) at = 0;
    if (op.kind == SumOp::step) ++at;
    if (op.kind == SumOp::add) at = std::max(at, of[static_cast<std::size_t>(op.from)]) + 1;
  }
  return of[static_cast<std::size_t>(plan.result)];
}

}  // namespace

std::string contradiction(const Contract& contract, const Schedule& s, std::int64_t n) {
  const std::string_view acc = contract.text("acc");
  if (acc != s.acc) return fmt::format("acc={} is declared, the bits are those of acc={}", acc, s.acc);
  if (const MatrixUnit* unit = s.unit()) {
    const auto promote = static_cast<std::int64_t>(contract.number("promote"));
    if (promote * unit->group != s.chunk && !(s.chunk == 0 && promote * unit->group >= n))
      return fmt::format("promote={} is declared, the bits are those of chunk={} ({} blocks)", promote,
                         s.chunk, s.chunk / unit->group);
    if (order_of(contract.text("order")) == Order::sequential && (s.split > 1 || s.descending))
      return fmt::format("order=sequential is declared, the bits are those of {}", print_schedule(s));
    return "";
  }
  const Order order = order_of(contract.text("order"));
  if (order == Order::any) return "";
  const std::int64_t tall = height(plan_sum(s, n));
  if (static_cast<double>(tall) > order.height(static_cast<double>(n)))
    return fmt::format("order={} is declared, of height {}, the bits are those of {}, of height {}",
                       contract.text("order"), order.height(static_cast<double>(n)), print_schedule(s), tall);
  if (order == Order::sequential && (s.lanes > 1 || s.split > 1 || s.chunk > 0 || s.descending) && n > 2)
    return fmt::format("order=sequential is declared, the bits are those of {}", print_schedule(s));
  return "";
}

}  // namespace assay
