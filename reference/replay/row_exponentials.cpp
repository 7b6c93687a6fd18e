#include "reference/replay/row_exponentials.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/replay/exponentials.hpp"

namespace assay {
namespace {

float divided(float x, float by, bool reciprocal) { return reciprocal ? x * (1.0F / by) : x / by; }

// x with the steps of its own that the call has.
float logit(float x, const RowInputs& in, std::string_view temperature, std::string_view cap) {
  if (temperature != "none") x = divided(x, in.temperature, temperature == "reciprocal");
  if (cap == "none") return x;
  const float z = divided(x, in.softcap, cap.ends_with("_reciprocal"));
  return in.softcap *
         (cap.starts_with("libm") ? std::tanh(z) : static_cast<float>(std::tanh(static_cast<double>(z))));
}

}  // namespace

bool has_step(std::string_view key, const RowInputs& in) {
  if (key == "temperature") return in.temperature != 1;
  if (key == "cap") return in.softcap > 0;
  if (key == "hidden") return !in.visible.empty();
  return key != "sink" || !in.sinks.empty();
}

std::string_view step_at_odds(const RowSchedule& s, const RowInputs& in) {
  for (const RowScheduleKey* key : row_keys(s.op))
    if (row_words(*key).front() == "none" && (s.word(key->name) != "none") != has_step(key->name, in))
      return key->name;
  return "";
}

RowExponentials::RowExponentials(const RowSchedule& s, const RowInputs& in) : e_(in.x) {
  const bool plain = s.op != "softmax";
  const std::string_view temperature = plain ? "none" : s.word("temperature"),
                         cap = plain ? "none" : s.word("cap"), sink = plain ? "none" : s.word("sink");
  const bool closed = !plain && s.word("hidden") == "closed";
  if (temperature != "none" || cap != "none")
    for (float& x : e_) x = logit(x, in, temperature, cap);
  const RowExp exp = row_exp(s.word("exp")), exp_of_sink = sink.starts_with("libm") ? row_exp("libm") : exp;
  const auto cols = static_cast<std::size_t>(in.cols);
  for (std::size_t r = 0; r < static_cast<std::size_t>(in.rows); ++r) {
    float top =
        sink == "none" || sink.ends_with("_keys") ? -std::numeric_limits<float>::infinity() : in.sinks[r];
    for (std::size_t at = r * cols; at < (r + 1) * cols; ++at)
      if (!in.is_hidden(at)) top = std::max(top, e_[at]);
    std::vector<float> seen;
    for (std::size_t at = r * cols; at < (r + 1) * cols; ++at) {
      e_[at] = in.is_hidden(at) ? 0.0F : exp(e_[at] - top);
      if (closed && !in.is_hidden(at)) seen.push_back(e_[at]);
    }
    top_.push_back(top);
    if (sink != "none") sinks_.push_back(exp_of_sink(in.sinks[r] - top));
    if (closed) {
      const auto terms = std::ssize(seen);
      each_.emplace_back(std::move(seen), 1, terms);
    }
  }
  if (!closed) all_.emplace(e_, in.rows, in.cols);
}

std::vector<double> RowExponentials::sums(const Schedule& schedule) const {
  std::vector<double> sums;
  if (all_) sums = all_->sums(schedule);
  for (const SummedRows& row : each_) sums.push_back(row.sums(schedule).front());
  const bool wide = schedule.acc == "f64" || (schedule.chunk > 0 && schedule.chunk_acc == "f64");
  for (std::size_t r = 0; r < sinks_.size(); ++r)
    sums[r] = wide ? sums[r] + static_cast<double>(sinks_[r])
                   : static_cast<double>(static_cast<float>(sums[r]) + sinks_[r]);
  return sums;
}

}  // namespace assay
