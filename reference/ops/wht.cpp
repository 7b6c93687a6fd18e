// wht: the randomised Walsh-Hadamard transform of each group of n = points neighbours in a row,
//   y = H D x / sqrt(n)     (inverse=yes: y = D H x / sqrt(n), the exact inverse: H H = n I, D D = I)
//   H[i][j] = (-1)^popcount(i & j),   D = diag(signs)
// x[rows,cols] dtype, signs[ceil(points/32)] int32 packed, bit j % 32 of word j / 32 set = -1 (absent for
// signs=none)
// -> y[rows,cols] dtype. n is a power of two that divides cols.
// Deferred inverse: because it is linear, IWHT(sum_j p_j v_j) = sum_j p_j IWHT(v_j).
//
// Domain. Every finite x; a NaN or Inf makes its group NaN, or Inf where all non-finite terms of an output
// agree. Where the sum of the finite |x| may overflow, a partial sum may be Inf, and Inf - Inf after it: only
// NaN is claimed then, where the definition gives it.
//
// Limit. An output is a sum of the group's n terms +-x_j, of the declared order's height h
// (arithmetic/order.hpp; the butterfly is order=tree, h = log2 n). With A = sum_j |x_j| over the group, the
// roundings on the way of a term are
//   additions   gamma_h; (n - 1) u under order=any and sequential (Jeannerod and Rump 2013)
//   scaling     by c = fl(1 / sqrt n), once, before or after (scale=once): 2
//               each level by fl(1 / sqrt 2) (scale=levels): 2 log2 n
// and, their relative errors a and gamma_k together,
//   |y' - y| <= ((1 + a)(1 + gamma_k) - 1) A / sqrt n + underflow,
// then the store; a term that is held alone in acc, as it is loaded, is rounded where x is wider
// (held_error): u |x_j| / sqrt n more for each. D only flips signs. Underflow (enclosure.hpp): tiny for each
// x_j c that may be subnormal, where the terms are scaled, and for y, where it may be; under scale=levels for
// each of the n products of an output. Sums lose n tiny_add under ftz=yes (n tiny where an x is wider than
// acc), and nothing where every x_j and x_j c is a multiple of the smallest normal.
//
// With numbers: 128 gaussian points in f32 (seed 1), order=tree, scale=once: h = 7, k = 2, A = 98.1,
//   |y' - y| <= 9 * 2^-24 * 98.1 / sqrt(128) = 4.65e-6      (outputs are about 0.6);
// a dense product in any order has n - 1 + 2 and 6.7e-5.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "reference/error.hpp"
#include "reference/formats/rotation.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ops/replayed_rows.hpp"
#include "reference/ops/signature.hpp"
#include "reference/parallel.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
extern const Op kWht;
namespace {

constexpr std::array kAttributes = {
    KeySpec{"rows", KeyKind::integer, "", "1..1048576", "independent rows"},
    KeySpec{"cols", KeyKind::integer, "", "1..16777216", "a multiple of points"},
    KeySpec{"points", KeyKind::integer, "32", "1..65536", "of one transform, a power of two"},
    KeySpec{"signs", KeyKind::word, "none", "none|tq3|random", "of the diagonal D; tq3 repeats its 32"},
    KeySpec{"inverse", KeyKind::word, "no", "no|yes", "D H x instead of H D x"},
    KeySpec{"dtype", KeyKind::format, "f32", "f32|f16|bf16", "of x and y"},
};

constexpr auto kContract = with_store_keys(with_replay_keys(std::array{
    KeySpec{"acc", KeyKind::accumulator, "f32", "",
            "the type of every sum, and of a term that is held alone"},
    KeySpec{"order", KeyKind::order, "any", "", "in which the points are added; the butterfly is a tree"},
    KeySpec{"scale", KeyKind::word, "once", "once|levels", "where 1/sqrt(points) is applied"},
}));

void check(const Attributes& a) {
  const std::int64_t cols = a.integer("cols"), points = a.integer("points");
  if (!std::has_single_bit(static_cast<std::uint64_t>(points)))
    throw InputError(InputErrorKind::bad_value, fmt::format("points={} is not a power of two", points));
  if (cols % points != 0)
    throw InputError(InputErrorKind::ragged_block,
                     fmt::format("points={} does not divide cols={}", points, cols));
}

void indices(const Attributes& a, std::uint64_t seed, TensorSet& inputs) {
  if (a.text("signs") == "none") return;
  std::vector<std::int64_t> words(static_cast<std::size_t>((a.integer("points") + 31) / 32));
  IndexDraw draw(seed);
  for (std::int64_t& word : words)
    word = a.text("signs") == "tq3" ? kTq3Signs : static_cast<std::int64_t>(draw.next() >> 32);
  inputs.insert_or_assign("signs", integer_tensor("int32", {static_cast<std::int64_t>(words.size())}, words));
}

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(kWht.tensors(a), set);
  const std::size_t points = static_cast<std::size_t>(a.integer("points"));
  const bool inverse = a.text("inverse") == "yes";
  const std::vector<double> x = in.values("x");
  std::vector<std::uint32_t> signs((points + 31) / 32, 0U);
  if (in.has("signs")) {
    const std::vector<std::int64_t> words = in.integers("signs");
    for (std::size_t w = 0; w < words.size(); ++w) signs[w] = static_cast<std::uint32_t>(words[w]);
  }
  const Machine acc = machine(contract.text("acc"), contract.text("ftz") == "yes");
  const Store store = store_of(contract, a.text("dtype"));
  const double n = static_cast<double>(points), levels = std::log2(n), root = std::sqrt(n);
  const Order order = order_of(contract.text("order"));
  const double any = (n - 1) * acc.unit;
  const bool once = contract.text("scale") == "once";
  const double additions =
      rule(Rule::sum_rounding, order.is_shallow() ? std::min(any, gamma_n(order.height(n), acc.unit)) : any);
  const double scalings = rule(Rule::transform_rounding, gamma_n(once ? 2 : 2 * levels, acc.unit));
  const double relative = additions + scalings + additions * scalings + gamma_n(levels + 4, kUnit64);
  Truth t = make_truth("y", x.size(),
                       "reference/ops/wht: additions of the transform and the scaling, relative to sum |x|");

  const auto of_group = [&](std::size_t first) {
    std::vector<double> group(points);
    std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(first), points, group.begin());
    double absolute = 0, flushed = 0, held = 0, small = 0, last = kInfinity;
    bool finer = false;
    for (const double each : group) {
      if (!std::isfinite(each)) continue;
      absolute += std::fabs(each);
      flushed += read(each, acc).error;
      held += held_error(each, acc);
      if (each == 0) continue;
      finer |= has_finer_bits(each, acc);
      small += may_underflow({each / root, 0}, acc, 4 * acc.unit) ? 1 : 0;
      last = std::min({last, last_bit(each), last_bit_of_product(each / root * (1 - 4 * acc.unit), acc)});
    }
    if (!inverse) apply_signs(std::span<double>(group), signs);
    hadamard(std::span<double>(group));
    if (inverse) apply_signs(std::span<double>(group), signs);
    absolute *= 1 + n * kUnit64;
    held *= 1 + n * kUnit64;
    const bool fits = claims(Rule::sum_overflow, (absolute + held) * (1 + relative) < acc.max_finite);
    const double products = rule(Rule::transform_underflow, (once ? small : n) * acc.tiny);
    const double sums =
        once && last >= acc.normal ? 0 : rule(Rule::sum_flush, n * (finer ? acc.tiny : acc.tiny_add));
    for (std::size_t i = 0; i < points; ++i) {
      if (!std::isfinite(group[i])) {
        if (fits || std::isnan(group[i]))
          set_special(t, first + i, group[i], store);
        else
          set_unclaimed(t, first + i);
        continue;
      }
      Enclosure y = {group[i] / root,
                     up((relative * absolute + held * (1 + relative)) / root + products + sums + flushed)};
      if (may_underflow(y, acc)) y.error = up(y.error + rule(Rule::transform_underflow, acc.tiny));
      set_truth(t, first + i, fits ? y : Enclosure{y.value, kInfinity}, store);
    }
  };
  parallel_rows(x.size() / points, points, [&](std::size_t g) { of_group(g * points); });
  if (is_judged_by_replay(contract)) replay_rows(t, "wht", a, set, contract);
  return alone(std::move(t));
}

}  // namespace

const Op kWht = {
    .name = "wht",
    .formula = "y = H D x / sqrt(points) per group; inverse: y = D H x / sqrt(points)",
    .signature =
        "x[rows,cols] dtype\n"
        "signs[points/32] int32 if signs=tq3|random\n"
        "-> y[rows,cols] dtype",
    .example = "rows=4 cols=128 points=64 signs=random",
    .attributes = kAttributes,
    .contract = kContract,
    .tensors = tensors_of<kWht, check>,
    .indices = indices,
    .truth = truth,
    .unused = nullptr,
    .stages = [](const Attributes& a, const TensorSet& set,
                 const Contract& contract) { return row_stages("wht", a, set, contract); },
};

}  // namespace assay
