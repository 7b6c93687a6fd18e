// Compiled with -ftree-slp-vectorize on purpose: g++ 12 then drops conversions, and the self-test must refuse
// it.
#define ASSAY_SELF_TEST_NAMESPACE assay_self_test_vectorised
#include "reference/self_test_checks.hpp"

std::vector<assay::SelfTestFailure> self_test_under_vectorised_code() {
  return assay_self_test_vectorised::run();
}
