#include "cases/studies/identify/worker_subject.hpp"

#include <algorithm>
#include <array>
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
  std::string operands_rounded() const override {
    if (rounding_[0].empty()) return "";
    return "tf32=" + (rounding_[0] == rounding_[1] ? rounding_[0] : "any");
  }

  std::optional<Answer> drawn(const GemmShape& shape, std::uint64_t seed) override {
    // Another shape may have another kernel.
    if (case_.attributes.text("path") == "tf32" && (!rounded_ || *rounded_ != shape)) {
      rounded_ = shape, rounding_ = {};
      path_ = a_element_ = b_element_ = "tf32";
      ask_roundings(shape);
    }
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
    const std::string& rounding = rounding_[side == Side::activations ? 0 : 1];
    const Operands operands(tensor, path_, side, 1,
                            {"divide", "divide", rounding.empty() ? "nearest_even" : rounding, "even"});
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

  // How either side is rounded to tf32: with x one of three numbers that the roundings part, sum of 16^j (x_j
  // - 1), in places of tf32. Operands that are not rounded at all are those of path=f32.
  void ask_roundings(const GemmShape& shape) {
    // Behind 1: half a place, one and a half, a little above half.
    constexpr std::array kAsked = {1 + 0x1p-11F, 1 + 0x3p-11F, 1 + 0x1.002p-11F};
    constexpr std::array<std::pair<std::string_view, int>, 3> kRoundings = {
        {{"nearest_even", 0 + 16 * 2 + 256 * 1},
         {"nearest_away", 1 + 16 * 2 + 256 * 1},
         {"toward_zero", 0 + 16 * 1 + 256 * 0}}};
    if (shape.k < std::ssize(kAsked) * 2 || stored_as() != "f32")
      return;  // a narrow store would round the answer
    const auto k = static_cast<std::size_t>(shape.k);
    std::array<std::string, 2> found;
    for (std::size_t side = 0; side < 2; ++side) {
      std::array<std::vector<float>, 2> x{std::vector<float>(static_cast<std::size_t>(shape.m) * k),
                                          std::vector<float>(static_cast<std::size_t>(shape.n) * k)};
      for (std::size_t row = 0; row < x[side].size(); row += k)
        for (std::size_t j = 0; j < kAsked.size(); ++j)
          x[side][row + 2 * j] = kAsked[j], x[side][row + 2 * j + 1] = -1;
      for (std::size_t row = 0; row < x[1 - side].size(); row += k)
        for (std::size_t j = 0; j < 2 * kAsked.size(); ++j)
          x[1 - side][row + j] = std::ldexp(1.0F, 4 * static_cast<int>(j / 2));
      const std::optional<Answer> answer = crafted(shape, x[0], x[1], "roundings to tf32");
      if (!answer) return;
      for (const auto& [name, places] : kRoundings)
        if (std::ranges::all_of(answer->got, [&](double y) { return y == std::ldexp(places, -10); }))
          found[side] = name;
      const double unrounded = (kAsked[0] - 1.0) + 16 * (kAsked[1] - 1.0) + 256 * (kAsked[2] - 1.0);
      if (std::ranges::all_of(answer->got, [&](double y) { return y == unrounded; })) found[side] = "f32";
    }
    if (found[0] == "f32" && found[1] == "f32") {
      path_ = a_element_ = b_element_ = "f32";
    } else if (!found[0].empty() && !found[1].empty() && found[0] != "f32" && found[1] != "f32") {
      rounding_ = found;
    }
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
  // Of path=tf32: the shape last asked how a and b are rounded, and the answer; "" where it is none of the
  // roundings.
  std::optional<GemmShape> rounded_;
  std::array<std::string, 2> rounding_;
};

}  // namespace

std::unique_ptr<GemmSubject> worker_subject(const Case& c, const Kernels& source) {
  return std::make_unique<WorkerSubject>(c, source);
}

}  // namespace assay
