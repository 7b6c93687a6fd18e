#include "cases/studies/cascade/worker_arithmetic.hpp"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <stdexcept>

#include "harness/worker/worker.hpp"
#include "reference/formats/format.hpp"
#include "reference/ops/op.hpp"

namespace assay::scenarios {

struct WorkerArithmetic::Connection {
  BackendChoice choice;
  Worker worker;
  explicit Connection(BackendChoice c) : choice(std::move(c)), worker(worker_options(choice)) {}
};

// A plane: an input with its bytes, or an output without.
struct WorkerArithmetic::Input {
  std::string name, format;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data = {};
};

std::string cpu_variant(Variance variance) {
  switch (variance) {
    case Variance::one_pass:
      return "one_pass_unclamped";
    case Variance::one_pass_clamped:
      return "one_pass";
    case Variance::welford:
      return "welford";
    case Variance::two_pass:
      return "two_pass";
  }
  return "";
}

WorkerArithmetic::WorkerArithmetic(const std::string& backend, Variance variance,
                                   const std::vector<BackendInfo>& known)
    : backend_(backend),
      norm_variant_(cpu_variant(variance)),
      main_(std::make_unique<Connection>(choose_backend(backend, known))) {
  if (backend != "cpu") cpu_ = std::make_unique<Connection>(choose_backend("cpu", known));
}
WorkerArithmetic::~WorkerArithmetic() = default;

std::string WorkerArithmetic::description() const {
  std::string text = "backend " + backend_;
  if (cpu_ && !borrowed_ops_.contains("layernorm"))
    text += "; its own layernorm, whatever the variance asked for";
  for (const auto& why : borrowed_) text += "; on cpu instead: " + why;
  return text;
}

std::vector<std::vector<std::byte>> WorkerArithmetic::call(
    const std::string& op_name, const std::string& variant,
    const std::vector<std::pair<std::string, std::string>>& attributes, const std::vector<Input>& inputs,
    const std::vector<Input>& outputs) {
  RunRequest request;
  request.call.op = op_name;
  const Attributes complete =
      Attributes::complete(op(op_name).attributes, {attributes.begin(), attributes.end()});
  for (const auto& [name, value] : complete.all()) request.call.attributes.emplace_back(name, value);
  const auto plane = [](const Input& t) {
    BufferPlane p;
    p.name = t.name;
    p.format = t.format;
    p.shape = t.shape;
    p.unit_bytes = static_cast<std::size_t>(scalar_format(t.format).storage_bytes);
    p.bytes = static_cast<std::size_t>(element_count(t.shape)) * p.unit_bytes;
    p.data = t.data;
    return p;
  };
  for (const auto& t : inputs) request.call.inputs.push_back(plane(t));
  for (const auto& t : outputs) request.call.outputs.push_back(plane(t));
  request.second_run = false;  // kernels are judged elsewhere; here they serve
  Connection* use = borrowed_ops_.contains(op_name) ? cpu_.get() : main_.get();
  for (;;) {
    request.call.variant = use->choice.info.name == "cpu" ? variant : "";
    request.alignment = std::max<std::size_t>(1, use->choice.info.alignment);
    RunResult result = use->worker.run(request);
    if (result.status == RunStatus::done) return std::move(result.outputs);
    if (result.status == RunStatus::unsupported && use == main_.get() && cpu_) {
      borrowed_.insert(op_name + " (" + result.reason + ")");
      borrowed_ops_.insert(op_name);
      use = cpu_.get();
      continue;
    }
    throw std::runtime_error(fmt::format("backend {}: {}: {}: {}", use->choice.info.name, op_name,
                                         to_string(result.status), result.reason));
  }
}

namespace {
template <class T>
std::span<const std::byte> bytes(std::span<const T> x) {
  return std::as_bytes(x);
}
template <class T>
void take(const std::vector<std::byte>& from, std::span<T> to) {
  std::memcpy(to.data(), from.data(), from.size());
}
std::string text(int x) { return std::to_string(x); }
}  // namespace

void WorkerArithmetic::layernorm(std::span<const float> x, int rows, int cols, float eps,
                                 std::span<float> y) {
  const std::vector<float> gamma(static_cast<std::size_t>(cols), 1.0F),
      beta(static_cast<std::size_t>(cols), 0.0F);
  take(call("layernorm", norm_variant_,
            {{"rows", text(rows)}, {"cols", text(cols)}, {"dtype", "f32"}, {"eps", fmt::format("{}", eps)}},
            {{"x", "f32", {rows, cols}, bytes(x)},
             {"gamma", "f32", {cols}, bytes<float>(gamma)},
             {"beta", "f32", {cols}, bytes<float>(beta)}},
            {{"y", "f32", {rows, cols}}})[0],
       y);
}

void WorkerArithmetic::rmsnorm(std::span<const float> x, int rows, int cols, float eps, std::span<float> y) {
  const std::vector<float> gamma(static_cast<std::size_t>(cols), 1.0F);
  take(call("rmsnorm", "",
            {{"rows", text(rows)}, {"cols", text(cols)}, {"dtype", "f32"}, {"eps", fmt::format("{}", eps)}},
            {{"x", "f32", {rows, cols}, bytes(x)}, {"gamma", "f32", {cols}, bytes<float>(gamma)}},
            {{"y", "f32", {rows, cols}}})[0],
       y);
}

void WorkerArithmetic::matmul(std::span<const float> a, std::span<const float> b, int m, int n, int k,
                              std::span<float> y) {
  take(call("matmul", "",
            {{"m", text(m)}, {"n", text(n)}, {"k", text(k)}, {"a", "f32"}, {"b", "f32"}, {"dtype", "f32"}},
            {{"a", "f32", {m, k}, bytes(a)}, {"b", "f32", {n, k}, bytes(b)}}, {{"y", "f32", {m, n}}})[0],
       y);
}

// policy=locked and calibrated look at an earlier request, `first`: one that holds the range and zeros gives
// the scale that the engine has locked. The slots are the identity; the engine puts the rows into its pages.
Written WorkerArithmetic::kv_write(std::span<const float> x, int tokens, int heads, int d,
                                   const WriteScale& s) {
  std::vector<std::int32_t> slots(static_cast<std::size_t>(tokens));
  for (int t = 0; t < tokens; ++t) slots[t] = t;
  std::vector<float> first(x.size(), 0.0F);
  for (std::size_t h = 0; h < s.absmax.size(); ++h) first[h * d] = s.absmax[h];
  const std::int64_t scales = s.format == "e4m3fn_tok" ? tokens : s.format == "e4m3fn_head" ? heads : 1;
  std::vector<Input> inputs = {{"x", "f32", {tokens, heads, d}, bytes(x)}};
  if (!s.absmax.empty()) inputs.push_back({"first", "f32", {tokens, heads, d}, bytes<float>(first)});
  inputs.push_back({"slots", "int32", {tokens}, bytes<std::int32_t>(slots)});
  const auto out = call("kv_write", "",
                        {{"tokens", text(tokens)},
                         {"heads", text(heads)},
                         {"d", text(d)},
                         {"to", s.format},
                         {"policy", s.policy},
                         {"constant", fmt::format("{}", s.constant)},
                         {"dtype", "f32"}},
                        inputs, {{"cache", "e4m3fn", {tokens, heads, d}}, {"cache.scale", "f32", {scales}}});
  Written w{std::vector<std::uint8_t>(x.size()), std::vector<float>(static_cast<std::size_t>(scales))};
  take(out[0], std::span<std::uint8_t>(w.codes));
  take(out[1], std::span<float>(w.scale));
  return w;
}

void WorkerArithmetic::attention(const AttentionCall& c, std::span<float> out) {
  std::vector<Input> inputs = {{"q", "f32", {1, c.q, c.heads, c.d}, bytes(c.queries)}};
  const auto side = [&](const char* name, const KvView& kv) {
    const std::vector<std::int64_t> shape = {c.pages, c.page, c.heads, c.d};
    if (kv.format == "f32") {
      inputs.push_back({name, "f32", shape, bytes(kv.raw)});
      return;
    }
    inputs.push_back({name, "e4m3fn", shape, bytes(kv.codes)});
    inputs.push_back(
        {std::string(name) + ".scale", "f32", {static_cast<std::int64_t>(kv.scale.size())}, bytes(kv.scale)});
  };
  side("k", c.k);
  side("v", c.v);
  inputs.push_back({"page_table", "int32", {1, static_cast<std::int64_t>(c.table.size())}, bytes(c.table)});
  take(call("attention", "",
            {{"heads", text(c.heads)},
             {"d", text(c.d)},
             {"q", text(c.q)},
             {"len", text(c.length)},
             {"k", c.k.format},
             {"v", c.v.format},
             {"dtype", "f32"},
             {"mask", "causal"},
             {"page", text(c.page)}},
            inputs, {{"out", "f32", {1, c.q, c.heads, c.d}}})[0],
       out);
}

void WorkerArithmetic::argmax(std::span<const float> x, int rows, int cols, bool checked,
                              std::span<std::int32_t> y) {
  take(
      call(
          "argmax", "",
          {{"rows", text(rows)}, {"cols", text(cols)}, {"dtype", "f32"}, {"checked", checked ? "yes" : "no"}},
          {{"x", "f32", {rows, cols}, bytes(x)}}, {{"y", "int32", {rows}}})[0],
      y);
}

}  // namespace assay::scenarios
