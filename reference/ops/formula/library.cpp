#include "reference/ops/formula/library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <mutex>
#include <span>
#include <sstream>

#include "reference/formats/format.hpp"
#include "reference/near_names.hpp"
#include "reference/ops/formula/bound.hpp"
#include "reference/ops/formula/plan.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/word_list.hpp"

namespace assay::formula {

extern const std::span<const std::string_view> kLibraryTexts;  // written by the build from library/*.op

namespace {

// The number of a range's end.
double real_of(const Node& n, const Attributes& a) {
  if (n.kind == NodeKind::number) return n.number;
  if (n.kind == NodeKind::call && n.name == "neg") return -real_of(n.args[0], a);
  return static_cast<double>(integer_of(n, a));
}

// dtype need not be declared where it is used.
bool uses_format(const Text& t, std::string_view name) {
  return std::ranges::any_of(t.inputs, [&](const Input& in) { return in.format == name; }) ||
         std::ranges::any_of(t.equations, [&](const Equation& e) { return e.format == name; });
}

std::string brackets(const std::vector<Node>& axes) {
  if (axes.empty()) return "[1]";
  std::string text = "[";
  for (std::size_t k = 0; k < axes.size(); ++k) {
    std::string axis = print(axes[k]);
    if (axis.size() > 2 && axis.front() == '(' && axis.back() == ')') axis = axis.substr(1, axis.size() - 2);
    text += (k > 0 ? "," : "") + axis;
  }
  return text + "]";
}

}  // namespace

struct FormulaOp::Parts {
  Text text;
  Keys keys;
  std::deque<std::string> words;
  std::vector<AttributeSpec> attributes;
  std::string formula, signature, example;
  Op op;

  std::string_view keep(std::string word) { return words.emplace_back(std::move(word)); }

  explicit Parts(std::string_view source) : text(parse(source)) {
    const bool declared =
        std::ranges::find(text.attributes, "dtype", &AttributeLine::name) != text.attributes.end();
    if (!declared && uses_format(text, "dtype"))
      text.attributes.push_back({"dtype", "format", "f32|f16|bf16", "f32"});
    Outline outline = outline_of(text);
    keys = std::move(outline.keys);
    for (const Size& s : text.sizes)
      attributes.push_back({s.name, AttributeKind::integer, "", s.range, "a size of the formula"});
    for (const AttributeLine& a : text.attributes) {
      const AttributeKind kind = a.kind == "real"   ? AttributeKind::real
                                 : a.kind == "int"  ? AttributeKind::integer
                                 : a.kind == "word" ? AttributeKind::word
                                                    : AttributeKind::format;
      const std::string_view meaning =
          kind == AttributeKind::format ? "a format of the formula" : "of the formula";
      attributes.push_back({a.name, kind, a.fallback, a.allowed, meaning});
    }
    for (AttributeSpec& spec : attributes)
      if (!spec.fallback.empty()) spec.fallback = keep(canonical_attribute(spec, std::string(spec.fallback)));
    for (const Input& in : text.inputs) signature += in.name + brackets(in.axes) + " " + in.format + "\n";
    for (const Equation& e : text.equations)
      if (e.kind == EquationKind::out) {
        std::string axes;
        for (const Index& i : e.indices) axes += (axes.empty() ? "" : ",") + i.name;
        signature += "-> " + e.name + brackets(outline.axes.at(e.name)) + " " + e.format + "\n";
        if (!formula.empty()) formula += "; ";
        formula += e.name + "[" + axes + "] = " + print(e.value);
      }
    if (!signature.empty()) signature.pop_back();
    if (!text.comment.empty()) formula = text.comment;
    example = text.example;
    if (example.empty())
      for (const Size& s : text.sizes) example += fmt::format("{}{}=4", example.empty() ? "" : " ", s.name);
    op = Op{.name = text.name,
            .formula = formula,
            .signature = signature,
            .example = example,
            .attributes = attributes,
            .contract = keys.rows(),
            .tensors = {this, [](const void* p, const Attributes& a) { return of(p).tensors(a); }},
            .indices = nullptr,
            .truth = {this, [](const void* p, const Attributes& a, const TensorSet& in, const Contract& c) {
                        return truths_of(of(p).text, plan_of(of(p).text, a, c), in);
                      }}};
    const auto drawn = [](const Input& in) { return !in.range.empty(); };
    if (std::ranges::any_of(text.inputs, drawn))
      op.indices = {this, [](const void* p, const Attributes& a, std::uint64_t seed, TensorSet& in) {
                      of(p).indices(a, seed, in);
                    }};
    if (std::ranges::count(text.equations, EquationKind::out, &Equation::kind) > 1)
      op.truth_given = {this, [](const void* p, const Attributes& a, const TensorSet& in, const Contract& c,
                                 const TensorSet& out) {
                          return truths_of(of(p).text, plan_of(of(p).text, a, c), in, &out);
                        }};
  }

  static const Parts& of(const void* p) { return *static_cast<const Parts*>(p); }

  // Ends of an input's range, for integers the drawn ones.
  bool is_index(const Input& in, const Attributes& a) const {
    const ScalarFormat* f = find_scalar_format(format_name(in.format, a));
    return !in.range.empty() && f != nullptr && f->kind == ScalarKind::integer;
  }
  std::string format_name(const std::string& name, const Attributes& a) const {
    return std::ranges::find(text.attributes, name, &AttributeLine::name) != text.attributes.end()
               ? a.text(name)
               : name;
  }

  std::vector<TensorSpec> tensors(const Attributes& a) const {
    for (const Node& r : text.require)
      if (integer_of(r, a) == 0)
        throw InputError(InputErrorKind::bad_value, fmt::format("{} requires {}", text.name, print(r)));
    std::vector<TensorSpec> specs;
    for (const Input& in : text.inputs) {
      TensorSpec t{
          in.name, is_index(in, a) ? TensorRole::index : TensorRole::data, format_name(in.format, a), {}};
      for (const Node& axis : in.axes) t.shape.push_back(extent(axis, a, in.name));
      if (in.axes.empty()) t.shape.push_back(1);
      if (!in.range.empty() && t.role == TensorRole::data) {
        t.low = real_of(in.range[0], a);
        t.high = real_of(in.range[1], a);
      }
      specs.push_back(std::move(t));
    }
    const Plan plan = plan_of(text, a, Contract::parse("", keys.rows()));
    for (const Planned& e : plan.equations) {
      if (e.equation->kind != EquationKind::out) continue;
      TensorSpec t{e.equation->name,
                   TensorRole::output,
                   e.format != nullptr ? std::string(e.format->name) : "int32",
                   {}};
      for (std::size_t k = 0; k < e.width; ++k) t.shape.push_back(e.dims[k].extent);
      if (t.shape.empty()) t.shape.push_back(1);
      specs.push_back(std::move(t));
    }
    for (const TensorSpec& t : specs) (void)planes(format(t.format), t.shape);  // a ragged block is refused
    return specs;
  }

  std::int64_t extent(const Node& axis, const Attributes& a, const std::string& tensor) const {
    const std::int64_t n = integer_of(axis, a);
    if (n < 1)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: an axis of {} has {} = {} elements; allowed: "
                                   "1 and more",
                                   text.name, tensor, print(axis), n));
    return n;
  }

  void indices(const Attributes& a, std::uint64_t seed, TensorSet& set) const {
    for (std::size_t k = 0; k < text.inputs.size(); ++k) {
      const Input& in = text.inputs[k];
      if (!is_index(in, a)) continue;
      const std::int64_t low = integer_of(in.range[0], a), high = integer_of(in.range[1], a);
      if (high < low)
        throw InputError(InputErrorKind::bad_value,
                         fmt::format("{}: {} has the range {}..{}", text.name, in.name, low, high));
      Shape shape;
      for (const Node& axis : in.axes) shape.push_back(extent(axis, a, in.name));
      if (shape.empty()) shape.push_back(1);
      std::vector<std::int64_t> values(static_cast<std::size_t>(element_count(shape)));
      std::uint64_t state = seed;
      (void)next_mixed(state);
      IndexDraw draw(state + 0x9e3779b97f4a7c15u * (k + 1));
      const auto span = static_cast<std::uint64_t>(high - low) + 1;
      const std::int64_t inner = shape.back();
      if (in.distinct) {
        if (span < static_cast<std::uint64_t>(inner))
          throw InputError(InputErrorKind::bad_value, fmt::format("{}: {} distinct values of {} in {}..{}",
                                                                  text.name, inner, in.name, low, high));
        for (std::size_t row = 0; row < values.size(); row += static_cast<std::size_t>(inner)) {
          const auto order = draw.permutation(static_cast<std::int64_t>(span));
          for (std::int64_t i = 0; i < inner; ++i) values[row + i] = low + order[i];
        }
      } else {
        for (auto& v : values) v = low + static_cast<std::int64_t>(draw.below(span));
        // Both ends are among many: -1 for none, the last page.
        if (values.size() >= 4) {
          const std::size_t at = draw.below(values.size());
          values[at] = low;
          values[(at + 1 + draw.below(values.size() - 1)) % values.size()] = high;
        }
      }
      set[in.name] = integer_tensor(format_name(in.format, a), shape, values);
    }
  }
};

FormulaOp::FormulaOp(std::string_view text) : parts_(std::make_unique<Parts>(text)) {}
FormulaOp::~FormulaOp() = default;
const Op& FormulaOp::op() const { return parts_->op; }
const Text& FormulaOp::text() const { return parts_->text; }

namespace {

struct Library {
  std::mutex mutex;
  std::deque<FormulaOp> formulas;
  Library() {
    for (const std::string_view text : kLibraryTexts) formulas.emplace_back(text);
    if (const char* files = std::getenv(kFilesVariable))
      for (const std::string_view path : listed_words(files, ':')) take(std::string(path));
  }
  void take(const std::string& path) {
    std::ifstream stream(path);
    std::ostringstream text;
    text << stream.rdbuf();
    if (!stream)
      throw InputError(InputErrorKind::bad_value, fmt::format("{}: no formula can be read from it", path));
    try {
      FormulaOp made(text.str());
      bool taken = std::ranges::any_of(assay::ops(), [&](const Op& o) { return o.name == made.op().name; });
      for (const FormulaOp& each : formulas) taken = taken || each.op().name == made.op().name;
      if (taken)
        throw InputError(InputErrorKind::bad_value,
                         fmt::format("an op '{}' is there already: give yours another name", made.op().name));
      formulas.emplace_back(text.str());
    } catch (const InputError& e) {
      throw InputError(e.kind(), fmt::format("{}: {}", path, e.what()));
    }
  }
};
Library& library() {
  static Library all;
  return all;
}

}  // namespace

std::vector<const Op*> ops() {
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  std::vector<const Op*> list;
  for (const FormulaOp& f : all.formulas) list.push_back(&f.op());
  return list;
}

const FormulaOp* find(std::string_view name) {
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  for (const FormulaOp& f : all.formulas)
    if (f.op().name == name) return &f;
  return nullptr;
}

const Op& add(std::string_view text) {
  Library& all = library();
  auto made = FormulaOp(text).text().name;
  if (find_op(made) != nullptr)
    throw InputError(InputErrorKind::bad_value, fmt::format("an op '{}' is there already", made));
  const std::lock_guard lock(all.mutex);
  return all.formulas.emplace_back(text).op();
}

}  // namespace assay::formula
