#include "reference/ops/bench_sharpness.hpp"

#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <sstream>
#include <vector>

#include "reference/ops/op.hpp"

namespace assay {
namespace {

std::map<std::string, std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  std::map<std::string, std::string> given;
  for (std::string word; words >> word;)
    given[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  return given;
}

// The needle lies at a third of the keys: the key of each KV head is the first query row of its first head,
// scaled to a logit of 2 log(keys), and its value is 1 in every coordinate.
void aim(const Attributes& a, std::map<std::string, std::vector<float>>& values) {
  const auto d = static_cast<std::size_t>(a.integer("d")), keys = static_cast<std::size_t>(a.integer("len"));
  const auto heads = static_cast<std::size_t>(a.integer("heads"));
  const auto kv_heads = static_cast<std::size_t>(a.integer("kv_heads"));
  const std::size_t at = keys / 3;
  std::vector<float>&q = values.at("q"), &k = values.at("k"), &v = values.at("v");
  for (std::size_t g = 0; g < kv_heads; ++g) {
    const float* row = q.data() + g * (heads / kv_heads) * d;
    double square = 0;
    for (std::size_t c = 0; c < d; ++c) square += static_cast<double>(row[c]) * row[c];
    const double scale = 2 * std::log(static_cast<double>(keys)) * std::sqrt(static_cast<double>(d)) / square;
    const std::size_t key = (at * kv_heads + g) * d;
    for (std::size_t c = 0; c < d; ++c) k[key + c] = static_cast<float>(scale * row[c]), v[key + c] = 1;
  }
}

TensorSet inputs_of(const Op& op, const Attributes& a, bool needle) {
  TensorSet set;
  std::map<std::string, std::vector<float>> values;
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  const std::vector<TensorSpec> tensors = op.tensors(a);
  for (const TensorSpec& spec : tensors)
    if (spec.role == TensorRole::data) {
      // A row of 2^16 + 1 numbers, repeated: gaussian enough, and quick to make for a long cache.
      std::vector<float> pattern(65537), list(static_cast<std::size_t>(element_count(spec.shape)));
      for (float& x : pattern) x = normal(random);
      for (std::size_t i = 0; i < list.size(); ++i) list[i] = pattern[i % pattern.size()];
      values[spec.name] = std::move(list);
    }
  if (needle) aim(a, values);
  for (const TensorSpec& spec : tensors)
    if (spec.role == TensorRole::data)
      set[spec.name] = encode_tensor(format(spec.format), spec.shape, values.at(spec.name));
  if (op.indices != nullptr) op.indices(a, 1, set);
  return set;
}

}  // namespace

SharpnessFigure measure_sharpness(const SharpnessRow& row) {
  const Op& o = op(row.op);
  const Attributes a = Attributes::complete(o.attributes, words_of(row.attributes));
  const TensorSet set = inputs_of(o, a, row.needle);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Truth> truths = o.truth(a, set, Contract::parse(row.contract, o.contract));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {row, sharpness(truths, o.tensors(a)), seconds};
}

void measure_sharpness(double longest, const std::string& only,
                       const std::function<void(const SharpnessFigure&)>& each) {
  for (const SharpnessRow& row : sharpness_rows()) {
    if (!only.empty() && row.op != only) continue;
    const Op& o = op(row.op);
    const Attributes a = Attributes::complete(o.attributes, words_of(row.attributes));
    double elements = 0;
    for (const TensorSpec& spec : o.tensors(a)) elements += static_cast<double>(element_count(spec.shape));
    if (elements <= longest) each(measure_sharpness(row));
  }
}

}  // namespace assay
