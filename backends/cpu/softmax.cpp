// y = softmax(cap(x / temperature)) along the last axis;  cap(s) = softcap * tanh(s / softcap)
// A sink is one more logit of the denominator. Rows in f32: maximum, exponentials with their sum, one
// multiplication by 1 / sum.
#include "backends/cpu/ops.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/rows.hpp"

namespace assay_cpu {
namespace {

struct Options {
  float temperature;
  float softcap;
  bool causal;
  const assay_tensor* mask;
  const assay_tensor* sinks;
};

// The visible logits of one row, packed; where[i] is the column of logit i.
void gather(const Options& options, std::int64_t row, std::int64_t rows, const std::vector<float>& x,
            std::vector<float>& logits, std::vector<std::int64_t>& where) {
  const std::int64_t cols = static_cast<std::int64_t>(x.size());
  const std::int64_t end = options.causal ? std::min(cols, cols - rows + row + 1) : cols;
  logits.clear();
  where.clear();
  for (std::int64_t j = 0; j < end; ++j) {
    if (options.mask != nullptr && int8_at(*options.mask, row * cols + j) == 0) continue;
    float s = x[static_cast<std::size_t>(j)];
    if (options.temperature != 1.0F) s /= options.temperature;
    if (options.softcap > 0) s = options.softcap * std::tanh(s / options.softcap);
    logits.push_back(s);
    where.push_back(j);
  }
}

}  // namespace

void softmax_check(const Call& call) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  if (call.text("mask") == "random") call.input("mask");
  if (call.yes("sinks")) call.input("sinks");
}

std::string softmax_contract(const Call& call, const Engine& engine) {
  // The sink is added to the sum of the lanes: one addition more than order=lanes has.
  const std::int64_t lanes = engine.exp_lanes;
  const std::int64_t depth =
      (call.integer("cols") + lanes - 1) / lanes + std::bit_width(static_cast<std::uint64_t>(lanes - 1));
  const std::string order =
      call.yes("sinks") ? "depth:" + std::to_string(depth) : "lanes:" + std::to_string(lanes);
  std::string contract =
      "acc=f32 order=" + order + " exp=e exp_ulp=" + std::to_string(engine.exp_ulp) + " div_ulp=1";
  if (call.real("softcap") > 0) contract += " tanh_ulp=2";
  return contract;
}

void softmax_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  const std::string_view dtype = call.text("dtype");
  const RowReader reader(call, "x", dtype);
  const assay_tensor& y = call.output("y");
  const Options options{static_cast<float>(call.real("temperature")),
                        static_cast<float>(call.real("softcap")), call.text("mask") == "causal",
                        call.text("mask") == "random" ? &call.input("mask") : nullptr,
                        call.yes("sinks") ? &call.input("sinks") : nullptr};
  std::vector<float> x(static_cast<std::size_t>(reader.length()));
  std::vector<float> out(x.size());
  std::vector<float> logits;
  std::vector<std::int64_t> where;
  for (std::int64_t row = 0; row < reader.rows(); ++row) {
    reader.read(engine, row, x.data());
    gather(options, row, reader.rows(), x, logits, where);
    std::fill(out.begin(), out.end(), 0.0F);
    if (!logits.empty()) {
      float top = engine.max(logits.data(), logits.size());
      const float sink =
          options.sinks ? f32_at(*options.sinks, row) : -std::numeric_limits<float>::infinity();
      top = std::max(top, sink);
      float sum = engine.exp_shift(logits.data(), top, logits.data(), logits.size());
      if (options.sinks) sum += std::exp(sink - top);
      engine.scale(1.0F / sum, logits.data(), logits.size());
      // A masked logit weighs 0: NaN in a row poisons all of it.
      std::fill(out.begin(), out.end(), 0.0F / sum);
      for (std::size_t i = 0; i < where.size(); ++i) out[static_cast<std::size_t>(where[i])] = logits[i];
    }
    write_row(engine, dtype, out.data(), reader.length(), mutable_row(y, row));
  }
}

}  // namespace assay_cpu
