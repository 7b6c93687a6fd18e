// Laws that a kernel keeps whatever the truth is, as properties: each is run against the CPU backend through
// its worker, and against the same kernels with one violation planted, which must be found.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "cases/subject.hpp"

namespace assay::properties {

class Kernel : public Subject {
 public:
  // "" is the CPU backend as it is.
  explicit Kernel(const std::string& violation = "")
      : Subject(violation.empty() ? "cpu" : "cpu:" + violation,
                {info(violation.empty() ? ASSAY_CPU_PLUGIN : ASSAY_VIOLATING_PLUGIN)}) {}

  // The first output, as f32 numbers, of the case with these inputs. Throws std::runtime_error when the
  // worker finds anything (a leak, an overrun, bits that do not repeat).
  std::vector<float> run(const Case& c, const Inputs& inputs) {
    const RunResult r = call(c, inputs);
    if (r.status != RunStatus::done)
      throw std::runtime_error(fmt::format("{}: {}", to_string(r.status), r.reason));
    std::vector<float> out(r.outputs.at(0).size() / sizeof(float));
    std::memcpy(out.data(), r.outputs.at(0).data(), out.size() * sizeof(float));
    return out;
  }
  Truth truth(const Case& c, const Inputs& inputs) { return truths(c, inputs).at(0); }
  std::vector<std::string> variants() { return workers().open(backend()).variants; }

 private:
  static BackendInfo info(const char* file) {
    BackendInfo b;
    b.name = "cpu", b.file = file;
    return b;
  }
};

inline Verdict same_bits(const Case& c, std::span<const float> a, std::span<const float> b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0)
      return Broken{fmt::format("element {}: {:.9g} and {:.9g}", i, a[i], b[i]), c.line()};
  return std::nullopt;
}
// |got - want| <= limit, which a NaN fails.
inline Verdict within(const Case& c, std::size_t i, double got, double want, double limit) {
  if (std::fabs(got - want) <= limit) return std::nullopt;
  return Broken{fmt::format("element {}: {:.9g} for {:.9g}, off by {:.3g} where {:.3g} is allowed", i, got,
                            want, std::fabs(got - want), limit),
                c.line()};
}
inline Verdict within_truth(const Case& c, const Truth& t, std::span<const float> got) {
  for (std::size_t i = 0; i < got.size(); ++i)
    if (auto broken = within(c, i, got[i], t.value[i], t.limit[i])) return broken;
  return std::nullopt;
}

// Holds for the kernels as they are; RapidCheck finds and shrinks a counterexample for the planted violation.
// The counterexample is a case line.
template <typename Law>
void expect_law(const std::string& name, const std::string& violation, Law law) {
  const auto holds = [&](const std::string& planted) {
    Kernel kernel(planted);
    return rc::check(planted.empty() ? name : name + " [planted: " + planted + "]", [&] {
      Verdict broken;
      try {
        broken = law(kernel);
      } catch (const std::runtime_error& e) {
        broken = Broken{e.what(), kernel.last_line};
      }
      if (broken) RC_FAIL(fmt::format("{}\nassay run '{} backend=cpu'", broken->why, broken->line));
    });
  };
  EXPECT_TRUE(holds("")) << name;
  EXPECT_FALSE(holds(violation)) << name << " does not notice: " << violation;
}

}  // namespace assay::properties
