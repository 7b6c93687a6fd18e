#include "reference/replay/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>

#include "reference/error.hpp"
#include "reference/parallel.hpp"
#include "reference/replay/sum_lanes.hpp"

namespace assay {
namespace {

constexpr auto kLanes = static_cast<std::int64_t>(kSumLanes);

// a + b rounded to odd at 53 bits: rounded again to 50 bits or fewer it is rounded once (Boldo and Melquiond
// 2008).
double add_to_odd(double a, double b) {
  const double sum = a + b;
  const double back = sum - a;
  const double error = (a - (sum - back)) + (b - back);
  if (error == 0 || !std::isfinite(sum) || (std::bit_cast<std::uint64_t>(sum) & 1) != 0) return sum;
  return std::nextafter(sum, error > 0 ? HUGE_VAL : -HUGE_VAL);
}

double sum_of(double a, double b, Width width) {
  return width == Width::f64 ? a + b : round_to_width(add_to_odd(a, b), width);
}

// One sum in any of the four widths. Products of two f32 are exact in f64.
struct ScalarSum {
  const SumPlan& plan;
  std::vector<double> registers = std::vector<double>(static_cast<std::size_t>(plan.registers));

  template <typename Product>
  double operator()(const Product& product) {
    for (const SumOp& op : plan.ops) {
      double& at = registers[static_cast<std::size_t>(op.at)];
      switch (op.kind) {
        case SumOp::first:
          at = round_to_width(product(op.begin), op.width);
          break;
        case SumOp::step: {
          const double p = plan.fma ? product(op.begin) : round_to_width(product(op.begin), op.width);
          at = sum_of(p, at, op.width);
          break;
        }
        case SumOp::add:
          at = sum_of(at, registers[static_cast<std::size_t>(op.from)], op.width);
          break;
        case SumOp::round:
          at = round_to_width(at, op.width);
          break;
        case SumOp::zero:
          at = 0;
          break;
        case SumOp::block:
          break;
      }
    }
    return registers[static_cast<std::size_t>(plan.result)];
  }
};

}  // namespace

struct GemmReplay::Data {
  ReplayOperand a, b;
  std::vector<float> panels;  // [columns / kLanes][k][kLanes], zero beyond the columns
  struct Packed {
    std::vector<PackedOperand> left;  // tiles of kTileRows
    std::unique_ptr<PackedOperand> right;
  };
  std::mutex mutex;
  std::map<const MatrixUnit*, std::unique_ptr<Packed>> packed;

  static constexpr std::int64_t kTileRows = 64;

  const Packed& pack(const MatrixUnit& unit) {
    const std::lock_guard lock(mutex);
    std::unique_ptr<Packed>& entry = packed[&unit];
    if (entry != nullptr) return *entry;
    auto made = std::make_unique<Packed>();
    const std::int64_t scales = unit.scale_block > 0 ? (a.k + unit.scale_block - 1) / unit.scale_block : 0;
    for (std::int64_t r = 0; r < a.rows; r += kTileRows) {
      const std::int64_t rows = std::min(kTileRows, a.rows - r);
      made->left.emplace_back(
          unit, PackedOperand::Side::a, a.format, a.values.data() + r * a.k, rows, a.k, a.k,
          std::span(a.block_scales)
              .subspan(static_cast<std::size_t>(r * scales), static_cast<std::size_t>(rows * scales)));
    }
    made->right = std::make_unique<PackedOperand>(unit, PackedOperand::Side::b, b.format, b.values.data(),
                                                  b.rows, b.k, b.k, b.block_scales);
    entry = std::move(made);
    return *entry;
  }

  // Rows of one tile by the unit: a register is a matrix.
  void unit_tile(const SumPlan& plan, const Packed& sides, std::int64_t tile, double* out) const {
    const PackedOperand& left = sides.left[static_cast<std::size_t>(tile)];
    const auto size = static_cast<std::size_t>(left.rows() * b.rows);
    std::vector<std::vector<float>> registers(static_cast<std::size_t>(plan.registers));
    for (const SumOp& op : plan.ops) {
      std::vector<float>& at = registers[static_cast<std::size_t>(op.at)];
      if (op.kind == SumOp::zero) {
        at.assign(size, 0.0F);
      } else if (op.kind == SumOp::block) {
        fused_gemm_range(*plan.unit, left, *sides.right, op.begin, op.end, at.data(), b.rows, {op.promote});
      } else if (op.kind == SumOp::round) {
        if (op.width < Width::f16) continue;
        for (float& x : at) x = static_cast<float>(round_to_width(static_cast<double>(x), op.width));
      } else if (op.width == Width::f64) {
        throw InputError(InputErrorKind::bad_value,
                         "schedule: sums of a matrix unit join in f32, f16 or bf16");
      } else {
        const std::vector<float>& from = registers[static_cast<std::size_t>(op.from)];
        if (op.width == Width::f32)
          for (std::size_t i = 0; i < size; ++i) at[i] += from[i];
        else
          for (std::size_t i = 0; i < size; ++i)
            at[i] = static_cast<float>(
                round_to_width(static_cast<double>(at[i]) + static_cast<double>(from[i]), op.width));
      }
    }
    const std::vector<float>& result = registers[static_cast<std::size_t>(plan.result)];
    std::copy(result.begin(), result.end(), out + tile * kTileRows * b.rows);
  }
};

GemmReplay::GemmReplay(ReplayOperand a, ReplayOperand b) : data_(std::make_unique<Data>()) {
  const auto whole = [](const ReplayOperand& o) {
    return static_cast<std::int64_t>(o.values.size()) == o.rows * o.k;
  };
  if (a.k != b.k || !whole(a) || !whole(b))
    throw InputError(InputErrorKind::shape_mismatch,
                     fmt::format("replay of [{}, {}] by [{}, {}] from {} and {} numbers", a.rows, a.k, b.rows,
                                 b.k, a.values.size(), b.values.size()));
  data_->a = std::move(a), data_->b = std::move(b);
}
GemmReplay::~GemmReplay() = default;
GemmReplay::GemmReplay(GemmReplay&&) noexcept = default;
std::int64_t GemmReplay::rows() const { return data_->a.rows; }
std::int64_t GemmReplay::columns() const { return data_->b.rows; }
std::int64_t GemmReplay::terms() const { return data_->a.k; }

std::vector<double> GemmReplay::sums(const Schedule& schedule) const {
  return sums(plan_sum(schedule, data_->a.k));
}

std::vector<double> GemmReplay::sums(const SumPlan& plan) const {
  Data& d = *data_;
  const std::int64_t n = d.b.rows, k = d.a.k;
  std::vector<double> out(static_cast<std::size_t>(d.a.rows * n));
  if (plan.unit != nullptr) {
    const Data::Packed& sides = d.pack(*plan.unit);
    parallel_units(sides.left.size(), [&](std::size_t tile) {
      d.unit_tile(plan, sides, static_cast<std::int64_t>(tile), out.data());
    });
    return out;
  }
  const std::int64_t panels = (n + kLanes - 1) / kLanes;
  const bool plain = is_plain_f32(plan);
  if (plain) {
    const std::lock_guard lock(d.mutex);
    if (d.panels.empty()) {
      d.panels.resize(static_cast<std::size_t>(panels * k * kLanes));
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t t = 0; t < k; ++t)
          d.panels[static_cast<std::size_t>((j / kLanes * k + t) * kLanes + j % kLanes)] =
              d.b.values[static_cast<std::size_t>(j * k + t)];
    }
  }
  parallel_units(static_cast<std::size_t>(panels), [&](std::size_t panel) {
    const auto first = static_cast<std::int64_t>(panel) * kLanes, last = std::min(n, first + kLanes);
    std::vector<float> registers(static_cast<std::size_t>(plan.registers) * kSumLanes);
    for (std::int64_t i = 0; i < d.a.rows; ++i) {
      const float* a = d.a.values.data() + i * k;
      if (plain) {
        run_lanes(plan, {a, true, d.panels.data() + first * k}, registers.data());
        for (std::int64_t j = first; j < last; ++j)
          out[static_cast<std::size_t>(i * n + j)] =
              static_cast<double>(registers[static_cast<std::size_t>(plan.result) * kSumLanes +
                                            static_cast<std::size_t>(j - first)]);
        continue;
      }
      ScalarSum sum{plan};
      for (std::int64_t j = first; j < last; ++j) {
        const float* b = d.b.values.data() + j * k;
        out[static_cast<std::size_t>(i * n + j)] =
            sum([&](std::int64_t t) { return static_cast<double>(a[t]) * static_cast<double>(b[t]); });
      }
    }
  });
  return out;
}

double with_scales(double sum, float sa, float sb, std::string_view order) {
  if (order == "none") return sum;
  const auto c = static_cast<float>(sum);
  return static_cast<double>(order == "a_b" ? (c * sa) * sb : order == "b_a" ? (c * sb) * sa : c * (sa * sb));
}

SummedRows::SummedRows(std::vector<float> x, std::int64_t rows, std::int64_t k)
    : rows_(rows), k_(k), x_(std::move(x)) {
  if (std::ssize(x_) != rows * k)
    throw InputError(InputErrorKind::shape_mismatch,
                     fmt::format("sums of {} rows of {} terms from {} numbers", rows, k, x_.size()));
  // kLanes terms of each row at a time, whose lines stay in the cache meanwhile.
  side_by_side_.resize(static_cast<std::size_t>((rows + kLanes - 1) / kLanes * k * kLanes));
  for (std::int64_t first = 0; first < rows; first += kLanes)
    for (std::int64_t begin = 0; begin < k; begin += kLanes)
      for (std::int64_t r = first; r < std::min(rows, first + kLanes); ++r)
        for (std::int64_t t = begin; t < std::min(k, begin + kLanes); ++t)
          side_by_side_[static_cast<std::size_t>(first * k + t * kLanes + r - first)] =
              x_[static_cast<std::size_t>(r * k + t)];
}

std::vector<double> SummedRows::sums(const Schedule& schedule, const SummedRows* y) const {
  if (y != nullptr && (y->rows_ != rows_ || y->k_ != k_))
    throw InputError(
        InputErrorKind::shape_mismatch,
        fmt::format("sums of products of {} rows of {} and {} of {}", rows_, k_, y->rows_, y->k_));
  const SumPlan plan = plan_sum(schedule, k_);
  if (plan.unit != nullptr)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("schedule: acc={} adds products of matrices", schedule.acc));
  std::vector<double> sums(static_cast<std::size_t>(rows_));
  if (!is_plain_f32(plan)) {
    ScalarSum sum{plan};
    for (std::int64_t r = 0; r < rows_; ++r) {
      const float* a = x_.data() + r * k_;
      const float* b = y == nullptr ? nullptr : y->x_.data() + r * k_;
      sums[static_cast<std::size_t>(r)] = sum([&](std::int64_t t) {
        return b == nullptr ? static_cast<double>(a[t])
                            : static_cast<double>(a[t]) * static_cast<double>(b[t]);
      });
    }
    return sums;
  }
  std::vector<float> registers(static_cast<std::size_t>(plan.registers) * kSumLanes);
  for (std::int64_t first = 0; first < rows_; first += kLanes) {
    const float* b = y == nullptr ? nullptr : y->side_by_side_.data() + first * k_;
    run_lanes(plan, {side_by_side_.data() + first * k_, false, b}, registers.data());
    for (std::int64_t r = first; r < std::min(rows_, first + kLanes); ++r)
      sums[static_cast<std::size_t>(r)] = static_cast<double>(
          registers[static_cast<std::size_t>(plan.result) * kSumLanes + static_cast<std::size_t>(r - first)]);
  }
  return sums;
}

}  // namespace assay
