// Decode: few queries against a long cache. One pass over K and V per kv head; the heads of a group and the
// queries of a request share each block while it is in the L1 cache.
#include <algorithm>

#include "backends/cpu/attention.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

constexpr std::int64_t kBlockKeys = 32;
constexpr std::int64_t kAllRows = 65536;  // of a call begin at one key

}  // namespace

bool attention_decode_chosen(const Call& call) {
  return call.integer("q") <= 2 && call.integer("len") < kSplitFromKeys;
}

std::string attention_decode_contract(const Call&, const Engine& engine) {
  return attention_contract(engine, kBlockKeys) + attention_dot_order(engine);
}

std::string attention_decode_replay_contract(const Call& call, const Engine& engine) {
  return attention_decode_contract(call, engine) +
         attention_whole_contract(call, engine, kBlockKeys, kAllRows, "/p:f32");
}

namespace {

void decode(const AttentionProblem& problem, const Engine& engine) {
  const std::int64_t streams_per_head = problem.q * problem.group();
  std::vector<float> queries(static_cast<std::size_t>(streams_per_head * problem.d));
  std::vector<float> acc(static_cast<std::size_t>(streams_per_head * problem.dv));
  std::vector<float> keys(static_cast<std::size_t>(kBlockKeys * problem.d));
  std::vector<float> values(static_cast<std::size_t>(kBlockKeys * problem.dv));
  std::vector<Stream> streams(static_cast<std::size_t>(streams_per_head));
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const Interval first = visible(problem, b, 0);
    const Interval last = visible(problem, b, problem.q - 1);
    for (std::int64_t g = 0; g < problem.kv_heads; ++g) {
      for (std::int64_t s = 0; s < streams_per_head; ++s) {
        Stream& stream = streams[static_cast<std::size_t>(s)];
        stream.b = b;
        stream.i = s / problem.group();
        stream.h = g * problem.group() + s % problem.group();
        stream.acc = acc.data() + s * problem.dv;
        stream.reset(problem.dv);
        problem.queries.read(engine, problem.query_row(b, stream.i, stream.h),
                             queries.data() + s * problem.d);
      }
      for (std::int64_t j = first.begin; j < last.end; j += kBlockKeys) {
        KeyBlock block{j, std::min(kBlockKeys, last.end - j)};
        load_block(problem, engine, b, g, block, keys.data(), values.data());
        for (std::int64_t s = 0; s < streams_per_head; ++s) {
          absorb(problem, engine, queries.data() + s * problem.d, block,
                 streams[static_cast<std::size_t>(s)]);
        }
      }
      for (Stream& stream : streams) finish(problem, engine, stream);
    }
  }
}

}  // namespace

void attention_decode_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  decode(AttentionProblem(call), engine);
}

// V in tq3_0 is a look-up in its codebook inside the loop; the inverse transform is linear, and made once per
// output row.
bool attention_deferred_chosen(const Call&) { return false; }

void attention_deferred_check(const Call& call) {
  attention_check(call);
  if (call.text("rotate") == "qkv") throw Unsupported("rotate=qkv asks for a second transform of its own");
  (void)RowReader(call, "v", call.text("v")).rotated();
}

std::string attention_deferred_contract(const Call&, const Engine& engine) {
  return "v_inverse=row " + attention_contract(engine, kBlockKeys) + attention_dot_order(engine);
}

std::string attention_deferred_replay_contract(const Call& call, const Engine& engine) {
  return attention_deferred_contract(call, engine) +
         attention_whole_contract(call, engine, kBlockKeys, kAllRows, "/p:f32/unrotate:ascending");
}

void attention_deferred_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  AttentionProblem problem(call);
  problem.values = problem.values.rotated();
  problem.unrotate = true;
  decode(problem, engine);
}

}  // namespace assay_cpu
