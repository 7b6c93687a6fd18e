#include "reference/ops/formula/library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <span>
#include <sstream>

#include "reference/formats/format.hpp"
#include "reference/near_names.hpp"
#include "reference/ops/formula/bound.hpp"
#include "reference/ops/formula/plan.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ordinary_file.hpp"
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
  std::map<std::string, std::vector<Node>> axes;  // of each tensor
  std::deque<std::string> words;
  std::vector<KeySpec> attributes;
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
    axes = std::move(outline.axes);
    for (const Size& s : text.sizes)
      attributes.push_back({s.name, KeyKind::integer, "", s.range, "a size of the formula"});
    for (const AttributeLine& a : text.attributes) {
      const KeyKind kind = a.kind == "real"   ? KeyKind::real
                           : a.kind == "int"  ? KeyKind::integer
                           : a.kind == "word" ? KeyKind::word
                                              : KeyKind::format;
      const std::string_view meaning = kind == KeyKind::format ? "a format of the formula" : "of the formula";
      attributes.push_back({a.name, kind, a.fallback, a.allowed, meaning});
    }
    for (KeySpec& spec : attributes)
      if (!spec.fallback.empty())
        spec.fallback = keep(KeyTable("attribute", attributes).canonical(spec, spec.fallback));
    for (const Input& in : text.inputs) signature += in.name + brackets(in.axes) + " " + in.format + "\n";
    for (const Equation& e : text.equations)
      if (e.kind == EquationKind::out) {
        std::string indices;
        for (const Index& i : e.indices) indices += (indices.empty() ? "" : ",") + i.name;
        signature += "-> " + e.name + brackets(axes.at(e.name)) + " " + e.format + "\n";
        if (!formula.empty()) formula += "; ";
        formula += e.name + "[" + indices + "] = " + print(e.value);
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
    for (const Equation& e : text.equations) {
      if (e.kind != EquationKind::out) continue;
      TensorSpec t{e.name, TensorRole::output, format_name(e.format, a), {}};
      for (const Node& axis : axes.at(e.name)) t.shape.push_back(extent(axis, a, e.name));
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
      } else if (IndexDraw run(state ^ (values.size() * 0xd6e8feb86659fd93u));
                 run.below(3) == 0 && span >= values.size()) {
        // One after the other, as positions of a prompt are, from a first one that is small as often as not.
        const auto first = static_cast<std::int64_t>(run.below(span - values.size() + 1) >> run.below(20));
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = low + first + static_cast<std::int64_t>(i);
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

// The name behind `op`, without reading the rest; a text that has none is refused when it is read.
std::string name_of(std::string_view text) {
  for (std::string_view line : listed_words(text, '\n'))
    if (line.starts_with("op ")) {
      line.remove_prefix(std::min(line.find_first_not_of(' ', 3), line.size()));
      return std::string(line.substr(0, line.find_first_of(" \t\r#")));
    }
  return "";
}

// Every program has the texts; one becomes an op when it is asked for.
class Library {
 public:
  Library() {
    for (const std::string_view text : kLibraryTexts) rows_.push_back({name_of(text), text, nullptr});
    if (const char* files = std::getenv(kFilesVariable))
      for (const std::string_view path : listed_words(files, ':'))
        if (!path.empty()) take_file(std::string(path));
  }
  std::vector<const Op*> ops() {
    const std::lock_guard lock(mutex_);
    std::vector<const Op*> list;
    for (Row& row : rows_) list.push_back(&made(row).op());
    return list;
  }
  const FormulaOp* find(std::string_view name) {
    const std::lock_guard lock(mutex_);
    const auto row = std::ranges::find(rows_, name, &Row::name);
    return row == rows_.end() ? nullptr : &made(*row);
  }
  const Op& add(std::string_view text) {
    const std::lock_guard lock(mutex_);
    return take(text);
  }

 private:
  struct Row {
    std::string name;
    std::string_view text;  // of those that are not made yet
    std::unique_ptr<FormulaOp> op;
  };
  static const FormulaOp& made(Row& row) {
    if (row.op == nullptr) row.op = std::make_unique<FormulaOp>(row.text);
    return *row.op;
  }
  const Op& take(std::string_view text) {
    auto op = std::make_unique<FormulaOp>(text);
    const std::string name(op->op().name);
    if (std::ranges::find(assay::ops(), name, &Op::name) != assay::ops().end() ||
        std::ranges::find(rows_, name, &Row::name) != rows_.end())
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("an op '{}' is there already: give yours another name", name));
    rows_.push_back({name, "", std::move(op)});
    return rows_.back().op->op();
  }
  void take_file(const std::string& path) {
    const std::string_view why = why_no_file(path);
    std::ifstream stream;
    std::ostringstream text;
    if (why.empty()) stream.open(path), text << stream.rdbuf();
    if (!why.empty() || !stream)
      throw InputError(InputErrorKind::bad_value, fmt::format("{}: no formula can be read from it: {}", path,
                                                              why.empty() ? "it is no file of text" : why));
    try {
      take(text.str());
    } catch (const InputError& e) {
      throw InputError(e.kind(), fmt::format("{}: {}", path, e.what()));
    }
  }

  std::mutex mutex_;
  std::deque<Row> rows_;
};
Library& library() {
  static Library all;
  return all;
}

}  // namespace

std::vector<const Op*> ops() { return library().ops(); }
const FormulaOp* find(std::string_view name) { return library().find(name); }
const Op& add(std::string_view text) { return library().add(text); }

}  // namespace assay::formula
