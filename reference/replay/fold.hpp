// A fold of L partial sums is a word or a list of steps, each `stride` or `stride*count`: a step replaces
// sums j, j + stride, ..., j + (count - 1) stride by their chain, first to last (count is 2 where it is left
// out). The counts multiply to L.
//   halving      8.4.2.1 for L = 16: a butterfly, x[j] + x[j + L/2]
//   adjacent     1.2.4.8: x[2j] + x[2j + 1]
//   sequential   1*16;  reverse: the same from the last to the first
// 16.32.8.4.2.1 folds four vectors of 16: (v0 + v1) + (v2 + v3), then the lanes by halves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

inline constexpr std::string_view kFoldWords =
    "halving|adjacent|sequential|reverse, or steps as in 16*4.8.4.2.1";

struct FoldStep {
  std::int64_t stride = 1, count = 2;
  bool operator==(const FoldStep&) const = default;
};
struct Fold {
  bool reverse = false;  // one chain from the last to the first
  std::vector<FoldStep> steps;
  bool operator==(const Fold&) const = default;
};
// A word or steps, for `count` sums. halving and adjacent take any count: halves are rounded up, an odd one
// out waits. Throws InputError bad_value.
Fold fold_of(std::string_view text, std::int64_t count);
// The same in the shortest spelling: a word where one says it.
std::string to_string(const Fold& fold, std::int64_t count);
// The additions of the fold: sum `into` gains sum `from`, in order; what is left is sum `result`.
struct FoldAddition {
  std::int32_t into, from;
};
std::vector<FoldAddition> additions(const Fold& fold, std::int64_t count, std::int32_t& result);
// Which of `count` sums are left behind the step, but for the last one, that leaves `sums` of them; {} where
// none does.
std::vector<std::size_t> left_of(const Fold& fold, std::int64_t count, std::int64_t sums);

// The fold of f32 sums, prepared once.
class LaneFold {
 public:
  LaneFold(std::string_view text, std::int64_t count)
      : additions_(additions(fold_of(text, count), count, result_)) {}
  // What is left of `lanes`, which it overwrites.
  float operator()(std::span<float> lanes) const {
    for (const FoldAddition& f : additions_)
      lanes[static_cast<std::size_t>(f.into)] += lanes[static_cast<std::size_t>(f.from)];
    return lanes[static_cast<std::size_t>(result_)];
  }

 private:
  std::int32_t result_ = 0;
  std::vector<FoldAddition> additions_;
};

}  // namespace assay
