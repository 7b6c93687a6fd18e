// Each fill is finite, reproducible, and shaped as its row says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <set>

#include "cases/fills/draws.hpp"
#include "cases/lists.hpp"
#include "harness/case.hpp"
#include "harness/input_lists.hpp"
#include "harness/inputs.hpp"
#include "reference/fingerprint.hpp"

namespace assay {
namespace {

Case a_case(const Fill& f, std::uint64_t seed) {
  const std::string op_name = f.op.empty()
                                  ? "softmax rows=4 cols=300 dtype=f16"
                                  : "attention heads=4 kv_heads=2 d=64 len=160 q=3 mask=causal page=16";
  Case c = expand(parse_case(op_name))[0];
  c.fill = f.name, c.seed = seed;
  return c;
}

TEST(Fills, every_fill_is_finite_and_a_function_of_its_seed) {
  for (const auto& f : fills()) {
    const Inputs first = make_inputs(a_case(f, 3), input_lists()),
                 again = make_inputs(a_case(f, 3), input_lists()),
                 other = make_inputs(a_case(f, 4), input_lists());
    bool differs = false;
    for (const auto& [name, tensor] : first.set) {
      for (const double x : decode_tensor(tensor)) ASSERT_TRUE(std::isfinite(x)) << f.name << " " << name;
      for (std::size_t p = 0; p < tensor.planes.size(); ++p) {
        EXPECT_EQ(tensor.planes[p].bytes, again.set.at(name).planes[p].bytes) << f.name << " " << name;
        differs = differs || tensor.planes[p].bytes != other.set.at(name).planes[p].bytes;
      }
    }
    EXPECT_TRUE(differs) << f.name << " ignores its seed";
  }
}

// Over the bytes of all planes, in the order of the tensors' names.
std::uint64_t digest(const TensorSet& set) {
  Fingerprint all;
  for (const auto& [name, tensor] : set)
    for (const auto& plane : tensor.planes) all.add(plane.bytes.data(), plane.bytes.size());
  return all.value();
}

// A line in a report stands for the same bytes in every version: who changes a fill's numbers on purpose
// changes them here (the failing test prints the new list).
TEST(Fills, a_line_stands_for_the_same_bytes_in_every_version) {
  const std::vector<std::string> lines = {
      "attention heads=4 kv_heads=2 d=64 len=160 q=3 mask=causal page=16",
      "attention batch=2 heads=6 kv_heads=2 d=32 dv=64 len=70 q=2 kv=q8_0 mask=window window=33 "
      "lengths=ragged sinks=yes "
      "alibi=yes",
      "attention heads=2 d=32 len=90 mask=random kv=e4m3fn_tok dtype=bf16",
      "attention batch=2 heads=4 kv_heads=2 d=32 len=40 q=2 page=8 mask=window window=2 scale=0.2",
      "attention heads=2 d=32 len=2 q=3 mask=causal",
      "softmax rows=4 cols=300 dtype=f16",
      "matmul m=3 n=5 k=96 a=f32 b=q4_0 dtype=f32",
      "quantize rows=3 cols=128 to=e4m3fn_tok dtype=f32",
      "quantize rows=3 cols=64 to=e2m1 dtype=f32",
      "dequantize rows=3 cols=128 from=mxfp4",
  };
  static const std::map<std::string, std::uint64_t> kDigests = {
#include "cases/fills/digests.inc"
  };
  std::size_t found = 0;
  for (const auto& f : fills()) {
    std::uint64_t h = 0;
    for (const auto& line : lines) {
      Case c = expand(parse_case(line))[0];
      if (!f.op.empty() && f.op != c.op->name) continue;
      if (f.op.empty() && c.op->name == "attention" &&
          find_fill(input_lists(), f.name, "attention").op == "attention")
        continue;
      c.fill = f.name, c.seed = 11;
      h = h * 31 + digest(make_inputs(c, input_lists()).set);
    }
    const std::string name = (f.op.empty() ? "" : std::string(f.op) + ":") + std::string(f.name);
    const auto known = kDigests.find(name);
    found += known != kDigests.end();
    EXPECT_TRUE(known == kDigests.end() || known->second == h)
        << "{\"" << name << "\", 0x" << std::hex << h << "ULL},";
  }
  EXPECT_EQ(found, kDigests.size());  // a new fill may come without, none may go
}

TEST(Fills, names_are_unique_for_each_op_and_unknown_ones_are_refused) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const auto& f : fills()) EXPECT_TRUE(seen.insert({f.op, f.name}).second) << f.op << " " << f.name;
  EXPECT_THROW((void)find_fill(input_lists(), "nedle", "attention"), InputError);
  EXPECT_THROW((void)find_fill(input_lists(), "needle", "softmax"), InputError);
  EXPECT_EQ(find_fill(input_lists(), "ramp", "attention").op, "attention");
  EXPECT_EQ(find_fill(input_lists(), "ramp", "softmax").op, "");
}

TEST(Fills, drawing_a_whole_array_gives_the_bits_of_drawing_one_by_one) {
  for (const std::uint64_t seed : {0u, 1u, 77u}) {
    const Stream stream(seed, "x");
    std::vector<float> drawn(100'003);
    draw_gaussian(stream, 0, drawn);
    for (std::size_t i = 0; i < drawn.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(drawn[i]),
                std::bit_cast<std::uint32_t>(static_cast<float>(stream.gaussian(i))))
          << "seed " << seed << ", element " << i;
    std::vector<float> rest(17);
    draw_gaussian(stream, 1234, rest);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), drawn.begin() + 1234));
  }
}

// The numbers of a fill before any format rounds them.
Values values_of(const Fill& f, const std::string& line, std::uint64_t seed) {
  const Case c = expand(parse_case(line))[0];
  const std::vector<TensorSpec> tensors = c.op->tensors(c.attributes);
  TensorSet indices;
  if (c.op->indices) c.op->indices(c.attributes, seed, indices);
  Values values;
  f.make({*c.op, c.attributes, tensors, indices, seed}, values);
  return values;
}

// Whether a kernel could tell a tensor by its look: few values, one that most elements have, a row again, or
// rows of one value.
std::string look(const std::vector<float>& x, std::size_t columns) {
  std::map<float, std::size_t> counts;  // by magnitude
  for (const float e : x) ++counts[std::fabs(e)];
  std::size_t most = 0, again = 0, flat = 0;
  for (const auto& [value, n] : counts) most = std::max(most, n);
  const std::size_t rows = x.size() / columns;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto row = x.begin() + static_cast<std::ptrdiff_t>(r * columns),
               end = row + static_cast<std::ptrdiff_t>(columns);
    again += r > 0 && std::equal(row, end, row - static_cast<std::ptrdiff_t>(columns));
    flat += std::adjacent_find(row, end, std::not_equal_to<>()) == end;
  }
  if (16 * counts.size() < x.size()) return fmt::format("{} values in {} elements", counts.size(), x.size());
  if (2 * most > x.size() + 64) return fmt::format("one value in {} of {} elements", most, x.size());
  if (4 * again > rows) return fmt::format("{} of {} rows are the one before", again, rows);
  return 2 * flat > rows ? fmt::format("{} of {} rows have one value", flat, rows) : "";
}

// Of a tensor of one row there is no other row to stand among: these are what their rows are.
const std::set<std::string, std::less<>> kOneRow = {"embedded_constant",   "embedded_integers",
                                                    "embedded_two_levels", "embedded_one_per_tile",
                                                    "embedded_sparse",     "embedded_below_powers"};

TEST(Fills, no_probe_of_a_made_suite_is_told_by_the_look_of_a_tensor_alone) {
  const std::vector<std::string> lines = {
      "attention heads=4 kv_heads=2 d=64 len=160 q=3 kv=f32 dtype=f32 mask=causal page=16",
      "attention heads=1 kv_heads=1 d=64 len=257 kv=f32 dtype=f32",
      "attention batch=2 heads=2 kv_heads=1 d=128 dv=64 len=64 q=2 kv=f32 dtype=f32",
      "softmax rows=4 cols=300 dtype=f32",
      "softmax rows=33 cols=64 dtype=f32",
      "softmax rows=1 cols=300 dtype=f32",
      "matmul m=2 n=5 k=96 a=f32 b=f32 dtype=f32",
  };
  const auto embedded_one = [](const Fill& bare) {
    return std::ranges::any_of(fills(),
                               [&](const Fill& f) { return f.bare == bare.name && f.op == bare.op; });
  };
  std::size_t told = 0;
  for (const Fill& f : fills())
    for (const std::string& line : lines) {
      const std::string op = line.substr(0, line.find(' '));
      if (f.op.empty() ? op == "attention" && find_fill(input_lists(), f.name, op).op == op : f.op != op)
        continue;
      for (const auto& [name, x] : values_of(f, line, 5)) {
        const Case c = expand(parse_case(line))[0];
        const auto tensors = c.op->tensors(c.attributes);
        const auto& shape = std::ranges::find(tensors, name, &TensorSpec::name)->shape;
        if (x.size() < 64) continue;
        const std::string seen = look(x, static_cast<std::size_t>(shape.back()));
        const bool one_row = static_cast<std::int64_t>(x.size()) == shape.back();
        if (embedded_one(f)) {
          told += !seen.empty();  // asked too, beside the embedded one
        } else if (!one_row || !kOneRow.contains(f.name)) {
          EXPECT_EQ(seen, "") << f.name << " " << name << " of " << line;
        }
      }
    }
  EXPECT_GT(told, 30);
}

// The needle must be found through the page table: with V = 1 at one key only, the outputs say whether it
// was.
TEST(Fills, a_needle_is_aimed_through_the_page_table) {
  const Case c = a_case(find_fill(input_lists(), "needle", "attention"), 5);
  const auto truth =
      c.op->truth(c.attributes, make_inputs(c, input_lists()).set, Contract::parse("", c.op->contract));
  for (const double x : truth[0].value) {
    EXPECT_GT(x, 0.2);  // +ln N against N keys near 0: half of the weight, give or take the noise
    EXPECT_LT(x, 0.8);
  }
}

}  // namespace
}  // namespace assay
