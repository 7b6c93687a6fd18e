#include "cases/studies/worlds/members_sum.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace assay::worlds {
namespace {

using Mask = std::uint32_t;

int bits(Mask m) { return std::popcount(m); }
int log2_up(int n) { return n <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<unsigned>(n - 1))); }

// One leaf: the sets that x and y of it may be, and whether it is a product.
struct Leaf {
  Set x, y;
  bool product;
};

// Sums of sets of leaves by the height of the tree.
class Trees {
 public:
  Trees(const Arithmetic& a, std::vector<Leaf> leaves) : a_(a), leaves_(std::move(leaves)) {}

  Set alone(int i) const {
    const Leaf& l = leaves_[static_cast<std::size_t>(i)];
    return l.product ? multiplied(a_, l.x, l.y) : l.x;
  }
  // Leaf i added to a sum: its product rounded first, or not.
  Set onto(int i, const Set& sum) const {
    const Leaf& l = leaves_[static_cast<std::size_t>(i)];
    Set s = added(a_, alone(i), sum);
    if (l.product) {
      for (const double z : sum)
        join(s, each(l.x, l.y, [&](double x, double y) { return fused(a_, x, y, z); }));
    }
    return s;
  }
  // Every binary tree over the leaves of `mask` in which no leaf is deeper than `height`.
  const Set& of(Mask mask, int height) {
    const auto key = (static_cast<std::size_t>(height) << leaves_.size()) | mask;
    if (known_.size() <= key) known_.resize(key + 1);
    if (!known_[key].empty()) return known_[key];
    Set s;
    if (bits(mask) == 1) {
      s = alone(std::countr_zero(mask));
    } else if (height > 0) {
      for (Mask part = (mask - 1) & mask; part != 0; part = (part - 1) & mask) {
        const Mask rest = mask & ~part;
        const Set other = of(rest, height - 1);
        if (other.empty()) continue;
        if (bits(part) == 1) join(s, onto(std::countr_zero(part), other));
        if (bits(part) > 1 && part < rest) continue;  // each pair once
        const Set mine = of(part, height - 1);
        if (!mine.empty()) join(s, added(a_, mine, other));
      }
    }
    if (known_.size() <= key) known_.resize(key + 1);
    return known_[key] = std::move(s);
  }
  Set sequence(const std::vector<int>& order) const {
    Set s = alone(order[0]);
    for (std::size_t k = 1; k < order.size(); ++k) s = onto(order[k], s);
    return s;
  }
  int count() const { return static_cast<int>(leaves_.size()); }
  Mask all() const { return (Mask{1} << leaves_.size()) - 1; }

 private:
  Arithmetic a_;
  std::vector<Leaf> leaves_;
  std::vector<Set> known_;
};

Set tree_of(const Arithmetic& a, const std::vector<Set>& parts, int height) {
  std::vector<Leaf> leaves;
  for (const Set& p : parts) leaves.push_back({p, {1}, false});
  Trees t(a, std::move(leaves));
  return t.of(t.all(), height);
}

// Every way to cut `mask` into parts of at most `most`, as few as can be.
void partitions(Mask mask, int most, int parts, std::vector<Mask>& so_far,
                const std::function<void(const std::vector<Mask>&)>& with) {
  if (mask == 0) return with(so_far);
  if (parts == 0 || bits(mask) > parts * most) return;
  const Mask first = mask & (0 - mask);
  const Mask rest = mask & ~first;
  for (Mask more = rest;; more = (more - 1) & rest) {
    if (bits(more) < most) {
      so_far.push_back(first | more);
      partitions(rest & ~more, most, parts - 1, so_far, with);
      so_far.pop_back();
    }
    if (more == 0) break;
  }
}

Set in_order(Trees& t, const Arithmetic& a, const Order& order) {
  const int n = t.count();
  switch (order.word) {
    case Order::any:
    case Order::likely:
      return t.of(t.all(), std::max(n - 1, 0));
    case Order::sequential: {
      std::vector<int> memory;
      for (int i = 0; i < n; ++i) memory.push_back(i);
      return t.sequence(memory);
    }
    case Order::tree:
      return t.of(t.all(), log2_up(n));
    case Order::depth:
      return t.of(t.all(), static_cast<int>(std::min<std::int64_t>(order.count, n - 1)));
    case Order::lanes: {
      const int lanes = static_cast<int>(std::min<std::int64_t>(order.count, n));
      const int length = (n + lanes - 1) / lanes;
      Set s;
      for (const bool strided : {true, false}) {
        std::vector<Mask> of(static_cast<std::size_t>(lanes), 0);
        for (int i = 0; i < n; ++i)
          of[static_cast<std::size_t>(strided ? i % lanes : i / length)] |= Mask{1} << i;
        std::vector<Set> parts;
        for (const Mask m : of)
          if (m != 0) parts.push_back(t.of(m, bits(m) - 1));
        join(s, tree_of(a, parts, log2_up(lanes)));
      }
      return s;
    }
    case Order::blocks: {
      const int size = static_cast<int>(std::min<std::int64_t>(order.count, n));
      Set s;
      std::vector<Mask> so_far;
      partitions(t.all(), size, (n + size - 1) / size, so_far, [&](const std::vector<Mask>& of) {
        std::vector<Set> parts;
        for (const Mask m : of) parts.push_back(t.of(m, bits(m) - 1));
        join(s, tree_of(a, parts, static_cast<int>(parts.size()) - 1));
      });
      return s;
    }
  }
  return {};
}

}  // namespace

Set sums(const Arithmetic& a, const std::vector<Term>& terms, const Order& order) {
  if (terms.empty()) return {0};
  std::vector<Leaf> leaves;
  for (const Term& t : terms) leaves.push_back({used(a, t.x), t.product ? used(a, t.y) : Set{1}, t.product});
  Trees trees(a, std::move(leaves));
  return in_order(trees, a, order);
}

Set sums(const Arithmetic& a, const std::vector<Set>& numbers, const Order& order) {
  if (numbers.empty()) return {0};
  std::vector<Leaf> leaves;
  for (const Set& s : numbers) leaves.push_back({each(s, [&](double x) { return used(a, x); }), {1}, false});
  Trees trees(a, std::move(leaves));
  return in_order(trees, a, order);
}

}  // namespace assay::worlds
