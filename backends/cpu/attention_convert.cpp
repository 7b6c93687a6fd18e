// What an engine without a kernel for these K and V types does: convert the whole cache to f16 first, then
// run the f16 kernel. Right numbers up to the conversion, another path: it shows in the trace under its own
// name, with the temporary memory that it takes.
#include <algorithm>
#include <cstring>

#include "backends/cpu/attention.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

// Rows of one cache tensor in f16, for the rows that some request uses.
class HalfCache {
 public:
  HalfCache(const RowReader& source, const Engine& engine)
      : source_(source),
        engine_(engine),
        width_(static_cast<std::size_t>(source.length())),
        codes_(static_cast<std::size_t>(source.rows()) * width_),
        row_(width_) {}
  void convert(std::int64_t row) {
    source_.read(engine_, row, row_.data());
    engine_.to_f16(row_.data(), codes_.data() + static_cast<std::size_t>(row) * width_, width_);
  }
  void read(std::int64_t row, float* out) const {
    engine_.from_f16(codes_.data() + static_cast<std::size_t>(row) * width_, out, width_);
  }
  std::size_t bytes() const { return codes_.size() * sizeof(std::uint16_t); }

 private:
  const RowReader& source_;
  const Engine& engine_;
  std::size_t width_;
  std::vector<std::uint16_t> codes_;
  std::vector<float> row_;
};

constexpr std::int64_t kBlockKeys = kMaxBlockKeys;

}  // namespace

bool attention_convert_f16_chosen(const Call&) { return false; }  // only when asked for

std::string attention_convert_f16_contract(const Call&, const Engine& engine) {
  return "convert=f16 " + attention_contract(engine, kBlockKeys) + attention_dot_order(engine);
}

std::string attention_convert_f16_replay_contract(const Call& call, const Engine& engine) {
  return attention_convert_f16_contract(call, engine) +
         attention_whole_contract(call, engine, kBlockKeys, 1, "/p:f32");
}

void attention_convert_f16_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  const AttentionProblem problem(call);
  HalfCache keys(problem.keys, engine);
  HalfCache values(problem.values, engine);
  trace.note("temporary_bytes", std::to_string(keys.bytes() + values.bytes()));
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t j = 0; j < problem.length(b); ++j) {
      for (std::int64_t g = 0; g < problem.kv_heads; ++g) {
        keys.convert(problem.key_row(b, j, g));
        values.convert(problem.key_row(b, j, g));
      }
    }
  }
  std::vector<float> query(static_cast<std::size_t>(problem.d));
  std::vector<float> acc(static_cast<std::size_t>(problem.dv));
  std::vector<float> key_rows(static_cast<std::size_t>(kBlockKeys * problem.d));
  std::vector<float> value_rows(static_cast<std::size_t>(kBlockKeys * problem.dv));
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t i = 0; i < problem.q; ++i) {
      const Interval seen = visible(problem, b, i);
      for (std::int64_t h = 0; h < problem.heads; ++h) {
        Stream stream{b, i, h, 0, 0, acc.data()};
        stream.reset(problem.dv);
        problem.queries.read(engine, problem.query_row(b, i, h), query.data());
        for (std::int64_t j = seen.begin; j < seen.end; j += kBlockKeys) {
          KeyBlock block{j, std::min(kBlockKeys, seen.end - j), key_rows.data(), value_rows.data()};
          for (std::int64_t r = 0; r < block.count; ++r) {
            const std::int64_t row = problem.key_row(b, j + r, h / problem.group());
            keys.read(row, key_rows.data() + r * problem.d);
            values.read(row, value_rows.data() + r * problem.dv);
          }
          absorb(problem, engine, query.data(), block, stream);
        }
        finish(problem, engine, stream);
      }
    }
  }
}

}  // namespace assay_cpu
