// Ops computed in f64 along the steps that their contract declares, with one fault in them (fault.hpp): what
// a kernel with that fault would give. Without a fault a model gives the truth but for roundings that no
// contract fixes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "cases/attribution/bench.hpp"
#include "cases/attribution/fault.hpp"

namespace assay::attribution {

enum class NodeKind : std::uint8_t {
  step,
  loop,         // asked by a Sum
  exponential,  // whose argument may be held above some number
  source,       // which of several rows, heads or sequences is read: Fault::lane says which one instead
  hidden,       // which keys are visible: hidden ones may have a logit that is not low enough
};
// A step of the computation, and the stage that it belongs to.
struct Node {
  std::string_view name, stage;
  NodeKind kind = NodeKind::step;
};

class Model {
 public:
  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;
  virtual std::span<const Node> nodes() const = 0;  // a fault's node is an index of it
  virtual std::int64_t work() const = 0;            // steps of one computation
  // Elements of the first output by number, the same ones for every fault: those of some rows.
  virtual std::span<const std::size_t> elements() const = 0;
  virtual std::vector<double> run(const Fault&) const = 0;
};

// The node at the end of every model: x as an element of this format.
double stored(const Fault& f, int node, std::string_view dtype, double x);
// The element of an answer's first output that is farthest from the truth, in limits.
std::int64_t worst_element(const Answer& answer);
// At most `most` of the rows of n elements that an answer's first output consists of: the worst, and others
// evenly spaced.
std::vector<std::int64_t> some_rows(const Answer& answer, std::int64_t n, std::int64_t most);

// Nothing for an op that has no model, and for an answer without a contract.
std::unique_ptr<Model> model_of(const Op& op, const Answer& answer);

std::unique_ptr<Model> attention_model(const Answer& answer);
std::unique_ptr<Model> softmax_model(const Answer& answer);
std::unique_ptr<Model> logsumexp_model(const Answer& answer);
std::unique_ptr<Model> norm_model(const Answer& answer, bool centred);
std::unique_ptr<Model> matmul_model(const Answer& answer);

}  // namespace assay::attribution
