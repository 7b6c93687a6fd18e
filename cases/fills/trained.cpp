// What tensors of a trained model look like: a kernel that is wrong on these, and right on unit normals and
// on probes, is wrong for its users alone. Weights of deviation 0.02: initializer_range of GPT-2 and BERT. A
// few channels of activations that are far larger, the same in each token: LLM.int8() (arXiv:2208.07339),
// SmoothQuant (2211.10438: about 100 times), Massive Activations (2402.17762). Means of channels in K, not
// in V: KIVI (2402.02750).
//
//   a weight, beyond the first tensor     0.02 n
//   a vector                              0.4 e^(0.3 n): gains are positive
//   logits (softmax and its like)         3 n, and an offset of the row
//   q, k; v                               n about a mean of each channel; 0.5 n about a smaller one
//   activations, the first tensor         a mean of each channel, n |n| / 2 about it; one channel about 60
//   what is quantised                     rows of weights among rows of activations
//
// n: a unit normal of its own for each element, row or channel.
#include <algorithm>
#include <cmath>

#include "cases/fills/families.hpp"
#include "reference/inputs/random.hpp"
#include "reference/parallel.hpp"

namespace assay::fill_families {
namespace {

enum class Part : std::uint8_t { weight, gain, logits, query, value, stored, activation };

Part part_of(const FillRequest& r, const TensorSpec& t) {
  if (t.shape.size() == 1) return Part::gain;
  if (t.name == "q" || t.name == "k") return Part::query;
  if (t.name == "v") return Part::value;
  if (r.op.name == "quantize") return Part::stored;
  const auto first = std::ranges::find(r.tensors, TensorRole::data, &TensorSpec::role);
  if (t.name != first->name) return Part::weight;
  constexpr std::string_view kOfLogits[] = {"softmax", "logsumexp",     "argmax",     "route_softmax",
                                            "min_p",   "cross_entropy", "route_topk", "penalties"};
  return std::ranges::count(kOfLogits, r.op.name) > 0 ? Part::logits : Part::activation;
}

double element(Part part, const Stream& s, std::size_t i, std::size_t columns) {
  const std::size_t column = columns == 0 ? 0 : i % columns, row = columns == 0 ? 0 : i / columns;
  const double n = s.gaussian(i);
  const auto of_channel = [&] { return s.gaussian(~column); };
  switch (part) {
    case Part::weight:
      return 0.02 * n;
    case Part::gain:
      return 0.4 * std::exp(0.3 * n);
    case Part::logits:
      return 3 * n + 2 * s.gaussian(~row);
    case Part::query:
      return n + of_channel();
    case Part::value:
      return 0.5 * n + 0.25 * of_channel();
    case Part::stored:
      if (row % 2 == 0) return 0.02 * n;
      break;
    case Part::activation:
      break;
  }
  const bool massive = columns > 8 && column == s.below(1ULL << 40, columns);
  return massive ? 60 + 6 * n : 0.5 * of_channel() + 0.5 * n * std::fabs(n);
}

}  // namespace

void trained(const FillRequest& r, Values& v) {
  for (const TensorSpec& t : r.tensors) {
    if (t.role != TensorRole::data) continue;
    const Stream stream(r.seed, t.name);
    const Part part = part_of(r, t);
    const auto columns = static_cast<std::size_t>(t.shape.back());
    auto& out = v[t.name];
    out.resize(static_cast<std::size_t>(element_count(t.shape)));
    parallel_ranges(out.size(), [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i)
        out[i] = static_cast<float>(element(part, stream, i, columns));
    });
  }
}

}  // namespace assay::fill_families
