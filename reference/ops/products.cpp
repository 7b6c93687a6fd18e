#include "reference/ops/products.hpp"

#include <algorithm>
#include <cmath>

#include "reference/arithmetic/rule.hpp"

namespace assay {
namespace {

bool is_replayable(const OperandRow& row, bool flush) {
  const auto may_flush = [](double x) { return x != 0 && std::fabs(x) < 0x1p-126; };
  if (flush && (row.flushes_f16 || std::ranges::any_of(row.exact, may_flush) ||
                std::ranges::any_of(row.center, may_flush)))
    return false;
  const bool finite = std::isfinite(row.grid.sum_abs);
  const bool known =
      row.reach.empty() || (!row.undecided.empty() && row.undecided.size() <= kMostUndecided &&
                            std::all_of(row.undecided.begin(), row.undecided.end(),
                                        [](const Undecided& each) { return each.neighbours; }));
  return finite && known;
}

}  // namespace

// Every admissible row of each operand row, one after another; none of a row that is not replayed.
struct Products::Packed {
  std::vector<std::int64_t> first;  // of row i; one more entry than rows
  PackedOperand operand;
};

std::unique_ptr<Products::Packed> Products::pack(PackedOperand::Side side,
                                                 std::span<const OperandRow> rows) const {
  const MatrixUnit& unit = *dot_.replayable();
  std::vector<std::int64_t> first{0};
  std::vector<float> values, scales;
  std::size_t length = 0;
  for (const OperandRow& row : rows) {
    length = row.center.size();
    const std::size_t variants =
        is_replayable(row, dot_.flush()) ? std::size_t{1} << row.undecided.size() : 0;
    for (std::size_t choice = 0; choice < variants; ++choice) {
      const std::size_t at = values.size();
      if (row.elements.empty())
        values.insert(values.end(), row.center.begin(), row.center.end());
      else
        values.insert(values.end(), row.elements.begin(), row.elements.end());
      for (std::size_t u = 0; u < row.undecided.size(); ++u) {
        const Undecided& each = row.undecided[u];
        values[at + each.index] = static_cast<float>((choice >> u & 1) != 0 ? each.high : each.low);
      }
      scales.insert(scales.end(), row.block_scales.begin(), row.block_scales.end());
    }
    first.push_back(first.back() + static_cast<std::int64_t>(variants));
  }
  const std::string& element = side == PackedOperand::Side::a ? dot_.a_element() : dot_.b_element();
  const auto k = static_cast<std::int64_t>(length);
  PackedOperand operand(unit, side, element, values.data(), first.back(), k, k, scales);
  return std::make_unique<Packed>(Packed{std::move(first), std::move(operand)});
}

Products::Products(const Dot& dot, std::vector<OperandRow> rows) : dot_(dot), rows_(std::move(rows)) {
  if (dot_.replayable() != nullptr && !rows_.empty()) left_ = pack(PackedOperand::Side::a, rows_);
}
Products::~Products() = default;

// The accumulator's result of each pair; error +Inf where a side is not replayed.
std::vector<Enclosure> Products::replay(std::span<const OperandRow> weights) const {
  const std::unique_ptr<Packed> right = pack(PackedOperand::Side::b, weights);
  const std::int64_t columns = right->first.back();
  std::vector<float> sums(static_cast<std::size_t>(left_->first.back() * columns), 0.0F);
  if (!sums.empty())
    fused_gemm(*dot_.replayable(), left_->operand, right->operand, sums.data(), columns,
               {static_cast<int>(dot_.promote())});
  std::vector<Enclosure> hulls(rows_.size() * weights.size(), {0, kInfinity});
  for (std::size_t i = 0; i < rows_.size(); ++i)
    for (std::size_t j = 0; j < weights.size(); ++j) {
      double low = kInfinity, high = -kInfinity;
      bool finite = left_->first[i] < left_->first[i + 1] && right->first[j] < right->first[j + 1];
      for (std::int64_t p = left_->first[i]; p < left_->first[i + 1]; ++p)
        for (std::int64_t q = right->first[j]; q < right->first[j + 1]; ++q) {
          const double sum = sums[static_cast<std::size_t>(p * columns + q)];
          finite &= std::isfinite(sum);
          low = std::min(low, sum), high = std::max(high, sum);
        }
      if (finite)
        hulls[i * weights.size() + j] =
            low == high ? Enclosure{low, 0} : Enclosure{low / 2 + high / 2, up((high - low) / 2)};
    }
  return hulls;
}

std::vector<DotResult> Products::operator()(std::span<const OperandRow> weights) const {
  std::vector<DotResult> results(rows_.size() * weights.size());
  std::vector<Enclosure> replayed;
  if (left_ != nullptr) replayed = replay(weights);
  for (std::size_t i = 0; i < rows_.size(); ++i)
    for (std::size_t j = 0; j < weights.size(); ++j) {
      const std::size_t at = i * weights.size() + j;
      // Every sum of the unit is a multiple of both grids: what is not below the smallest normal f32 is not
      // flushed.
      const double least = rows_[i].grid.lsb * weights[j].grid.lsb;
      const bool stays = claims(Rule::sum_flush, !dot_.flush() || least >= 0x1p-126) &&
                         (left_ == nullptr || dot_.replayable()->standing == Standing::silicon ||
                          std::max({1.0, rows_[i].max_abs, weights[j].max_abs}) * 0x1p-126 <= least);
      const bool known = left_ != nullptr && replayed[at].error < kInfinity && stays;
      results[at] = dot_(rows_[i], weights[j], known ? &replayed[at] : nullptr);
    }
  return results;
}

}  // namespace assay
