#include "backends/cpu/attention.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "backends/cpu/codecs.hpp"
#include "backends/cpu/operands.hpp"
#include "backends/cpu/ops.hpp"
#include "backends/plugin/attention.hpp"

namespace assay_cpu {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

const assay_tensor* optional_input(const Call& call, bool wanted, std::string_view name) {
  return wanted ? &call.input(name) : nullptr;
}

}  // namespace

AttentionProblem::AttentionProblem(const Call& call)
    : batch(call.integer("batch")),
      heads(call.integer("heads")),
      kv_heads(call.integer("kv_heads")),
      d(call.integer("d")),
      dv(call.integer("dv")),
      q(call.integer("q")),
      len(call.integer("len")),
      page(call.integer("page")),
      scale(static_cast<float>(call.real("scale"))),
      softcap(static_cast<float>(call.real("softcap"))),
      causal(call.text("mask") == "causal" || call.text("mask") == "window"),
      window(call.text("mask") == "window" ? call.integer("window") : 0),
      mask(optional_input(call, call.text("mask") == "random", "mask")),
      lengths(optional_input(call, call.text("lengths") == "ragged", "lengths")),
      page_table(optional_input(call, page > 0, "page_table")),
      sinks(optional_input(call, call.yes("sinks"), "sinks")),
      slopes(optional_input(call, call.yes("alibi"), "slopes")),
      unrotate(call.text("rotate") == "qkv"),
      dtype(call.text("dtype")),
      queries(call, "q", call.text("dtype")),
      keys(call, "k", call.text("k")),
      values(call, "v", call.text("v")),
      out(call.output("out")) {
  if (scale == 0) scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d)));
}

std::int64_t AttentionProblem::length(std::int64_t b) const { return lengths ? int32_at(*lengths, b) : len; }

std::int64_t AttentionProblem::key_row(std::int64_t b, std::int64_t j, std::int64_t g) const {
  if (page_table == nullptr) return (b * len + j) * kv_heads + g;
  const std::int64_t pages_per_request = (len + page - 1) / page;
  const std::int64_t physical = int32_at(*page_table, b * pages_per_request + j / page);
  return (physical * page + j % page) * kv_heads + g;
}

Interval visible(const AttentionProblem& problem, std::int64_t b, std::int64_t i) {
  const std::int64_t length = problem.length(b);
  const std::int64_t position = length - problem.q + i;
  Interval keys{0, length};
  if (problem.causal) keys.end = std::clamp<std::int64_t>(position + 1, 0, length);
  if (problem.window > 0) keys.begin = std::clamp<std::int64_t>(position - problem.window + 1, 0, keys.end);
  return keys;
}

void Stream::reset(std::int64_t width) {
  top = kMinusInfinity;
  sum = 0;
  std::fill(acc, acc + width, 0.0F);
}

void load_block(const AttentionProblem& problem, const Engine& engine, std::int64_t b, std::int64_t g,
                KeyBlock& block, float* keys, float* values) {
  for (std::int64_t j = 0; j < block.count; ++j) {
    const std::int64_t row = problem.key_row(b, block.first + j, g);
    problem.keys.read(engine, row, keys + j * problem.d);
    problem.values.read(engine, row, values + j * problem.dv);
  }
  block.keys = keys;
  block.values = values;
}

void absorb(const AttentionProblem& problem, const Engine& engine, const float* query, const KeyBlock& block,
            Stream& stream, bool round_p_to_f16) {
  const Interval seen = visible(problem, stream.b, stream.i);
  const std::int64_t begin = std::max(seen.begin, block.first);
  const std::int64_t end = std::min(seen.end, block.first + block.count);
  if (begin >= end) return;

  // Runs of visible keys; one run unless the mask is random.
  Interval runs[kMaxBlockKeys];
  std::int64_t run_count = 0;
  if (problem.mask == nullptr) {
    runs[run_count++] = {begin, end};
  } else {
    for (std::int64_t j = begin; j < end; ++j) {
      if (int8_at(*problem.mask, stream.i * problem.len + j) == 0) continue;
      if (run_count > 0 && runs[run_count - 1].end == j) {
        ++runs[run_count - 1].end;
      } else {
        runs[run_count++] = {j, j + 1};
      }
    }
    if (run_count == 0) return;
  }

  float weights[kMaxBlockKeys];
  std::size_t n = 0;
  const std::size_t d = static_cast<std::size_t>(problem.d);
  const std::size_t dv = static_cast<std::size_t>(problem.dv);
  const float position = static_cast<float>(problem.length(stream.b) - problem.q + stream.i);
  const float slope = problem.slopes ? f32_at(*problem.slopes, stream.h) : 0;
  for (std::int64_t r = 0; r < run_count; ++r) {
    const std::size_t count = static_cast<std::size_t>(runs[r].end - runs[r].begin);
    float* scores = weights + n;
    if (block.scores != nullptr) {
      std::copy_n(block.scores + (runs[r].begin - block.first), count, scores);
    } else {
      engine.dot_rows(query, block.keys + (runs[r].begin - block.first) * problem.d, d, count, d, scores);
    }
    engine.scale(problem.scale, scores, count);
    if (problem.softcap > 0) {
      for (std::size_t j = 0; j < count; ++j)
        scores[j] = problem.softcap * std::tanh(scores[j] / problem.softcap);
    }
    if (problem.slopes) {
      for (std::size_t j = 0; j < count; ++j) {
        scores[j] -=
            slope * std::fabs(position - static_cast<float>(runs[r].begin + static_cast<std::int64_t>(j)));
      }
    }
    n += count;
  }

  const float block_top = engine.max(weights, n);
  if (block_top > stream.top) {
    if (stream.top != kMinusInfinity) {  // nothing to rescale before the first finite logit
      const float factor = std::exp(stream.top - block_top);
      stream.sum *= factor;
      engine.scale(factor, stream.acc, dv);
    }
    stream.top = block_top;
  }
  // While every logit so far is -inf, or NaN hides the maximum, any finite shift gives 0 for -inf and NaN for
  // NaN.
  const float shift = stream.top == kMinusInfinity ? 0.0F : stream.top;
  stream.sum += engine.exp_shift(weights, shift, weights, n);
  if (round_p_to_f16) {
    for (std::size_t j = 0; j < n; ++j) weights[j] = f16_value(f16_code(weights[j]));
  }
  // A block's own sum first, then onto the accumulator: rounding errors grow with the number of blocks, not
  // of keys.
  float block_out[kLargestHead];
  std::fill(block_out, block_out + dv, 0.0F);
  const float* w = weights;
  for (std::int64_t r = 0; r < run_count; ++r) {
    const std::size_t count = static_cast<std::size_t>(runs[r].end - runs[r].begin);
    engine.add_rows(w, block.values + (runs[r].begin - block.first) * problem.dv, dv, count, dv, block_out);
    w += count;
  }
  constexpr float kOne = 1;
  engine.add_rows(&kOne, block_out, dv, 1, dv, stream.acc);
}

void finish(const AttentionProblem& problem, const Engine& engine, Stream& stream) {
  const std::size_t dv = static_cast<std::size_t>(problem.dv);
  const std::int64_t row = problem.query_row(stream.b, stream.i, stream.h);
  if (problem.sinks && !(stream.sum == 0 && stream.top == kMinusInfinity)) {
    const float sink = f32_at(*problem.sinks, stream.h);
    if (sink > stream.top) {
      const float factor = std::exp(stream.top - sink);
      stream.sum *= factor;
      engine.scale(factor, stream.acc, dv);
      stream.top = sink;
    }
    stream.sum += std::exp(sink - stream.top);
  }
  if (stream.sum == 0) {
    std::fill(stream.acc, stream.acc + dv, 0.0F);
  } else {
    engine.scale(1.0F / stream.sum, stream.acc, dv);
  }
  if (problem.unrotate) wht_row(stream.acc, problem.dv, 32, kTq3Signs, true);
  write_row(engine, problem.dtype, stream.acc, problem.dv, mutable_row(problem.out, row));
}

void attention_check(const Call& call) {
  const std::string_view dtype = call.text("dtype");
  check_dtype(dtype);
  check_readable(call, "q", dtype);
  check_readable(call, "k", call.text("k"));
  check_readable(call, "v", call.text("v"));
  attention_shape_check(call, kLargestHead);
}

// A logit is stored before the maximum is subtracted.
std::string attention_contract(const Engine& engine, std::int64_t tile, std::string_view p) {
  // Of a tile's weights each lane of exp_shift adds its share, and then the lanes are added as a tree.
  const std::int64_t lanes = engine.exp_lanes;
  const std::int64_t additions =
      (tile + lanes - 1) / lanes - 1 + std::bit_width(static_cast<std::uint64_t>(std::min(lanes, tile) - 1));
  return "qk=f32 tile=" + std::to_string(tile) + " promote=" + std::to_string(tile) +
         " exp_ulp=" + std::to_string(engine.exp_ulp) + " tanh_ulp=2 div_ulp=1 p=" + std::string(p) +
         " rowsum=f32 rowsum_order=depth:" + std::to_string(additions) + " pv=f32 order=any argument=rounded";
}

void attention_tiles_check(const Call& call) {
  attention_check(call);
  if (call.text("mask") == "window")
    throw Unsupported("the tiles of a window begin where it does, and at no multiple of their length");
}

std::string attention_whole_contract(const Call& call, const Engine& engine, std::int64_t tile,
                                     std::int64_t origin_rows, std::string_view more, bool dots_of_rows) {
  const std::string lanes = std::to_string(dots_of_rows ? engine.dot_lanes : 1);
  const bool simd = &engine != &kScalarEngine;
  std::string schedule =
      "qk:f32/pv:f32/out:" + std::string(call.text("dtype")) + "/tile:" + std::to_string(tile) +
      "/argument:scaled/exp:" +
      (!simd        ? "libm"
       : engine.fma ? "taylor7"
                    : "taylor7_mul") +
      "/rescale_exp:libm/sums:tile/sum_fma:no" + "/lanes:" + std::to_string(engine.exp_lanes) +
      "/pack:1/values:tile/values_fma:no/dot_lanes:" + lanes + "/fma:" + (engine.fma ? "yes" : "no");
  // Scores are computed in fours, and those that are left with more sums where a row of K has more than one
  // vector of numbers.
  if (simd && dots_of_rows && call.integer("d") > static_cast<std::int64_t>(engine.dot_lanes))
    schedule += "/dot_rows:4/left_lanes:" + std::to_string(4 * engine.dot_lanes) + "/left_vector:" + lanes +
                "/left_fold:" + fold_of_four_vectors(engine);
  if (call.real("softcap") > 0) schedule += "/cap:libm";
  if (call.yes("alibi")) schedule += "/bias:subtract";
  if (call.yes("sinks")) schedule += "/sink:last";
  if (call.text("rotate") == "qkv") schedule += "/unrotate:ascending";
  if (call.text("mask") == "window") schedule += "/origin:" + std::to_string(origin_rows);
  if (call.text("mask") == "window" || call.text("mask") == "random") schedule += "/closed:yes";
  return " level=replay schedule=" + schedule + std::string(more);
}

std::string attention_dot_order(const Engine& engine) {
  return " qk_order=lanes:" + std::to_string(engine.dot_lanes);
}

}  // namespace assay_cpu
