// Split over the keys: parts of the cache go through the online softmax apart, as if on different processors,
// and their partial results are merged by weight exp(top_part - top).
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/attention.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

constexpr std::int64_t kBlockKeys = kMaxBlockKeys;
constexpr std::int64_t kPartKeys = 1024;
constexpr std::int64_t kAllRows = 65536;  // of a call begin at one key

// At least two parts, so that the merge is never idle.
std::int64_t part_count(std::int64_t len) {
  return std::max<std::int64_t>(2, (len + kPartKeys - 1) / kPartKeys);
}

// parts[0] becomes the whole. A part that saw nothing (top = -inf, sum = 0) has no weight.
void merge(const Engine& engine, Stream* parts, std::int64_t count, std::int64_t stride, std::size_t dv) {
  float top = -std::numeric_limits<float>::infinity();
  for (std::int64_t s = 0; s < count; ++s) top = std::max(top, parts[s * stride].top);
  if (top == -std::numeric_limits<float>::infinity()) top = 0;
  Stream& whole = parts[0];
  const auto weight = [&](const Stream& part) { return part.top == top ? 1.0F : std::exp(part.top - top); };
  const float first = weight(whole);
  whole.sum *= first;
  engine.scale(first, whole.acc, dv);
  for (std::int64_t s = 1; s < count; ++s) {
    const Stream& part = parts[s * stride];
    if (part.sum == 0) continue;
    const float w = weight(part);
    whole.sum += w * part.sum;
    engine.add_rows(&w, part.acc, dv, 1, dv, whole.acc);
  }
  whole.top = top;
}

}  // namespace

bool attention_split_chosen(const Call& call) {
  return call.integer("q") <= 2 && call.integer("len") >= kSplitFromKeys;
}

std::string attention_split_contract(const Call& call, const Engine& engine) {
  return attention_contract(engine, kBlockKeys) + attention_dot_order(engine) +
         " merge=once split=" + std::to_string(part_count(call.integer("len")));
}

std::string attention_split_replay_contract(const Call& call, const Engine& engine) {
  const std::int64_t len = call.integer("len"), parts = part_count(len), part = (len + parts - 1) / parts;
  return attention_split_contract(call, engine) +
         attention_whole_contract(
             call, engine, kBlockKeys, kAllRows,
             "/p:f32/merge:weights/split:" + std::to_string(parts) + "/part:" + std::to_string(part));
}

void attention_split_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  const AttentionProblem problem(call);
  const std::int64_t parts = part_count(problem.len);
  const std::int64_t part_keys = (problem.len + parts - 1) / parts;
  const std::int64_t per_part = problem.q * problem.group();
  std::vector<float> queries(static_cast<std::size_t>(per_part * problem.d));
  std::vector<float> acc(static_cast<std::size_t>(parts * per_part * problem.dv));
  std::vector<float> keys(static_cast<std::size_t>(kBlockKeys * problem.d));
  std::vector<float> values(static_cast<std::size_t>(kBlockKeys * problem.dv));
  std::vector<Stream> streams(static_cast<std::size_t>(parts * per_part));  // [part][stream]
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const std::int64_t begin = visible(problem, b, 0).begin;
    const std::int64_t end = visible(problem, b, problem.q - 1).end;
    for (std::int64_t g = 0; g < problem.kv_heads; ++g) {
      for (std::int64_t s = 0; s < per_part; ++s) {
        const std::int64_t i = s / problem.group();
        const std::int64_t h = g * problem.group() + s % problem.group();
        problem.queries.read(engine, problem.query_row(b, i, h), queries.data() + s * problem.d);
        for (std::int64_t part = 0; part < parts; ++part) {
          Stream& stream = streams[static_cast<std::size_t>(part * per_part + s)];
          stream.b = b;
          stream.i = i;
          stream.h = h;
          stream.acc = acc.data() + (part * per_part + s) * problem.dv;
          stream.reset(problem.dv);
        }
      }
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t last = std::min(end, (part + 1) * part_keys);
        for (std::int64_t j = std::max(begin, part * part_keys); j < last; j += kBlockKeys) {
          KeyBlock block{j, std::min(kBlockKeys, last - j)};
          load_block(problem, engine, b, g, block, keys.data(), values.data());
          for (std::int64_t s = 0; s < per_part; ++s) {
            absorb(problem, engine, queries.data() + s * problem.d, block,
                   streams[static_cast<std::size_t>(part * per_part + s)]);
          }
        }
      }
      for (std::int64_t s = 0; s < per_part; ++s) {
        Stream* first = &streams[static_cast<std::size_t>(s)];
        merge(engine, first, parts, per_part, static_cast<std::size_t>(problem.dv));
        finish(problem, engine, *first);
      }
    }
  }
}

}  // namespace assay_cpu
