#include "cases/studies/identify/row_subject.hpp"

#include "cases/lists.hpp"
#include "cases/studies/identify/kernel_call.hpp"
#include "reference/formats/format.hpp"
#include "reference/ops/replayed_rows.hpp"

namespace assay {
namespace {

std::vector<float> floats(const Encoded& tensor) {
  const std::vector<double> x = decode_tensor(tensor);
  return {x.begin(), x.end()};
}

class WorkerRows : public RowSubject {
 public:
  WorkerRows(const Case& c, Workers& workers) : case_(c), workers_(workers) {
    require_row_schedule(c.op->name, c.attributes);
  }
  std::string op() const override { return std::string(case_.op->name); }

  std::optional<RowAnswer> drawn(std::int64_t rows, std::int64_t cols, std::uint64_t seed) override {
    const Case c = with_shape(rows, cols, seed);
    return ask(c, make_inputs(c, input_lists()), c.line());
  }
  std::optional<RowAnswer> crafted(std::int64_t rows, std::int64_t cols, std::vector<float> x,
                                   const std::string& what) override {
    const Case c = with_shape(rows, cols, 1);
    Inputs inputs = make_inputs(c, input_lists());
    Encoded tensor = encode_tensor(format(c.attributes.text("dtype")), {rows, cols}, x);
    if (floats(tensor) != x) return std::nullopt;
    inputs.set.insert_or_assign("x", std::move(tensor));
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
    std::optional<KernelAnswer> called = call_kernel(c, inputs, workers_);
    if (!called) return std::nullopt;
    ++calls;
    declared_contract = called->contract, declared_path = called->path, kernels = called->kernels;
    RowAnswer answer{std::move(line), {}, std::move(called->got)};
    RowInputs& in = answer.in;
    in.rows = c.attributes.integer("rows"), in.cols = c.attributes.integer("cols");
    in.x = floats(inputs.set.at("x"));
    if (inputs.set.contains("gamma")) in.gamma = floats(inputs.set.at("gamma"));
    if (inputs.set.contains("beta")) in.beta = floats(inputs.set.at("beta"));
    const std::map<std::string, std::string>& given = c.attributes.all();
    if (given.contains("eps")) in.eps = static_cast<float>(c.attributes.real("eps"));
    if (given.contains("points")) in.points = c.attributes.integer("points");
    in.inverse = given.contains("inverse") && c.attributes.text("inverse") == "yes";
    if (inputs.set.contains("signs")) {
      const std::vector<double> words = decode_tensor(inputs.set.at("signs"));
      for (std::int64_t j = 0; j < in.points; ++j) {
        const auto word = static_cast<std::int64_t>(words[static_cast<std::size_t>(j / 32)]);
        in.signs.push_back((word >> (j % 32) & 1) != 0 ? -1.0F : 1.0F);
      }
    }
    in.stored_as = op() == "logsumexp" ? "f32" : c.attributes.text("dtype");
    return answer;
  }

  Case case_;
  Workers& workers_;
};

}  // namespace

std::unique_ptr<RowSubject> row_subject(const Case& c, Workers& workers) {
  return std::make_unique<WorkerRows>(c, workers);
}

}  // namespace assay
