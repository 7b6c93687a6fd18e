#include "cases/studies/silicon/draw.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "reference/arithmetic/rounding.hpp"
#include "reference/mix.hpp"

namespace assay::silicon {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return next_mixed(state_); }
  int below(int n) { return static_cast<int>((next() >> 33) % static_cast<std::uint64_t>(n)); }
  int between(int low, int high) { return low + below(high - low + 1); }

 private:
  std::uint64_t state_;
};

// Codes of a signed floating-point format by their fields.
struct Fields {
  int exponent_bits, fraction_bits, bias, top;  // top: largest exponent field of a finite number
  bool has_inf;

  explicit Fields(const ScalarFormat& f)
      : exponent_bits(f.exponent_bits),
        fraction_bits(f.fraction_bits),
        bias(f.bias),
        top((1 << f.exponent_bits) - (f.specials == Specials::ieee ? 2 : 1)),
        has_inf(f.specials == Specials::ieee) {}
  std::uint32_t fraction_mask() const { return (1U << fraction_bits) - 1; }
  std::uint32_t sign_bit() const { return 1U << (exponent_bits + fraction_bits); }
  int lowest() const { return 1 - bias; }
  int highest() const { return top - bias; }
  bool finite(std::uint32_t code) const {
    const std::uint32_t size = code & (sign_bit() - 1);
    return has_inf ? size >> fraction_bits <= static_cast<std::uint32_t>(top) : size != sign_bit() - 1;
  }
  // The number +-1.fraction * 2^exponent, the exponent brought into the normal range.
  std::uint32_t normal(bool negative, int exponent, std::uint64_t fraction) const {
    const int field = std::clamp(exponent + bias, 1, top);
    std::uint32_t code = (static_cast<std::uint32_t>(field) << fraction_bits) |
                         (static_cast<std::uint32_t>(fraction) & fraction_mask());
    if (!has_inf && code == sign_bit() - 1) --code;  // e4m3fn: the one NaN
    return negative ? code | sign_bit() : code;
  }
  std::uint32_t subnormal(std::uint64_t bits) const {
    return static_cast<std::uint32_t>(bits) & (sign_bit() | fraction_mask());
  }
  std::uint32_t any_finite(std::uint64_t bits) const {
    const std::uint32_t code = static_cast<std::uint32_t>(bits) & (2 * sign_bit() - 1);
    return finite(code) ? code : code & sign_bit();
  }
};

enum Family : std::uint8_t {
  band,
  powers,
  any,
  alternate,
  repeat,
  subnormal,
  sparse,
  sliver,
  positive,
  special
};

// What the rows of a tile have in common.
struct TileDraw {
  int centre;                 // exponent
  std::array<int, 3> place;   // of a sliver's terms
  std::array<int, 3> sliver;  // this side's share of their exponents
};

std::uint8_t draw_family(Random& random, int steps) {
  const int draw = random.below(64);
  if (draw == 0) return steps <= 2 ? special : band;
  if (draw <= 3) return any;
  constexpr std::array<std::uint8_t, 12> kCommon = {band,   band,      band,   powers, powers, alternate,
                                                    repeat, subnormal, sparse, sparse, sliver, positive};
  return kCommon[static_cast<std::size_t>(random.below(kCommon.size()))];
}

void draw_row(Random& random, const Instruction& how, const Fields& f, Family family, const TileDraw& tile,
              int depth, unsigned char* row) {
  const int bytes = how.element_bytes();
  const int e = tile.centre + random.between(-4, 4);
  const int width = random.below(6);
  const bool negative = (random.next() & 1) != 0;
  std::uint32_t previous = 0;
  for (int k = 0; k < depth; ++k) {
    const std::uint64_t r = random.next();
    const bool sign = (r >> 63) != 0;
    const int drop = static_cast<int>((r >> 40) & 0xff);
    std::uint32_t code = 0;
    switch (family) {
      case band:
        code = f.normal(sign, e - drop % (width + 1), r);
        break;
      case powers:
        code = f.normal(sign, e - drop % 32, 0);
        break;
      case any:
        code = f.any_finite(r);
        break;
      case alternate:
        code = k % 2 == 1 && drop % 8 != 0 ? previous ^ f.sign_bit() : f.normal(sign, e - drop % 3, r);
        break;
      case repeat:
        code = k % 2 == 1 && drop % 8 != 0 ? previous : f.normal(sign, e - drop % 3, r);
        break;
      case subnormal:
        code = drop % 16 == 0 ? f.normal(sign, e, r) : f.subnormal(r);
        break;
      case sparse:
        code = drop % 4 != 0 ? (sign ? f.sign_bit() : 0) : f.normal(sign, e - (drop >> 2) % 8, r);
        break;
      case sliver: {
        code = sign && drop % 4 == 0 ? f.sign_bit() : 0;
        for (std::size_t i = 0; i < 3; ++i) {
          if (k == tile.place[i]) code = f.normal(i > 0 && negative, tile.sliver[i], 0);
        }
        break;
      }
      case positive:
        code = f.normal(negative, e, r);
        break;
      case special:
        code = static_cast<std::uint32_t>(r) & (2 * f.sign_bit() - 1);
        break;
    }
    previous = code;
    store_code(how, code, row + k * bytes);
  }
}

// The centres of both sides: their sum is where products lie.
std::array<int, 2> draw_centres(Random& random, const Fields& a, const Fields& b) {
  const int low = a.lowest() + b.lowest();
  const int high = a.highest() + b.highest();
  int product = random.between(low, high);
  if (high > 128) {  // bf16, tf32: mostly where f32 has room, else around its ends
    const int draw = random.below(8);
    product = draw < 6    ? random.between(-60, 60)
              : draw == 6 ? random.between(-175, -100)
                          : random.between(105, 135);
  }
  const int first =
      std::clamp(product / 2 + random.between(-8, 8), std::max(a.lowest(), product - b.highest()),
                 std::min(a.highest(), product - b.lowest()));
  return {first, product - first};
}

struct AccumulatorDraw {
  Fields fields;
  int product;  // exponent of the products
};

std::uint8_t draw_kind(std::uint64_t r) {
  constexpr std::array<std::uint8_t, 32> kKinds = {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2,
                                                   3, 3, 3, 3, 3, 3, 4, 4, 5, 5, 5, 5, 5, 6, 7, 8};
  const std::uint8_t kind = kKinds[r & 31];
  return kind == 8 && (r >> 5 & 15) != 0 ? 1 : kind;
}

std::uint32_t draw_accumulator(const AccumulatorDraw& draw, std::uint8_t kind, std::uint64_t r,
                               double first_product, const Precision& precision) {
  const Fields& f = draw.fields;
  const bool sign = (r >> 63) != 0;
  const int step = static_cast<int>((r >> 48) & 0xff);
  switch (kind) {
    case 0:
      return sign ? f.sign_bit() : 0;
    case 2: {
      const std::uint32_t code = f.normal(sign, draw.product + 12 - step % 41, 0);
      return (r >> 62 & 1) != 0 && (code & (f.sign_bit() - 1)) > 1U << f.fraction_bits ? code - 1 : code;
    }
    case 3:
      return f.normal(sign, draw.product + step % 5, r);
    case 4:
      return f.any_finite(r);
    case 5: {
      const double x = round_to_precision(-first_product, precision, Rounding::toward_zero);
      if (!std::isfinite(x)) return 0;
      return encode(scalar_format(precision == kPrecisionF16 ? "f16" : "f32"), x);
    }
    case 6:
      return f.subnormal(r);
    case 7:
      return f.normal(sign, f.highest(), r);
    case 8: {
      const std::uint32_t fraction = step % 2 == 0 ? 0 : static_cast<std::uint32_t>(r) & f.fraction_mask();
      return (static_cast<std::uint32_t>(f.top + 1) << f.fraction_bits) | fraction |
             (sign ? f.sign_bit() : 0);
    }
    default:
      return f.normal(sign, draw.product + 12 - step % 41, r);
  }
}

struct Shape {
  int steps, tiles;
};

Shape draw_shape(Random& random, const Instruction& how, std::uint64_t index, int largest_steps) {
  const int longest = 16384 / how.depth;
  const int draw = random.below(64);
  int steps = 1;
  if (index % 2 == 1) {
    steps = 2 + draw % 3;
    if (draw >= 24) steps = 5 + random.below(12);
    if (draw >= 48) steps = 32 + random.below(64);
    if (draw >= 58) steps = longest / 4 + random.below(longest / 4);
    if (draw >= 61) steps = longest;
  }
  steps = std::min(steps, largest_steps);
  return {steps, std::clamp(256 / steps, 1, kMostTiles)};
}

}  // namespace

Batch draw_batch(const Instruction& how, std::uint64_t seed, std::uint64_t index, int largest_steps,
                 int most_tiles) {
  Random random(seed * 0x9e3779b97f4a7c15ULL + index * 0xd1342543de82ef95ULL +
                static_cast<std::uint64_t>(how.opcode));
  random.next();
  Shape shape = draw_shape(random, how, index, largest_steps);
  shape.tiles = std::min(shape.tiles, most_tiles);
  Batch batch{&how, seed, index, shape.tiles, shape.steps, {}, {}, {}, {}, {}, {}, {}};
  const auto tiles = static_cast<std::size_t>(shape.tiles);
  const std::size_t row_bytes = static_cast<std::size_t>(shape.steps) * kStepBytes;
  const auto out_bytes = static_cast<std::size_t>(how.accumulator_bytes());
  constexpr std::size_t kOutputs = std::size_t{kTileSide} * kTileSide;
  batch.a.resize(tiles * kTileSide * row_bytes);
  batch.b.resize(batch.a.size());
  batch.c.resize(tiles * kOutputs * out_bytes);
  batch.d.resize(batch.c.size());
  batch.a_family.resize(tiles * kTileSide);
  batch.b_family.resize(batch.a_family.size());
  batch.c_kind.resize(tiles * kOutputs);
  const ScalarFormat& fa = scalar_format(how.a_format);
  const ScalarFormat& fb = scalar_format(how.b_format);
  const Fields a(fa), b(fb), c(scalar_format(how.out));
  const MatrixUnit* unit = find_matrix_unit(how.unit);
  const int fraction_bits = unit != nullptr ? unit->fraction_bits : 25;
  const Precision precision = how.out == "f16" ? kPrecisionF16 : kPrecisionF32;
  const int result_bits = unit != nullptr ? out_precision(*unit).p : precision.p;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    const std::array<int, 2> centres = draw_centres(random, a, b);
    std::array<TileDraw, 2> side;
    const std::array<int, 3> below = {0, result_bits, fraction_bits + random.between(-1, 2)};
    for (std::size_t i = 0; i < 3; ++i) {
      const int place = random.below(how.depth);
      // Products that lie `below` the first: the share of A is cut off where its range ends.
      const int share = std::clamp(below[i] / 2, 0, std::max(0, centres[0] - a.lowest()));
      side[0].place[i] = side[1].place[i] = place;
      side[0].sliver[i] = centres[0] - share;
      side[1].sliver[i] = centres[1] - (below[i] - share);
    }
    side[0].centre = centres[0];
    side[1].centre = centres[1];
    const auto rows = [&](std::vector<unsigned char>& operand, std::vector<std::uint8_t>& families,
                          const Fields& f, const TileDraw& draw) {
      for (std::size_t r = tile * kTileSide; r < (tile + 1) * kTileSide; ++r) {
        families[r] = draw_family(random, shape.steps);
        draw_row(random, how, f, static_cast<Family>(families[r]), draw, batch.depth(),
                 operand.data() + r * row_bytes);
      }
    };
    rows(batch.a, batch.a_family, a, side[0]);
    rows(batch.b, batch.b_family, b, side[1]);
    const AccumulatorDraw draw{c, centres[0] + centres[1]};
    std::array<double, kTileSide> first_b;
    for (std::size_t j = 0; j < kTileSide; ++j) {
      first_b[j] = decode(fb, load_code(how, batch.b.data() + (tile * kTileSide + j) * row_bytes));
    }
    for (std::size_t i = 0; i < kTileSide; ++i) {
      const double first_a = decode(fa, load_code(how, batch.a.data() + (tile * kTileSide + i) * row_bytes));
      for (std::size_t j = 0; j < kTileSide; ++j) {
        const std::size_t at = tile * kOutputs + i * kTileSide + j;
        const std::uint64_t r = random.next();
        batch.c_kind[at] = draw_kind(r);
        const std::uint32_t code =
            draw_accumulator(draw, batch.c_kind[at], r, first_a * first_b[j], precision);
        store_accumulator(how, code, batch.c.data() + at * out_bytes);
      }
    }
  }
  return batch;
}

}  // namespace assay::silicon
