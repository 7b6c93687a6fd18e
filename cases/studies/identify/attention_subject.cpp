#include "cases/studies/identify/attention_subject.hpp"

#include <fmt/format.h>

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
  if (g.dtype != "f16" && g.dtype != "bf16") refuse("dtype=" + g.dtype + "; allowed: f16, bf16");
  if (g.k_format != g.dtype || g.v_format != g.dtype)
    refuse(fmt::format("k={} v={} beside dtype={}; allowed: all three of one format", g.k_format, g.v_format,
                       g.dtype));
  require_attention_schedule(g, {});
}

std::vector<float> floats(std::span<const double> x) { return {x.begin(), x.end()}; }

std::vector<AttentionHead> heads_of(const AttentionProblem& problem, std::span<const double> got) {
  const AttentionGeometry& g = problem.geometry();
  std::vector<AttentionHead> heads;
  for (std::int64_t b = 0; b < g.batch; ++b) {
    for (std::int64_t h = 0; h < g.heads; ++h) {
      AttentionHead head{g.rows, problem.length(b), g.d, g.dv, g.dtype, g.scale, {}, {}, {}, {}, {}};
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

AttentionAsk attention_subject(const Case& given, Workers& workers) {
  require_modelled(attention_geometry(given.attributes));
  return [given, &workers](std::uint64_t seed) -> std::optional<AttentionAnswer> {
    Case c = given;
    c.seed = seed;
    const Inputs inputs = make_inputs(c, input_lists());
    const std::optional<KernelAnswer> called = call_kernel(c, inputs, workers);
    if (!called) return std::nullopt;
    const AttentionProblem problem(c.attributes, inputs.set);
    return AttentionAnswer{c.line(), heads_of(problem, called->got), called->contract, called->path,
                           called->kernels};
  };
}

}  // namespace assay
