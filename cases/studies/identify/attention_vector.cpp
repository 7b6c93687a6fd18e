#include "cases/studies/identify/attention_vector.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>

#include "cases/studies/identify/attention_evidence.hpp"
#include "cases/studies/identify/attention_steps.hpp"

namespace assay {
namespace {

using List = AttentionSchedules;

// The first of all that `same` says are one.
template <typename Same>
List first_of_each(const List& list, const Same& same) {
  List firsts;
  for (const AttentionSchedule& s : list)
    if (std::ranges::none_of(firsts, [&](const AttentionSchedule& f) { return same(f, s); }))
      firsts.push_back(s);
  return firsts;
}

// What later steps begin with: one of each kind stands for all that an earlier step left.
bool same_exponential(const AttentionSchedule& a, const AttentionSchedule& b) {
  return a.pv == b.pv && a.p == b.p && a.exp == b.exp && a.quotient == b.quotient && a.deal == b.deal &&
         (a.deal == 1 || (a.tile == b.tile && a.values == b.values));
}
bool same_tiles(const AttentionSchedule& a, const AttentionSchedule& b) {
  return same_exponential(a, b) && a.tile == b.tile && a.split == b.split && a.part == b.part;
}
bool same_values(const AttentionSchedule& a, const AttentionSchedule& b) {
  return same_exponential(a, b) && a.fma == b.fma;
}

// A step's name, the inputs that show it alone, and how many rows of them and calls at least.
struct Step {
  const char* name;
  AttentionDesign design;
  std::int64_t rows, calls;
};
// A pair of weights says little: so many rows of them that exponentials one unit in the last place apart are
// told apart.
constexpr Step kExponential = {"the exponential, its argument or the quotient: rows with two weights",
                               AttentionDesign::pairs, 1024, 2};
constexpr Step kSums = {"how weights are summed and rescaled: logits of one product, columns of one value",
                        AttentionDesign::single_values, 64, 4};
constexpr Step kValues = {"how weighted values are summed and rescaled: logits of one product",
                          AttentionDesign::single_products, 64, 4};
constexpr Step kProducts = {"the order in which q.k is summed: products that cancel",
                            AttentionDesign::cancelling, 64, 4};
constexpr Step kAll = {"all steps together: drawn inputs", AttentionDesign::drawn, 0, 1};

class VectorSteps {
 public:
  VectorSteps(const AttentionAsk& ask, const AttentionAnswer& first, const std::function<bool()>& over,
              VectorSearch& found)
      : ask_(ask), first_(first), over_(over), found_(found) {}

  void run() {
    const AttentionHead& head = first_.heads.front();
    const List exponentials = exponential_steps(head);
    found_.nearest = exponentials.front();
    const List by_exponential = left_of(kExponential, exponentials);
    if (by_exponential.empty()) return;
    const List kinds = first_of_each(by_exponential, same_exponential);
    List by_sums = left_of(kSums, sum_steps(kinds, head.keys));
    if (by_sums.empty() && !over_()) {
      const List in_parts = sum_steps_in_parts(kinds, head);
      if (!in_parts.empty()) found_.stage.clear(), by_sums = left_of(kSums, in_parts);
    }
    if (by_sums.empty()) return;
    List by_values = left_of(kValues, value_steps(first_of_each(by_sums, same_tiles), head.keys));
    // Of what was one on all that was asked the first may be another's: then all.
    if (by_values.empty()) by_values = left_of(kValues, value_steps(by_sums, head.keys));
    if (by_values.empty()) return;
    List by_products = left_of(kProducts, product_steps(first_of_each(by_values, same_values), head.d));
    if (by_products.empty())
      by_products = left_of(kProducts, product_steps(together(by_values, by_values, by_sums), head.d));
    if (by_products.empty()) return;
    found_.stage.clear();
    List all;
    for (const AttentionSchedule& s : together(by_products, by_values, by_sums))
      for (const AttentionSchedule& exponential : by_exponential) {
        if (!same_exponential(s, exponential)) continue;
        all.push_back(s);
        take_exponential(all.back(), exponential);
      }
    found_.left = left_of(kAll, all);
  }

 private:
  // Heads of a design's first calls, as many as need little room.
  void show(const std::vector<AttentionHead>& heads, std::uint64_t seed) {
    constexpr std::int64_t kHeads = 16, kNumbers = 1 << 22;
    const AttentionHead& head = heads.front();
    const std::int64_t most =
        std::clamp<std::int64_t>(kNumbers / (head.keys * (head.d + head.dv)), 1, kHeads);
    const std::int64_t before = static_cast<std::int64_t>(seed - 1) * std::ssize(heads);
    std::copy_n(heads.begin(), std::clamp<std::int64_t>(most - before, 0, std::ssize(heads)),
                std::back_inserter(found_.shown));
  }
  // Outputs that were added; 0: the call cannot be had.
  std::int64_t add_call(const Step& step, std::uint64_t seed, AttentionEvidence& to) {
    constexpr std::int64_t kWeighed = 4;
    std::optional<AttentionAnswer> answer = ask_(seed, step.design);
    if (!answer) return 0;
    std::int64_t outputs = 0;
    for (const AttentionHead& head : answer->heads) outputs += head.outputs();
    show(answer->heads, seed);
    to.add(std::move(*answer), step.design == AttentionDesign::pairs ? kWeighed : 0);
    return outputs;
  }
  // A narrow store shows a sum's last bits now and then: more calls for as long as they refute.
  void narrow(const Step& step, List& left, std::uint64_t seed) {
    constexpr std::int64_t kIdleOutputs = 1 << 19, kFewCalls = 3, kManyCalls = 12;
    for (std::int64_t calls = 0, outputs = 0;
         left.size() > 1 && !over_() &&
         (calls < kFewCalls || (outputs < kIdleOutputs && calls < kManyCalls));) {
      AttentionEvidence more;
      const std::int64_t added = add_call(step, ++seed, more);
      if (added == 0) return;
      const std::vector<std::int64_t> unequal = more.unequal(left);
      std::size_t at = 0;
      const bool refuted =
          std::erase_if(left, [&](const AttentionSchedule&) { return unequal[at++] != 0; }) > 0;
      calls = refuted ? 0 : calls + 1, outputs = refuted ? 0 : outputs + added;
    }
  }
  List left_of(const Step& step, const List& list) {
    constexpr std::int64_t kMostCalls = 64;
    std::uint64_t seed = 0;
    AttentionEvidence evidence;
    if (step.design == AttentionDesign::drawn) {
      evidence.add(first_), seed = 1;
    } else {
      const std::int64_t rows = static_cast<std::int64_t>(first_.heads.size()) * first_.heads.front().rows;
      const std::int64_t calls = std::clamp(step.rows / rows, step.calls, kMostCalls);
      while (seed < static_cast<std::uint64_t>(calls)) add_call(step, ++seed, evidence);
    }
    if (evidence.empty()) {
      found_.stage = std::string(step.name) + ", which cannot be asked of this call";
      return {};
    }
    const bool few = step.design == AttentionDesign::drawn;  // whoever asked for steps draws more
    List left;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    constexpr std::size_t kTogether = 64;
    for (std::size_t first = 0; first < list.size() && !over_(); first += kTogether) {
      const auto together = std::span(list).subspan(first, std::min(kTogether, list.size() - first));
      const std::vector<std::int64_t> unequal = evidence.unequal(together, few);
      for (std::size_t i = 0; i < together.size(); ++i) {
        if (unequal[i] < least) least = unequal[i], found_.nearest = together[i];
        if (unequal[i] == 0) left.push_back(together[i]);
      }
    }
    if (!few) narrow(step, left, seed);
    if (left.empty() && found_.stage.empty()) found_.stage = step.name;
    return left;
  }

  // Sums with all that later steps leave open.
  static List together(const List& by_products, const List& by_values, const List& by_sums) {
    List all;
    for (const AttentionSchedule& product : by_products)
      for (const AttentionSchedule& value : by_values)
        for (AttentionSchedule s : by_sums) {
          if (!same_values(product, value) || !same_tiles(value, s)) continue;
          take_values(s, value), take_products(s, product);
          if (std::ranges::find(all, s) == all.end()) all.push_back(s);
        }
    return all;
  }
  const AttentionAsk& ask_;
  const AttentionAnswer& first_;
  const std::function<bool()>& over_;
  VectorSearch& found_;
};

}  // namespace

VectorSearch search_vector_attention(const AttentionAsk& ask, const AttentionAnswer& first,
                                     const std::function<bool()>& over) {
  VectorSearch found;
  VectorSteps(ask, first, over, found).run();
  return found;
}

}  // namespace assay
