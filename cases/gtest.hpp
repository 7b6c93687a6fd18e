// Judge a kernel of yours inside your own GoogleTest program: installed as <assay/gtest.hpp>.
//
//   #include <assay/gtest.hpp>
//
//   // y = softmax of each row of x.
//   void my_softmax(const float* x, float* y, int rows, int cols);
//
//   TEST(Softmax, KeepsItsContract) {
//     EXPECT_ASSAY("softmax rows=4 cols=1000 dtype=f32 fill=gaussian,peaked,deep", "acc=f32 exp_ulp=2 out=f32",
//                  [](const assay::Subject& s) {
//                    my_softmax(s.input<float>("x"), s.output<float>("y"), 4, 1000);
//                  });
//   }
//
// The line is a case line: its sets multiply, and the lambda runs once per case. Outputs stand in guarded, poisoned
// memory: an element that stays unwritten fails, whatever the limit. The kernel runs in this process, so a crash is a
// crash of the test; for time-outs, crash verdicts and reads out of bounds, write a plug-in (assay/assay_backend.h).
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cases/lists.hpp"
#include "harness/case.hpp"
#include "harness/inputs.hpp"
#include "harness/judge.hpp"
#include "reference/self_test.hpp"

namespace assay {

// One case, its inputs as bytes, and the memory of its outputs.
class Subject {
 public:
  explicit Subject(const Case& c, std::byte poison) : case_(c), inputs_(make_inputs(c, input_lists())) {
    for (const auto& t : inputs_.tensors) {
      if (t.role != TensorRole::output) continue;
      Encoded e{t.format, t.shape, {}};
      for (const auto& spec : planes(format(t.format), t.shape))
        e.planes.push_back({spec, std::vector<std::byte>(spec.bytes, poison)});
      outputs_.emplace(t.name, std::move(e));
    }
  }

  // The bytes of a tensor's plane: "x", or "x.scale" for the scales that stand apart.
  template <typename T>
  const T* input(std::string_view plane) const {
    return reinterpret_cast<const T*>(find(inputs_.set, plane).data());
  }
  template <typename T>
  T* output(std::string_view plane) const {
    return reinterpret_cast<T*>(const_cast<std::byte*>(find(outputs_, plane).data()));
  }
  const Attributes& attributes() const { return case_.attributes; }

  const Case& test_case() const { return case_; }
  const Inputs& inputs() const { return inputs_; }
  const TensorSet& outputs() const { return outputs_; }

 private:
  static const std::vector<std::byte>& find(const TensorSet& set, std::string_view plane) {
    const auto dot = plane.find('.');
    const std::string tensor(plane.substr(0, dot));
    const std::string suffix(dot == std::string_view::npos ? "" : plane.substr(dot));
    if (const auto at = set.find(tensor); at != set.end())
      for (const auto& p : at->second.planes)
        if (p.spec.suffix == suffix) return p.bytes;
    throw InputError(InputErrorKind::unknown_name, "this case has no plane '" + std::string(plane) + "'");
  }

  Case case_;
  Inputs inputs_;
  mutable TensorSet outputs_;
};

// Bytes that both runs left at their poison were never written.
inline std::size_t unwritten_bytes(const Subject& first, std::byte first_poison, const Subject& second,
                                   std::byte second_poison) {
  std::size_t count = 0;
  for (const auto& [name, tensor] : first.outputs())
    for (std::size_t p = 0; p < tensor.planes.size(); ++p)
      for (std::size_t i = 0; i < tensor.planes[p].bytes.size(); ++i)
        if (tensor.planes[p].bytes[i] == first_poison &&
            second.outputs().at(name).planes[p].bytes[i] == second_poison)
          ++count;
  return count;
}

template <typename Kernel>
::testing::AssertionResult keeps_contract(std::string_view line, std::string_view contract_text,
                                          Kernel kernel) {
  constexpr std::byte kFirstPoison{0xFF}, kSecondPoison{0x5A};
  try {
    if (const auto broken = self_test(); !broken.empty())
      return ::testing::AssertionFailure() << "this build cannot be trusted: " << describe(broken);
    for (const auto& c : expand(parse_case(line))) {
      if (c.fault != "none")
        throw InputError(InputErrorKind::bad_value,
                         "fault=" + c.fault + ": faults are judged by `assay run`");
      const auto failure = [&] { return ::testing::AssertionFailure() << "case   " << c.line() << "\n"; };
      const Contract contract = Contract::parse(contract_text, c.op->contract);
      const Subject subject(c, kFirstPoison), again(c, kSecondPoison);
      kernel(subject);
      kernel(again);
      if (const std::size_t count = unwritten_bytes(subject, kFirstPoison, again, kSecondPoison); count > 0)
        return failure() << "  what   unwritten: " << count << " bytes of the outputs";
      const Inputs& inputs = subject.inputs();
      const Verdict verdict = judge_outputs(
          c, contract, inputs, c.op->truth(c.attributes, inputs.set, contract), subject.outputs());
      if (verdict.status != Status::pass)
        return failure() << "  what   " << to_string(verdict.status) << ": " << verdict.summary << "\n"
                         << verdict.detail;
    }
  } catch (const InputError& e) {
    return ::testing::AssertionFailure() << e.what();
  }
  return ::testing::AssertionSuccess();
}

}  // namespace assay

#define EXPECT_ASSAY(case_line, contract, kernel) \
  EXPECT_TRUE(::assay::keeps_contract(case_line, contract, kernel))
#define ASSERT_ASSAY(case_line, contract, kernel) \
  ASSERT_TRUE(::assay::keeps_contract(case_line, contract, kernel))
