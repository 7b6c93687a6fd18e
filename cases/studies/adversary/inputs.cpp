#include "cases/studies/adversary/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "cases/lists.hpp"
#include "reference/error.hpp"
#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"
#include "reference/near_names.hpp"
#include "reference/ops/op_io.hpp"

namespace assay::adversary {
namespace {

// The range of the tensor's own numbers: where it underflows and where it overflows.
struct Range {
  double least = 0x1p-126, most = 0x1.fffffep127;
};
Range range_of(std::string_view name) {
  const Format& f = format(name);
  if (f.kind != FormatKind::scalar) return {};
  const ScalarFormat& s = scalar_format(f.element);
  if (s.kind != ScalarKind::floating) return {1, s.max_finite};
  return {std::ldexp(1.0, 1 - s.bias), s.max_finite};
}

struct Pool {
  std::string_view name;
  // Element i of n; `level` is one draw of the whole tensor.
  double (*element)(std::int64_t i, std::int64_t n, const Range& range, double level, Draw& draw);
};

double sign(Draw& d) { return d.coin() ? 1 : -1; }
double power(Draw& d, int low, int high) {
  return std::ldexp(1.0, static_cast<int>(low + d.below(high - low + 1)));
}

constexpr Pool kPools[] = {
    {"gauss", [](auto, auto, const Range&, double, Draw& d) { return d.gaussian(); }},
    {"powers", [](auto, auto, const Range&, double, Draw& d) { return sign(d) * power(d, -8, 8); }},
    // Every binade of the format: overflow, underflow and absorption at once.
    {"binades",
     [](auto, auto, const Range& r, double, Draw& d) {
       return sign(d) * power(d, std::ilogb(r.least) - 8, std::ilogb(r.most)) *
              (1 + (d.coin() ? d.uniform() : 0));
     }},
    // +-1 with a small step: a mean that rounds at every update.
    {"steps",
     [](std::int64_t i, std::int64_t, const Range&, double level, Draw&) {
       return (i % 2 == 0 ? 1.0 : -1.0) +
              std::ldexp(1.0, -4 - static_cast<int>(level * 16)) * static_cast<double>(i % 7);
     }},
    {"ones_step",
     [](auto, auto, const Range&, double level, Draw& d) {
       return 1 + std::ldexp(static_cast<double>(d.below(3)), -6 - static_cast<int>(level * 17));
     }},
    // -1 and 1 in turn, and from the middle on a small step more: the mean of every part is small, and
    // rounds.
    {"stair",
     [](std::int64_t i, std::int64_t n, const Range&, double level, Draw&) {
       if (i == 5) return 0.0;  // near the mean, where nothing but the mean's error shows
       const double size = std::ldexp(1.0, -8 - static_cast<int>(level * 12));
       return (i % 2 == 0 ? -1.0 : 1.0) + (2 * i > n ? size : 0);
     }},
    {"halves_of_signs",
     [](std::int64_t i, std::int64_t n, const Range&, double level, Draw&) {
       return (2 * i < n ? 1.0 : -1.0) * (1 + std::ldexp(1.0, -8 - static_cast<int>(level * 12)));
     }},
    // A large mean and noise.
    {"mean", [](auto, auto, const Range&, double level,
                Draw& d) { return std::ldexp(1 + level, static_cast<int>(level * 14)) + d.gaussian(); }},
    {"tiny",
     [](auto, auto, const Range& r, double level, Draw& d) {
       return sign(d) * r.least * std::ldexp(d.uniform(), static_cast<int>(level * 8));
     }},
    {"subnormal",
     [](auto, auto, const Range&, double level, Draw& d) {
       return sign(d) * 0x1p-126 * std::ldexp(d.uniform(), static_cast<int>(level * 12));
     }},
    {"rootiny",  // squares underflow in f32, and in f16
     [](auto, auto, const Range&, double level, Draw& d) {
       return sign(d) * std::ldexp(1 + d.uniform(), level < 0.5 ? -66 + static_cast<int>(level * 20)
                                                                : -14 + static_cast<int>(level * 8));
     }},
    {"huge",
     [](auto, auto, const Range& r, double level, Draw& d) {
       return sign(d) * r.most * std::ldexp(0.5 + d.uniform() / 2, -static_cast<int>(level * 8));
     }},
    {"rootmost",  // squares and sums near the overflow of f32, or of f16
     [](auto, auto, const Range&, double level, Draw& d) {
       return sign(d) * std::ldexp(1 + d.uniform(), level < 0.5 ? 58 + static_cast<int>(level * 12)
                                                                : static_cast<int>(level * 10));
     }},
    // Of one sign: all together are beyond the format, a part of them is not.
    {"brink",
     [](auto, std::int64_t n, const Range& r, double level, Draw& d) {
       return r.most / static_cast<double>(n) * std::exp2(level * 6 - 1) * (1 + d.uniform() / 4);
     }},
    {"needle",
     [](std::int64_t i, std::int64_t n, const Range&, double level, Draw& d) {
       const bool is = i == (level < 0.4   ? n - 1
                             : level < 0.6 ? 0
                                           : static_cast<std::int64_t>(level * static_cast<double>(n)));
       return is ? std::ldexp(1.0, static_cast<int>(level * 12)) : d.gaussian() * 0x1p-4;
     }},
    {"cancel",
     [](std::int64_t i, std::int64_t, const Range&, double level, Draw& d) {
       return i % 3 == 2 ? d.gaussian()
                         : (i % 3 == 0 ? 1 : -1) * std::ldexp(1 + level, static_cast<int>(level * 20));
     }},
    {"constant", [](auto, auto, const Range&, double level,
                    Draw&) { return std::ldexp(1 + level, static_cast<int>(level * 16) - 6); }},
    {"positive", [](auto, auto, const Range&, double level,
                    Draw& d) { return (1 + d.uniform()) * std::exp2(level * 8 - 4); }},
    {"zeros", [](auto, auto, const Range&, double, Draw& d) { return d.coin(4) ? d.gaussian() : 0.0; }},
    {"zero", [](auto, auto, const Range&, double, Draw&) { return 0.0; }},
    {"ramp",
     [](std::int64_t i, std::int64_t n, const Range&, double level, Draw&) {
       return (static_cast<double>(i) / static_cast<double>(n) - level) * std::exp2(level * 8);
     }},
    // Half-way points of a few bits, and their neighbours.
    {"halves",
     [](auto, auto, const Range&, double level, Draw& d) {
       const double half = (static_cast<double>(d.below(256)) + 0.5) / 128;
       return sign(d) * half * (1 + static_cast<double>(d.below(3) - 1) * 0x1p-23) *
              std::exp2(std::floor(level * 8) - 4);
     }},
    // -1 once in a block of 32, and a small number else: minima that nearly cancel what the codes make.
    {"floors", [](std::int64_t i, auto, const Range&, double level,
                  Draw&) { return i % 32 == 31 ? -1 : std::ldexp(1.0, -8 - static_cast<int>(level * 6)); }},
    {"deep",
     [](auto, auto, const Range&, double level, Draw& d) { return -d.uniform() * std::exp2(level * 8); }},
    // Logits that climb by some ulps, each of whose products with log2 e is rounded up by nearly half a unit.
    {"climb",
     [](std::int64_t i, std::int64_t, const Range&, double, Draw&) {
       double best = 0, most = -1;
       for (std::int64_t step = 16 * i; step < 16 * i + 16; ++step) {
         const double x = 89 + static_cast<double>(step) * 0x1p-17, exact = x * 0x1.715476p+0;
         if (const double up = static_cast<double>(static_cast<float>(exact)) - exact; up > most)
           best = x, most = up;
       }
       return best;
     }},
    // Logits of tiles of 1026 keys: equal ones, and then a maximum that rises by a little in each, with a
    // weight of 0.499 beside it. Their sum in f16 stays 1026: where it is rescaled to 1025.499, and where
    // 1.499 is added to 1025.
    {"rises",
     [](std::int64_t i, std::int64_t, const Range&, double, Draw&) {
       const double top = 0.501 / 1026 * static_cast<double>(i / 1026);
       return i < 1026 || i % 1026 == 0 ? top : i % 1026 == 1 ? top - 0.69515 : -100.0;
     }},
    {"specials",
     [](auto, auto, const Range&, double level, Draw& d) {
       if (d.below(16) != 0) return d.gaussian();
       return level < 0.3 ? kInf : level < 0.6 ? -kInf : std::nan("");
     }},
};

const Pool* find_pool(std::string_view name) {
  for (const Pool& each : kPools)
    if (each.name == name) return &each;
  return nullptr;
}

float to_float(double x) {
  return static_cast<float>(std::isfinite(x) ? std::clamp(x, -0x1.fffffep127, 0x1.fffffep127) : x);
}

std::vector<float> pooled(std::string_view name, std::uint64_t seed, std::string_view format_name,
                          std::int64_t n) {
  const Pool* pool = find_pool(name);
  if (pool == nullptr) throw unknown_name("pool", name, pool_names());
  Draw draw(seed);
  const double level = draw.uniform();
  const Range range = range_of(format_name);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) values[i] = to_float(pool->element(i, n, range, level, draw));
  return values;
}

std::vector<std::string> fields(std::string_view text) {
  std::vector<std::string> list;
  while (true) {
    const std::size_t colon = text.find(':');
    list.emplace_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return list;
    text.remove_prefix(colon + 1);
  }
}

void apply(const std::string& edit, const std::vector<TensorSpec>& tensors, Values& values) {
  const std::vector<std::string> f = fields(edit);
  const auto found = f.size() >= 3 ? values.find(f[0]) : values.end();
  if (found == values.end())
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("edit '{}': no such tensor, or too short", excerpt(edit)));
  std::vector<float>& x = found->second;
  const auto number = [&](std::size_t i) { return std::strtod(f.at(i).c_str(), nullptr); };
  const auto at = [&](std::size_t i) -> float& {
    return x.at(static_cast<std::size_t>(number(i)) % x.size());
  };
  if (f[1] == "set") {
    at(2) = to_float(number(3));
  } else if (f[1] == "scale") {
    for (float& each : x) each = to_float(each * number(2));
  } else if (f[1] == "add") {
    for (float& each : x) each = to_float(each + number(2));
  } else if (f[1] == "copy") {
    at(2) = at(3);
  } else if (f[1] == "swap") {
    std::swap(at(2), at(3));
  } else if (f[1] == "pool" || f[1] == "draw") {
    const auto spec = std::ranges::find(tensors, f[0], &TensorSpec::name);
    const std::vector<float> anew = pooled(f[2], std::strtoull(f.at(3).c_str(), nullptr, 10), spec->format,
                                           static_cast<std::int64_t>(x.size()));
    if (f[1] == "pool")
      x = anew;
    else
      at(4) = anew[static_cast<std::size_t>(number(4)) % x.size()];
  } else if (f[1] != "plane") {
    throw InputError(InputErrorKind::bad_value, fmt::format("edit '{}'", excerpt(edit)));
  }
}

// x:plane:SUFFIX:I:V, of tensors that are encoded.
void apply_to_planes(const std::string& edit, TensorSet& set) {
  const std::vector<std::string> f = fields(edit);
  if (f.size() != 5 || f[1] != "plane") return;
  Plane& plane = plane_of(set.at(f[0]), f[2]);
  const ScalarFormat& element = scalar_format(plane.spec.format);
  store_code(element, plane.bytes, std::strtoll(f[3].c_str(), nullptr, 10),
             encode(element, std::strtod(f[4].c_str(), nullptr), {.overflow = Overflow::ieee}));
}

}  // namespace

std::vector<std::string> pool_names() { return names_of(std::span(kPools)); }

TensorSet make_inputs(const Op& op, const Attributes& attributes, const InputPlan& plan) {
  const std::vector<TensorSpec> tensors = op.tensors(attributes);
  TensorSet set;
  if (op.indices != nullptr) op.indices(attributes, plan.seed, set);
  Values values;
  if (find_pool(plan.fill) != nullptr) {
    for (const TensorSpec& t : tensors)
      if (t.role == TensorRole::data)
        values[t.name] = pooled(plan.fill, mix(plan.seed) ^ t.name.front(), t.format, element_count(t.shape));
  } else {
    const Fill* chosen = nullptr;
    for (const Fill& each : input_lists().fills)
      if ("fill:" + std::string(each.name) == plan.fill &&
          (each.op == op.name || (each.op.empty() && chosen == nullptr)))
        chosen = &each;
    if (chosen == nullptr) throw unknown_name("fill or pool", plan.fill, pool_names());
    chosen->make({op, attributes, tensors, set, plan.seed}, values);
  }
  const auto is_edited = [&](const TensorSpec& t) {
    return t.role == TensorRole::index && set.contains(t.name) &&
           std::ranges::any_of(plan.edits, [&](const std::string& e) { return e.starts_with(t.name + ":"); });
  };
  for (const TensorSpec& t : tensors)
    if (is_edited(t)) {
      const std::vector<double> drawn = decode_tensor(set.at(t.name));
      values[t.name] = {drawn.begin(), drawn.end()};
    }
  for (const std::string& edit : plan.edits) apply(edit, tensors, values);
  for (const TensorSpec& t : tensors)
    if (is_edited(t))
      set.insert_or_assign(t.name,
                           integer_tensor(t.format, t.shape, {values[t.name].begin(), values[t.name].end()}));
  for (const TensorSpec& t : tensors) {
    if (t.role != TensorRole::data) continue;
    const std::vector<float>& own = values.at(t.name);
    EncodePolicy policy;
    if (std::ranges::any_of(own, [](float x) { return std::isinf(x); })) policy.overflow = Overflow::ieee;
    set.insert_or_assign(t.name, encode_tensor(format(t.format), t.shape, own, policy));
  }
  for (const std::string& edit : plan.edits) apply_to_planes(edit, set);
  return set;
}

std::string random_edit(const Op& op, const Attributes& attributes, Draw& draw) {
  std::vector<TensorSpec> data;
  for (TensorSpec& t : op.tensors(attributes))
    if (t.role == TensorRole::data) data.push_back(std::move(t));
  const TensorSpec& t = data[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(data.size())))];
  const std::int64_t n = element_count(t.shape), i = draw.below(n), j = draw.below(n);
  const std::vector<std::string> pools = pool_names();
  const std::string& pool =
      pools[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(pools.size()) - 1))];
  const std::uint64_t seed = draw.bits() >> 40;
  const Range range = range_of(t.format);
  const double special[] = {0,   1,       -1,          range.least, range.most, -range.most, range.least / 4,
                            100, 0x1p-20, 0x1.fffffep0};
  switch (draw.below(9)) {
    case 0:
      return fmt::format("{}:scale:{:a}", t.name, power(draw, -6, 6));
    case 1:
      return fmt::format("{}:add:{:a}", t.name, sign(draw) * power(draw, -10, 10));
    case 2:
      return fmt::format("{}:copy:{}:{}", t.name, i, j);
    case 3:
      return fmt::format("{}:swap:{}:{}", t.name, i, j);
    case 4:
      return fmt::format("{}:pool:{}:{}", t.name, pool, seed);
    case 5:
      return fmt::format("{}:set:{}:{:a}", t.name, i, special[draw.below(std::size(special))]);
    case 6:
      return fmt::format("{}:set:{}:{:a}", t.name, i, sign(draw) * power(draw, -12, 12));
    default:
      return fmt::format("{}:draw:{}:{}:{}", t.name, pool, seed, i);
  }
}

}  // namespace assay::adversary
