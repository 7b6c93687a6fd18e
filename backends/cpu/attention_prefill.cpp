// Prefill: tiles of queries of one head against tiles of keys; each query row keeps its own running maximum
// and sum.
#include <algorithm>

#include "backends/cpu/attention.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

constexpr std::int64_t kTileQueries = 32;
constexpr std::int64_t kTileKeys = kMaxBlockKeys;

void run(const AttentionProblem& problem, const Engine& engine, bool round_p_to_f16) {
  const std::int64_t tile = std::min(kTileQueries, problem.q);
  const std::int64_t rows = tile * problem.group();
  std::vector<float> queries(static_cast<std::size_t>(rows * problem.d));
  std::vector<float> acc(static_cast<std::size_t>(rows * problem.dv));
  std::vector<float> keys(static_cast<std::size_t>(kTileKeys * problem.d));
  std::vector<float> values(static_cast<std::size_t>(kTileKeys * problem.dv));
  std::vector<Stream> streams(static_cast<std::size_t>(rows));
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t g = 0; g < problem.kv_heads; ++g) {
      for (std::int64_t q0 = 0; q0 < problem.q; q0 += tile) {
        const std::int64_t q1 = std::min(problem.q, q0 + tile);
        const std::int64_t used = (q1 - q0) * problem.group();
        for (std::int64_t s = 0; s < used; ++s) {
          Stream& stream = streams[static_cast<std::size_t>(s)];
          stream.b = b;
          stream.i = q0 + s % (q1 - q0);
          stream.h = g * problem.group() + s / (q1 - q0);
          stream.acc = acc.data() + s * problem.dv;
          stream.reset(problem.dv);
          problem.queries.read(engine, problem.query_row(b, stream.i, stream.h),
                               queries.data() + s * problem.d);
        }
        const std::int64_t begin = visible(problem, b, q0).begin;
        const std::int64_t end = visible(problem, b, q1 - 1).end;
        for (std::int64_t j = begin; j < end; j += kTileKeys) {
          KeyBlock block{j, std::min(kTileKeys, end - j)};
          load_block(problem, engine, b, g, block, keys.data(), values.data());
          for (std::int64_t s = 0; s < used; ++s) {
            absorb(problem, engine, queries.data() + s * problem.d, block,
                   streams[static_cast<std::size_t>(s)], round_p_to_f16);
          }
        }
        for (std::int64_t s = 0; s < used; ++s) finish(problem, engine, streams[static_cast<std::size_t>(s)]);
      }
    }
  }
}

}  // namespace

bool attention_prefill_chosen(const Call& call) { return call.integer("q") > 2; }

std::string attention_prefill_contract(const Call&, const Engine& engine) {
  return attention_contract(engine, kTileKeys) + attention_dot_order(engine);
}

std::string attention_prefill_replay_contract(const Call& call, const Engine& engine) {
  return attention_prefill_contract(call, engine) +
         attention_whole_contract(call, engine, kTileKeys, kTileQueries, "/p:f32");
}

void attention_prefill_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  run(AttentionProblem(call), engine, false);
}

bool attention_prefill_p_f16_chosen(const Call&) { return false; }  // only when asked for

std::string attention_prefill_p_f16_contract(const Call&, const Engine& engine) {
  return attention_contract(engine, kTileKeys, "f16") + attention_dot_order(engine);
}

std::string attention_prefill_p_f16_replay_contract(const Call& call, const Engine& engine) {
  return attention_prefill_p_f16_contract(call, engine) +
         attention_whole_contract(call, engine, kTileKeys, kTileQueries, "/p:f16");
}

void attention_prefill_p_f16_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  run(AttentionProblem(call), engine, true);
}

}  // namespace assay_cpu
