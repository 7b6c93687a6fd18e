// Inputs of the worlds of attention, and the members of each of their rows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/studies/worlds/attention_batches.hpp"
#include "cases/studies/worlds/inputs.hpp"
#include "cases/studies/worlds/members_attention.hpp"

namespace assay::worlds {
namespace {

// Keys that a mask hides stand in the row under a mask that is added, at emu at their places in a block,
// and in tiles and parts that are counted from key 0, their numbers read as 0; else they are as if they
// were not there.
Set row_members(Attention a, Keys3 x) {
  if (a.is_emulated) return emulated_members(a, x);
  if (a.mask != Attention::Mask::none || a.hidden.empty()) return attention_members(a, x);
  for (std::size_t i = a.hidden.size(); i-- > 0;) {
    if (!a.hidden[i]) continue;
    if (a.shaped) {
      x.v[i] = 0;
      for (double& k : x.k[i]) k = 0;
    } else {
      x.k.erase(x.k.begin() + static_cast<std::ptrdiff_t>(i));
      x.v.erase(x.v.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (!a.shaped) a.hidden.clear();
  return attention_members(a, x);
}

}  // namespace

std::vector<Batch> attention_batches(const World& w, int n, int d, const std::string& seen,
                                     std::size_t budget) {
  Attention a;
  const auto number = [&](std::string_view key) { return std::stod(std::string(declared(w, key))); };
  const auto attribute = [&](const char* key, const char* fallback) {
    return w.attributes.contains(key) ? w.attributes.at(key) : std::string(fallback);
  };
  a.is_emulated = declared(w, "level") == "emu";
  // A register, or a unit's.
  const auto sum_of = [&](std::string_view key, const MatrixUnit*& unit) {
    const std::string_view how = declared(w, key);
    if (a.is_emulated) unit = find_matrix_unit(how);
    return unit == nullptr ? arithmetic(how, false) : f32();
  };
  a.qk = sum_of("qk", a.qk_unit);
  a.scores = arithmetic(declared(w, "scores"), false);
  a.p = arithmetic(declared(w, "p"), false);
  a.saturates = scalar_format(declared(w, "p")).bits == 8;
  a.rowsum = arithmetic(declared(w, "rowsum"), false);
  a.pv = sum_of("pv", a.pv_unit);
  if (declared(w, "hidden") == "added") a.mask = Attention::Mask::infinite;
  if (declared(w, "empty") == "mean") a.mask = Attention::Mask::lowest;
  for (const char each : seen) a.hidden.push_back(each == '0');
  a.qk_order = order_of(declared(w, "qk_order"));
  a.pv_order = order_of(declared(w, "pv_order"));
  a.rowsum_order = order_of(declared(w, "rowsum_order"));
  a.exp_ulp = number("exp_ulp");
  a.tanh_ulp = number("tanh_ulp");
  a.div_ulp = number("div_ulp");
  a.p_shift = static_cast<int>(number("p_shift"));
  a.tile = static_cast<int>(number("tile"));
  a.split = static_cast<int>(number("split"));
  a.cast_denominator = declared(w, "denominator") == "cast";
  a.fused_argument = declared(w, "argument") == "any";
  a.scale = static_cast<double>(static_cast<float>(std::stod(attribute("scale", "1"))));
  a.softcap = std::stod(attribute("softcap", "0"));
  if (has_word(w.op, "scaling", "")) {
    const std::string_view scaling = declared(w, "scaling");
    a.scales_scores = scaling == "any" || scaling == "scores";
    a.scales_q = scaling != "scores";
    if (scaling == "q_rounded") a.q_scaled = arithmetic(attribute("dtype", "f32"), false).precision;
  }
  a.exp_of_zero_is_one = meaning(w, "exp_ulp").find("exp(0) is 1") != std::string_view::npos;
  if (has_word(w.op, "lag", "")) a.lag = number("lag");
  a.shares = has_word(w.op, "weights", "shares") && declared(w, "weights") == "shares";
  a.shaped = declared(w, "order") == "tiles";
  if (const double promote = number("promote"); promote < n) a.promote = static_cast<int>(promote);
  a.has_sink = attribute("sinks", "no") == "yes";
  a.slope = attribute("alibi", "no") == "yes" ? 0x1.555556p-2 : 0;
  // "format that q is converted to first, to nearest"; "format that K and V are converted to first, to
  // nearest".
  const auto converted = [&](std::string_view key, double v) {
    const std::string_view to = declared(w, key);
    return to == "none" ? v : round_to_precision(v, arithmetic(to, false).precision);
  };
  const std::string kv = attribute("kv", "f16"), dtype = attribute("dtype", "f32");
  const ScalarFormat& f = scalar_format(kv);
  std::vector<double> keys, values;
  for (const double x : {0.0, 0x1.3p-9, 1.0, -1.375, 5.5, -9.25, 17.0, -44.0, 88.0, -104.5, 300.0})
    keys.push_back(round_to(f, x));
  for (const double x : {1.0, -1.0, 0x1.8p-20, -0x1.ffcp-14, 0.0, 240.0, 0x1.ffcp+15})
    values.push_back(round_to(f, x));
  if (a.mask != Attention::Mask::none) values.push_back(round_to(f, HUGE_VAL));
  // Two of them, or three, are beyond f32.
  if (kv == "f32") values = {1.0, 0x1.6p+126, -1.0, 0x1.8p-20, 0x1.fp+126, 0x1.8p-140, -0x1.7p+126};
  const std::size_t count_wanted = std::max<std::size_t>(8, budget);
  // A row of the enumeration: a key's digit and a value's for each key.
  std::vector<double> codes;
  for (std::size_t i = 0; i < keys.size() * values.size(); ++i) codes.push_back(static_cast<double>(i));
  auto rows = rows_of(codes, n, false, count_wanted);
  if (kv == "f32")  // equal logits of large values
    for (const std::size_t large : {1U, 4U, 6U})
      rows.push_back(
          std::vector<double>(static_cast<std::size_t>(n), static_cast<double>(keys.size() * large)));
  Batch b;
  const auto count = static_cast<std::int64_t>(rows.size());
  b.attributes = w.attributes;
  b.attributes.insert({"scale", "1"});
  b.attributes.insert({"dtype", dtype});
  b.attributes.insert({{"batch", std::to_string(count)},
                       {"heads", "1"},
                       {"d", std::to_string(d)},
                       {"dv", "1"},
                       {"len", std::to_string(n)}});
  // One sink a head, of all sequences.
  a.sink = 6.5;
  std::vector<double> q_all, k_all, v_all;
  std::vector<std::string> text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    Keys3 x;
    for (int j = 0; j < d; ++j) x.q.push_back(j == 0 ? 1.0 : 0x1.004p-2);
    if (dtype == "f32" && r % 3 == 1) x.q[0] = static_cast<double>(0x1.234566p-1F);
    if (r % 3 == 2) x.q[0] = -0.5;
    for (double& each : x.q) each = round_to(scalar_format(dtype), each);
    for (const double code : rows[r]) {
      const auto index = static_cast<std::size_t>(code);
      std::vector<double> k;
      for (int j = 0; j < d; ++j) k.push_back(keys[(index + static_cast<std::size_t>(j) * 4) % keys.size()]);
      x.k.push_back(k);
      x.v.push_back(values[index / keys.size()]);
    }
    q_all.insert(q_all.end(), x.q.begin(), x.q.end());
    for (const auto& k : x.k) k_all.insert(k_all.end(), k.begin(), k.end());
    v_all.insert(v_all.end(), x.v.begin(), x.v.end());
    Keys3 read = x;
    for (double& v : read.q) v = converted("q", v);
    for (auto& k : read.k)
      for (double& v : k) v = converted("convert", v);
    for (double& v : read.v) v = converted("convert", v);
    b.members.push_back(stored(row_members(a, read), w, dtype));
    std::string line = "q=" + hex(x.q) + " k=[";
    for (const auto& k : x.k) line += hex(k);
    text.push_back(line + "] v=" + hex(x.v));
  }
  b.inputs["q"] = tensor(dtype, {count, 1, 1, d}, q_all);
  b.inputs["k"] = tensor(kv, {count, n, 1, d}, k_all);
  b.inputs["v"] = tensor(kv, {count, n, 1, 1}, v_all);
  if (a.slope != 0) b.inputs["slopes"] = tensor("f32", {1}, {a.slope});
  if (!seen.empty()) {
    std::vector<double> mask;
    for (const char each : seen) mask.push_back(each == '0' ? 0 : 1);
    b.inputs["mask"] = tensor("int8", {1, n}, mask);
  }
  if (a.has_sink) b.inputs["sinks"] = tensor("f32", {1}, {a.sink});
  b.inputs_of = [text](std::size_t i) { return text[i]; };
  return {b};
}

}  // namespace assay::worlds
