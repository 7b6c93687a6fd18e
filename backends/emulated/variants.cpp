#include "backends/emulated/variants.hpp"

#include <algorithm>
#include <charconv>

#include "backends/plugin/call.hpp"

namespace assay_emulated {
namespace {

using assay_plugin::Unsupported;

int count(std::string_view digits, std::string_view word) {
  int n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc() || end != digits.data() + digits.size() || n < 1 || n > 4096) {
    throw Unsupported("variant '" + std::string(word) + "': promotion every '" + std::string(digits) +
                      "' blocks; 1..4096 is allowed");
  }
  return n;
}

void take_modifier(Variant& v, std::string_view modifier, std::string_view word) {
  if (modifier == "detap" || modifier == "detord" || modifier == "ca" || modifier == "emu" ||
      modifier == "replay") {
    v.level = modifier;
  } else if (modifier.starts_with("as_promote")) {
    v.declared_promote = count(modifier.substr(10), word);
  } else if (modifier.starts_with("as_") && modifier.find(':') != std::string_view::npos) {
    v.declared_key = modifier.substr(3);
  } else if (modifier == "mixup") {
    v.mixup = true;
  } else if (modifier == "mixup_k" || modifier == "mixup_v" || modifier == "mixup_kv") {
    v.mixup_k = modifier != "mixup_v";
    v.mixup_v = modifier != "mixup_k";
  } else {
    throw Unsupported("variant '" + std::string(word) + "': '" + std::string(modifier) +
                      "' is none of detap, detord, ca, emu, replay, as_promoteN, as_KEY:VALUE, mixup, "
                      "mixup_k, mixup_v, mixup_kv");
  }
}

// Units for which two-level accumulation is worth a name: they keep fewer bits than f32.
bool narrow(const assay::MatrixUnit& unit) { return unit.out == "e8m13"; }

}  // namespace

Variant parse_variant(std::string_view word) {
  Variant v;
  std::string_view rest = word;
  const std::size_t dot = rest.find('.');
  v.name = std::string(rest.substr(0, dot));
  rest.remove_prefix(dot == std::string_view::npos ? rest.size() : dot);
  std::string unit = v.name;
  if (const std::size_t at = unit.find("_promote"); at != std::string::npos) {
    v.promote = count(std::string_view(unit).substr(at + 8), word);
    unit.resize(at);
  }
  v.declared_promote = v.promote;
  v.unit = assay::find_matrix_unit(unit);
  if (v.unit == nullptr) {
    throw Unsupported("variant '" + std::string(word) + "': no matrix unit '" + unit +
                      "'; `assay list units` names them");
  }
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::size_t next = rest.find('.');
    take_modifier(v, rest.substr(0, next), word);
    rest.remove_prefix(next == std::string_view::npos ? rest.size() : next);
  }
  return v;
}

std::string Variant::schedule(std::string truth) const {
  if (declared_key.empty()) return truth;
  const std::string key = declared_key.substr(0, declared_key.find(':') + 1);
  const std::size_t at = ("/" + truth).find("/" + key);
  if (at == std::string::npos) return truth + "/" + declared_key;
  return truth.replace(at, std::min(truth.find('/', at), truth.size()) - at, declared_key);
}

std::string variant_list() {
  std::string list;
  const auto add = [&](const std::string& op, const std::string& name) {
    list += (list.empty() ? "" : " ") + op + ":" + name;
  };
  for (const assay::MatrixUnit& unit : assay::matrix_units()) {
    const std::string name(unit.name);
    for (const char* suffix : {"", "_promote1", "_promote4", "_promote16", "_promote64"}) {
      if (*suffix != '\0' && !narrow(unit)) continue;
      if (unit.out != "i32" && unit.scales.empty() && unit.inputs != "tf32") add("attention", name + suffix);
      add("matmul", name + suffix);
      if (unit.scales.empty() && unit.inputs != "tf32") add("moe", name + suffix);
    }
  }
  return list;
}

std::string default_variant(std::string_view element) {
  if (element == "e4m3fnuz" || element == "e5m2fnuz") return "cdna3_fp8";
  if (element == "e4m3fn" || element == "e5m2") return "hopper_fp8_promote4";
  if (element == "int8" || element == "int4") return "int8_dot";
  if (element == "bf16") return "hopper_bf16";
  return "hopper_f16";
}

const assay::MatrixUnit& counterpart(const assay::MatrixUnit& unit) {
  if (assay::accepts(unit, "e4m3fn")) return assay::matrix_unit("cdna3_fp8");
  if (assay::accepts(unit, "e4m3fnuz")) return assay::matrix_unit("rdna4_fp8");
  throw Unsupported(std::string(unit.name) + " takes no FP8 that could be mixed up");
}

std::string other_kind(const std::string& format) {
  const std::size_t end = format.find('_');
  const std::string element = format.substr(0, end);
  const std::string rest = end == std::string::npos ? "" : format.substr(end);
  if (element == "e4m3fn") return "e4m3fnuz" + rest;
  if (element == "e4m3fnuz") return "e4m3fn" + rest;
  if (element == "e5m2") return "e5m2fnuz" + rest;
  if (element == "e5m2fnuz") return "e5m2" + rest;
  throw Unsupported("a mix-up needs FP8, not " + format);
}

}  // namespace assay_emulated
