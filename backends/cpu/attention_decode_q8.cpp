// Decode without decoding K: q is quantised to blocks of 32 int8 with an f16 scale, and each block's product
// with a q8_0 or q4_0 block of K is an exact int32 dot, times both scales in f32. V is decoded as elsewhere.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/attention.hpp"
#include "backends/cpu/codecs.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

constexpr std::int64_t kBlockKeys = 32;
constexpr std::int64_t kElements = 32;

struct QuantisedQuery {
  std::vector<std::int8_t> codes;
  std::vector<float> scales;  // per block; what f16 holds of absmax / 127
};

QuantisedQuery quantise(const float* q, std::int64_t d) {
  QuantisedQuery result;
  for (std::int64_t first = 0; first < d; first += kElements) {
    float absmax = 0;
    for (std::int64_t i = first; i < first + kElements; ++i) absmax = std::fmax(absmax, std::fabs(q[i]));
    const float step = absmax / 127.0F;
    const float inverse = step == 0 ? 0.0F : 1.0F / step;
    bool nan = false;
    for (std::int64_t i = first; i < first + kElements; ++i) {
      nan = nan || std::isnan(q[i]);
      result.codes.push_back(static_cast<std::int8_t>(round_to_integer(q[i] * inverse, -127, 127)));
    }
    result.scales.push_back(nan ? NAN : f16_value(f16_code(step)));
  }
  return result;
}

// One block of K as int8 codes; returns its scale. Both layouts begin with the f16 scale.
float read_block(bool q4, const std::byte* block, std::int8_t* codes) {
  std::uint16_t scale;
  std::memcpy(&scale, block, sizeof scale);
  if (q4) {
    for (int j = 0; j < 16; ++j) {
      const int pair = std::to_integer<int>(block[2 + j]);
      codes[j] = static_cast<std::int8_t>((pair & 0xF) - 8);
      codes[j + 16] = static_cast<std::int8_t>((pair >> 4) - 8);
    }
  } else {
    std::memcpy(codes, block + 2, kElements);
  }
  return f16_value(scale);
}

}  // namespace

bool attention_decode_q8_chosen(const Call&) { return false; }  // only when asked for: it rounds q

std::string attention_decode_q8_contract(const Call&, const Engine& engine) {
  return "q=q8_0 " + attention_contract(engine, kBlockKeys);
}

// A block's codes are summed as integers; the two scales' product is exact, and that with the sum is one
// rounding.
std::string attention_decode_q8_replay_contract(const Call& call, const Engine& engine) {
  return attention_decode_q8_contract(call, engine) +
         attention_whole_contract(call, engine, kBlockKeys, 1, "/p:f32/q:q8_0/dot_block:32", false);
}

void attention_decode_q8_check(const Call& call) {
  attention_check(call);
  if (call.text("k") != "q8_0" && call.text("k") != "q4_0") {
    throw Unsupported("decode_q8 multiplies blocks of q8_0 and q4_0, not k=" + std::string(call.text("k")));
  }
}

void attention_decode_q8_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  const AttentionProblem problem(call);
  const assay_tensor& k = call.input("k");
  const bool q4 = call.text("k") == "q4_0";
  const std::int64_t block_bytes = q4 ? 18 : 34;
  const std::int64_t blocks = problem.d / kElements;
  std::vector<float> query(static_cast<std::size_t>(problem.d));
  std::vector<float> acc(static_cast<std::size_t>(problem.dv));
  std::vector<float> values(static_cast<std::size_t>(kBlockKeys * problem.dv));
  float scores[kBlockKeys];
  std::int8_t codes[kElements];
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t i = 0; i < problem.q; ++i) {
      const Interval seen = visible(problem, b, i);
      for (std::int64_t h = 0; h < problem.heads; ++h) {
        const std::int64_t g = h / problem.group();
        Stream stream{b, i, h, 0, 0, acc.data()};
        stream.reset(problem.dv);
        problem.queries.read(engine, problem.query_row(b, i, h), query.data());
        const QuantisedQuery quantised = quantise(query.data(), problem.d);
        for (std::int64_t j = seen.begin; j < seen.end; j += kBlockKeys) {
          KeyBlock block{j, std::min(kBlockKeys, seen.end - j), nullptr, values.data()};
          for (std::int64_t r = 0; r < block.count; ++r) {
            const std::int64_t row = problem.key_row(b, j + r, g);
            const std::byte* at = row_bytes(k, row);
            float score = 0;
            for (std::int64_t n = 0; n < blocks; ++n, at += block_bytes) {
              const float scale = read_block(q4, at, codes) * quantised.scales[static_cast<std::size_t>(n)];
              const std::int32_t dot =
                  engine.dot_int8(quantised.codes.data() + n * kElements, codes, kElements);
              score += static_cast<float>(dot) * scale;
            }
            scores[r] = score;
            problem.values.read(engine, row, values.data() + r * problem.dv);
          }
          block.scores = scores;
          absorb(problem, engine, query.data(), block, stream);
        }
        finish(problem, engine, stream);
      }
    }
  }
}

}  // namespace assay_cpu
