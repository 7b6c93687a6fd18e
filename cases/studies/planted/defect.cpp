#include "cases/studies/planted/defect.hpp"

#include <fmt/format.h>

#include <array>

namespace assay::planted {
namespace {

constexpr std::array kTerms = {1.0, 2.0, 4.0, 8.0, 16.0};
constexpr std::array kBlocks = {32.0, 64.0, 128.0, 256.0, 1024.0};
// Derivation: sizes of what is planted, none of what is allowed; 2 % is what issue 48 asks for.
constexpr std::array kScales = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3};
constexpr double kAskedScale = 2.0 / 100;
constexpr std::array kBits = {23.0, 22.0, 21.0, 20.0, 19.0, 18.0, 17.0, 16.0, 15.0, 14.0, 13.0, 11.0, 8.0};

constexpr std::array kDefects = {
    Defect{Kind::terms, "one term", "", kTerms, 1, "roll_call"},
    Defect{Kind::block, "a block of 32", "", kBlocks, 32, "roll_call"},
    Defect{Kind::scale, "a scale", "", kScales, kAskedScale, ""},
    Defect{Kind::logits, "the scale of logits", "attention softmax logsumexp", kScales, kAskedScale, ""},
    Defect{Kind::bits, "bits of a sum", "", kBits, 23, "front_load"},
};

}  // namespace

std::span<const Defect> defects() { return kDefects; }

bool has(const Defect& defect, std::string_view op) {
  return defect.of_ops.empty() ||
         (" " + std::string(defect.of_ops) + " ").find(" " + std::string(op) + " ") != std::string::npos;
}

std::string spelt(Kind kind, double size) {
  switch (kind) {
    case Kind::none:
      return "nothing";
    case Kind::terms:
      return fmt::format("{} term{}", size, size == 1 ? "" : "s");
    case Kind::block:
      return fmt::format("{} in a row", size);
    case Kind::scale:
    case Kind::logits:
      return fmt::format("{:.3g} %", 100 * size);
    case Kind::bits:
      return fmt::format("{} bits", size);
  }
  return "";
}

}  // namespace assay::planted
