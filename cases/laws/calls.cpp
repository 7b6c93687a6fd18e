// Laws of any op: rows that know nothing of each other, memory that is laid out otherwise, calls that were
// made before.
#include <algorithm>
#include <numeric>

#include "cases/laws/families.hpp"
#include "reference/inputs/random.hpp"
#include "reference/ops/operand.hpp"

namespace assay::law_families {
namespace {

// What counts an op's rows; "" where its rows know of each other (a scale for all of them, slots that are
// drawn together).
std::string rows_of(const Case& c) {
  static constexpr std::pair<std::string_view, std::string_view> kRows[] = {
      {"softmax", "rows"}, {"logsumexp", "rows"}, {"layernorm", "rows"},  {"rmsnorm", "rows"},
      {"argmax", "rows"},  {"wht", "rows"},       {"dequantize", "rows"}, {"quantize", "rows"},
      {"matmul", "m"},     {"moe", "tokens"},     {"attention", "batch"}};
  for (const auto& [op, rows] : kRows)
    if (op == c.op->name) {
      // Causal masks of softmax are aligned to the last row.
      if (op == "softmax" && c.attributes.text("mask") == "causal") return "";
      return std::string(rows);
    }
  return "";
}

Case with_count(const Case& c, const std::string& rows, std::int64_t count) {
  return changed(c, {{rows, std::to_string(count)}});
}

// A format whose scale spans rows says something else of fewer rows; then an output would be another one.
bool rows_stand_alone(const LawCall& base) {
  for (const auto& t : base.inputs.tensors) {
    const Format& f = format(t.format);
    if (t.role != TensorRole::output) continue;
    if (f.kind == FormatKind::scaled &&
        (f.axis == ScaleAxis::tensor || f.axis == ScaleAxis::head || f.axis == ScaleAxis::channel))
      return false;
    for (const PlaneSpec& plane : planes(f, t.shape))
      if (plane.suffix == ".global_scale" || plane.suffix == ".scale_2") return false;
  }
  return true;
}

}  // namespace

Case changed(const Case& c, const std::vector<std::pair<std::string, std::string>>& attributes) {
  auto all = c.attributes.all();
  for (const auto& [key, value] : attributes) all[key] = value;
  Case result = c;
  result.attributes = Attributes::complete(c.op->attributes, all);
  return result;
}

std::vector<std::int64_t> batch_points(const LawCall& base) {
  const std::string rows = rows_of(base.c);
  if (rows.empty() || !rows_stand_alone(base)) return {};
  if (base.c.op->name == "attention" && base.c.attributes.integer("page") > 0) return {};
  const std::int64_t n = base.c.attributes.integer(rows);
  // Every count that vectors, warps and small tiles know, then the edges of powers of two; a threshold
  // between two of them is found by halving.
  std::vector<std::int64_t> points;
  for (std::int64_t i = 1; i < std::min<std::int64_t>(n, 35); ++i) points.push_back(i);
  for (std::int64_t p = 48; p < n; p += p < 128 ? 16 : p / 4)
    for (const std::int64_t i : {p - 1, p, p + 1})
      if (i < n && i > points.back()) points.push_back(i);
  if (n > 35) points.push_back(n - 1);
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

Relation batch(const LawCall& base, std::int64_t point, const InputLists&) {
  const std::string rows = rows_of(base.c);
  const std::int64_t n = base.c.attributes.integer(rows);
  if (point < 1 || point >= n)
    throw InputError(InputErrorKind::bad_value, "batch: a count from 1 to that of the case, less 1");
  const Case fewer = with_count(base.c, rows, n - 1), part = with_count(base.c, rows, point);
  const Units units{base.c, fewer, n};
  return {{part, sliced(units, base.inputs, part, 0)}, sliced_pieces(units, part, 0)};
}

std::vector<std::int64_t> order_points(const LawCall& base) {
  const std::string rows = rows_of(base.c);
  if (rows.empty() || !rows_stand_alone(base) || base.c.attributes.integer(rows) < 2) return {};
  return {1, 2};
}

// 1: backwards, 2: shuffled.
Relation order(const LawCall& base, std::int64_t point, const InputLists&) {
  const std::string rows = rows_of(base.c);
  const std::int64_t n = base.c.attributes.integer(rows);
  std::vector<std::int64_t> places(static_cast<std::size_t>(n));
  std::iota(places.begin(), places.end(), std::int64_t{0});
  std::ranges::reverse(places);
  const Stream stream(base.c.seed, "order of rows");
  if (point == 2)
    for (std::size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[stream.below(i, i)]);
  const Case fewer = with_count(base.c, rows, n - 1);
  Units units{base.c, fewer, n};
  if (base.c.op->name == "attention" && base.c.attributes.integer("page") > 0) units.kept = {"k", "v"};
  return {{base.c, permuted(units, base.inputs, places)}, permuted_pieces(units, places)};
}

namespace {

SharedRanges all_of(const LawCall& base) {
  SharedRanges pieces;
  for (const auto& t : base.inputs.tensors)
    if (t.role == TensorRole::output) pieces.push_back({{0, 0, element_count(t.shape)}});
  return pieces;
}

}  // namespace

std::vector<std::int64_t> padding_points(const LawCall& base) {
  return base.c.layout == "dense" ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{};
}

Relation padding(const LawCall& base, std::int64_t point, const InputLists&) {
  Relation r{base, all_of(base)};
  r.call.c.layout = point == 1 ? "gaps" : "far";
  return r;
}

std::vector<std::int64_t> replay_points(const LawCall&) { return {1, 2}; }

// In a new process, behind one and behind three calls with other numbers.
Relation replay(const LawCall& base, std::int64_t point, const InputLists& lists) {
  Relation r{base, all_of(base)};
  r.restart = true;
  for (std::int64_t i = 0; i < 2 * point - 1; ++i) {
    LawCall other = base;
    other.c.seed = base.c.seed + 1000 + static_cast<std::uint64_t>(i);
    other.inputs = make_inputs(other.c, lists);
    r.before.push_back(std::move(other));
  }
  return r;
}

// Of products of codes: the int8 path, say, of weights that the bf16 path takes too.
std::vector<std::int64_t> paths_points(const LawCall& base) {
  const Attributes& a = base.c.attributes;
  const auto codes = [&](const char* activations, const char* weights) {
    return resolve_path(a.text("path"), format(a.text(activations)), format(a.text(weights))) == "codes";
  };
  const bool stated = (base.c.op->name == "matmul" && codes("a", "b")) ||
                      (base.c.op->name == "moe" && codes("a", "w") && codes("a", "w2"));
  return stated ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{};
}

// 1: in f32, 2: in bf16.
Relation paths(const LawCall& base, std::int64_t point, const InputLists&) {
  Relation r{base, all_of(base)};
  r.call.c = changed(base.c, {{"path", point == 1 ? "f32" : "bf16"}});
  r.parts = true;
  return r;
}

std::vector<std::int64_t> calls_points(const LawCall&) { return {1, 2, 3}; }

// 1: in a new process; 2: once more in it; 3: behind a call of another shape.
Relation calls(const LawCall& base, std::int64_t point, const InputLists& lists) {
  Relation r{base, all_of(base)};
  r.restart = point == 1;
  if (point == 3) {
    const std::string rows = rows_of(base.c);
    const std::int64_t n = rows.empty() ? 0 : base.c.attributes.integer(rows);
    if (n < 2) throw InputError(InputErrorKind::bad_value, "calls: the case has no second shape");
    LawCall other;
    other.c = with_count(base.c, rows, n / 2);
    other.inputs = make_inputs(other.c, lists);
    r.before.push_back(std::move(other));
  }
  return r;
}

}  // namespace assay::law_families
