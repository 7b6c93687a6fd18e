#include "cases/studies/silicon/report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace assay::silicon {

std::string timestamp() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
  }
  return "";
}

void print_tally(const Instruction& how, const Tally& t, double seconds) {
  fmt::print(
      "{:24} {:28} {:>13} outputs {:>14} blocks {:>11} mismatches  {:.1f} s  (nan {} inf {} zero {} "
      "subnormal {})\n",
      how.name, how.unit, t.outputs, t.blocks, t.mismatches, seconds, t.nan, t.infinite, t.zero, t.subnormal);
  for (const std::string& line : t.first) fmt::print("  {}\n", line);
  for (const std::string& line : t.worst_combinations(12)) fmt::print("    {}\n", line);
  std::fflush(stdout);
}

std::string tally_json(const std::string& provenance_json,
                       const std::vector<std::pair<std::string, Tally>>& tallies) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(provenance_json);
  for (const auto& [name, t] : tallies) {
    const Instruction& how = instruction(name);
    nlohmann::ordered_json row = {
        {"unit", how.unit}, {"outputs", t.outputs},   {"blocks", t.blocks}, {"mismatches", t.mismatches},
        {"nan", t.nan},     {"infinite", t.infinite}, {"zero", t.zero},     {"subnormal", t.subnormal}};
    for (const auto& [steps, n] : t.outputs_of_steps)
      row["outputs_by_depth_from"][std::to_string(steps * how.depth)] = n;
    for (const auto& [code, n] : t.nan_codes) {
      row["nan_codes"][fmt::format("{:0{}x}", code, 2 * how.accumulator_bytes())] = n;
    }
    json["instructions"][name] = row;
  }
  return json.dump(1) + "\n";
}

std::string_view function_name(Function f) {
  constexpr std::array<std::string_view, 10> kNames = {"ex2.approx.f32",
                                                       "ex2.approx.ftz.f32",
                                                       "exp2f",
                                                       "expf",
                                                       "__expf",
                                                       "tanh.approx.f32",
                                                       "tanhf",
                                                       "rcp.approx.ftz.f32",
                                                       "rsqrt.approx.ftz.f32",
                                                       "sqrt.approx.ftz.f32"};
  return kNames[static_cast<std::size_t>(f)];
}

void absorb(UlpRow& row, const UlpRow& other) {
  row.inputs += other.inputs, row.not_nearest += other.not_nearest;
  if (other.max_ulp > row.max_ulp) row.max_ulp = other.max_ulp, row.worst = other.worst;
  row.max_relative = std::max(row.max_relative, other.max_relative);
  if (other.max_ulp_subnormal > row.max_ulp_subnormal) {
    row.max_ulp_subnormal = other.max_ulp_subnormal, row.worst_subnormal = other.worst_subnormal;
  }
}

std::string table_csv(Function f, const std::vector<UlpRow>& rows) {
  std::string csv;
  const auto worst = [](float ulp, std::uint32_t x) {
    return ulp > 0 ? fmt::format("{:08x}", x) : std::string();
  };
  for (std::size_t sign = 0; sign < 2; ++sign) {
    for (std::size_t e = 0; e < 255;) {
      UlpRow row = rows[sign * 256 + e];
      std::size_t last = e;
      while (row.not_nearest == 0 && last + 1 < 255 && rows[sign * 256 + last + 1].not_nearest == 0) {
        absorb(row, rows[sign * 256 + ++last]);
      }
      const int low = e == 0 ? -149 : static_cast<int>(e) - 127;
      const int high = static_cast<int>(last) - 127;
      csv +=
          fmt::format("{},{},{},{},{},{:.4f},{},{:.4f},{:.4f},{}\n", function_name(f), sign == 0 ? '+' : '-',
                      low == high ? std::to_string(high) : fmt::format("{}..{}", low, high), row.inputs,
                      row.not_nearest, row.max_ulp, worst(row.max_ulp, row.worst), row.max_relative,
                      row.max_ulp_subnormal, worst(row.max_ulp_subnormal, row.worst_subnormal));
      e = last + 1;
    }
  }
  return csv;
}

}  // namespace assay::silicon
