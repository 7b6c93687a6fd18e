// Compiled with -ffast-math on purpose: the self-test must refuse what this makes of its checks.
#define ASSAY_SELF_TEST_NAMESPACE assay_self_test_fast_math
#include "reference/self_test_checks.hpp"

std::vector<assay::SelfTestFailure> self_test_under_fast_math() { return assay_self_test_fast_math::run(); }
