// Judge a kernel of yours inside your own GoogleTest program: installed as <assay/gtest.hpp>; C++14 or
// later, of any compiler.
//
//   #include <assay/gtest.hpp>
//
//   // y = softmax of each row of x.
//   void my_softmax(const float* x, float* y, int rows, int cols);
//
//   TEST(Softmax, KeepsItsContract) {
//     EXPECT_ASSAY("softmax rows=4 cols=1000 dtype=f32 fill=gaussian,peaked,deep",
//                  "acc=f32 exp_ulp=2 out=f32", [](const assay::Subject& s) {
//                    my_softmax(s.input<float>("x"), s.output<float>("y"), 4, 1000);
//                  });
//   }
//
// Link assay::gtest. The line is a case line: its sets multiply, and the lambda runs twice per case.
// Outputs stand in poisoned memory, each time another: an element that stays unwritten fails, whatever the
// limit, and so does one whose input was written to. The kernel runs in this process, so a crash is a crash
// of the test; for time-outs, crash verdicts, reads out of bounds and bits that do not repeat, write a
// plug-in (assay/assay_backend.h).
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <assay/assay_judge.h>

namespace assay {

// One case with its inputs, and memory for its outputs.
class Subject {
 public:
  // The memory of the outputs is filled with `poison`. Throws std::invalid_argument for what is no case.
  Subject(const std::string& line, unsigned char poison) : line_(line) {
    assay_case* made = nullptr;
    char* why = nullptr;
    const int code = assay_make_case(line.c_str(), &made, &why);
    const std::string said = why == nullptr ? "not enough memory" : why;
    assay_free(why);
    if (code != ASSAY_GREEN) throw std::invalid_argument(said);
    case_.reset(made, assay_free_case);
    std::size_t count = 0;
    const assay_array* planes = assay_case_outputs(made, &count);
    for (std::size_t i = 0; i < count; ++i) outputs_[planes[i].name].assign(planes[i].bytes, poison);
    planes = assay_case_inputs(made, &count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto* first = static_cast<const unsigned char*>(planes[i].data);
      inputs_[planes[i].name].assign(first, first + planes[i].bytes);
    }
  }

  // The elements of a tensor's plane: "x", or "x.scale" for the scales that stand apart.
  template <typename T>
  const T* input(const std::string& plane) const {
    const auto found = inputs_.find(plane);
    if (found == inputs_.end()) throw std::invalid_argument(line_ + ": no input has a plane '" + plane + "'");
    return reinterpret_cast<const T*>(found->second.data());
  }
  template <typename T>
  T* output(const std::string& plane) const {
    const auto found = outputs_.find(plane);
    if (found == outputs_.end())
      throw std::invalid_argument(line_ + ": no output has a plane '" + plane + "'");
    return reinterpret_cast<T*>(found->second.data());
  }
  // The case's attributes, those at their defaults included.
  std::string text(const std::string& attribute) const {
    const char* value = assay_case_attribute(case_.get(), attribute.c_str());
    if (value == nullptr) throw std::invalid_argument(line_ + ": no attribute '" + attribute + "'");
    return value;
  }
  std::int64_t integer(const std::string& attribute) const { return std::stoll(text(attribute)); }
  double real(const std::string& attribute) const { return std::stod(text(attribute)); }

  const std::string& line() const { return line_; }
  const std::map<std::string, std::vector<unsigned char>>& outputs() const { return outputs_; }
  // The name of an input that is no longer what the kernel was given; empty: none.
  std::string changed_input() const {
    std::size_t count = 0;
    const assay_array* planes = assay_case_inputs(case_.get(), &count);
    for (std::size_t i = 0; i < count; ++i)
      if (std::memcmp(planes[i].data, inputs_.at(planes[i].name).data(), planes[i].bytes) != 0)
        return planes[i].name;
    return "";
  }
  // The inputs as they were given, and the outputs, as the judge takes them.
  std::vector<assay_array> tensors() const {
    std::size_t count = 0;
    const assay_array* planes = assay_case_inputs(case_.get(), &count);
    std::vector<assay_array> all(planes, planes + count);
    planes = assay_case_outputs(case_.get(), &count);
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(planes[i]);
      all.back().data = outputs_.at(planes[i].name).data();
    }
    return all;
  }

 private:
  std::string line_;
  std::shared_ptr<assay_case> case_;
  std::map<std::string, std::vector<unsigned char>> inputs_;
  mutable std::map<std::string, std::vector<unsigned char>> outputs_;
};

// Bytes that both runs left at their poison were never written.
inline std::size_t unwritten_bytes(const Subject& first, unsigned char first_poison, const Subject& second,
                                   unsigned char second_poison) {
  std::size_t count = 0;
  for (const auto& output : first.outputs()) {
    const auto& other = second.outputs().at(output.first);
    for (std::size_t i = 0; i < other.size(); ++i)
      count += output.second[i] == first_poison && other[i] == second_poison ? 1 : 0;
  }
  return count;
}

template <typename Kernel>
::testing::AssertionResult keeps_contract(const std::string& line, const std::string& contract,
                                          Kernel kernel) {
  constexpr unsigned char kFirstPoison = 0xFF, kSecondPoison = 0x5A;
  char* listed = nullptr;
  const int listing = assay_list_cases(line.c_str(), &listed);
  const std::string text = listed == nullptr ? "not enough memory" : listed;
  assay_free(listed);
  if (listing != ASSAY_GREEN) return ::testing::AssertionFailure() << text;
  std::istringstream lines(text);
  for (std::string each; std::getline(lines, each);) {
    std::unique_ptr<Subject> subject, again;
    try {
      subject.reset(new Subject(each, kFirstPoison));
      again.reset(new Subject(each, kSecondPoison));
    } catch (const std::invalid_argument& e) {
      return ::testing::AssertionFailure() << e.what();
    }
    kernel(*subject);
    kernel(*again);
    const std::size_t count = unwritten_bytes(*subject, kFirstPoison, *again, kSecondPoison);
    if (count > 0)
      return ::testing::AssertionFailure()
             << "case   " << each << "\n  what   unwritten: " << count << " bytes of the outputs";
    for (const Subject* run : {subject.get(), again.get()}) {
      const std::string changed = run->changed_input();
      if (!changed.empty())
        return ::testing::AssertionFailure()
               << "case   " << each << "\n  what   input_changed: wrote to " << changed;
      const std::vector<assay_array> tensors = run->tensors();
      char* said = nullptr;
      const int code = assay_judge(each.c_str(), contract.c_str(), 0, tensors.data(), tensors.size(), &said);
      const std::string verdict = said == nullptr ? "not enough memory" : said;
      assay_free(said);
      if (code != ASSAY_GREEN) return ::testing::AssertionFailure() << verdict;
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace assay

// (case line, contract, kernel): the kernel is all that follows, for a lambda may have commas.
#define EXPECT_ASSAY(case_line, contract, ...) \
  EXPECT_TRUE(::assay::keeps_contract(case_line, contract, __VA_ARGS__))
#define ASSERT_ASSAY(case_line, contract, ...) \
  ASSERT_TRUE(::assay::keeps_contract(case_line, contract, __VA_ARGS__))
