#include "cases/studies/identify/row_subject.hpp"

#include <algorithm>

#include "cases/lists.hpp"
#include "cases/studies/identify/kernel_call.hpp"
#include "reference/formats/format.hpp"
#include "reference/ops/replayed_rows.hpp"

namespace assay {
namespace {

class WorkerRows : public RowSubject {
 public:
  WorkerRows(const Case& c, const Kernels& source) : case_(c), source_(source) {}
  std::string op() const override { return std::string(case_.op->name); }

  std::optional<RowAnswer> drawn(std::int64_t rows, std::int64_t cols, std::uint64_t seed) override {
    const Case c = with_shape(rows, cols, seed);
    return ask(c, make_inputs(c, input_lists()), c.line());
  }
  std::optional<RowAnswer> crafted(std::int64_t rows, std::int64_t cols, std::vector<float> x,
                                   const std::string& what, const std::vector<float>& gamma) override {
    const Case c = with_shape(rows, cols, 1);
    Inputs inputs = make_inputs(c, input_lists());
    Encoded tensor = encode_tensor(format(c.attributes.text("dtype")), {rows, cols}, x);
    if (!std::ranges::equal(decode_tensor(tensor), x)) return std::nullopt;
    inputs.set.insert_or_assign("x", std::move(tensor));
    if (!gamma.empty()) inputs.set.insert_or_assign("gamma", encode_tensor(format("f32"), {cols}, gamma));
    return ask(c, inputs, what + " of " + c.line());
  }

 private:
  Case with_shape(std::int64_t rows, std::int64_t cols, std::uint64_t seed) const {
    std::map<std::string, std::string> given = case_.attributes.all();
    given["rows"] = std::to_string(rows), given["cols"] = std::to_string(cols);
    Case other = case_;
    other.attributes = Attributes::complete(case_.op->attributes, given);
    other.seed = seed;
    return other;
  }

  std::optional<RowAnswer> ask(const Case& c, const Inputs& inputs, std::string line) {
    std::optional<KernelAnswer> called = call_kernel(c, inputs, source_);
    if (!called) return std::nullopt;
    ++calls;
    declared_contract = called->contract, declared_path = called->path, kernels = called->kernels;
    return RowAnswer{std::move(line), row_inputs(op(), c.attributes, inputs.set), std::move(called->got)};
  }

  Case case_;
  Kernels source_;
};

}  // namespace

std::unique_ptr<RowSubject> row_subject(const Case& c, const Kernels& source) {
  return std::make_unique<WorkerRows>(c, source);
}

}  // namespace assay
