#include "reference/replay/sum_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "reference/arithmetic/rounding.hpp"
#include "reference/error.hpp"
#include "reference/mix.hpp"

namespace assay {
namespace {

constexpr std::int32_t kAbsent = -1;

// Terms that join a fold where `sums` are left of it, one to each in turn.
struct Between {
  std::int64_t sums = 0;
  std::span<const std::int64_t> terms;
};

struct Builder {
  const Schedule& s;
  SumPlan plan;
  Width acc;

  explicit Builder(const Schedule& schedule)
      : s(schedule),
        acc(schedule.unit() != nullptr ? Width::f32
            : schedule.acc == "i32"    ? Width::f64  // exact below 2^53
                                       : width_of(schedule.acc)) {
    plan.unit = s.unit();
    plan.fma = s.fma;
  }
  std::vector<std::int32_t> spare;  // registers whose sum has joined another
  std::int32_t fresh() {
    if (spare.empty()) return plan.registers++;
    const std::int32_t at = spare.back();
    spare.pop_back();
    return at;
  }
  void take(std::int32_t& at, std::int64_t term, const char* where) {
    if (at == kAbsent) {
      at = fresh();
      plan.ops.push_back({SumOp::first, acc, at, 0, term, term + 1, 0, where});
    } else {
      plan.ops.push_back({SumOp::step, acc, at, 0, term, term + 1, 0, where});
    }
  }
  void join(std::int32_t& into, std::int32_t from, Width width, const char* where) {
    if (from == kAbsent) return;
    if (into == kAbsent)
      into = from;
    else
      plan.ops.push_back({SumOp::add, width, into, from, 0, 0, 0, where}), spare.push_back(from);
  }
  // `before`: a sum with which the chain of the last step begins.
  std::int32_t fold(std::vector<std::int32_t> sums, const std::string& how, Width width, const char* where,
                    std::int32_t before = kAbsent, const Between& between = {}) {
    if (sums.empty()) return before;
    const auto count = static_cast<std::int64_t>(sums.size());
    const Fold steps = fold_of(how, count);
    std::int32_t result = 0;
    const std::vector<FoldAddition> list = additions(steps, count, result);
    const auto into = static_cast<std::size_t>(result);
    const auto last = steps.steps.empty() ? std::ssize(list) : steps.steps.back().count - 1;
    for (std::ptrdiff_t i = 0; i <= std::ssize(list); ++i) {
      if (i == count - between.sums) {
        const std::vector<std::size_t> left = left_of(steps, count, between.sums);
        for (std::size_t t = 0; t < between.terms.size(); ++t)
          take(sums[left[t / static_cast<std::size_t>(s.pack) % left.size()]], between.terms[t], "tail");
      }
      if (i == std::ssize(list) - last && before != kAbsent) {
        join(before, sums[into], width, where);
        sums[into] = before;
      }
      if (i == std::ssize(list)) break;
      const FoldAddition& a = list[static_cast<std::size_t>(i)];
      join(sums[static_cast<std::size_t>(a.into)], sums[static_cast<std::size_t>(a.from)], width, where);
    }
    return sums[into];
  }
  std::int32_t unit_chain(const std::vector<TermRun>& runs, int promote) {
    const std::int64_t g = plan.unit->group;
    const std::int32_t at = fresh();
    plan.ops.push_back({SumOp::zero, Width::f32, at, 0, 0, 0, 0, "step"});
    std::vector<TermRun> blocks;
    for (const TermRun& run : runs) {
      if (run.begin % g != 0 || (run.end % g != 0 && run.end != plan.terms))
        throw InputError(InputErrorKind::bad_value,
                         fmt::format("schedule: terms [{}, {}) cut a block of {}, which adds {} at a time",
                                     run.begin, run.end, plan.unit->name, g));
      if (!s.descending)
        blocks.push_back(run);
      else
        for (std::int64_t k = run.begin; k < run.end; k += g) blocks.push_back({k, std::min(k + g, run.end)});
    }
    if (s.descending) std::reverse(blocks.begin(), blocks.end());
    for (const TermRun& b : blocks)
      plan.ops.push_back({SumOp::block, Width::f32, at, 0, b.begin, b.end, promote, "step"});
    return at;
  }
  // The sum of one lane, and those of the levels above it.
  struct LaneSum {
    std::int32_t own = kAbsent;
    std::int64_t taken = 0;
    std::vector<std::int32_t> levels;
  };
  void step(LaneSum& lane, std::int64_t term, const char* where) {
    take(lane.own, term, where);
    if (s.cascade == 0) return;
    ++lane.taken;
    std::int32_t* below = &lane.own;
    for (std::int64_t full = s.cascade, level = 0; lane.taken % full == 0; full *= s.cascade, ++level) {
      if (std::ssize(lane.levels) == level) {
        const std::int32_t sum = *below;
        *below = kAbsent;
        lane.levels.push_back(sum);
        break;  // the first sum of a level
      }
      std::int32_t& above = lane.levels[static_cast<std::size_t>(level)];
      join(above, *below, acc, "cascade");
      *below = kAbsent;
      below = &above;
    }
  }
  void close(LaneSum& lane) {
    for (const std::int32_t level : lane.levels) join(lane.own, level, acc, "cascade");
    lane.levels.clear(), lane.taken = 0;
  }
  std::int32_t lanes(const std::vector<TermRun>& runs) {
    std::vector<std::int64_t> terms;
    for (const TermRun& run : runs)
      for (std::int64_t k = run.begin; k < run.end; ++k) terms.push_back(k);
    if (s.descending) std::reverse(terms.begin(), terms.end());
    for (std::size_t p = 0; s.swapped && p + 1 < terms.size(); p += 2) std::swap(terms[p], terms[p + 1]);
    if (s.second_first) second_terms_first(terms);
    std::vector<LaneSum> sums(static_cast<std::size_t>(s.lanes));
    const auto all = static_cast<std::int64_t>(terms.size()), head = std::min(s.head, all);
    std::int32_t apart = kAbsent;
    for (std::int64_t p = 0; p < head; ++p)
      if (const std::int64_t term = terms[static_cast<std::size_t>(p)]; s.head_apart)
        take(apart, term, "head");
      else
        step(sums[0], term, "head");
    terms.erase(terms.begin(), terms.begin() + head);
    const std::int64_t count = all - head;
    const std::int64_t pass = s.lanes * s.pack, whole = count / pass * pass;
    const std::int64_t passed = s.tail == Tail::lanes ? count : whole;
    for (std::int64_t p = 0, lane = 0; p < passed; lane = lane + 1 == s.lanes ? 0 : lane + 1)
      for (std::int64_t next = std::min(p + s.pack, passed); p < next; ++p)
        step(sums[static_cast<std::size_t>(lane)], terms[static_cast<std::size_t>(p)], "step");
    std::vector<std::int32_t> own;
    for (LaneSum& lane : sums) close(lane), own.push_back(lane.own);
    const std::vector<std::int64_t> rest(
        s.tail == Tail::lanes ? terms.end() : terms.begin() + static_cast<std::ptrdiff_t>(whole),
        terms.end());
    std::int32_t total = with_rest(std::move(own), rest);
    join(total, apart, acc, "head");
    return total;
  }
  void second_terms_first(std::vector<std::int64_t>& terms) const {
    const std::int64_t second = s.pack > 1 ? 1 : s.lanes;
    for (std::int64_t lane = 0; lane < s.lanes; ++lane)
      if (const std::int64_t p = lane * s.pack + s.head; p + second < std::ssize(terms))
        std::swap(terms[static_cast<std::size_t>(p)], terms[static_cast<std::size_t>(p + second)]);
  }
  // The fold of the lanes' sums, and of the terms behind their last whole pass.
  std::int32_t with_rest(std::vector<std::int32_t> sums, const std::vector<std::int64_t>& rest) {
    const std::int64_t width = s.tail_width == 0 ? s.lanes : s.tail_width;
    const std::int64_t count = std::ssize(rest), vectors = count / width * width;
    std::int32_t apart = kAbsent;
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t term = rest[static_cast<std::size_t>(t)];
      if (s.tail == Tail::apart || (s.tail == Tail::before && t >= vectors)) {
        take(apart, term, "tail");
      } else if (s.tail == Tail::vector || s.tail == Tail::first || s.tail == Tail::before) {
        const bool ends = s.tail == Tail::vector && t >= vectors;
        const std::int64_t lane = ends ? (width + t - vectors) % s.lanes : t % width;
        take(sums[static_cast<std::size_t>(lane)], term, "step");
      }
    }
    const bool begins = s.tail == Tail::before;
    const Between between = s.tail == Tail::folded ? Between{s.tail_width, rest} : Between{};
    std::int32_t total = fold(std::move(sums), s.fold, acc, "fold", begins ? apart : kAbsent, between);
    if (s.tail == Tail::apart) join(total, apart, acc, "tail");
    if (s.tail == Tail::after)
      for (const std::int64_t term : rest) take(total, term, "tail");
    if (s.tail != Tail::refold || rest.empty()) return total;
    std::vector<std::int32_t> again(static_cast<std::size_t>(s.lanes), kAbsent);
    again[0] = total;
    for (std::int64_t t = 0; t < count; ++t)
      take(again[static_cast<std::size_t>(t / s.pack % s.lanes)], rest[static_cast<std::size_t>(t)], "tail");
    return fold(std::move(again), s.fold, acc, "tail");
  }
  void round(std::int32_t at, std::string_view to, const char* where) {
    // Numbers of a wider or equal format are not rounded by it.
    const Width width = width_of(to);
    if (width == acc || width == Width::f64 || (width == Width::f32 && acc != Width::f64)) return;
    if (at != kAbsent) plan.ops.push_back({SumOp::round, width_of(to), at, 0, 0, 0, 0, where});
  }
};

}  // namespace

Width width_of(std::string_view name) {
  return name == "f64" ? Width::f64 : name == "f32" ? Width::f32 : name == "f16" ? Width::f16 : Width::bf16;
}

double round_to_width(double x, Width width) {
  switch (width) {
    case Width::f64:
      return x;
    case Width::f32:
      return round_f32(x);
    case Width::f16:
      return round_f16(x);
    case Width::bf16:
      return round_bf16(x);
  }
  return x;
}

bool same_arithmetic(const MatrixUnit& a, const MatrixUnit& b) {
  return a.combine == b.combine && a.fraction_bits == b.fraction_bits && a.group == b.group &&
         a.out == b.out && a.rounding == b.rounding && a.scale_block == b.scale_block &&
         a.scales == b.scales && a.least_exponent == b.least_exponent;
}

std::uint64_t signature(const SumPlan& plan) {
  std::vector<std::uint64_t> of(static_cast<std::size_t>(plan.registers), 0);
  std::uint64_t unit = 0;
  for (const MatrixUnit& row : matrix_units())  // the first row of the same arithmetic
    if (plan.unit != nullptr && unit == 0 && same_arithmetic(row, *plan.unit))
      unit = static_cast<std::uint64_t>(1 + (&row - matrix_units().data()));
  for (const SumOp& op : plan.ops) {
    std::uint64_t& at = of[static_cast<std::size_t>(op.at)];
    const std::uint64_t how = static_cast<std::uint64_t>(op.width) * 64 + unit;
    const std::uint64_t term = mix(static_cast<std::uint64_t>(op.begin) * 2 + 1);
    switch (op.kind) {
      case SumOp::zero:
        at = 0;
        break;
      case SumOp::first:
        at = mix(term + how);
        break;
      case SumOp::step:  // fused, a product is not rounded: no addition of two sums
        at = plan.fma ? mix(at + 3 * term + how + 512) : mix(at + mix(term + how) + how + 1024);
        break;
      case SumOp::add:
        at = mix(at + of[static_cast<std::size_t>(op.from)] + how + 1024);
        break;
      case SumOp::round:
        at = mix(at + how + 2048);
        break;
      case SumOp::block: {
        // Blocks one after another, so that two ranges are the same as one.
        const std::int64_t g = plan.unit->group;
        const std::int64_t blocks = (op.end - op.begin + g - 1) / g;
        std::uint64_t chain = op.promote > 0 ? 0 : at;
        for (std::int64_t b = 0; b < blocks; ++b) {
          chain = mix(chain + mix(static_cast<std::uint64_t>(op.begin + b * g) * 2 + 1) + how + 4096);
          if (op.promote > 0 && ((b + 1) % op.promote == 0 || b + 1 == blocks)) {
            at =
                at == 0 ? chain : mix(at + chain + static_cast<std::uint64_t>(Width::f32) * 64 + unit + 1024);
            chain = 0;
          }
        }
        if (op.promote == 0) at = chain;
        break;
      }
    }
  }
  return of[static_cast<std::size_t>(plan.result)];
}

SumPlan plan_sum(const Schedule& schedule, std::int64_t n) {
  Builder b(schedule);
  b.plan.terms = n;
  if (b.plan.unit == nullptr) b.plan.ops.reserve(static_cast<std::size_t>(n + schedule.lanes));
  std::vector<std::int32_t> parts;
  for (const std::vector<TermRun>& slice : slices(schedule, n)) {
    std::int32_t sum = kAbsent;
    // What fused_gemm does by itself: thousands of chunks without a register for each.
    if (b.plan.unit != nullptr && schedule.chunk > 0 && schedule.chunk_acc == "f32" && !schedule.descending &&
        slice.size() == 1) {
      sum = b.unit_chain(slice, static_cast<int>(schedule.chunk / b.plan.unit->group));
      parts.push_back(sum);
      if (schedule.split > 1) b.round(sum, schedule.part, "merge");
      continue;
    }
    for (const std::vector<TermRun>& chunk : chunks(schedule, slice)) {
      const std::int32_t part = b.plan.unit != nullptr ? b.unit_chain(chunk, 0) : b.lanes(chunk);
      if (schedule.chunk > 0 && sum == kAbsent) b.round(part, schedule.chunk_acc, "chunk");
      b.join(sum, part, width_of(schedule.chunk_acc), "chunk");
    }
    if (schedule.split > 1) b.round(sum, schedule.part, "merge");
    parts.push_back(sum);
  }
  std::int32_t result = b.fold(std::move(parts), schedule.merge, width_of(schedule.merge_acc), "merge");
  if (result == kAbsent) {
    result = b.fresh();
    b.plan.ops.push_back({SumOp::zero, Width::f32, result, 0, 0, 0, 0, "step"});
  }
  if (schedule.acc == "i32") b.round(result, "f32", "step");
  b.plan.result = result;
  return std::move(b.plan);
}

}  // namespace assay
