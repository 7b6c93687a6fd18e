#include "reference/ops/replayed_matmul.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/replay/declared.hpp"
#include "reference/replay/grouped_schedule.hpp"

namespace assay {
namespace {

// With ftz=yes: whether a number below 2^-126 can occur on the way to c's product with its scales. Partial
// sums are multiples of the operands' grids, and a rounding leaves them so.
bool may_flush(const ReplayRows& a, std::size_t i, const ReplayRows& b, std::size_t j, double sum) {
  const auto is_tiny = [](double x) { return x != 0 && std::fabs(x) < 0x1p-126; };
  const double sa = static_cast<double>(a.scales[i]), sb = static_cast<double>(b.scales[j]);
  return a.lsb[i] < 0x1p-126 || b.lsb[j] < 0x1p-126 || a.lsb[i] * b.lsb[j] < 0x1p-126 || is_tiny(sum * sa) ||
         is_tiny(sum * sb) || is_tiny(sa * sb) || is_tiny(sum * sa * sb);
}

}  // namespace

ReplayRows replay_rows_of(const Operands& operands, const char* name) {
  ReplayRows rows{{operands.rows(), operands.length(), std::string(operands.element()), {}, {}}, {}, {}, {}};
  for (std::int64_t r = 0; r < operands.rows(); ++r) {
    const OperandRow row = operands.row(r);
    // Of what is not finite, may be flushed or is not claimed at all there are no bits.
    const bool finite =
        std::isfinite(row.grid.sum_abs) && !row.may_flush && !row.flushes_f16 && row.scale_error < kInfinity;
    if (finite && (!row.undecided.empty() || !row.reach.empty() || row.scale_error != 0))
      refuse_contract(fmt::format(
          "level=replay: row {} of {} is not decided by the contract; declare dequant_roundings=1, "
          "and of path=e4m3fn and q8 scale and code, of q8 ties, of path=tf32 tf32",
          r, name));
    std::vector<float> values(row.elements);
    if (values.empty()) values.assign(row.center.begin(), row.center.end());
    if (!finite) values.assign(values.size(), 0.0F);
    rows.operand.values.insert(rows.operand.values.end(), values.begin(), values.end());
    std::vector<float> blocks(row.block_scales);
    if (!finite) blocks.assign(blocks.size(), 1.0F);
    rows.operand.block_scales.insert(rows.operand.block_scales.end(), blocks.begin(), blocks.end());
    rows.scales.push_back(static_cast<float>(row.scale));
    rows.scaled |= row.scale != 1;
    rows.finite.push_back(finite);
    rows.lsb.push_back(row.grid.lsb);
  }
  return rows;
}

void replay_products(Truth& truth, std::string_view path, const Operands& left, const Operands& right,
                     const Contract& contract, const Store& store) {
  under_schedule(contract, [&](const std::string& text) {
    const GroupedSchedule schedule = parse_grouped_schedule(text);
    if (path.starts_with("q8_"))
      refuse_contract(fmt::format(
          "level=replay: path={} adds products of blocks and of their sums, of which there is no schedule; "
          "allowed: f32, tf32, f16, bf16, codes, blocks, e4m3fn, q8",
          path));
    for (const Schedule* each : schedule.all())
      if (const std::string against = contradiction(contract, *each, left.length()); !against.empty())
        refuse_contract(fmt::format("level=replay: {}", against));
    const ReplayRows a = replay_rows_of(left, "a"), b = replay_rows_of(right, "b");
    if ((a.scaled || b.scaled) &&
        std::ranges::any_of(schedule.all(), [](const Schedule* each) { return each->scales == "none"; }))
      refuse_contract(
          "level=replay: the schedule has scales=none, and the operands have scales; allowed: "
          "a_b|b_a|product");
    const bool flush = contract.text("ftz") == "yes";
    const std::vector<double> sums = replay_sums(schedule, a.operand, b.operand);
    const auto n = static_cast<std::size_t>(b.operand.rows);
    const bool integers = schedule.grouped.acc == "i32";
    for (std::size_t at = 0; at < sums.size(); ++at) {
      const std::size_t i = at / n, j = at % n;
      if (integers && !(std::fabs(sums[at]) < 0x1p31)) continue;  // may have wrapped
      if (!a.finite[i] || !b.finite[j] || (flush && may_flush(a, i, b, j, sums[at]))) continue;
      const double z = with_scales(
          sums[at], a.scales[i], b.scales[j],
          schedule.of(static_cast<std::int64_t>(i), left.rows(), static_cast<std::int64_t>(j), right.rows())
              .scales);
      if (std::isfinite(z)) set_truth_within(truth, at, {z, 0}, store);
    }
    truth.limit_origin =
        fmt::format("reference/ops/matmul: the bits of schedule={}", contract.text("schedule"));
  });
}

std::vector<ReplayStage> matmul_stages(const Attributes& attributes, const TensorSet& inputs,
                                       const Contract& contract) {
  if (!is_judged_by_replay(contract)) return {};
  const auto all = [](std::size_t) { return true; };
  const std::string side = with_zeros(inputs.at("a"), all) ? "a" : "b";
  if (!with_zeros(inputs.at(side), all)) return {};
  return under_schedule(contract, [&](const std::string& text) -> std::vector<ReplayStage> {
    // Where the first row ends; the others end there too, in the order of their own.
    const Schedule schedule =
        parse_grouped_schedule(text).of(0, attributes.integer("m"), 0, attributes.integer("n"));
    const std::int64_t k = attributes.integer("k");
    const std::int64_t each = schedule.unit() != nullptr ? schedule.unit()->group : 1;
    const auto cut = [=, &inputs](std::int64_t t) {
      TensorSet set = inputs;
      set.insert_or_assign(side, *with_zeros(inputs.at(side), [&](std::size_t at) {
                             return static_cast<std::int64_t>(at) % k < t * each;
                           }));
      return set;
    };
    const auto name = [=](std::int64_t t) {
      return name_of_step(schedule, k, (t - 1) * each, std::min(k, t * each));
    };
    return {{(k + each - 1) / each, cut, name}};
  });
}

}  // namespace assay
