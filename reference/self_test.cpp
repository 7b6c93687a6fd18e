#define ASSAY_SELF_TEST_NAMESPACE assay_self_test_of_this_build
#include "reference/self_test.hpp"

#include "reference/self_test_checks.hpp"

namespace assay {

std::vector<SelfTestFailure> self_test() { return assay_self_test_of_this_build::run(); }

std::string describe(const std::vector<SelfTestFailure>& failures) {
  std::string text;
  for (const SelfTestFailure& failure : failures) {
    text.append("self-test failed: ").append(failure.name).append(": ").append(failure.text).append("\n");
  }
  return text;
}

}  // namespace assay
