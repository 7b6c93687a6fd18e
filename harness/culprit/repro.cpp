#include "harness/culprit/repro.hpp"
#include "harness/culprit/repro_formula.hpp"
#include "harness/culprit/repro_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>

#include "harness/verdict.hpp"
#include "reference/error.hpp"
#include "reference/formats/format.hpp"
#include "reference/ops/formula/library.hpp"

namespace assay::culprit {
namespace {

// Of an op: exact(element's index) in Python, in terms of its inputs as flat lists of Decimal, and of A,
// its attributes.
struct Definition {
  std::string_view exact;
  // The same by PyTorch, of tensors that tensor(name) makes; empty where there is none. What it stands for
  // by name and value.
  std::string_view torch = {};
  std::map<std::string_view, std::string_view> plain = {};
  std::map<std::string_view, std::string_view> needs =
      {};  // attributes that the definition leaves out, at their only value
};

constexpr std::string_view kVisible = R"(def visible(r, j, n, rows):
    if A["mask"] == "random":
        return mask[r * (A["len"] if "len" in A else A["cols"]) + j] != 0
    past = n - rows + r - j  # keys between this one and the row's own
    return A["mask"] == "none" or 0 <= past < (A["window"] if A["mask"] == "window" else past + 1)
)";
constexpr std::string_view kCap = R"(def cap(s, c):
    return c * (1 - 2 / ((2 * s / c).exp() + 1)) if c else s  # c tanh(s / c)
)";

const std::map<std::string_view, Definition>& definitions() {
  static const std::map<std::string_view, Definition> kAll = {
      {"softmax",
       {R"(def exact(r, i):
    s = {j: cap(x[r * A["cols"] + j] / A["temperature"], A["softcap"]) for j in range(A["cols"]) if visible(r, j, A["cols"], A["rows"])}
    top = max(s.values(), default=D(0))
    total = sum((v - top).exp() for v in s.values()) + ((sinks[r] - top).exp() if A["sinks"] == "yes" else 0)
    return (s[i] - top).exp() / total if i in s else D(0)
)",
        "torch.softmax(tensor(\"x\"), -1)",
        {{"mask", "none"}, {"sinks", "no"}, {"softcap", "0"}, {"temperature", "1"}}}},
      {"logsumexp",
       {R"(def exact(r):
    row = x[r * A["cols"]:(r + 1) * A["cols"]]
    return max(row) + sum((v - max(row)).exp() for v in row).ln()
)",
        "torch.logsumexp(tensor(\"x\").float(), -1)"}},
      {"rmsnorm",
       {R"(def exact(r, i):
    row = x[r * A["cols"]:(r + 1) * A["cols"]]
    return row[i] * gamma[i] / (sum(v * v for v in row) / len(row) + A["eps"]).sqrt()
)",
        R"(torch.nn.functional.rms_norm(tensor("x"), (A["cols"],), tensor("gamma"), float(A["eps"])))",
        {{"dtype", "f32"}}}},
      {"layernorm",
       {R"(def exact(r, i):
    row = x[r * A["cols"]:(r + 1) * A["cols"]]
    mean = sum(row) / len(row)
    return (row[i] - mean) / (sum((v - mean) ** 2 for v in row) / len(row) + A["eps"]).sqrt() * gamma[i] + beta[i]
)",
        R"(torch.nn.functional.layer_norm(tensor("x"), (A["cols"],), tensor("gamma"), tensor("beta"), float(A["eps"])))",
        {{"dtype", "f32"}}}},
      {"matmul",
       {R"(def exact(i, j):
    return sum(a[i * A["k"] + e] * b[j * A["k"] + e] for e in range(A["k"]))
)",
        "tensor(\"a\") @ tensor(\"b\").T",
        {{"path", "auto"}}}},
      {"attention",
       {R"(def exact(b, i, h, c):
    n, heads, d, dv, g = int(lengths[b]) if A["lengths"] == "ragged" else A["len"], A["heads"], A["d"], A["dv"], h * A["kv_heads"] // A["heads"]
    def at(j):  # the row of K and V that holds key j
        page = A["page"]
        key = int(page_table[b * -(-A["len"] // page) + j // page]) * page + j % page if page else b * A["len"] + j
        return key * A["kv_heads"] + g
    def logit(j):
        s = sum(q[((b * A["q"] + i) * heads + h) * d + e] * k[at(j) * d + e] for e in range(d)) * (A["scale"] or 1 / D(d).sqrt())
        return cap(s, A["softcap"]) - (slopes[h] * abs(n - A["q"] + i - j) if A["alibi"] == "yes" else 0)
    s = {j: logit(j) for j in range(n) if visible(i, j, n, A["q"])}
    top = max(s.values(), default=D(0))
    w = {j: (v - top).exp() for j, v in s.items()}
    total = sum(w.values()) + ((sinks[h] - top).exp() if A["sinks"] == "yes" else 0)
    return sum(p * v[at(j) * dv + c] for j, p in w.items()) / total if w else D(0)
)",
        R"(torch.nn.functional.scaled_dot_product_attention(*(tensor(n).transpose(1, 2) for n in "qkv"), enable_gqa=True).transpose(1, 2))",
        {{"mask", "none"},
         {"sinks", "no"},
         {"softcap", "0"},
         {"alibi", "no"},
         {"page", "0"},
         {"lengths", "full"},
         {"scale", "0"}},
        {{"rotate", "none"}}}},
  };
  return kAll;
}

constexpr std::string_view kAt =
    R"(def at(name, *index):  # an index that is out of range is met where nothing reads it
    inside = all(0 <= i < n for i, n in zip(index, S[name]))
    return T[name][functools.reduce(lambda flat, i_n: flat * i_n[1] + i_n[0], zip(index, S[name]), 0)] if inside else D("nan")
)";

constexpr std::size_t kMostNumbers = 20'000;

std::string hex_of(const void* data, std::size_t bytes) {
  std::string text;
  const auto* each = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) text += fmt::format("{:02x}", each[i]);
  return text;
}

// x = numbers("f", "0000803f...")  # [2,8] f32
std::string input_line(const TensorSpec& t, const std::vector<double>& numbers, bool in_tables) {
  const bool narrow = std::ranges::all_of(
      numbers, [](double v) { return std::isnan(v) || static_cast<double>(static_cast<float>(v)) == v; });
  const std::vector<float> floats(numbers.begin(), numbers.end());
  const std::string name = in_tables ? fmt::format("T[\"{0}\"], S[\"{0}\"]", t.name) : t.name;
  return fmt::format("{} = numbers(\"{}\", \"{}\"){}  # {} {}\n", name, narrow ? "f" : "d",
                     narrow ? hex_of(floats.data(), floats.size() * sizeof(float))
                            : hex_of(numbers.data(), numbers.size() * sizeof(double)),
                     in_tables ? ", " + assay::to_string(t.shape) : "", assay::to_string(t.shape), t.format);
}

// A number, or a word in quotes.
std::string python_value(const std::string& text) {
  std::size_t end = 0;
  try {
    (void)std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  if (end != text.size()) return fmt::format("\"{}\"", text);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text : fmt::format("D(\"{}\")", text);
}

std::string index_of(std::size_t at, const Shape& shape, std::string_view separator) {
  std::vector<std::int64_t> index(shape.size());
  auto left = static_cast<std::int64_t>(at);
  for (std::size_t axis = shape.size(); axis-- > 0; left /= shape[axis]) index[axis] = left % shape[axis];
  return fmt::format("{}", fmt::join(index, separator));
}

std::string python_float(double v) {
  return std::isfinite(v) ? fmt::format("float.fromhex(\"{:a}\")", v)
                          : fmt::format("float(\"{}\")", std::isnan(v) ? "nan"
                                                         : v > 0       ? "inf"
                                                                       : "-inf");
}

bool is_plain(const Case& c, const std::map<std::string_view, std::string_view>& wanted) {
  return std::ranges::all_of(
      wanted, [&](const auto& row) { return c.attributes.text(std::string(row.first)) == row.second; });
}

const std::map<std::string_view, std::string_view> kTypes = {
    {"f32", "float32"}, {"f16", "float16"}, {"bf16", "bfloat16"}};

// Whether it is one of PyTorch's own functions, of tensors that it has types for.
bool is_torchs(const Specimen& s, const Definition& definition) {
  return s.c.backend.starts_with("pytorch") && !definition.torch.empty() && is_plain(s.c, definition.plain) &&
         std::ranges::all_of(s.inputs.tensors, [](const TensorSpec& t) {
           return t.role == TensorRole::output || kTypes.contains(t.format);
         });
}

// The call of the kernel; where it is none of PyTorch's own, what was recorded.
std::string kernel_of(const Specimen& s, const Finding& found, const Definition& definition, double got,
                      const std::string& index) {
  std::vector<std::string> tensors;
  const bool by_torch = is_torchs(s, definition);
  for (const TensorSpec& t : s.inputs.tensors)
    if (by_torch && t.role != TensorRole::output)
      tensors.push_back(fmt::format("\"{}\": ({}, {}, torch.{})", t.name, t.name, assay::to_string(t.shape),
                                    kTypes.at(t.format)));
  if (!by_torch)
    return fmt::format(
        "def kernel():  # {}: as it was recorded; put the call of your library here\n    return {}\n",
        found.result.expected_path.empty() ? "what was judged" : found.result.expected_path,
        python_float(got));
  const bool on_device = s.c.backend.find("device=cuda") != std::string::npos;
  return fmt::format(
      "def kernel():\n    import torch\n    rows = {{{}}}\n    def tensor(name):\n        data, shape, kind "
      "= rows[name]\n"
      "        return torch.tensor([float(n) for n in data], dtype=kind, device=\"{}\").reshape(shape)\n"
      "    return {}[{}].item()  # when judged: {}\n",
      fmt::join(tensors, ", "), on_device ? "cuda" : "cpu", definition.torch, index, python_float(got));
}

}  // namespace

void refuse_script(const Case& c, const std::string& why) {
  throw InputError(InputErrorKind::bad_value, fmt::format("{}: {}", c.line(), why));
}

std::string repro_script(const Specimen& s, const Finding& found, const Provenance& provenance,
                         const BackendChoice& backend) {
  const CaseResult& r = found.result;
  if (r.verdict.status != Status::wrong) {
    const auto known = definitions().find(s.c.op->name);
    const bool by_torch = known != definitions().end() && is_torchs(s, known->second);
    return run_script(s, found, provenance, backend, by_torch ? known->second.torch : "");
  }
  const auto row = definitions().find(s.c.op->name);
  const formula::FormulaOp* written = formula::find(s.c.op->name);
  if (row == definitions().end() && written == nullptr) {
    std::vector<std::string_view> names;
    for (const auto& [name, definition] : definitions()) names.push_back(name);
    refuse_script(s.c, fmt::format("no definition for a script of its own; allowed: {}, and every formula",
                                   fmt::join(names, ", ")));
  }
  const Definition definition = row == definitions().end() ? Definition{} : row->second;
  for (const auto& [name, value] : definition.needs)
    if (s.c.attributes.text(std::string(name)) != value)
      refuse_script(s.c, fmt::format("{}={} has no definition for a script of its own; allowed: {}", name,
                                     s.c.attributes.text(std::string(name)), value));
  const auto truth = std::ranges::find(found.truths, found.symptom.output, &Truth::output);
  const auto output = std::ranges::find(s.inputs.tensors, found.symptom.output, &TensorSpec::name);
  if (truth == found.truths.end() || output == s.inputs.tensors.end())
    refuse_script(s.c, "no output was judged to its end");
  const std::vector<double> outputs = decode_output(found.got.at(truth->output));
  const std::size_t worst = compare(*truth, outputs).worst;
  const double middle = truth->value[worst], limit = truth->limit[worst];

  PythonFormula python;
  if (written != nullptr) python = python_formula(written->text(), truth->output);
  std::string inputs = written != nullptr ? "T, S = {}, {}\n" : "";
  std::size_t numbers = 0;
  for (const TensorSpec& t : s.inputs.tensors) {
    const bool output_read = std::ranges::find(python.stored, t.name) != python.stored.end();
    if (t.role == TensorRole::output && !output_read) continue;
    const std::vector<double> values =
        output_read ? decode_output(found.got.at(t.name)) : decode_tensor(s.inputs.set.at(t.name));
    if ((numbers += values.size()) > kMostNumbers)
      refuse_script(
          s.c, fmt::format("inputs of more than {} numbers: make the case smaller first: assay shrink ... -o "
                           "small.safetensors, then assay repro small.safetensors",
                           kMostNumbers));
    inputs += input_line(t, values, written != nullptr);
  }
  std::string attributes;
  for (const auto& [name, value] : s.c.attributes.all())
    attributes += fmt::format("{}\"{}\": {}", attributes.empty() ? "" : ", ", name, python_value(value));
  const std::string index = index_of(worst, output->shape, ", ");
  const std::string where = fmt::format("{}[{}]", truth->output, index);
  Case bare = s.c;
  bare.backend.clear(), bare.variant.clear();
  std::string text = fmt::format(
      "#!/usr/bin/env python3\n\"\"\"{}: {} is outside of what its declared arithmetic allows.\n\n{}\ncase   "
      "   {}\ndeclared  {}\n"
      "kernel    {}{}{}\nThe interval is proven for that arithmetic by assay {}{}. Python's standard library "
      "is enough.\"\"\"\n",
      s.c.op->name, where, s.c.op->formula, bare.line(), r.contract, s.c.backend,
      s.c.variant.empty() ? "" : " variant=" + s.c.variant,
      r.expected_path.empty() ? "" : ", " + r.expected_path, provenance.version,
      provenance.commit.empty() ? "" : " (" + provenance.commit + ")");
  text += fmt::format("import decimal, {}struct, sys\nfrom decimal import Decimal as D\n\n",
                      written == nullptr ? "" : "functools, math, ");
  text += "decimal.setcontext(decimal.Context(prec=200, Emin=-10**9, Emax=10**9, traps=[]))\n";
  if (written != nullptr) text += "sys.setrecursionlimit(10**6)\n";
  text +=
      "\ndef numbers(kind, text):\n    return [D(n) for n, in struct.iter_unpack(\"<\" + kind, "
      "bytes.fromhex(text))]\n\n";
  text += inputs + fmt::format("A = {{{}}}\n\n", attributes);
  if (definition.exact.find("visible(") != std::string_view::npos) text += std::string(kVisible) + "\n";
  if (definition.exact.find("cap(") != std::string_view::npos) text += std::string(kCap) + "\n";
  if (written != nullptr) text += std::string(kAt) + "\n" + python.text;
  text +=
      std::string(definition.exact) + "\n" + kernel_of(s, found, definition, outputs[worst], index) + "\n";
  text += fmt::format(
      "low, high = {}, {}\nvalue, got = exact({}), kernel()\n"
      "print(f\"{}: exact {{value:.12g}}, got {{got:.9g}}, allowed {{low:.9g}} .. {{high:.9g}}\")\n"
      "inside = low <= got <= high or (got != got and low != low)\n"
      "if low < high and not low <= value <= high and value == value: print(\"(what is declared rounds in "
      "between: its "
      "results lie in that interval, and not around the "
      "exact value)\")\n"
      "print(\"inside\" if inside else \"outside\" if not low < high or got - got != 0 else\n"
      "      f\"outside: {{abs(got - (low + high) / 2) / ((high - low) / 2):.3g}} times the bound\")\n"
      "sys.exit(0 if inside else 1)\n",
      python_float(middle - limit), python_float(middle + limit), index, where);
  return text;
}

}  // namespace assay::culprit
