// The laws of attention that need no reference, or only its limits.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cases/properties/laws.hpp"
#include "reference/inputs/random.hpp"
#include "reference/ops/attention/problem.hpp"

namespace assay::properties {
namespace {

// A shape that shrinks towards one head, one query row and one key.
std::string shape(const std::string& rest, std::int64_t most_rows = 6) {
  const auto kv_heads = *rc::gen::inRange<std::int64_t>(1, 4);
  const auto group = *rc::gen::inRange<std::int64_t>(1, 4);
  const auto d = 32 * *rc::gen::inRange<std::int64_t>(1, 3);
  const auto rows = *rc::gen::inRange<std::int64_t>(1, most_rows + 1);
  const auto len = rows + *rc::gen::inRange<std::int64_t>(0, 150);
  const auto seed = *rc::gen::inRange<std::uint64_t>(1, 1000);
  return fmt::format("attention heads={} kv_heads={} d={} q={} len={} dtype=f32 seed={} {}", kv_heads * group,
                     kv_heads, d, rows, len, seed, rest);
}

// tokens[i] of the result is token order[i] of the argument; all planes of a scalar format.
void reorder(Encoded& tensor, std::span<const std::int64_t> order) {
  auto& bytes = tensor.planes.front().bytes;
  const std::size_t row = bytes.size() / order.size();
  std::vector<std::byte> moved(bytes.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(order[i]) * row), row,
                moved.begin() + static_cast<std::ptrdiff_t>(i * row));
  bytes = std::move(moved);
}

std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const Stream stream(seed, "permutation");
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(i, i)]);
  return order;
}

TEST(AttentionLaws, keys_in_any_order_give_the_same_output) {
  expect_law("key permutation", "first_key", [](Kernel& kernel) {
    const Case c = a_case(shape("kv=f32"));
    Inputs inputs = make_inputs(c, input_lists());
    const Truth truth = kernel.truth(c, inputs);
    const auto order = permutation(c.attributes.integer("len"), c.seed);
    for (const char* name : {"k", "v"}) reorder(inputs.set.at(name), order);
    return within_truth(c, truth, kernel.run(c, inputs));
  });
}

TEST(AttentionLaws, where_a_page_lies_is_invisible) {
  expect_law("page-table relayout", "layout", [](Kernel& kernel) {
    const Case c = a_case(shape("kv=" + *rc::gen::element<std::string>("f32", "f16", "q8_0") +
                                " page=" + *rc::gen::element<std::string>("1", "16", "64")));
    Inputs inputs = make_inputs(c, input_lists());
    const auto before = kernel.run(c, inputs);
    const std::int64_t pages = inputs.set.at("k").shape[0];
    const auto order = permutation(pages, c.seed);
    for (const char* name : {"k", "v"}) reorder(inputs.set.at(name), order);
    for (auto& id : elements<std::int32_t>(inputs.set, "page_table"))
      id = static_cast<std::int32_t>(std::ranges::find(order, id) - order.begin());
    RC_PRE(pages > 1);
    inputs.unused = c.op->unused(c.attributes, inputs.set);
    return same_bits(c, before, kernel.run(c, inputs));
  });
}

TEST(AttentionLaws, a_request_does_not_depend_on_its_neighbours) {
  expect_law("batch invariance", "neighbour", [](Kernel& kernel) {
    const std::string line = shape("kv=" + *rc::gen::element<std::string>("f32", "f16", "e4m3fn"));
    const Case batch = a_case(line + " batch=3"), alone = a_case(line + " batch=1");
    const Inputs all = make_inputs(batch, input_lists());
    const auto together = kernel.run(batch, all);
    for (std::size_t b = 0; b < 3; ++b) {
      Inputs one = make_inputs(alone, input_lists());
      for (const char* name : {"q", "k", "v"}) {
        auto& bytes = one.set.at(name).planes.front().bytes;
        std::copy_n(
            all.set.at(name).planes.front().bytes.begin() + static_cast<std::ptrdiff_t>(b * bytes.size()),
            bytes.size(), bytes.begin());
      }
      const auto apart = kernel.run(alone, one);
      if (auto broken = same_bits(batch, std::span(together).subspan(b * apart.size(), apart.size()), apart))
        return Verdict(broken);
    }
    return Verdict();
  });
}

TEST(AttentionLaws, powers_of_two_of_v_pass_through_exactly) {
  expect_law("V scaled by 2^k", "offset", [](Kernel& kernel) {
    const Case c = a_case(shape("kv=f32 mask=" + *rc::gen::element<std::string>("none", "causal")));
    const int k = *rc::gen::inRange(-20, 21);
    Inputs inputs = make_inputs(c, input_lists());
    auto want = kernel.run(c, inputs);
    for (float& y : want) y = std::ldexp(y, k);
    for (float& v : elements<float>(inputs.set, "v")) v = std::ldexp(v, k);
    RC_PRE(k != 0);
    return same_bits(c, want, kernel.run(c, inputs));
  });
}

TEST(AttentionLaws, a_constant_added_to_v_is_added_to_the_output) {
  expect_law("V + c", "gain", [](Kernel& kernel) {
    const Case c = a_case(shape("kv=f32"));
    const auto shift = static_cast<float>(*rc::gen::inRange(1, 9));
    Inputs inputs = make_inputs(c, input_lists());
    for (float& v : elements<float>(inputs.set, "v")) v = std::round(v * 256) / 256;  // v + c is exact
    const Truth low = kernel.truth(c, inputs);
    const auto before = kernel.run(c, inputs);
    for (float& v : elements<float>(inputs.set, "v")) v += shift;
    const Truth high = kernel.truth(c, inputs);
    const auto after = kernel.run(c, inputs);
    for (std::size_t i = 0; i < after.size(); ++i)
      if (auto broken =
              within(c, i, double{after[i]} - double{before[i]}, shift, low.limit[i] + high.limit[i]))
        return Verdict(broken);
    return Verdict();
  });
}

TEST(AttentionLaws, every_kernel_and_split_count_stays_within_its_bound) {
  expect_law("split-K and variants", "split", [](Kernel& kernel) {
    std::vector<std::string> variants;
    for (const auto& v : kernel.variants())
      variants.push_back(v.starts_with("attention:") ? v.substr(10) : v);
    std::erase_if(variants, [](const std::string& v) { return v.find(':') != std::string::npos; });
    Case c = a_case(shape("kv=f16"));
    const Inputs inputs = make_inputs(c, input_lists());
    for (const auto& v : variants) {
      c.variant = v;
      const auto declared = kernel.call(c, inputs);
      if (declared.status == RunStatus::unsupported) continue;
      if (auto broken = within_truth(c, kernel.truth(c, inputs), kernel.run(c, inputs)))
        return Verdict(broken);
    }
    return Verdict();
  });
}

// Q, K and V stored rotated, K and V quantised in that state; attention with the deferred inverse. Against
// it: the stored numbers un-rotated (in f64, then f32) and attention without any rotation. Beyond the two
// limits there is the rounding of the un-rotated numbers to f32, e = 2^-24 |x| + 2^-48 max|x| each:
//   |dx_j| <= scale sum_c (|q| e_k + |k| e_q + e_q e_k) = D,  so |o' - o| <= expm1(2 D) 2 max|v| + e_v.
TEST(AttentionLaws, rotated_storage_is_the_unrotated_composition) {
  expect_law("rotate, quantise, store, attend, un-rotate", "no_inverse", [](Kernel& kernel) {
    const std::string kv = *rc::gen::element<std::string>("f32", "q8_0", "q4_0");
    const std::string line = shape("");
    const Case rotated = a_case(line + "rotate=qkv kv=" + kv), plain = a_case(line + "kv=f32");
    const Inputs stored = make_inputs(rotated, input_lists());
    const auto got = kernel.run(rotated, stored);
    Inputs inputs = make_inputs(plain, input_lists());
    double largest[3];
    for (int i = 0; i < 3; ++i) {
      const std::string name(1, "qkv"[i]);
      std::vector<double> x = decode_tensor(stored.set.at(name)), error(x.size()), own(x.size());
      unrotate(x.data(), error.data(), own.data(), x.size());
      const auto out = elements<float>(inputs.set, name);
      for (std::size_t j = 0; j < x.size(); ++j) out[j] = static_cast<float>(x[j]);
      largest[i] = 0;
      for (const double v : x) largest[i] = std::max(largest[i], std::fabs(v));
    }
    const auto want = kernel.run(plain, inputs);
    const Truth a = kernel.truth(rotated, stored), b = kernel.truth(plain, inputs);
    const auto d = static_cast<double>(plain.attributes.integer("d"));
    const double u = 1.0001 * 0x1p-24;
    const double moved = std::sqrt(d) * largest[0] * largest[1] * (2 * u + u * u);  // scale d = sqrt(d)
    const double extra = std::expm1(2 * moved) * 2 * largest[2] + u * largest[2];
    for (std::size_t i = 0; i < got.size(); ++i)
      if (auto broken = within(rotated, i, got[i], want[i], a.limit[i] + b.limit[i] + extra))
        return Verdict(broken);
    return Verdict();
  });
}

TEST(AttentionLaws, gaps_behind_rows_change_no_bit) {
  expect_law("views with gaps", "layout", [](Kernel& kernel) {
    const std::string line = shape("kv=" + *rc::gen::element<std::string>("f32", "f16", "q8_0"));
    const Case dense = a_case(line), gaps = a_case(line + " layout=gaps");
    return same_bits(gaps, kernel.run(dense, make_inputs(dense, input_lists())),
                     kernel.run(gaps, make_inputs(gaps, input_lists())));
  });
}

TEST(AttentionLaws, two_runs_give_the_same_bits) {
  expect_law("determinism", "counter", [](Kernel& kernel) {
    const Case c = a_case(shape("kv=f16"));
    const Inputs inputs = make_inputs(c, input_lists());
    return same_bits(c, kernel.run(c, inputs), kernel.run(c, inputs));
  });
}

// The requirements of faults.cpp on random shapes.
Verdict keeps_duty(Kernel& kernel, const std::string& line) {
  const CaseResult r = kernel.judge(a_case(line));
  if (r.verdict.status == Status::distrust) RC_DISCARD("this shape shows nothing");
  if (r.verdict.green()) return std::nullopt;
  return Broken{fmt::format("{}: {}", to_string(r.verdict.status), r.verdict.summary), a_case(line).line()};
}

TEST(AttentionLaws, what_no_row_sees_never_shows) {
  expect_law("NaN in hidden keys, unused pages and tails", "zero_times", [](Kernel& kernel) {
    const int which = *rc::gen::inRange(0, 3);
    // Lengths that hold something hidden: 7 more keys than the window, and a last page that is not full.
    const auto rows = *rc::gen::inRange<std::int64_t>(1, 5);
    const auto window = *rc::gen::inRange<std::int64_t>(1, 60);
    const auto seed = *rc::gen::inRange<std::uint64_t>(1, 1000);
    const std::string line =
        fmt::format("attention heads=4 kv_heads=2 d=32 dtype=f32 kv=f32 q={} len={} seed={}", rows,
                    window + rows + 7, seed);
    if (which == 0)
      return keeps_duty(kernel, line + fmt::format(" mask=window window={} fault=nan_masked_key", window));
    return keeps_duty(kernel, line + (which == 1 ? " page=16 fault=poison_unused_pages"
                                                 : " batch=3 page=128 fault=poison_tails"));
  });
}

TEST(AttentionLaws, a_nan_reaches_exactly_the_rows_that_see_it) {
  expect_law("NaN in a visible key", "smear", [](Kernel& kernel) {
    const std::string mask = *rc::gen::element<std::string>("none", "causal");
    const std::string kv = *rc::gen::element<std::string>("f32", "f16", "e4m3fn");
    const std::string fault = *rc::gen::element<std::string>("nan_visible_key", "nan_visible_value");
    return keeps_duty(kernel, shape(fmt::format("mask={} kv={} fault={}", mask, kv, fault)));
  });
}

}  // namespace
}  // namespace assay::properties
