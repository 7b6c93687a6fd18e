#include "cases/studies/identify/worker_subject.hpp"

#include <cmath>

#include "cases/lists.hpp"
#include "cases/studies/identify/kernel_call.hpp"
#include "harness/inputs.hpp"
#include "reference/formats/format.hpp"
#include "reference/ops/operand.hpp"

namespace assay {
namespace {

Case with_shape(const Case& c, const GemmShape& shape, std::uint64_t seed) {
  std::map<std::string, std::string> given = c.attributes.all();
  given["m"] = std::to_string(shape.m), given["n"] = std::to_string(shape.n),
  given["k"] = std::to_string(shape.k);
  Case other = c;
  other.attributes = Attributes::complete(c.op->attributes, given);
  other.seed = seed;
  return other;
}

class WorkerSubject : public GemmSubject {
 public:
  WorkerSubject(const Case& c, const Kernels& source)
      : case_(c),
        source_(source),
        path_(resolve_path(c.attributes.text("path"), format(c.attributes.text("a")),
                           format(c.attributes.text("b")))) {
    const Format& a = format(case_.attributes.text("a"));
    const Format& b = format(case_.attributes.text("b"));
    const auto element = [&](const Format& f) {
      return path_ == "f32" || path_ == "tf32" || path_ == "f16" || path_ == "bf16" || path_ == "e4m3fn"
                 ? path_
                 : std::string(f.kind == FormatKind::block ? f.name : f.element);
    };
    a_element_ = element(a), b_element_ = element(b);
    if (path_.starts_with("q8"))
      throw InputError(InputErrorKind::bad_value,
                       "identify: path=q8 adds products of quantised blocks; allowed: f32, tf32, f16, bf16, "
                       "codes, e4m3fn");
  }
  std::string a_element() const override { return a_element_; }
  std::string b_element() const override { return b_element_; }
  std::string stored_as() const override { return case_.attributes.text("dtype"); }

  std::optional<Answer> drawn(const GemmShape& shape, std::uint64_t seed) override {
    const Case c = with_shape(case_, shape, seed);
    const Inputs inputs = make_inputs(c, input_lists());
    std::optional<Answer> answer = ask(c, inputs);
    if (answer) answer->line = c.line();
    return answer;
  }

  std::optional<Answer> crafted(const GemmShape& shape, std::vector<float> a, std::vector<float> b,
                                const std::string& what) override {
    const Case c = with_shape(case_, shape, 1);
    Inputs inputs;
    inputs.tensors = c.op->tensors(c.attributes);
    try {
      inputs.set.emplace("a", encoded("a", {shape.m, shape.k}, a));
      inputs.set.emplace("b", encoded("b", {shape.n, shape.k}, b));
    } catch (const InputError&) {
      return std::nullopt;
    }
    for (const char* side : {"a", "b"}) {
      const std::vector<double> back = decode_tensor(inputs.set.at(side));
      const std::vector<float>& meant = side[0] == 'a' ? a : b;
      for (std::size_t i = 0; i < back.size(); ++i)
        if (back[i] != static_cast<double>(meant[i])) return std::nullopt;
    }
    std::optional<Answer> answer = ask(c, inputs);
    if (answer) answer->line = what + " of " + c.line();
    return answer;
  }

 private:
  Encoded encoded(const char* side, const Shape& shape, const std::vector<float>& values) const {
    const Format& f = format(case_.attributes.text(side));
    if (f.kind != FormatKind::scaled) return encode_tensor(f, shape, values);
    std::size_t scales = 0;
    for (const PlaneSpec& plane : planes(f, shape))
      if (plane.suffix == ".scale") scales = static_cast<std::size_t>(element_count(plane.shape));
    return encode_tensor_with_scales(f, shape, values, std::vector<float>(scales, 1.0F));
  }

  // The operands as the path makes them. Throws InputError where one of them is not decided.
  ReplayOperand operand(const Encoded& tensor, Side side, std::vector<float>& scale) const {
    const Operands operands(tensor, path_, side, 1, {"divide", "divide", "nearest_even"});
    ReplayOperand o{operands.rows(), operands.length(), std::string(operands.element()), {}, {}};
    bool scaled = false;
    for (std::int64_t r = 0; r < o.rows; ++r) {
      const OperandRow row = operands.row(r);
      if (!row.undecided.empty() || !row.reach.empty())
        throw InputError(InputErrorKind::bad_value, "identify: the operands of this path are not decided");
      if (row.elements.empty())
        for (const double x : row.center) o.values.push_back(static_cast<float>(x));
      else
        o.values.insert(o.values.end(), row.elements.begin(), row.elements.end());
      o.block_scales.insert(o.block_scales.end(), row.block_scales.begin(), row.block_scales.end());
      scale.push_back(static_cast<float>(row.scale));
      scaled |= row.scale != 1;
    }
    if (!scaled) scale.clear();
    return o;
  }

  std::optional<Answer> ask(const Case& c, const Inputs& inputs) {
    const std::optional<KernelAnswer> called = call_kernel(c, inputs, source_);
    if (!called) return std::nullopt;
    ++calls;
    declared_contract = called->contract, declared_path = called->path, kernels = called->kernels;
    Answer answer;
    answer.a = operand(inputs.set.at("a"), Side::activations, answer.a_scale);
    answer.b = operand(inputs.set.at("b"), Side::weights, answer.b_scale);
    answer.got = called->got;
    return answer;
  }

  Case case_;
  Kernels source_;
  std::string path_, a_element_, b_element_;
};

}  // namespace

std::unique_ptr<GemmSubject> worker_subject(const Case& c, const Kernels& source) {
  return std::make_unique<WorkerSubject>(c, source);
}

}  // namespace assay
