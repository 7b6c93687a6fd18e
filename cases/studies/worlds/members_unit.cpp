#include "cases/studies/worlds/members_unit.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>

#include "cases/studies/worlds/members_sum.hpp"

namespace assay::worlds {
namespace {

using Mask = std::uint32_t;

class Unit {
 public:
  Unit(const MatrixUnit& unit, std::string_view format, const std::vector<double>& a,
       const std::vector<double>& b, bool flush)
      : unit_(unit), format_(format), a_(a), b_(b), flush_(flush) {}

  // One block: the products of `mask` anywhere in it, zeros elsewhere.
  Set block(Mask mask, double c) {
    const auto known = blocks_.find({mask, c});
    if (known != blocks_.end()) return known->second;
    return blocks_[{mask, c}] = new_block(mask, c);
  }

  Set new_block(Mask mask, double c) {
    std::vector<int> members;
    for (Mask m = mask; m != 0; m &= m - 1) members.push_back(std::countr_zero(m));
    std::vector<double> found;
    // Where place matters it is k modulo 4 (or 2) at most: each product in a group of four of its own takes
    // one of four.
    const int count = static_cast<int>(members.size());
    const bool roomy = unit_.group >= 4 * count && unit_.group > 4;
    const bool placeless = unit_.combine == Combine::truncate || unit_.combine == Combine::exact ||
                           unit_.combine == Combine::floor;
    if (placeless) {
      found.push_back(place(members, first_places(count), c));
    } else if (roomy) {
      for (int code = 0; code < 1 << (2 * count); ++code) {
        std::vector<int> at;
        for (int i = 0; i < count; ++i) at.push_back(4 * i + ((code >> (2 * i)) & 3));
        found.push_back(place(members, at, c));
      }
    } else {
      std::vector<int> at(static_cast<std::size_t>(unit_.group));
      for (int i = 0; i < unit_.group; ++i) at[static_cast<std::size_t>(i)] = i;
      do {
        found.push_back(place(members, {at.begin(), at.begin() + count}, c));
      } while (unit_.group <= 4 && std::next_permutation(at.begin(), at.end()));
    }
    return flushed(set_of(std::move(found)));
  }

  Set flushed(Set s) const {
    if (!flush_) return s;
    for (const double x : Set(s))
      if (x != 0 && std::fabs(x) < power_of_two(-126)) join(s, {0});
    return s;
  }

  // Sums of `mask`: a block onto a sum of the rest, or two sums added.
  const Set& all(Mask mask) {
    if (known_.size() <= mask) known_.resize(static_cast<std::size_t>(mask) + 1);
    if (!known_[mask].empty()) return known_[mask];
    Set s;
    for (Mask part = mask; part != 0; part = (part - 1) & mask) {
      const Mask rest = mask & ~part;
      if (std::popcount(part) <= unit_.group) {
        if (rest == 0) join(s, block(part, 0));
        if (rest != 0)
          for (const double c : Set(all(rest))) join(s, block(part, representable(c)));
      }
      if (rest != 0 && part > rest) join(s, added(sum_type(), Set(all(part)), Set(all(rest))));
    }
    if (known_.size() <= mask) known_.resize(static_cast<std::size_t>(mask) + 1);
    return known_[mask] = std::move(s);
  }

  // Chains of blocks, each but the last of `least` products or more.
  Set chain(Mask mask, int least, bool last) {
    Set s;
    for (Mask part = mask; part != 0; part = (part - 1) & mask) {
      const int size = std::popcount(part);
      if (size > unit_.group || (!last && size < least)) continue;
      if (part == mask) {
        join(s, block(part, 0));
      } else {
        for (const double c : chain(mask & ~part, least, false)) join(s, block(part, representable(c)));
      }
    }
    return s;
  }
  // Sums of at most `parts` chains, in any tree.
  Set told(Mask mask, const UnitOrder& order) {
    const int parts = order.split == 0 ? std::popcount(mask) : order.split;
    return told(mask, order.block, parts);
  }
  Set told(Mask mask, int least, int parts) {
    Set s = chain(mask, least, true);
    for (Mask part = (mask - 1) & mask; part != 0; part = (part - 1) & mask)
      for (int left = 1; left < parts; ++left) {
        const Set other = told(mask & ~part, least, parts - left);
        join(s, added(sum_type(), told(part, least, left), other));
      }
    return s;
  }

  // Blocks in the order of memory, the last one padded.
  Set ascending(int first, int last, double c) {
    Set s = {c};
    for (int at = first; at < last; at += unit_.group) {
      std::vector<int> members, places;
      for (int i = at; i < std::min(last, at + unit_.group); ++i)
        members.push_back(i), places.push_back(i - at);
      s = each(s, [&](double z) { return flushed({place(members, places, z)}); });
    }
    return s;
  }

  Arithmetic sum_type() const {
    const Precision p = unit_.out == "e8m13" ? kPrecisionF32 : out_precision(unit_);
    return {p, false, largest_finite(p), false, false};
  }
  int count() const { return static_cast<int>(a_.size()); }
  int group() const { return unit_.group; }

 private:
  double representable(double c) const {
    return unit_.out == "e8m13" ? static_cast<double>(static_cast<float>(c)) : c;
  }
  static std::vector<int> first_places(int n) {
    std::vector<int> p;
    for (int i = 0; i < n; ++i) p.push_back(i);
    return p;
  }
  double place(const std::vector<int>& members, const std::vector<int>& at, double c) const {
    std::vector<float> x(static_cast<std::size_t>(unit_.group), 0),
        y(static_cast<std::size_t>(unit_.group), 0);
    for (std::size_t i = 0; i < members.size(); ++i) {
      x[static_cast<std::size_t>(at[i])] = static_cast<float>(a_[static_cast<std::size_t>(members[i])]);
      y[static_cast<std::size_t>(at[i])] = static_cast<float>(b_[static_cast<std::size_t>(members[i])]);
    }
    return fused_dot(unit_, {x, format_}, {y, format_}, c);
  }

  const MatrixUnit& unit_;
  std::string_view format_;
  const std::vector<double>&a_, &b_;
  bool flush_;
  std::vector<Set> known_;
  std::map<std::pair<Mask, double>, Set> blocks_;
};

}  // namespace

Set unit_sums(const MatrixUnit& unit, std::string_view format, const std::vector<double>& a,
              const std::vector<double>& b, const UnitOrder& order, bool flush) {
  Unit u(unit, format, a, b, flush);
  const Arithmetic f32{kPrecisionF32, flush, largest_finite(kPrecisionF32), false, false};
  const Mask whole = (Mask{1} << a.size()) - 1;
  if (order.any) return order.block == 1 && order.split == 0 ? u.all(whole) : u.told(whole, order);
  if (order.promote == 0) return u.ascending(0, u.count(), order.start);
  Set s = {0};
  for (int at = 0; at < u.count(); at += order.promote * u.group())
    s = added(f32, s, u.ascending(at, std::min(u.count(), at + order.promote * u.group()), 0));
  return s;
}

}  // namespace assay::worlds
