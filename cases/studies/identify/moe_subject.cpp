#include "cases/studies/identify/moe_subject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cases/lists.hpp"
#include "cases/studies/identify/crafted.hpp"
#include "cases/studies/identify/kernel_call.hpp"
#include "cases/studies/identify/moe_numbers.hpp"
#include "harness/inputs.hpp"
#include "reference/error.hpp"
#include "reference/formats/format.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/mix.hpp"
#include "reference/ops/moe_hidden.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ops/replayed_matmul.hpp"
#include "reference/ops/replayed_moe.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {
namespace {

constexpr float kGate = 32, kSmall = 1 / kGate;  // silu(32) is 32 in f32
constexpr std::int64_t kMostRows = 63;

class WorkerMoe;

// One product of the mixture, as a matrix product.
class Part : public GemmSubject {
 public:
  Part(WorkerMoe& whole, bool down) : whole_(whole), down_(down) {}
  std::string a_element() const override;
  std::string b_element() const override;
  std::string stored_as() const override;
  // To bf16 or f16, where all that is stored in f32 is of it.
  void look(const GemmShape& shape);
  int residues(const GemmShape& shape) const override {
    return static_cast<int>(std::clamp<std::int64_t>(8192 / (shape.m * shape.n), 2, 32));
  }
  std::optional<Answer> drawn(const GemmShape& shape, std::uint64_t seed) override;
  std::optional<Answer> crafted(const GemmShape& shape, std::vector<float> a, std::vector<float> b,
                                const std::string& what) override;

 private:
  std::optional<Answer> ask(const GemmShape& shape, const std::vector<float>& a, const std::vector<float>& b,
                            std::string line, bool exactly);
  WorkerMoe& whole_;
  bool down_;
  float pin_ = 0;     // with codes: the element of h that is largest
  std::string cast_;  // of the product's sums, before y's store; empty: none that shows
};

class WorkerMoe : public MoeSubject {
 public:
  WorkerMoe(const Case& c, const Kernels& source)
      : case_(c), source_(source), paths_(moe_paths(c.attributes)), up_(*this, false), down_(*this, true) {
    const Format& a = format(text("a"));
    const auto refuse = [](const std::string& what) {
      throw InputError(InputErrorKind::bad_value, "identify: of moe " + what);
    };
    for (const std::string& path : {paths_.up, paths_.down})
      if (path != "f32" && path != "f16" && path != "bf16" && path != "codes")
        refuse(fmt::format("path={} shows none of its sums; allowed: f32, f16, bf16, codes", path));
    hidden_ = paths_.down == "codes" ? hidden_element(paths_, a.element, a) : paths_.down;
    for (const char* side : {"a", "w", "w2"})
      if ((paths_.up == "codes" || paths_.down == "codes") && format(text(side)).element.starts_with("int"))
        refuse(
            "sums of integers are exact in every order; allowed: operands that are floating-point numbers");
    // 2^p - 1 rows leave the longest rest in groups of any power of two, which tells its size.
    for (rows_ = 1; rows_ < std::min(kMostRows, size("tokens")) && 2 * rows_ + 1 < size("hidden");)
      rows_ = 2 * rows_ + 1;
    if (size("hidden") < 2 || size("inter") < 2) refuse("the products are shown from hidden=2 inter=2 on");
  }
  GemmSubject& up() override { return up_; }
  GemmSubject& down() override { return down_; }
  GemmShape up_shape() const override {
    return {rows_, std::min(size("inter"), size("hidden")), size("hidden")};
  }
  GemmShape down_shape() const override { return {rows_, size("hidden"), size("inter")}; }
  void look() override { up_.look(up_shape()), down_.look(down_shape()); }
  bool scaled() const override { return paths_.up == "codes" || paths_.down == "codes"; }
  std::string hidden_format() const override { return hidden_; }

  std::string declared(const std::string& key) const override {
    return std::string(Contract::parse(declared_contract, case_.op->contract).text(key));
  }

  std::optional<MoeAnswer> drawn(std::uint64_t seed) override {
    Case c = case_;
    c.seed = seed;
    const auto inputs = std::make_shared<Inputs>(make_inputs(c, input_lists()));
    const std::optional<KernelAnswer> called = call_kernel(c, *inputs, source_);
    if (!called) return std::nullopt;
    ++calls, heard(*called);
    const auto of = std::make_shared<const Case>(c);
    const auto replay = std::make_shared<MoeReplay>(of->attributes, inputs->set);
    return MoeAnswer{c.line(), called->got,
                     [of, inputs, replay, count = called->got.size()](const std::string& contract) {
                       Truth truth;
                       truth.value.assign(count, std::nan("")), truth.limit.assign(count, 0.0);
                       (*replay)(truth, Contract::parse(contract, of->op->contract));
                       return truth.value;
                     }};
  }

 private:
  friend class Part;
  std::string text(const char* key) const { return case_.attributes.text(key); }
  std::int64_t size(const char* key) const { return case_.attributes.integer(key); }
  // The element of h that makes the scale of its codes 1; 0 without codes.
  float largest() const {
    return paths_.down == "codes" ? static_cast<float>(hidden_divisor(format(text("a")))) : 0.0F;
  }
  void heard(const KernelAnswer& answer) {
    declared_contract = answer.contract, declared_path = answer.path, kernels = answer.kernels;
  }

  Case case_;
  Kernels source_;
  MoePaths paths_;
  std::string hidden_;  // what the second path makes of h
  std::int64_t rows_ = 0;
  Part up_, down_;
};

std::string element_of(const std::string& path, const std::string& name) {
  const Format& f = format(name);
  return path != "codes" ? path : std::string(f.element.empty() ? f.name : f.element);
}

std::string Part::a_element() const {
  return down_ ? whole_.hidden_ : element_of(whole_.paths_.up, whole_.text("a"));
}
std::string Part::b_element() const {
  return down_ ? element_of(whole_.paths_.down, whole_.text("w2"))
               : element_of(whole_.paths_.up, whole_.text("w"));
}
std::string Part::stored_as() const {
  // From v to y, h = 32 v on the way. The casts gate_up and h are none, or what the path makes of h.
  const std::string y = whole_.text("dtype");
  if (!cast_.empty()) return cast_ + ">" + y;
  return down_ || whole_.hidden_ == "f32" ? y : whole_.hidden_ + ">" + y;
}

void Part::look(const GemmShape& shape) {
  if (whole_.text("dtype") != "f32" || (!down_ && whole_.hidden_ != "f32")) return;
  const std::optional<Answer> answer = drawn(shape, 1);
  if (!answer) return;
  for (const char* name : {"f16", "bf16"})  // of f16 numbers that are all of bf16 too
    if (std::ranges::all_of(answer->got, [&](double y) { return round_to_width(y, width_of(name)) == y; }))
      cast_ = name;
}

std::optional<Answer> Part::drawn(const GemmShape& shape, std::uint64_t seed) {
  std::uint64_t state = seed * 2 + (down_ ? 1 : 0);
  // About a Gaussian: the sum of four uniform numbers, as the formats round it.
  const auto draw = [&](std::int64_t count) {
    std::vector<float> x;
    for (std::int64_t i = 0; i < count; ++i) {
      double sum = -2;
      for (int k = 0; k < 4; ++k) sum += static_cast<double>(mix(next_mixed(state)) >> 11) * 0x1p-53;
      x.push_back(static_cast<float>(2 * sum));
    }
    return x;
  };
  pin_ = whole_.largest();
  const std::vector<float> a = draw(shape.m * shape.k), b = draw(shape.n * shape.k);
  return ask(shape, a, b,
             fmt::format("{} of {}, seed {}", down_ ? "w2 h" : "w13 x", whole_.case_.line(), seed), false);
}

std::optional<Answer> Part::crafted(const GemmShape& shape, std::vector<float> a, std::vector<float> b,
                                    const std::string& what) {
  const bool codes = whole_.paths_.down == "codes", cancelling = what.starts_with(kCancelling);
  // An element of h decides the scale of its codes: only sums that stay below it can be asked.
  if (codes && !cancelling) return std::nullopt;
  const auto last = static_cast<std::size_t>(shape.k - 1), k = static_cast<std::size_t>(shape.k);
  const auto column_is = [&](const std::vector<float>& x, std::size_t i, std::size_t j, float sign) {
    for (std::size_t r = 0; r < x.size(); r += k)
      if (x[r + i] != sign * x[r + j]) return false;
    return true;
  };
  if (!down_ || codes) {
    // The last column is given; a column that cancels it goes with it.
    for (std::size_t p = 0; p < last; ++p)
      if (column_is(a, p, last, 1) && column_is(b, p, last, -1)) {
        for (std::size_t r = 0; r < a.size(); r += k)
          a[r + p] = a[r + last] = down_ ? whole_.largest() : 1.0F;
        break;
      }
    if (what.starts_with(kTiny))
      for (std::size_t r = 0; r < b.size(); r += k)
        b[r + last] = 0;  // beside it nothing of the others would be left
  }
  const std::string line = what + (down_ ? ": w2 h of " : ": w13 x of ") + whole_.case_.line();
  const auto shows = [](const std::optional<Answer>& answer) {
    return answer &&
           4 * std::ranges::count(answer->got, 0.0) < static_cast<std::ptrdiff_t>(answer->got.size());
  };
  // Rounding errors are small beside what they are errors of: the smallest pin above all of them shows most.
  const auto pinned = [&]() -> std::optional<Answer> {
    for (const int halvings : {15, 10, 5, 0}) {
      pin_ = codes && !down_ ? std::ldexp(whole_.largest(), -halvings) : whole_.largest();
      std::optional<Answer> answer = ask(shape, a, b, line, true);
      if (!codes || down_ || !answer) return answer;
      const auto n = static_cast<std::size_t>(shape.n);
      bool below = true;
      for (std::size_t i = 0; i < answer->got.size(); ++i)
        below &= i % n == n - 1 || std::fabs(answer->got[i]) < 0.99 * static_cast<double>(pin_);
      if (below) return answer;
    }
    return std::nullopt;
  };
  std::optional<Answer> answer = pinned();
  if (!cancelling || shows(answer)) return answer;
  // Operands of few bits, whose sums are exact.
  const auto element = [&](const char* side) { return std::string(format(whole_.text(side)).element); };
  set_apart({element(down_ ? "w" : "a"), &a}, {element(down_ ? "w2" : "w"), &b}, shape.k, !down_ || codes);
  return pinned();
}

std::optional<Answer> Part::ask(const GemmShape& shape, const std::vector<float>& given_a,
                                const std::vector<float>& given_b, std::string line, bool exactly) {
  std::map<std::string, std::string> attributes = whole_.case_.attributes.all();
  attributes["tokens"] = std::to_string(shape.m);
  Case c = whole_.case_;
  c.attributes = Attributes::complete(c.op->attributes, attributes);
  const std::int64_t hidden = whole_.size("hidden"), inter = whole_.size("inter"),
                     experts = whole_.size("experts"), topk = whole_.size("topk"), m = shape.m, n = shape.n,
                     k = shape.k;
  const bool codes = whole_.paths_.down == "codes";
  std::vector<float> a = given_a, b = given_b, x(static_cast<std::size_t>(m * hidden), 0.0F),
                     w13(static_cast<std::size_t>(experts * 2 * inter * hidden), 0.0F),
                     w2(static_cast<std::size_t>(experts * hidden * inter), 0.0F),
                     weights(static_cast<std::size_t>(m * topk), 0.0F);
  const auto at = [](std::int64_t row, std::int64_t columns, std::int64_t column) {
    return static_cast<std::size_t>(row * columns + column);
  };
  // The constant column of x, and what makes 32 of it.
  float one = down_ ? 1.0F : a[at(0, k, k - 1)];
  int exponent = 0;
  bool power = one > 0 && std::frexp(one, &exponent) == 0.5F;
  for (std::int64_t t = 0; t < m && !down_; ++t) power &= a[at(t, k, k - 1)] == one;
  if (!power) one = 1;
  for (std::int64_t r = 0; r < inter; ++r) w13[at(r, hidden, hidden - 1)] = kGate / one;
  for (std::int64_t t = 0; t < m; ++t) weights[at(t, topk, 0)] = 1;
  if (!down_) {
    for (std::int64_t t = 0; t < m; ++t) a[at(t, k, k - 1)] = one;
    x = a;
    if (codes)  // the last row of what is shown is `largest`, alone
      for (std::int64_t i = 0; i < k; ++i) b[at(n - 1, k, i)] = i == k - 1 ? pin_ / one : 0.0F;
    for (std::int64_t j = 0; j < n; ++j) {
      std::copy_n(b.begin() + j * k, k, w13.begin() + (inter + j) * hidden);
      w2[at(j, inter, j)] = kSmall;
    }
  } else {
    for (std::int64_t t = 0; t < m; ++t) {
      if (codes) a[at(t, k, k - 1)] = pin_;
      x[at(t, hidden, t)] = kSmall, x[at(t, hidden, hidden - 1)] = 1;
      for (std::int64_t j = 0; j < inter; ++j) w13[at(inter + j, hidden, t)] = a[at(t, k, j)];
    }
    std::copy(b.begin(), b.end(), w2.begin());
  }
  Inputs inputs;
  inputs.tensors = c.op->tensors(c.attributes);
  std::vector<std::int64_t> ids;
  for (std::int64_t t = 0; t < m; ++t)
    for (std::int64_t s = 0; s < topk; ++s) ids.push_back(s);
  std::optional<Encoded> x_bytes = exactly_encoded(whole_.text("a"), {m, hidden}, x, true),
                         w13_bytes = exactly_encoded(whole_.text("w"), {experts, 2 * inter, hidden}, w13,
                                                     whole_.paths_.up == "codes"),
                         w2_bytes = exactly_encoded(whole_.text("w2"), {experts, hidden, inter}, w2, codes);
  if (!x_bytes || !w13_bytes || !w2_bytes) return std::nullopt;
  // What the formats made of the numbers. Crafted ones, zeros and all that makes the rest exact must have
  // stayed as they are.
  const std::vector<double> x_back = decode_tensor(*x_bytes), w13_back = decode_tensor(*w13_bytes),
                            w2_back = decode_tensor(*w2_bytes);
  const auto kept = [&](const std::vector<float>& meant, const std::vector<double>& back, const auto& free) {
    for (std::size_t i = 0; i < back.size(); ++i)
      if (back[i] != static_cast<double>(meant[i]) &&
          (exactly || meant[i] == 0 || !free(static_cast<std::int64_t>(i))))
        return false;
    return true;
  };
  if (!kept(x, x_back, [&](std::int64_t i) { return !down_ && i % hidden != hidden - 1; }) ||
      !kept(w13, w13_back, [&](std::int64_t i) { return i / hidden >= inter; }) ||
      !kept(w2, w2_back, [&](std::int64_t) { return down_; })) {
    if (exactly) return std::nullopt;
    throw std::runtime_error(fmt::format("{}, {} and {} do not hold the numbers that show a product alone",
                                         whole_.text("a"), whole_.text("w"), whole_.text("w2")));
  }

  Answer answer;
  answer.line = std::move(line);
  if (!down_)
    answer.unit = codes ? static_cast<double>(pin_ / whole_.largest()) : static_cast<double>(kSmall);
  try {
    const auto rows = [](const Encoded& bytes, const std::string& path, bool activations, std::int64_t first,
                         std::int64_t count) {
      const Operands operands(bytes, path, activations ? assay::Side::activations : assay::Side::weights, 1);
      const ReplayRows all = replay_rows_of(operands, "it");
      std::vector<std::int64_t> which;
      for (std::int64_t r = first; r < first + count; ++r) which.push_back(r);
      return rows_of(all.operand, which);
    };
    if (!down_) {
      answer.a = rows(*x_bytes, whole_.paths_.up, true, 0, m);
      answer.b = rows(*w13_bytes, whole_.paths_.up, false, inter, n);
    } else {
      answer.a = {m, k, whole_.hidden_, {}, {}};
      const ReplayOperand up = rows(*w13_bytes, whole_.paths_.up, false, inter, inter);
      for (std::int64_t t = 0; t < m; ++t)
        for (std::int64_t j = 0; j < inter; ++j) {
          const float h = up.values[at(j, hidden, t)];
          answer.a.values.push_back(
              whole_.hidden_ == "f32"
                  ? h
                  : static_cast<float>(round_to(scalar_format(whole_.hidden_), static_cast<double>(h))));
        }
      answer.b = rows(*w2_bytes, whole_.paths_.down, false, 0, n);
    }
  } catch (const InputError&) {
    return std::nullopt;  // an operand that the path does not decide
  }
  inputs.set.emplace("x", std::move(*x_bytes)), inputs.set.emplace("w13", std::move(*w13_bytes));
  inputs.set.emplace("w2", std::move(*w2_bytes)),
      inputs.set.emplace("topk_ids", integer_tensor("int32", {m, topk}, ids));
  inputs.set.emplace("topk_weights", encode_tensor(format("f32"), {m, topk}, weights));
  const std::optional<KernelAnswer> called = call_kernel(c, inputs, whole_.source_);
  if (!called) return std::nullopt;
  ++calls, whole_.heard(*called);
  declared_contract = called->contract, declared_path = called->path, kernels = called->kernels;
  for (std::int64_t t = 0; t < m; ++t)
    for (std::int64_t j = 0; j < n; ++j) answer.got.push_back(called->got[at(t, hidden, j)]);
  // What overflows on its way is no sum.
  if (exactly && !std::ranges::all_of(answer.got, [](double y) { return std::isfinite(y); }))
    return std::nullopt;
  return answer;
}

}  // namespace

std::unique_ptr<MoeSubject> moe_subject(const Case& c, const Kernels& source) {
  return std::make_unique<WorkerMoe>(c, source);
}

}  // namespace assay
