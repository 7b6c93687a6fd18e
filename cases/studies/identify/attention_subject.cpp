#include "cases/studies/identify/attention_subject.hpp"

#include <fmt/format.h>

#include <array>

#include "cases/lists.hpp"
#include "cases/studies/identify/kernel_call.hpp"
#include "harness/inputs.hpp"
#include "reference/ops/attention/problem.hpp"
#include "reference/ops/attention/replayed.hpp"

namespace assay {
namespace {

void require_modelled(const AttentionGeometry& g) {
  const auto refuse = [](const std::string& what) {
    throw InputError(InputErrorKind::bad_value, "identify: no schedule of attention has a step for " + what);
  };
  constexpr std::array<std::string_view, 5> kNumbers = {"f32", "f16", "bf16", "e4m3fn", "e5m2"};
  for (const std::string& format : {g.k_format, g.v_format})
    if (std::ranges::find(kNumbers, format) == kNumbers.end())
      refuse(fmt::format("k={} v={}; allowed: f32, f16, bf16, e4m3fn, e5m2", g.k_format, g.v_format));
  require_attention_schedule(g, {});
}
bool one_format(const AttentionGeometry& g) {
  return g.dtype != "f32" && g.k_format == g.dtype && g.v_format == g.dtype;
}

int significant_bits(const std::string& name) { return scalar_format(name).fraction_bits + 1; }

// The design's inputs in place of the drawn ones; false where keys do not lie in their order, or the first
// two may be hidden.
bool craft_inputs(AttentionDesign design, std::uint64_t seed, const AttentionGeometry& g, TensorSet& set) {
  if (design == AttentionDesign::drawn) return true;
  if (g.page != 0 || g.ragged || g.mask == MaskKind::window || g.mask == MaskKind::random ||
      g.length < g.rows + 2)
    return false;
  const AttentionLayout layout{g.batch,
                               g.rows,
                               g.heads,
                               g.kv_heads,
                               g.length,
                               g.d,
                               g.dv,
                               g.scale,
                               significant_bits(g.dtype),
                               std::min(8, significant_bits(g.v_format))};
  std::array<std::vector<float>, 3> numbers;
  constexpr std::array<const char*, 3> kNames = {"q", "k", "v"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const std::vector<double> decoded = decode_tensor(set.at(kNames[i]));
    numbers[i].assign(decoded.begin(), decoded.end());
  }
  craft(design, seed, layout, numbers[0], numbers[1], numbers[2]);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const Encoded& old = set.at(kNames[i]);
    set.insert_or_assign(kNames[i], encode_tensor(format(old.format), old.shape, numbers[i]));
  }
  return true;
}

std::vector<float> floats(std::span<const double> x) { return {x.begin(), x.end()}; }

std::vector<AttentionHead> heads_of(const AttentionProblem& problem, std::span<const double> got) {
  const AttentionGeometry& g = problem.geometry();
  std::vector<AttentionHead> heads;
  for (std::int64_t b = 0; b < g.batch; ++b) {
    for (std::int64_t h = 0; h < g.heads; ++h) {
      AttentionHead head{g.rows,
                         problem.length(b),
                         g.d,
                         g.dv,
                         one_format(g) ? g.dtype : "f32",
                         g.dtype,
                         g.scale,
                         {},
                         {},
                         {},
                         {},
                         {}};
      std::vector<double> k(static_cast<std::size_t>(head.keys * g.d)),
          v(static_cast<std::size_t>(head.keys * g.dv));
      problem.decode_k(b, problem.kv_head(h), 0, head.keys, k.data());
      problem.decode_v(b, problem.kv_head(h), 0, head.keys, v.data());
      head.k = floats(k), head.v = floats(v);
      for (std::int64_t i = 0; i < g.rows; ++i) {
        const auto q = problem.q(b, i, h);
        head.q.insert(head.q.end(), q.begin(), q.end());
        const auto at =
            got.subspan(static_cast<std::size_t>(problem.out_index(b, i, h)), static_cast<std::size_t>(g.dv));
        head.got.insert(head.got.end(), at.begin(), at.end());
        if (g.mask == MaskKind::none) continue;
        for (std::int64_t j = 0; j < head.keys; ++j) head.visible.push_back(problem.visible(b, i, j) ? 1 : 0);
      }
      heads.push_back(std::move(head));
    }
  }
  return heads;
}

}  // namespace

AttentionAsk attention_subject(const Case& given, const Kernels& source) {
  require_modelled(attention_geometry(given.attributes));
  return [given, source](std::uint64_t seed, AttentionDesign design) -> std::optional<AttentionAnswer> {
    Case c = given;
    c.seed = seed;
    Inputs inputs = make_inputs(c, input_lists());
    if (!craft_inputs(design, seed, attention_geometry(c.attributes), inputs.set)) return std::nullopt;
    // Of what was kept there may be no more than the first draws, and none of a design.
    if ((seed > 2 || design != AttentionDesign::drawn) && source.answers != nullptr &&
        source.answers->reads() && !source.answers->has(c, inputs))
      return std::nullopt;
    const std::optional<KernelAnswer> called = call_kernel(c, inputs, source);
    if (!called) return std::nullopt;
    const AttentionProblem problem(c.attributes, inputs.set);
    return AttentionAnswer{c.line(), heads_of(problem, called->got), called->contract, called->path,
                           called->kernels};
  };
}

}  // namespace assay
