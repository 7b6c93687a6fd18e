#include "reference/arithmetic/fused_gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "reference/arithmetic/fused_tile.hpp"
#include "reference/arithmetic/term.hpp"

namespace assay {
namespace {

enum class Lanes : std::uint8_t { narrow, wide };

Lanes lanes_of(const MatrixUnit& unit) {
  const bool cuts = unit.out == "e8m13" && unit.rounding == Rounding::toward_zero;
  return unit.combine == Combine::pairwise_flush || cuts ? Lanes::narrow : Lanes::wide;
}

template <typename Lane>
struct Lanewise {
  std::vector<Lane> value, power;
};

}  // namespace

struct PackedOperand::Data {
  const MatrixUnit* unit;
  Side side;
  std::string format;
  std::int64_t rows, k, padded;    // padded: k up to a multiple of the group
  std::vector<float> raw, scales;  // [rows, k], [rows, k / scale_block]: the scalar model's input
  std::vector<char> special;       // a NaN or infinity somewhere in the row, or in its scales
  std::vector<double> largest;     // max |value| of the row
  std::vector<double> last_bit;  // all its values are multiples of this power of two; Inf for a row of zeros
  Lanewise<float> narrow;        // side a: [rows, padded]; side b: [panels, padded, kPanel]
  Lanewise<double> wide;

  std::size_t at(std::int64_t row, std::int64_t col) const {
    const auto r = static_cast<std::size_t>(row);
    const auto c = static_cast<std::size_t>(col);
    const auto p = static_cast<std::size_t>(padded);
    return side == Side::a ? r * p + c : (r / kPanel * p + c) * kPanel + r % kPanel;
  }
  Operand row(std::int64_t r, std::int64_t begin, std::int64_t end) const {
    Operand o{std::span(raw).subspan(static_cast<std::size_t>(r * k + begin),
                                     static_cast<std::size_t>(end - begin)),
              format,
              {}};
    if (unit->scale_block > 0) {
      const std::int64_t per = unit->scale_block;
      const std::int64_t all = (k + per - 1) / per;
      o.scales = std::span(scales).subspan(static_cast<std::size_t>(r * all + begin / per),
                                           static_cast<std::size_t>((end - begin + per - 1) / per));
    }
    return o;
  }
};

namespace {

template <typename Lane>
void place(Lanewise<Lane>& out, std::size_t at, double value, double power) {
  out.value[at] = static_cast<Lane>(value);
  out.power[at] = static_cast<Lane>(power);
}

// The common case, 10 times the speed of the loop it stands before: a format within f16's exponents, no
// scales, no flushing. False when some element is not a finite number of the format; nothing is then known of
// the row.
template <typename Lane>
bool place_row(Lanewise<Lane>& out, std::size_t at, std::size_t step, const float* x, std::size_t n,
               const TermFormat& f, float& largest, float& least_power) {
  const auto least = static_cast<std::uint32_t>(f.emin + 127) << 23;
  const auto top = static_cast<float>(f.max_finite);
  const std::uint32_t unit = static_cast<std::uint32_t>(254 + f.fraction_bits) << 23;
  bool good = true;
  float most = 0;
  float fewest = std::numeric_limits<float>::infinity();
  Lane* const value = out.value.data() + at;
  Lane* const power = out.power.data() + at;
  for (std::size_t i = 0; i < n; ++i) {
    const float v = x[i];
    const float size = std::fabs(v);
    const std::uint32_t field = std::bit_cast<std::uint32_t>(v) & 0x7f800000u;
    const std::uint32_t head = field > least ? field : least;
    const bool finite = size <= top;
    // < 2^(fraction_bits + 1).
    const float significand = (finite ? size : 0.0f) * std::bit_cast<float>(unit - head);
    good &= finite && static_cast<float>(static_cast<std::int32_t>(significand)) == significand;
    most = size > most ? size : most;
    const float here = v == 0 ? std::numeric_limits<float>::infinity() : std::bit_cast<float>(head);
    fewest = here < fewest ? here : fewest;
    value[i * step] = static_cast<Lane>(v);
    power[i * step] = v == 0 ? Lane{0} : static_cast<Lane>(std::bit_cast<float>(head));
  }
  largest = most;
  least_power = fewest;
  return good;
}

double head_of(double x, const TermFormat& f) {
  return x == 0 ? 0 : power_of_two(std::max(std::ilogb(x), f.emin));
}

}  // namespace

PackedOperand::PackedOperand(const MatrixUnit& unit, Side side, std::string_view format, const float* values,
                             std::int64_t rows, std::int64_t k, std::int64_t stride,
                             std::span<const float> scales)
    : data_(std::make_unique<Data>()) {
  if (unit.combine == Combine::wrap) {
    throw InputError(InputErrorKind::bad_value, fmt::format("{} gives i32: use int8_gemm", unit.name));
  }
  const TermFormat f = input_format(unit, format);
  const std::int64_t per = unit.scale_block;
  const std::int64_t scale_cols = per > 0 ? (k + per - 1) / per : 0;
  if (rows < 0 || k < 0 || stride < k || static_cast<std::int64_t>(scales.size()) != rows * scale_cols) {
    throw InputError(InputErrorKind::shape_mismatch,
                     fmt::format("operand [{}, {}] stride {} with {} scales; {} takes {}", rows, k, stride,
                                 scales.size(), unit.name, rows * scale_cols));
  }
  Data& d = *data_;
  d.unit = &unit;
  d.side = side;
  d.format = format.empty() ? unit.inputs.substr(0, unit.inputs.find(' ')) : format;
  d.rows = rows;
  d.k = k;
  d.padded = (k + unit.group - 1) / unit.group * unit.group;
  d.raw.resize(static_cast<std::size_t>(rows * k));
  d.scales.assign(scales.begin(), scales.end());
  d.special.assign(static_cast<std::size_t>(rows), 0);
  d.largest.assign(static_cast<std::size_t>(rows), 0);
  d.last_bit.assign(static_cast<std::size_t>(rows), std::numeric_limits<double>::infinity());
  const Lanes lanes = lanes_of(unit);
  const auto panel = static_cast<std::int64_t>(kPanel);
  const std::int64_t slots = (side == Side::a ? rows : (rows + panel - 1) / panel * panel) * d.padded;
  if (lanes == Lanes::narrow)
    d.narrow.value.resize(static_cast<std::size_t>(slots)),
        d.narrow.power.resize(static_cast<std::size_t>(slots));
  if (lanes == Lanes::wide)
    d.wide.value.resize(static_cast<std::size_t>(slots)),
        d.wide.power.resize(static_cast<std::size_t>(slots));
  const TermFormat sf = per > 0 ? term_format(unit.scales) : TermFormat{};
  const bool plain = per == 0 && unit.combine != Combine::pairwise_flush && f.emin >= -30;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto row = static_cast<std::size_t>(r);
    for (std::int64_t s = 0; s < scale_cols; ++s) {
      const float x = d.scales[static_cast<std::size_t>(r * scale_cols + s)];
      if (!std::isfinite(x))
        d.special[row] = 1;
      else
        static_cast<void>(split(x, sf));
    }
    if (plain && k > 0) {
      const float* from = values + r * stride;
      const std::size_t step = side == Side::a ? 1 : kPanel;
      float most = 0;
      float least_power = 0;
      const bool good =
          lanes == Lanes::narrow
              ? place_row(d.narrow, d.at(r, 0), step, from, static_cast<std::size_t>(k), f, most, least_power)
              : place_row(d.wide, d.at(r, 0), step, from, static_cast<std::size_t>(k), f, most, least_power);
      if (good) {
        std::copy_n(from, k, d.raw.data() + r * k);
        d.largest[row] = most;
        d.last_bit[row] = least_power * power_of_two(-f.fraction_bits);
        continue;
      }
    }
    for (std::int64_t c = 0; c < k; ++c) {
      const float x = values[r * stride + c];
      d.raw[static_cast<std::size_t>(r * k + c)] = x;
      if (!std::isfinite(x)) {
        d.special[row] = 1;  // the row goes to the scalar model; its lanes may hold anything
        continue;
      }
      const Term term = split(x, f);  // refuses what is not a number of the format
      d.largest[row] = std::max(d.largest[row], std::fabs(static_cast<double>(x)));
      double value = x;
      double power = term.significand == 0 ? 0 : power_of_two(term.exponent);
      if (power > 0) d.last_bit[row] = std::min(d.last_bit[row], power * power_of_two(-f.fraction_bits));
      if (unit.combine == Combine::pairwise_flush && std::fabs(value) < power_of_two(f.emin)) value = 0;
      if (per > 0) {
        const double s = d.scales[static_cast<std::size_t>(r * scale_cols + c / per)];
        if (!std::isfinite(s)) continue;
        value *= s;  // exact: a few bits each
        // A group of an mxf4/nvf4 unit aligns at its scales' exponents; elsewhere the scale's exponent adds.
        power = unit.combine == Combine::group_scaled ? head_of(s, sf) : power * s;
      }
      if (lanes == Lanes::narrow) place(d.narrow, d.at(r, c), value, power);
      if (lanes == Lanes::wide) place(d.wide, d.at(r, c), value, power);
    }
  }
}

PackedOperand::PackedOperand(PackedOperand&&) noexcept = default;
PackedOperand& PackedOperand::operator=(PackedOperand&&) noexcept = default;
PackedOperand::~PackedOperand() = default;
std::int64_t PackedOperand::rows() const { return data_->rows; }
std::int64_t PackedOperand::depth() const { return data_->k; }

namespace {

constexpr std::int64_t kTileRows = 64;

// max |a_i b_i|, 0 of none.
double largest_product(std::span<const float> a, std::span<const float> b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double size = std::fabs(static_cast<double>(a[i]) * static_cast<double>(b[i]));
    most = size > most ? size : most;
  }
  return most;
}

float canonical(float x) { return std::isnan(x) ? std::numeric_limits<float>::quiet_NaN() : x; }

template <typename Lane>
void run_tile(const Lanewise<Lane>& a, const Lanewise<Lane>& b, const PackedOperand::Data& da,
              const PackedOperand::Data& db, std::int64_t row, std::int64_t rows, std::int64_t col,
              std::int64_t begin, std::int64_t end, const TileRule& rule, float* c) {
  const std::size_t at = da.at(row, begin);
  const std::size_t bt = db.at(col, begin);
  fused_tile(Tile<Lane>{a.value.data() + at, a.power.data() + at, static_cast<std::size_t>(da.padded),
                        b.value.data() + bt, b.power.data() + bt, static_cast<std::size_t>(rows),
                        static_cast<std::size_t>(end - begin), c},
             rule);
}

}  // namespace

void fused_gemm_range(const MatrixUnit& unit, const PackedOperand& a, const PackedOperand& b,
                      std::int64_t k_begin, std::int64_t k_end, float* c, std::int64_t ldc,
                      const GemmOptions& options) {
  const PackedOperand::Data& da = a.data();
  const PackedOperand::Data& db = b.data();
  if (da.unit != &unit || db.unit != &unit || da.side != PackedOperand::Side::a ||
      db.side != PackedOperand::Side::b) {
    throw InputError(InputErrorKind::shape_mismatch,
                     fmt::format("operands were packed for {} and {}, or for one side, not for {}",
                                 da.unit->name, db.unit->name, unit.name));
  }
  const bool whole = k_begin % unit.group == 0 && (k_end % unit.group == 0 || k_end == da.k);
  if (da.k != db.k || k_begin < 0 || k_end > da.k || k_begin > k_end || !whole || ldc < db.rows) {
    throw InputError(
        InputErrorKind::shape_mismatch,
        fmt::format("k range [{}, {}) of depths {} and {}, in blocks of {}; ldc {} for {} columns", k_begin,
                    k_end, da.k, db.k, unit.group, ldc, db.rows));
  }
  if (options.promote < 0)
    throw InputError(InputErrorKind::bad_value, fmt::format("promote={}", options.promote));
  const Lanes lanes = lanes_of(unit);
  const TileRule rule{unit.combine,        static_cast<std::size_t>(unit.group),    unit.fraction_bits,
                      out_precision(unit), unit.rounding == Rounding::nearest_even, unit.least_exponent};
  // `exact`: a block's sum of products fits 53 bits whatever the cancellation, so double lanes form it
  // exactly.
  const auto exact_in_double = [&](std::size_t r, std::size_t s) {
    return unit.combine != Combine::exact ||
           unit.group * da.largest[r] * db.largest[s] <= 0x1p53 * da.last_bit[r] * db.last_bit[s];
  };
  const std::int64_t padded_end = (k_end + unit.group - 1) / unit.group * unit.group;
  const std::int64_t chunk =
      options.promote > 0 ? std::int64_t{options.promote} * unit.group : padded_end - k_begin;
  const auto panel = static_cast<std::int64_t>(kPanel);
  std::vector<float> out(kTileRows * kPanel), part(kTileRows * kPanel);
  for (std::int64_t col = 0; col < db.rows; col += panel) {
    const std::int64_t cols = std::min(panel, db.rows - col);
    for (std::int64_t row = 0; row < da.rows; row += kTileRows) {
      const std::int64_t rows = std::min(kTileRows, da.rows - row);
      std::fill(out.begin(), out.end(), 0.0f);
      for (std::int64_t i = 0; i < rows; ++i)
        std::copy_n(c + (row + i) * ldc + col, cols, out.data() + i * panel);
      for (std::int64_t k = k_begin; k < padded_end; k += chunk) {
        const std::int64_t stop = std::min(k + chunk, padded_end);
        float* target = out.data();
        if (options.promote > 0) {
          std::fill(part.begin(), part.end(), 0.0f);
          target = part.data();
        }
        if (lanes == Lanes::narrow)
          run_tile(da.narrow, db.narrow, da, db, row, rows, col, k, stop, rule, target);
        else
          run_tile(da.wide, db.wide, da, db, row, rows, col, k, stop, rule, target);
        if (options.promote > 0) {
          for (std::size_t i = 0; i < static_cast<std::size_t>(rows) * kPanel; ++i) out[i] += part[i];
        }
      }
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < cols; ++j) {
          float& target = c[(row + i) * ldc + col + j];
          const auto r = static_cast<std::size_t>(row + i);
          const auto s = static_cast<std::size_t>(col + j);
          // The lanes know finite products only (and, for `floor`, none that overflow). Large factors need
          // not meet.
          const auto overflows = [&] {
            return da.largest[r] * db.largest[s] >= 0x1p128 &&
                   (unit.scale_block > 0 ||
                    largest_product(da.row(row + i, k_begin, k_end).values,
                                    db.row(col + j, k_begin, k_end).values) >= 0x1p128);
          };
          const bool by_model =
              !exact_in_double(r, s) || da.special[r] != 0 || db.special[s] != 0 || overflows();
          target =
              by_model
                  ? static_cast<float>(promoted_dot(unit, da.row(row + i, k_begin, k_end),
                                                    db.row(col + j, k_begin, k_end), target, options.promote))
                  : canonical(out[static_cast<std::size_t>(i * panel + j)]);
        }
      }
    }
  }
}

void fused_gemm(const MatrixUnit& unit, const PackedOperand& a, const PackedOperand& b, float* c,
                std::int64_t ldc, const GemmOptions& options) {
  fused_gemm_range(unit, a, b, 0, a.depth(), c, ldc, options);
}

void fused_gemm(const MatrixUnit& unit, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                std::string_view a_format, const float* b, std::string_view b_format, float* c,
                std::int64_t ldc, const GemmOptions& options) {
  const PackedOperand left(unit, PackedOperand::Side::a, a_format, a, m, k, k);
  const PackedOperand right(unit, PackedOperand::Side::b, b_format, b, n, k, k);
  fused_gemm(unit, left, right, c, ldc, options);
}

void int8_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const std::int8_t* a, const std::int8_t* b,
               std::int32_t* c, std::int64_t ldc) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      auto sum = static_cast<std::uint32_t>(c[i * ldc + j]);
      for (std::int64_t p = 0; p < k; ++p) sum += static_cast<std::uint32_t>(a[i * k + p] * b[j * k + p]);
      c[i * ldc + j] = static_cast<std::int32_t>(sum);
    }
  }
}

}  // namespace assay
