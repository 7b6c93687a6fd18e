// Fills in which one element decides: what a reduction over a row loses shows in full, where random data
// would hide it (one of 8,189 gaussian elements moves a norm by a 16,000th).
#include <algorithm>
#include <cmath>

#include "cases/fills/draws.hpp"
#include "cases/fills/families.hpp"
#include "reference/inputs/random.hpp"

namespace assay::fill_families {
namespace {

// rule(stream, row, column, columns, element) for the rows of tensors of two axes and more; vectors stay
// gaussian, and so do the natural rows of an embedded fill.
template <typename Rule>
void rows(const FillRequest& request, Values& values, Rule rule) {
  gaussian(request, values);
  for (const auto& t : request.tensors) {
    if (t.role != TensorRole::data || t.shape.size() == 1) continue;
    const Stream stream(request.seed, t.name);
    const auto columns = static_cast<std::size_t>(t.shape.back());
    auto& out = values.at(t.name);
    for (std::size_t i = 0; i < out.size(); ++i)
      if (!request.embedded || !natural_row(stream, i / columns, out.size() / columns))
        out[i] = static_cast<float>(
            rule(t, stream, i / columns, i % columns, columns, static_cast<double>(out[i])));
  }
}

// Larger than all others of a row together, in a sum of squares as in one of exponentials, and no more: half
// or so of the result is the row's own.
double decisive(std::size_t columns) {
  return std::min(256.0, std::max(2.0 + std::log(static_cast<double>(columns)),
                                  std::sqrt(static_cast<double>(columns)) / 4));
}

}  // namespace

void last_element(const FillRequest& r, Values& v) {
  rows(r, v,
       [](const TensorSpec&, const Stream&, std::size_t, std::size_t column, std::size_t columns, double x) {
         return column + 1 == columns ? decisive(columns) : 0.5 * std::clamp(x, -3.0, 3.0);
       });
}

// Row by row the carrier stands at: the end and a few elements before it; the first element of what is left
// beyond a multiple of 2 to 4096, and the last of what is not; and anywhere.
void carrier(const FillRequest& r, Values& v) {
  rows(r, v,
       [](const TensorSpec&, const Stream& s, std::size_t row, std::size_t column, std::size_t columns,
          double x) {
         const std::size_t turn = (row + s.below(~std::uint64_t{0}, 29)) % 29;
         std::size_t at = s.below(row, columns);
         if (turn < 3) {
           at = columns - 1 - std::min(columns - 1, turn);
         } else if (turn < 27) {
           const std::size_t edge = columns >> (turn - 3) / 2
                                                   << (turn - 3) / 2;  // down to a multiple of a power of two
           at = (turn - 3) % 2 == 0 ? std::min(edge, columns - 1) : (edge > 0 ? edge - 1 : 0);
         }
         return column == at ? decisive(columns) : 0.5 * std::clamp(x, -3.0, 3.0);
       });
}

void one_per_tile(const FillRequest& r, Values& v) {
  rows(r, v,
       [](const TensorSpec&, const Stream& s, std::size_t row, std::size_t column, std::size_t columns,
          double x) {
         const std::size_t tile = column / 64;
         const std::size_t at =
             tile * 64 + s.below(row * 1031 + tile, std::min<std::size_t>(64, columns - tile * 64));
         return column == at ? (x < 0 ? -1.0 : 1.0) * (1.0 + s.uniform(row * 517 + tile)) : 0.0;
       });
}

void negative_extreme(const FillRequest& r, Values& v) {
  rows(r, v,
       [](const TensorSpec& t, const Stream& s, std::size_t row, std::size_t column, std::size_t columns,
          double) {
         const ScalarFormat* scalar = find_scalar_format(t.format);
         const double largest = std::min(scalar != nullptr ? scalar->max_finite : 65504.0, 65504.0);
         // Within a row the numbers are so close that the largest does not decide alone.
         return -largest * (0.96 - 0.25 * s.uniform(~row)) +
                std::min(8.0, largest / 16) * s.uniform(row * columns + column);
       });
}

// Of several operands (a, b; x, w13, w2) the first is near 1, of a pair in turns near -1, and the others call
// the roll; a single matrix does. There every run of 16 elements, of 64 in a later operand of so many rows,
// has one that stands out, row by row at the next place from a drawn one on: each place has its row, in which
// no other of its run is as large, and in which a sum is not much larger than that one term.
void roll_call(const FillRequest& r, Values& v) {
  std::vector<std::string_view> matrices;
  for (const TensorSpec& t : r.tensors)
    if (t.role == TensorRole::data && t.shape.size() > 1) matrices.push_back(t.name);
  const bool alone = matrices.size() == 1, pair = matrices.size() == 2;
  rows(r, v,
       [&](const TensorSpec& t, const Stream& s, std::size_t row, std::size_t column, std::size_t columns,
           double x) {
         const double near_one = 1.0 + s.uniform(row * columns + column);
         if (!alone && t.name == matrices[0]) return pair && column % 2 != 0 ? -near_one : near_one;
         if (!alone && columns < 16) return near_one;
         const std::size_t size = !alone && t.shape[t.shape.size() - 2] >= 64 ? 64 : 16, run = column / size;
         const bool called = (column + s.below(~run, size)) % size == row % size;
         if (!alone) return called ? 0.25 * near_one : 0x1p-6 * x;
         // Of 32 neighbours one is the largest by far, also where a scale is a power of two.
         const double large = (row / size + run) % 2 == 0 ? 3.0 : 0.75;
         return called ? large : 0.125 * std::clamp(x, -3.0, 3.0);
       });
}

// One element at the front that is most of the sum, of squares, of exponentials or of products, a little
// above a power of two, and the rest small and of its sign: whatever order of addition begins there cuts
// every later term at the same place.
void front_load(const FillRequest& r, Values& v) {
  rows(r, v,
       [](const TensorSpec&, const Stream& s, std::size_t row, std::size_t column, std::size_t columns,
          double) {
         const double small = 4.5 / std::sqrt(static_cast<double>(std::max<std::size_t>(64, columns)));
         return column == 0 ? 11.5 : small * (0.75 + 0.5 * s.uniform(row * columns + column));
       });
}

}  // namespace assay::fill_families
