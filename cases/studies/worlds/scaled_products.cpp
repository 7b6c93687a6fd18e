// Worlds of matmul on stored codes with scales: multiplied as codes and scaled after, or decoded first.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/studies/worlds/members_sum.hpp"
#include "cases/studies/worlds/members_unit.hpp"
#include "cases/studies/worlds/world.hpp"
#include "reference/arithmetic/accumulator.hpp"

namespace assay::worlds {
namespace {

struct Row {
  double scale;
  std::vector<double> codes;
};

Set summed(const World& w, const Accumulator& acc, std::string_view format, const std::vector<double>& a,
           const std::vector<double>& b) {
  const bool flush = declared(w, "ftz") == "yes";
  if (acc.unit != nullptr)
    return unit_sums(*acc.unit, format, a, b, {declared(w, "order") != "sequential"}, flush);
  std::vector<Term> terms;
  for (std::size_t i = 0; i < a.size(); ++i) terms.push_back({a[i], b[i], true});
  return sums(arithmetic(acc.name, flush), terms, order_of(declared(w, "order")));
}

// "epilogue_roundings: f32 roundings that apply the scales": one scale after the other, or their product.
Set epilogue(const Arithmetic& f32, const Set& dot, double sa, double sb) {
  const Set a = used(f32, sa), b = used(f32, sb);
  const Set sum = each(dot, [&](double x) { return rounded(f32, x); });
  Set y = multiplied(f32, multiplied(f32, sum, a), b);
  join(y, multiplied(f32, multiplied(f32, sum, b), a));
  join(y, multiplied(f32, sum, multiplied(f32, a, b)));
  return y;
}

std::vector<Row> rows_of_codes(const std::vector<double>& codes, const std::vector<double>& scales, int n,
                               std::size_t most) {
  std::vector<Row> rows;
  for (std::size_t i = 0; rows.size() < most && i < 40 * most; ++i) {
    Row r{scales[i % scales.size()], {}};
    for (int j = 0; j < n; ++j) {
      const std::size_t at =
          (i * 7919 + static_cast<std::size_t>(j) * 104729 + i * i * static_cast<std::size_t>(j + 3)) %
          (codes.size() + 3);
      r.codes.push_back(at < codes.size() ? codes[at] : at % 2 == 0 ? 0 : codes.back());
    }
    rows.push_back(r);
  }
  return rows;
}

Encoded encoded(const std::string& name, const std::vector<Row>& rows, int n) {
  std::vector<float> values, scales;
  for (const Row& r : rows) {
    scales.push_back(static_cast<float>(r.scale));
    // A value that f32 does not hold is no number to encode: codes are written under scale 1, and the scale
    // put beside them.
    for (const double c : r.codes) values.push_back(static_cast<float>(c));
  }
  const std::vector<float> ones(rows.size(), 1.0F);
  Encoded e =
      encode_tensor_with_scales(format(name), {static_cast<std::int64_t>(rows.size()), n}, values, ones);
  for (Plane& p : e.planes)
    if (p.spec.suffix == ".scale")
      std::copy_n(reinterpret_cast<const std::byte*>(scales.data()), p.bytes.size(), p.bytes.begin());
  return e;
}

// path=codes: codes are multiplied, scales applied after. path=f32, bf16, f16: "dequant_roundings: f32
// roundings from a stored code to an operand", which is then of the path's format.
std::vector<Batch> stored_batches(const World& w, int n, std::size_t budget) {
  const bool flush = declared(w, "ftz") == "yes";
  const Arithmetic f32 = arithmetic("f32", flush);
  const Accumulator acc = accumulator(declared(w, "acc"));
  const std::string a_format = w.attributes.at("a"), b_format = w.attributes.at("b"),
                    dtype = w.attributes.at("dtype"), path = w.attributes.at("path");
  const Format& b_row = format(b_format);
  const bool a_scaled = format(a_format).kind == FormatKind::scaled;
  std::vector<double> codes;
  if (scalar_format(b_row.element).kind == ScalarKind::integer)
    codes = {-127, -100, -3, -1, 0, 1, 2, 77, 127};
  else
    codes = numbers(b_row.element);
  const std::vector<double> scales{1,          0x1.55555p-3,    0x1.fffffep-70, 0x1.234568p-60,
                                   0x1.2p-100, 0x1.234566p-126, 0x1.8p-130,     0x1p-140,
                                   0x1.3p+60,  0x1.8p+64,       0x1.1p+100,     0x1.7p+9};
  const std::size_t side =
      std::max<std::size_t>(12, static_cast<std::size_t>(std::sqrt(static_cast<double>(budget))));
  const auto b_rows = rows_of_codes(codes, scales, n, side);
  std::vector<Row> a_rows =
      rows_of_codes(a_scaled ? codes : std::vector<double>{1, -1.5, 0x1.8p-14, 0.25, -3, 0x1.fcp+7},
                    a_scaled ? scales : std::vector<double>{1}, n, side);
  std::rotate(a_rows.begin(), a_rows.begin() + 5, a_rows.end());
  if (a_scaled)
    for (std::size_t i = 0; i < a_rows.size(); ++i)
      a_rows[i].scale = scales[(i + i / scales.size()) % scales.size()];
  Batch b;
  b.attributes = w.attributes;
  b.attributes["m"] = std::to_string(a_rows.size());
  b.attributes["n"] = std::to_string(b_rows.size());
  b.attributes["k"] = std::to_string(n);
  b.inputs["b"] = encoded(b_format, b_rows, n);
  if (a_scaled) {
    b.inputs["a"] = encoded(a_format, a_rows, n);
  } else {
    std::vector<double> values;
    for (const Row& r : a_rows) values.insert(values.end(), r.codes.begin(), r.codes.end());
    b.inputs["a"] = tensor(a_format, {static_cast<std::int64_t>(a_rows.size()), n}, values);
  }
  for (const Row& x : a_rows)
    for (const Row& y : b_rows) {
      if (path == "codes") {
        const Set dot = summed(w, acc, b_row.element, x.codes, y.codes);
        b.members.push_back(stored(epilogue(f32, dot, x.scale, y.scale), w, dtype));
        continue;
      }
      const Arithmetic operand = arithmetic(path, flush);
      Set results;
      std::vector<Set> decoded;
      for (const double c : y.codes)
        decoded.push_back(each(used(f32, y.scale), [&](double s) {
          return each(rounded(f32, c * s), [&](double v) { return rounded(operand, v); });
        }));
      std::vector<std::size_t> at(decoded.size(), 0);
      std::size_t i = 0;
      do {
        std::vector<double> operands;
        for (std::size_t j = 0; j < decoded.size(); ++j) operands.push_back(decoded[j][at[j]]);
        join(results, summed(w, acc, path, x.codes, operands));
        for (i = 0; i < at.size() && ++at[i] == decoded[i].size(); ++i) at[i] = 0;
      } while (i < at.size());
      b.members.push_back(stored(results, w, dtype));
    }
  b.inputs_of = [a_rows, b_rows](std::size_t i) {
    const Row &x = a_rows[i / b_rows.size()], &y = b_rows[i % b_rows.size()];
    return fmt::format("a={:a}*{} b={:a}*{}", x.scale, hex(x.codes), y.scale, hex(y.codes));
  };
  return {b};
}

}  // namespace

std::vector<World> scaled_product_worlds() {
  std::vector<World> all;
  const auto add = [&](int n, Words attributes, Keys contract, const char* why) {
    all.push_back(named("matmul", fmt::format("k={}", n), std::move(attributes), std::move(contract), why,
                        [n](const World& w, std::size_t budget) { return stored_batches(w, n, budget); }));
  };
  constexpr auto kEpilogue = "epilogue_roundings: f32 roundings that apply the scales";
  constexpr auto kDecode = "dequant_roundings: f32 roundings from a stored code to an operand";
  for (const char* dtype : {"f32", "bf16"})
    for (const char* ftz : {"no", "yes"}) {
      for (const char* acc : {"f32", "f16", "hopper_fp8", "ada_fp8", "cdna3_fp8", "rdna4_fp8"})
        for (const int n : {1, 3})
          add(n,
              {{"a", std::string(acc) == "cdna3_fp8" ? "e4m3fnuz_tok" : "e4m3fn_tok"},
               {"b", std::string(acc) == "cdna3_fp8" ? "e4m3fnuz_row" : "e4m3fn_row"},
               {"path", "codes"},
               {"dtype", dtype}},
              {{"acc", acc}, {"ftz", ftz}}, kEpilogue);
      for (const char* path : {"f32", "f16", "bf16"})
        for (const char* b : {"e4m3fn_row", "int8_row"})
          for (const int n : {1, 2})
            add(n, {{"a", path}, {"b", b}, {"path", path}, {"dtype", dtype}}, {{"acc", "f32"}, {"ftz", ftz}},
                kDecode);
    }
  return all;
}

}  // namespace assay::worlds
