// Fills for any op: one rule per element, from (seed, tensor name, element index) alone.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cases/fills/draws.hpp"
#include "cases/fills/families.hpp"
#include "reference/inputs/random.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/parallel.hpp"

namespace assay::fill_families {
namespace {

// Room for every data tensor, side by side: the pages of a large one are first touched here.
void make_room(const FillRequest& request, Values& values) {
  std::vector<const TensorSpec*> data;
  for (const auto& t : request.tensors) {
    if (t.role != TensorRole::data) continue;
    values[t.name];
    data.push_back(&t);
  }
  parallel_units(data.size(), [&](std::size_t i) {
    values.find(data[i]->name)->second.resize(static_cast<std::size_t>(element_count(data[i]->shape)));
  });
}

// rule(tensor, stream, index, column, columns) for each element of each data tensor. Vectors (gamma, beta,
// sinks, slopes) stay gaussian: a family shapes the data, and parameters of its kind would hide what it
// shows. So do the natural rows of an embedded one.
template <typename Rule>
void each(const FillRequest& request, Values& values, Rule rule) {
  make_room(request, values);
  for (const auto& t : request.tensors) {
    if (t.role != TensorRole::data) continue;
    const Stream stream(request.seed, t.name);
    const auto count = static_cast<std::size_t>(element_count(t.shape));
    const auto columns = static_cast<std::size_t>(t.shape.back());
    auto& out = values[t.name];
    const bool parameters = t.shape.size() == 1;
    const std::size_t rows = columns == 0 ? 0 : count / columns;
    const auto natural = [&](std::size_t row) {
      return parameters || (request.embedded && natural_row(stream, row, rows));
    };
    parallel_ranges(count, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i)
        out[i] = static_cast<float>(natural(i / columns) ? stream.gaussian(i)
                                                         : rule(t, stream, i, i % columns, columns));
    });
  }
}

// The scalar format that holds the tensor's elements, or f16 for a format of several parts (its scales are
// f16-like).
const ScalarFormat& element_format(const TensorSpec& t) {
  const ScalarFormat* scalar = find_scalar_format(t.format);
  return scalar ? *scalar : scalar_format("f16");
}

}  // namespace

void gaussian(const FillRequest& r, Values& v) {
  make_room(r, v);
  for (const auto& t : r.tensors) {
    if (t.role != TensorRole::data) continue;
    auto& out = v[t.name];
    const Stream stream(r.seed, t.name);
    parallel_ranges(out.size(), [&](std::size_t first, std::size_t last) {
      draw_gaussian(stream, first, std::span(out).subspan(first, last - first));
    });
  }
}

void uniform(const FillRequest& r, Values& v) {
  each(r, v, [](const auto&, const Stream& s, std::size_t i, auto, auto) { return 0.5 + s.uniform(i); });
}

void integers(const FillRequest& r, Values& v) {
  each(r, v, [](const auto&, const Stream& s, std::size_t i, auto, auto) {
    return static_cast<double>(s.below(i, 5)) - 2.0;
  });
}

void constant(const FillRequest& r, Values& v) {
  each(r, v, [](const auto&, const Stream& s, std::size_t i, std::size_t, std::size_t columns) {
    return s.gaussian(i / columns);
  });
}

void ramp(const FillRequest& r, Values& v) {
  each(r, v, [](const auto&, const Stream& s, std::size_t i, std::size_t column, std::size_t columns) {
    return 20.0 * static_cast<double>(column) / static_cast<double>(columns) - 10.0 + 0.125 * s.gaussian(i);
  });
}

void peaked(const FillRequest& r, Values& v) {
  each(r, v, [](const auto&, const Stream& s, std::size_t i, std::size_t column, std::size_t columns) {
    const bool peak = column == s.below(~(i / columns), columns);
    return s.gaussian(i) + (peak ? 2.0 + std::log(static_cast<double>(columns)) : 0.0);
  });
}

void deep(const FillRequest& r, Values& v) {
  each(r, v, [](const auto&, const Stream& s, std::size_t i, auto, auto) { return -500.0 * s.uniform(i); });
}

void outlier(const FillRequest& r, Values& v) {
  each(r, v, [](const auto&, const Stream& s, std::size_t i, auto, auto) {
    return s.gaussian(i) * (s.below(~i, 61) == 0 ? 64.0 : 1.0);
  });
}

void cancel(const FillRequest& r, Values& v) {
  each(r, v, [](const auto&, const Stream& s, std::size_t i, std::size_t column, auto) {
    const double large = 64.0 * (1.0 + s.uniform(i / 2));  // the same for both of a pair
    return (column % 2 == 0 ? large : -large) + 0.0625 * s.gaussian(~i);
  });
}

void offset(const FillRequest& r, Values& v) {
  each(r, v, [](const auto&, const Stream& s, std::size_t i, auto, auto) { return 100.0 + s.gaussian(i); });
}

void two_levels(const FillRequest& r, Values& v) {
  each(r, v, [](const TensorSpec&, const Stream& s, std::size_t i, std::size_t column, std::size_t columns) {
    const double sign = s.gaussian(i) < 0 ? -1 : 1;
    return 2 * column < columns ? sign : sign + 0x1p-6;
  });
}

void subnormal(const FillRequest& r, Values& v) {
  // Of the coarsest format of the case: a quantiser's output, not its f32 input, is where subnormals are
  // lost.
  double normal = 0;
  for (const auto& t : r.tensors)
    if (t.role != TensorRole::index && t.shape.size() > 1)
      normal = std::max(normal, smallest_normal(element_format(t)));
  // Where a product of two such numbers is 0 whatever a kernel does, the first tensor alone is small.
  const bool vanishes = normal * normal < std::numeric_limits<float>::denorm_min();
  const auto of_first = std::ranges::find(r.tensors, TensorRole::data, &TensorSpec::role)->name;
  each(r, v, [&](const TensorSpec& t, const Stream& s, std::size_t i, auto, auto) {
    return s.gaussian(i) * (vanishes && t.name != of_first ? 1 : normal);
  });
}

// Steps of 2^-17 modulo 24: the second run is already there where block scales in e4m3fn are subnormal beside
// those of the first.
void ladder(const FillRequest& r, Values& v) {
  each(r, v, [](const auto&, const Stream& s, std::size_t i, std::size_t column, std::size_t columns) {
    return std::ldexp(s.gaussian(i), -static_cast<int>(17 * (i / columns + column / 16) % 24));
  });
}

void extreme(const FillRequest& r, Values& v) {
  each(r, v, [](const TensorSpec& t, const Stream& s, std::size_t i, auto, auto) {
    const double largest = std::min(element_format(t).max_finite, 65504.0);
    return largest * (0.9 + 0.1 * s.uniform(i)) * (s.below(~i, 2) ? 1.0 : -1.0);
  });
}

void codes(const FillRequest& r, Values& v) {
  each(r, v, [](const TensorSpec& t, const Stream& s, std::size_t i, auto, auto) {
    const ScalarFormat& f = element_format(t);
    if (f.bits > 16) return s.gaussian(i);
    // An odd stride visits every code once per 2^bits elements, and large and small ones from the start.
    for (std::size_t n = i + s.below(0, 65536);;
         n += 97) {  // the next finite one: at most a handful of steps (NaN and Inf codes)
      const double x = decode(f, static_cast<std::uint32_t>((n * 40503) & ((std::size_t{1} << f.bits) - 1)));
      if (std::isfinite(x)) return x;
    }
  });
}

void ties(const FillRequest& r, Values& v) {
  // What a quantiser rounds to is its output's codes, under the scale that the data have.
  if (r.op.name == "quantize") return output_ties(r, v);
  each(r, v, [](const TensorSpec& t, const Stream& s, std::size_t i, auto, auto) {
    const ScalarFormat& f = element_format(t);
    EncodePolicy down;
    down.rounding = Rounding::toward_zero;
    const double x = s.gaussian(i);
    const double low = round_to(f, x, down);
    // The neighbour of `low` away from zero: x between them is pushed to the middle, then one f32 step either
    // way.
    const double step = std::ldexp(
        1.0, std::max(std::ilogb(std::fabs(low) + smallest_normal(f)), 1 - f.bias) - f.fraction_bits);
    const double middle = low + std::copysign(step / 2, x);
    const auto choice = s.below(~i, 3);
    const auto m = static_cast<float>(middle);
    if (choice == 0) return static_cast<double>(std::nextafterf(m, 0.0F));
    if (choice == 1) return static_cast<double>(std::nextafterf(m, std::copysign(INFINITY, m)));
    return static_cast<double>(m);
  });
}

void sparse(const FillRequest& r, Values& v) {
  each(r, v, [](const auto&, const Stream& s, std::size_t i, auto, auto) {
    return s.below(~(i / 64), 4) == 0 ? s.gaussian(i) : 0.0;
  });
}

void wide(const FillRequest& r, Values& v) {
  each(r, v, [](const auto&, const Stream& s, std::size_t i, std::size_t column, std::size_t columns) {
    const std::size_t run = i / columns + column / 32;
    return std::ldexp(s.gaussian(i), 30 * (static_cast<int>(run % 3) - 1));
  });
}

void below_powers(const FillRequest& r, Values& v) {
  static constexpr std::array kExponents = {-126, -124, -2, -1, 0, 1, 3, 128};
  each(r, v, [](const auto&, const Stream& s, std::size_t i, std::size_t column, std::size_t columns) {
    const std::size_t run = i / columns * 8 + column / 16;
    const int exponent = kExponents[s.below(~run, kExponents.size())];
    const double gap = std::ldexp(1.0, -10 - static_cast<int>(s.below(i, 14)));
    const double x =
        std::ldexp(1 - gap, column % 16 == 7 ? exponent : exponent - 1 - static_cast<int>(i % 5));
    return s.uniform(~i) < 0.5 ? -x : x;
  });
}

}  // namespace assay::fill_families
