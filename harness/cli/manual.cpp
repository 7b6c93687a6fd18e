// assay manual: one page for each op, format, matrix unit and key, as plain text or as Markdown.
#include "harness/cli/manual.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/cli/commands.hpp"
#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/arithmetic/order.hpp"
#include "reference/formats/block.hpp"
#include "reference/near_names.hpp"
#include "reference/ops/formula/library.hpp"
#include "reference/ops/operand.hpp"
#include "reference/ops/replayed_moe.hpp"
#include "reference/ops/signature.hpp"
#include "reference/replay/attention_schedule.hpp"
#include "reference/replay/row_schedule.hpp"

namespace assay {
namespace {

using Row = std::vector<std::string>;

// A page is written once, by sections; how it looks is decided here.
class Page {
 public:
  explicit Page(bool markdown) : markdown_(markdown) {}

  void title(std::string_view name, std::string_view formula) {
    text_ += markdown_ ? fmt::format("## {}\n\n    {}\n", name, formula)
                       : fmt::format("{}\n  {}\n", name, formula);
  }
  void section(std::string_view name, std::string_view what) {
    text_ += markdown_ ? fmt::format("\n**{}**: {}\n\n", name, what) : fmt::format("\n{}: {}\n", name, what);
  }
  void table(const Row& head, const std::vector<Row>& rows) {
    if (markdown_) {
      text_ += "| ";
      for (const auto& cell : head) text_ += cell + " | ";
      text_.back() = '\n';
      for (std::size_t i = 0; i < head.size(); ++i) text_ += "|---";
      text_ += "|\n";
      for (const auto& row : rows) {
        text_ += "|";
        for (std::size_t i = 0; i < row.size(); ++i)
          text_ += i == 0 ? fmt::format(" `{}` |", row[i]) : fmt::format(" {} |", escaped(row[i]));
        text_ += "\n";
      }
      return;
    }
    std::vector<std::size_t> widths(head.size(), 0);
    for (const auto& row : rows)
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    for (const auto& row : rows) {
      text_ += " ";
      for (std::size_t i = 0; i < row.size(); ++i) text_ += fmt::format(" {:<{}} ", row[i], widths[i]);
      text_.resize(text_.find_last_not_of(' ') + 1);
      text_ += "\n";
    }
  }
  void lines(std::string_view text) {
    for (std::string_view rest = text; !rest.empty();) {
      const auto end = std::min(rest.find('\n'), rest.size());
      code(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  void code(std::string_view line) {
    text_ += markdown_ ? fmt::format("    {}\n", line) : fmt::format("  {}\n", line);
  }
  std::string text() && { return std::move(text_); }

 private:
  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
    return out;
  }

  bool markdown_;
  std::string text_;
};

std::vector<Row> tensor_rows(std::string_view signature) {
  std::vector<Row> rows;
  for (const SignatureLine& line : signature_lines(signature))
    rows.push_back({std::string(line.name), fmt::format("[{}]", line.axes), std::string(line.format),
                    line.output ? "output" : "input",
                    line.condition.empty() ? "" : fmt::format("if {}", line.condition)});
  return rows;
}

std::string default_text(std::string_view fallback) {
  if (fallback.empty()) return "required";
  if (fallback.starts_with('@')) return fmt::format("default: that of {}", fallback.substr(1));
  return fmt::format("default {}", fallback);
}

// A table's keys, as every page shows them.
void add_keys(Page& page, std::span<const KeySpec> keys, const char* title) {
  std::vector<Row> rows;
  for (const KeySpec& k : keys)
    rows.push_back(
        {std::string(k.name), default_text(k.fallback), allowed_text(k),
         k.needs.empty() ? std::string(k.meaning) : fmt::format("{}; needs {}", k.meaning, k.needs)});
  page.table({title, "default", "allowed", "meaning"}, rows);
}

std::string_view specials_of(const ScalarFormat& f) {
  switch (f.specials) {
    case Specials::ieee:
      return "Inf and NaN as in IEEE 754";
    case Specials::nan_all_ones:
      return "no Inf; NaN is the code of which all bits but the sign are set";
    case Specials::nan_minus_zero:
      return "no Inf and no -0, whose code is NaN";
    case Specials::none:
      break;
  }
  return f.kind == ScalarKind::power_of_two ? "NaN is 255" : "every code is a number";
}

// How the codes of a scalar format lie, and what they stand for.
std::string stored_scalar(const ScalarFormat& f) {
  std::string text = f.storage_bytes == 0 ? "two codes to a byte, the earlier element in bits 0..3\n"
                                          : fmt::format("{} byte{} for each element, little-endian\n",
                                                        f.storage_bytes, f.storage_bytes == 1 ? "" : "s");
  if (f.kind == ScalarKind::integer)
    return text +
           fmt::format("value = the integer, {}{} bits", f.is_signed ? "two's complement, " : "", f.bits);
  if (f.kind == ScalarKind::power_of_two)
    return text + fmt::format("value = 2^(code - {}); {}", f.bias, specials_of(f));
  return text + fmt::format(
                    "from the upper bit on: {}{} of exponent, bias {}, {} of fraction\n"
                    "largest number {}; {}",
                    f.is_signed ? "sign, " : "", f.exponent_bits, f.bias, f.fraction_bits, f.max_finite,
                    specials_of(f));
}

// Of a tensor whose three axes are told apart by their lengths.
const Shape kShown{3, 5, 512};

}  // namespace

std::string manual_page(const Format& f, bool markdown) {
  Page page(markdown);
  page.title(f.name, fmt::format("{:.5g} bits for each element; {}", f.bits_per_element, f.note));
  page.section("planes", fmt::format("of a tensor x[outer, middle, inner] = {}", to_string(kShown)));
  std::vector<Row> rows;
  for (const PlaneSpec& plane : planes(f, kShown))
    rows.push_back(
        {"x" + plane.suffix, plane.format, to_string(plane.shape), fmt::format("{} bytes", plane.bytes)});
  page.table({"plane", "format", "shape", "bytes"}, rows);
  page.section("stored", f.kind == FormatKind::block ? "bytes of a block, or planes" : "codes, row-major");
  if (f.kind == FormatKind::block) {
    page.lines(f.block->stored);
  } else {
    page.lines(stored_scalar(scalar_format(f.element)));
    if (f.kind == FormatKind::scaled)
      page.code("number = value times the scale of its group, in f32, in plane .scale");
  }
  if (const std::string_view rule = quantiser_rule(f); !rule.empty()) {
    page.section("quantiser", "where a kernel is asked to make it");
    page.code(rule);
  }
  page.section("example", "a kernel that reads it; -b your own");
  page.code(fmt::format("assay run 'dequantize rows=4 cols=512 from={}' -b cpu", f.name));
  return std::move(page).text();
}

std::string manual_page(const Op& o, bool markdown) {
  Page page(markdown);
  page.title(o.name, o.formula);
  page.section("tensors",
               "name, shape, format; shapes and formats in terms of the attributes, quotients rounded up");
  page.table({"tensor", "shape", "format", "role", "present"}, tensor_rows(o.signature));
  if (!o.special.empty()) {
    page.section("special values", "what they give, of a kernel that does not compute it so too");
    std::vector<Row> lines;
    for (std::string_view rest = o.special; !rest.empty();) {
      const auto end = std::min(rest.find('\n'), rest.size()), colon = rest.find(": ");
      lines.push_back(
          {std::string(rest.substr(0, colon)), std::string(rest.substr(colon + 2, end - colon - 2))});
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    page.table({"input", "output"}, lines);
  }
  page.section("attributes", "the words of a case; formats are those of `assay list formats`");
  add_keys(page, o.attributes, "attribute");
  std::vector<Row> rows;
  if (o.name == "matmul" || o.name == "moe") {
    page.section("paths", "what is multiplied");
    for (const PathMeaning& each : kPathMeanings)
      rows.push_back({std::string(each.path), std::string(each.meaning)});
    page.table({"path", "meaning"}, rows);
  }
  if (const formula::FormulaOp* f = formula::find(o.name)) {
    page.section("formula", "the op as it is written; its words are those of docs/formulas.md");
    page.lines(f->text().source);
  }
  if (o.contract.empty()) {
    page.section("contract", "none; the result is exact, and any other is wrong");
  } else {
    page.section(
        "contract",
        "what a backend declares of its arithmetic; of a matrix unit `assay manual UNIT` is the page; "
        "key=a|b and "
        "key!=a|b behind needs are of other keys, and of a/b one is enough");
    add_keys(page, o.contract, "key");
    if (std::ranges::find(o.contract, KeyKind::order, &KeySpec::kind) != o.contract.end()) {
      page.section("orders", "of the n terms of a sum");
      rows.clear();
      for (const OrderMeaning& each : kOrderMeanings)
        rows.push_back({std::string(each.word), std::string(each.meaning)});
      page.table({"order", "meaning"}, rows);
    }
  }
  if (o.name == "quantize" || o.name == "requantize" || o.name == "kv_write") {
    page.section("quantisers",
                 "the rule of each format; x and absmax are exact, the rest within what the contract says");
    rows.clear();
    for (const Format& f : formats()) {
      const bool named = f.kind == FormatKind::block;
      const std::string of{named                          ? f.name
                           : f.kind == FormatKind::scalar ? "numbers without a scale"
                                                          : "*_tensor ... *_g32"};
      const std::string_view rule = quantiser_rule(f);
      if (!rule.empty() &&
          (rows.empty() || std::ranges::find(rows, of, [](const Row& r) { return r[0]; }) == rows.end()))
        rows.push_back({of, std::string(rule)});
    }
    page.table({"format", "rule"}, rows);
  }
  page.section("example", "a small case, with `assay explain` in place of `assay run` to see its limits");
  const std::string_view runs = formula::find(o.name) != nullptr ? "formula" : "cpu";
  page.code(fmt::format("assay run '{} {}' -b {}", o.name, o.example, runs));
  return std::move(page).text();
}

std::string schedule_page(bool markdown) {
  Page page(markdown);
  page.title("schedules", "all that decides the bits of a call, as `assay identify` finds it");
  page.section("sum", "of matmul; of an op below behind a prefix: sum., squares., up., down.");
  add_keys(page, schedule_keys(), "key");
  page.section("moments", "of variance=welford, behind moments.");
  add_keys(page, moments_keys(), "key");
  for (const std::string& name : op_names())
    if (has_row_schedule(name)) {
      std::vector<KeySpec> keys;
      for (const RowScheduleKey* key : row_keys(name)) keys.push_back(*key);
      page.section(name, "steps of a row, all in f32 where no word says otherwise");
      add_keys(page, keys, "key");
    }
  page.section("moe", "beside the sums up. and down.");
  add_keys(page, moe_schedule_keys(), "key");
  page.section("attention", "each step is written out in reference/replay/attention_schedule.hpp");
  add_keys(page, attention_schedule_keys(), "key");
  return std::move(page).text();
}

std::string manual_page(const MatrixUnit& u, bool markdown) {
  constexpr auto rounding = [](const MatrixUnit& unit) {
    return unit.rounding == Rounding::nearest_even  ? "to nearest, ties to even"
           : unit.rounding == Rounding::toward_zero ? "toward zero"
                                                    : "toward -Inf";
  };
  Page page(markdown);
  page.title(u.name, fmt::format("c + sum a_k b_k over blocks of {} products, into {}", u.group, u.out));
  page.section("arithmetic", "of a block");
  const CombineMeaning& own = *std::ranges::find(kCombineMeanings, u.combine, &CombineMeaning::combine);
  for (const CombineMeaning& each : kCombineMeanings)  // and what its own is told by
    if (&each == &own || own.meaning.find(fmt::format("`{}`", each.name)) != std::string_view::npos)
      page.code(fmt::format("{}: {}", each.name, each.meaning));
  page.table({"key", "value"},
             {{"F", std::to_string(u.fraction_bits)},
              {"g", fmt::format("{} products in a block", u.group)},
              {"least", std::to_string(u.least_exponent)},
              {"inputs", std::string(u.inputs)},
              {"out", fmt::format("{}, rounded {}", u.out, rounding(u))},
              {"scales",
               u.scales.empty() ? "none" : fmt::format("{}, one for {} elements", u.scales, u.scale_block)},
              {"standing", fmt::format("{}: {}", to_string(u.standing), u.source)}});
  page.section("in a contract", "a key for a sum takes its name: acc, qk, pv");
  page.lines(
      "order=sequential: blocks of g in ascending k, each with the result of the last as its c, from 0; a "
      "short "
      "block at the end is padded with zeros\n"
      "order=any: any products share a block, in any place of it, with zeros; blocks chain, or partial sums "
      "are "
      "added in f32; `block` and `split` narrow that\n"
      "ftz=yes: results below 2^-126 may become zero");
  page.section("special values", "in every unit");
  page.lines(
      "a NaN, 0 times Inf, or infinities of both signs: NaN; else an infinity wins\n"
      "a result beyond the largest number of out: Inf under every rounding; a zero: +0");
  return std::move(page).text();
}

// An op, or a key in each of its meanings, with the ops that have it.
std::string page_of(std::string_view name, bool markdown) {
  const std::vector<std::string> ops = op_names();
  if (std::ranges::count(ops, name) > 0) return manual_page(op(name), markdown);
  struct Meaning {
    const KeySpec* key;
    const char* of;  // a case or a contract
    std::vector<std::string> ops;
  };
  std::vector<Meaning> meanings;
  std::set<std::string> names(ops.begin(), ops.end());
  for (const std::string& each : ops) {
    const Op& o = op(each);
    for (const auto& [keys, of] : {std::pair{o.attributes, "a case"}, {o.contract, "a contract"}})
      for (const KeySpec& k : keys) {
        names.emplace(k.name);
        if (k.name != name) continue;
        const auto same = [&](const Meaning& m) {
          return m.of == of && m.key->meaning == k.meaning && m.key->allowed == k.allowed &&
                 m.key->fallback == k.fallback && m.key->needs == k.needs;
        };
        const auto known = std::ranges::find_if(meanings, same);
        if (known != meanings.end())
          known->ops.push_back(each);
        else
          meanings.push_back({&k, of, {each}});
      }
  }
  if (meanings.empty()) {
    for (const Format& f : formats()) names.emplace(f.name);
    for (const MatrixUnit& unit : matrix_units()) names.emplace(unit.name);
    const std::string near = nearest_name(name, {names.begin(), names.end()});
    throw InputError(InputErrorKind::unknown_name,
                     fmt::format("no op, key, format or matrix unit '{}'; {}allowed: {}", excerpt(name),
                                 near.empty() ? "" : fmt::format("did you mean '{}'? ", near),
                                 "what `assay list ops|formats|units` names, and the keys of their pages"));
  }
  Page page(markdown);
  page.title(name, "a key");
  for (const Meaning& m : meanings) {
    page.section(fmt::format("of {}", m.of), fmt::format("{}", fmt::join(m.ops, " ")));
    add_keys(page, {m.key, 1}, "key");
  }
  return std::move(page).text();
}

void add_manual(const Command& program, int& exit_code) {
  auto words = std::make_shared<std::vector<std::string>>();
  auto markdown = std::make_shared<bool>(false);
  const Command command = program.subcommand(
      "manual", "Print the page of an op, a format, a matrix unit, a key or the schedules, or of every op");
  command.option("name", *words,
                 "Ops, formats, matrix units and keys; none: all ops; formats, units: all of them; "
                 "schedules: their keys");
  command.flag("--markdown", *markdown, "As Markdown");
  command.footer(
      "Examples:\n  assay manual softmax\n  assay manual q4_K\n  assay manual hopper_f16\n  assay manual "
      "ties\n  assay manual "
      "schedules\n  assay manual "
      "--markdown");
  command.callback([words, markdown, &exit_code] {
    if (words->empty()) *words = op_names();
    exit_code = kGreen;
    if (*words == std::vector<std::string>{"schedules"}) {
      fmt::print("{}", schedule_page(*markdown));
      return;
    }
    if (*words == std::vector<std::string>{"formats"}) {
      words->clear();
      for (const auto& f : formats()) words->emplace_back(f.name);
    }
    if (*words == std::vector<std::string>{"units"}) {
      words->clear();
      for (const MatrixUnit& unit : matrix_units()) words->emplace_back(unit.name);
    }
    for (std::size_t i = 0; i < words->size(); ++i) {
      const std::string& name = (*words)[i];
      const Format* f = find_format(name);
      const MatrixUnit* unit = find_matrix_unit(name);
      fmt::print("{}{}", i == 0 ? "" : "\n",
                 f != nullptr      ? manual_page(*f, *markdown)
                 : unit != nullptr ? manual_page(*unit, *markdown)
                                   : page_of(name, *markdown));
    }
  });
}

}  // namespace assay
