#include "reference/replay/declared.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/arithmetic/order.hpp"
#include "reference/near_names.hpp"
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

// Whether the bits of `s` are those of a unit promoted every `chunk` terms (0: never), in slices or not.
// Chunks added one after another are slices too.
bool is_promoted(const Schedule& s, std::int64_t chunk, bool may_split, std::int64_t n) {
  if (s.chunk == chunk || (s.chunk == 0 && chunk >= n)) return true;
  Schedule same = s;
  same.chunk = chunk;
  if (s.split > 1 || (chunk == 0 && !may_split)) {
    same.split = 1, same.merge = "sequential";
  } else if (chunk == 0) {
    same.split = (n + s.chunk - 1) / s.chunk, same.slicing = Slicing::even, same.quantum = s.chunk;
    same.merge = "sequential";
  }
  return signature(plan_sum(same, n)) == signature(plan_sum(s, n));
}

}  // namespace

std::string contradiction(const Contract& contract, const Schedule& s, std::int64_t n) {
  const std::string_view acc = contract.text("acc");
  if (acc != s.acc) return fmt::format("acc={} is declared, the bits are those of acc={}", acc, s.acc);
  if (acc == "i32") return "";
  if (const MatrixUnit* unit = s.unit()) {
    const auto promote = static_cast<std::int64_t>(contract.number("promote"));
    const bool may_split = order_of(contract.text("order")) != Order::sequential;
    if (!is_promoted(s, promote * unit->group, may_split, n))
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
  if (order == Order::sequential &&
      (s.lanes > 1 || s.split > 1 || s.chunk > 0 || s.cascade > 0 || s.descending) && n > 2)
    return fmt::format("order=sequential is declared, the bits are those of {}", print_schedule(s));
  return "";
}

void refuse_contract(const std::string& why) { throw InputError(InputErrorKind::bad_contract, why); }

void require_plain_store(const Contract& contract) {
  for (const auto& [key, plain] :
       {std::pair{"out", "dtype"}, {"round", "nearest_even"}, {"overflow", "ieee"}, {"ftz", "no"}})
    if (contract.text(key) != plain)
      refuse_contract(
          fmt::format("level=replay with {}={}; allowed: {}={}", key, contract.text(key), key, plain));
}

std::string name_of_step(const Schedule& s, std::int64_t n, std::int64_t begin, std::int64_t end) {
  std::string text = end - begin == 1 ? fmt::format("term {} is added", begin)
                                      : fmt::format("terms {}..{} are added", begin, end - 1);
  std::vector<std::string> where;
  const auto part = [&](std::string_view what, std::int64_t index, std::int64_t of) {
    if (of > 1) where.push_back(fmt::format("{} {} of {}", what, index + 1, of));
  };
  if (const MatrixUnit* unit = s.unit())
    part("block", begin / unit->group, (n + unit->group - 1) / unit->group);
  const std::vector<std::vector<TermRun>> all = slices(s, n);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<std::vector<TermRun>> parts = chunks(s, all[i]);
    for (std::size_t c = 0; c < parts.size(); ++c)
      for (const TermRun& run : parts[c])
        if (run.begin <= begin && begin < run.end) {
          part("chunk", static_cast<std::int64_t>(c), static_cast<std::int64_t>(parts.size()));
          part("slice", static_cast<std::int64_t>(i), static_cast<std::int64_t>(all.size()));
        }
  }
  return where.empty() ? text : fmt::format("{}: {}", text, fmt::join(where, ", "));
}

}  // namespace assay
