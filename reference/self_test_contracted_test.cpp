// Compiled with -ffp-contract=fast -mfma on purpose: the self-test must refuse what this makes of its checks.
#define ASSAY_SELF_TEST_NAMESPACE assay_self_test_contracted
#include "reference/self_test_checks.hpp"

std::vector<assay::SelfTestFailure> self_test_under_contraction() {
  return assay_self_test_contracted::run();
}
