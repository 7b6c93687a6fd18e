// Laws of softmax, log-sum-exp and the Walsh-Hadamard transform; quantise-on-write has properties of its own
// in cases/studies/properties. Laws of the codecs
// (fixed point of decode and encode, order, sign, idempotent requantising) stand beside the codecs, in
// reference/formats/laws_test.cpp, for every format; round trips of the case grammar in
// harness/case_test.cpp, of the worker's protocol in harness/worker/protocol_test.cpp.
#include <algorithm>
#include <cmath>

#include "cases/properties/laws.hpp"

namespace assay::properties {
namespace {

std::uint64_t seed() { return *rc::gen::inRange<std::uint64_t>(1, 1000); }

TEST(SoftmaxLaws, a_shift_of_all_logits_changes_nothing) {
  expect_law("softmax shift", "absolute", [](Kernel& kernel) {
    const Case c = a_case(fmt::format("softmax rows={} cols={} dtype=f32 seed={}", *rc::gen::inRange(1, 4),
                                      *rc::gen::inRange(1, 200), seed()));
    const auto shift = static_cast<float>(*rc::gen::inRange(1, 65));
    Inputs inputs = make_inputs(c, input_lists());
    for (float& x : elements<float>(inputs.set, "x")) x = std::round(x * 1024) / 1024;  // x + c is exact
    const Truth low = kernel.truth(c, inputs);
    const auto before = kernel.run(c, inputs);
    for (float& x : elements<float>(inputs.set, "x")) x += shift;
    const Truth high = kernel.truth(c, inputs);
    const auto after = kernel.run(c, inputs);
    for (std::size_t i = 0; i < after.size(); ++i)
      if (auto broken = within(c, i, after[i], before[i], low.limit[i] + high.limit[i]))
        return Verdict(broken);
    return Verdict();
  });
}

// Online against two-pass: log-sum-exp of the parts, merged by log-sum-exp, is that of the whole under any
// split. A part's error counts at most once in full (its weight in the merge is at most 1, the weights sum to
// 1, up to the change of weights that the error itself makes: twice).
TEST(SoftmaxLaws, online_equals_two_pass_under_any_split) {
  expect_law("online log-sum-exp", "gain", [](Kernel& kernel) {
    const int cols = *rc::gen::inRange(2, 300);
    auto cuts = *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, cols));
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    cuts.push_back(cols);
    const auto line = [&](std::size_t n) {
      return fmt::format("logsumexp rows=1 cols={} dtype=f32 seed=7 fill=outlier", n);
    };
    const Case whole = a_case(line(static_cast<std::size_t>(cols)));
    const Inputs inputs = make_inputs(whole, input_lists());
    const auto& bytes = inputs.set.at("x").planes.front().bytes;
    std::vector<float> parts;
    double part_error = 0;
    for (int first = 0; const int last : cuts) {
      const Case c = a_case(line(static_cast<std::size_t>(last - first)));
      Inputs part = make_inputs(c, input_lists());
      std::copy_n(bytes.begin() + first * 4, (last - first) * 4,
                  part.set.at("x").planes.front().bytes.begin());
      parts.push_back(kernel.run(c, part).at(0));
      part_error = std::max(part_error, kernel.truth(c, part).limit[0]);
      first = last;
    }
    const Case merge = a_case(line(parts.size()));
    Inputs merged = make_inputs(merge, input_lists());
    std::ranges::copy(parts, elements<float>(merged.set, "x").begin());
    const double limit =
        2 * part_error + kernel.truth(merge, merged).limit[0] + kernel.truth(whole, inputs).limit[0];
    return within(whole, 0, kernel.run(merge, merged).at(0), kernel.run(whole, inputs).at(0), limit);
  });
}

// y = H x / sqrt(n) within lim_1, then H y / sqrt(n) within lim_2: x comes back within
//   sum of lim_1 over the group / sqrt(n) + lim_2.
TEST(TransformLaws, the_transform_is_its_own_inverse) {
  expect_law("H H = n I", "gain", [](Kernel& kernel) {
    const int points = 1 << *rc::gen::inRange(1, 9);
    const std::string signs = points == 32 ? *rc::gen::element<std::string>("none", "tq3") : "none";
    const auto line = [&, s = seed(), groups = *rc::gen::inRange(1, 4)](std::string_view inverse) {
      return fmt::format("wht rows=2 cols={} points={} signs={} dtype=f32 inverse={} seed={}",
                         points * groups, points, signs, inverse, s);
    };
    const Case there = a_case(line("no")), back = a_case(line("yes"));
    Inputs inputs = make_inputs(there, input_lists());
    const auto x = elements<float>(inputs.set, "x");
    const std::vector<float> start(x.begin(), x.end());
    const Truth first = kernel.truth(there, inputs);
    std::ranges::copy(kernel.run(there, inputs), x.begin());
    const Truth second = kernel.truth(back, inputs);
    const auto again = kernel.run(back, inputs);
    for (std::size_t i = 0; i < again.size(); ++i) {
      const std::size_t group = i / static_cast<std::size_t>(points) * static_cast<std::size_t>(points);
      double sum = 0;
      for (std::size_t j = group; j < group + static_cast<std::size_t>(points); ++j) sum += first.limit[j];
      if (auto broken = within(there, i, again[i], start[i], sum / std::sqrt(points) + second.limit[i]))
        return Verdict(broken);
    }
    return Verdict();
  });
}

}  // namespace
}  // namespace assay::properties
