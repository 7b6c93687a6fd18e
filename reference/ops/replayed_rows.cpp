#include "reference/ops/replayed_rows.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "reference/replay/declared.hpp"

namespace assay {
namespace {

std::vector<float> floats(const Encoded& tensor) {
  const std::vector<double> x = decode_tensor(tensor);
  return {x.begin(), x.end()};
}

}  // namespace

RowInputs row_inputs(std::string_view op, const Attributes& attributes, const TensorSet& inputs) {
  const std::map<std::string, std::string>& given = attributes.all();
  RowInputs in;
  in.rows = attributes.integer("rows"), in.cols = attributes.integer("cols");
  in.x = floats(inputs.at("x"));
  if (inputs.contains("gamma")) in.gamma = floats(inputs.at("gamma"));
  if (inputs.contains("beta")) in.beta = floats(inputs.at("beta"));
  if (given.contains("eps")) in.eps = static_cast<float>(attributes.real("eps"));
  if (given.contains("points")) in.points = attributes.integer("points");
  in.inverse = given.contains("inverse") && attributes.text("inverse") == "yes";
  if (inputs.contains("signs")) {
    const std::vector<double> words = decode_tensor(inputs.at("signs"));
    for (std::int64_t j = 0; j < in.points; ++j) {
      const auto word = static_cast<std::int64_t>(words[static_cast<std::size_t>(j / 32)]);
      in.signs.push_back((word >> (j % 32) & 1) != 0 ? -1.0F : 1.0F);
    }
  }
  if (given.contains("temperature")) in.temperature = static_cast<float>(attributes.real("temperature"));
  if (given.contains("softcap")) in.softcap = static_cast<float>(attributes.real("softcap"));
  if (inputs.contains("sinks")) in.sinks = floats(inputs.at("sinks"));
  if (inputs.contains("mask"))
    for (const double seen : decode_tensor(inputs.at("mask"))) in.visible.push_back(seen != 0 ? 1 : 0);
  else if (given.contains("mask") && attributes.text("mask") == "causal")
    for (std::int64_t r = 0; r < in.rows; ++r)
      for (std::int64_t j = 0; j < in.cols; ++j) in.visible.push_back(j <= in.cols - in.rows + r ? 1 : 0);
  in.stored_as = op == "logsumexp" ? "f32" : attributes.text("dtype");
  return in;
}

void replay_rows(Truth& truth, std::string_view op, const Attributes& attributes, const TensorSet& inputs,
                 const Contract& contract) {
  under_schedule(contract, [&](const std::string& text) {
    const RowSchedule schedule = parse_row_schedule(op, text);
    require_plain_store(contract);
    RowInputs in = row_inputs(op, attributes, inputs);
    const auto cols = static_cast<std::size_t>(in.cols);
    std::vector<bool> finite(static_cast<std::size_t>(in.rows), true);
    for (std::size_t i = 0; i < in.x.size(); ++i)
      if (!std::isfinite(in.x[i]) && !in.is_hidden(i)) finite[i / cols] = false;
    for (std::size_t r = 0; r < in.sinks.size(); ++r)
      if (!std::isfinite(in.sinks[r])) finite[r] = false;
    for (std::size_t i = 0; i < in.x.size(); ++i)
      if (!finite[i / cols] || in.is_hidden(i)) in.x[i] = 0;
    const std::vector<double> outputs = RowReplay(std::move(in)).outputs(schedule);
    const std::size_t each = outputs.size() / finite.size();
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (finite[i / each] && std::isfinite(outputs[i])) truth.value[i] = outputs[i], truth.limit[i] = 0;
    truth.limit_origin =
        fmt::format("reference/ops/{}: the bits of schedule={}", op, contract.text("schedule"));
  });
}

std::vector<ReplayStage> row_stages(std::string_view op, const Attributes& attributes,
                                    const TensorSet& inputs, const Contract& contract) {
  if (!is_judged_by_replay(contract)) return {};
  return under_schedule(contract, [&](const std::string& text) -> std::vector<ReplayStage> {
    const RowSchedule schedule = parse_row_schedule(op, text);
    const std::int64_t cols = attributes.integer("cols");
    // What stands where a step has not come: 0, which adds nothing; where exponentials are added, a number
    // whose exponential is 0 beside any that the row has left (in f16 too), unless the row's own are as
    // small.
    const bool exponentials = op == "softmax" || op == "logsumexp";
    if (exponentials && op == "softmax" &&
        (schedule.word("temperature") != "none" || schedule.word("cap") != "none"))
      return {};  // no number that vanishes behind those
    constexpr float kVanishing = -30000;
    // The elements of a row that step t leaves: columns [0, t), or of wht those that stages up to t alone
    // move about.
    const auto cut = [&inputs, cols,
                      exponentials](const std::function<bool(std::int64_t, std::int64_t)>& has) {
      return [&inputs, cols, has, exponentials](std::int64_t t) {
        const Encoded& x = inputs.at("x");
        std::vector<float> values = floats(x);
        for (std::size_t at = 0; at < values.size(); ++at)
          if (!has(static_cast<std::int64_t>(at) % cols, t)) values[at] = exponentials ? kVanishing : 0.0F;
        TensorSet set = inputs;
        set.insert_or_assign("x", encode_tensor(format(x.format), x.shape, values));
        return set;
      };
    };
    if (op == "wht") {
      const std::int64_t points = attributes.integer("points");
      const std::int64_t stages = std::bit_width(static_cast<std::uint64_t>(points)) - 1;
      const bool ascending = schedule.word("stages") == "ascending";
      const auto has = [=](std::int64_t at, std::int64_t t) {
        if (t == 0) return false;
        const std::int64_t j = at % points;
        return ascending ? j < (std::int64_t{1} << (t - 1)) : j % (points >> (t - 1)) == 0;
      };
      const auto name = [=](std::int64_t t) {
        return t == 1
                   ? std::string("one element of a group passes: scale, signs, store")
                   : fmt::format("butterflies of distance {} are added: stage {} of {}",
                                 ascending ? std::int64_t{1} << (t - 2) : points >> (t - 1), t - 1, stages);
      };
      return {{stages + 1, cut(has), name}};
    }
    const auto name = [=](std::int64_t t) {
      const std::string step =
          op == "softmax" && schedule.word("hidden") != "none"
              ? fmt::format("column {} is added", t - 1)
              : name_of_step(schedule.has_squares() ? schedule.squares : schedule.sum, cols, t - 1, t);
      return t > 2 ? step : step + "; no earlier step shows what stands before the sums and behind them";
    };
    return {{cols, cut([](std::int64_t at, std::int64_t t) { return at < t; }), name}};
  });
}

}  // namespace assay
