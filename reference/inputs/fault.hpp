// Faults: what a case does to its inputs after the fill, and what a correct kernel owes then.
//
//   input       Kernel and reference see the same faulted input. A correct kernel passes, by the fault's
//               requirement.
//   corruption  Only the kernel sees the corrupted bytes; the reference keeps the clean ones. A correct
//               kernel computes faithfully from what it was given, so the verdict on its outputs must be
//               `wrong`: the run is green when the corruption is CAUGHT. One that would move the outputs
//               beyond all limits and yet is not noticed is `missed`; one that cannot move them is
//               `distrust`.
//
// A faulted case is always run without its fault too, by the same kernel, and that run must pass: so nothing
// is caught by a kernel that is wrong anyway. An injection that changes no byte is `distrust`.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "reference/inputs/fill.hpp"

namespace assay {

enum class FaultKind : std::uint8_t { input, corruption };
constexpr std::string_view to_string(FaultKind k) { return k == FaultKind::input ? "input" : "corruption"; }

enum class Requirement : std::uint8_t {
  // Saturate, propagate: the reference's verdict on the faulted inputs is all.
  judge,
  // As judge, and each element whose truth stays finite has the bits that it has without the fault; at least
  // one element is not finite, and at least one is.
  contain,
  // As judge, and every element has the bits that it has without the fault.
  conceal,
  // Corruptions: `wrong` against the clean inputs, or `leak` where they lead to keys of no sequence.
  be_wrong,
};
constexpr std::string_view kRequirementNames[] = {"judge", "contain", "conceal", "be_wrong"};
constexpr std::string_view to_string(Requirement d) { return kRequirementNames[static_cast<std::size_t>(d)]; }

// Where an injection acts: the case, its inputs without the fault, and the numbers that the fill made.
struct FaultSite {
  const Op& op;
  const Attributes& attributes;
  std::span<const TensorSpec> tensors;
  const TensorSet& clean;
  const Values& values;
  std::uint64_t seed;
};

struct Fault {
  std::string_view name;
  std::string_view ops;  // separated by blanks; "" for any
  FaultKind kind;
  Requirement requirement;
  std::string_view site;     // "k: one visible key"
  std::string_view injects;  // what stands there afterwards
  std::string_view owes;     // the requirement in words
  // One of these; they throw InputError bad_value for a case in which the site does not exist.
  void (*values)(const FaultSite&, Values&) = nullptr;    // before the format encodes
  void (*bytes)(const FaultSite&, TensorSet&) = nullptr;  // afterwards
};

}  // namespace assay
