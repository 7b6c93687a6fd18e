#include "cases/studies/silicon/exact.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>

#include "cases/studies/silicon/report.hpp"
#include "reference/error.hpp"
#include "reference/replay/special_functions.hpp"

namespace assay::silicon {
namespace {

constexpr std::uint64_t kShare = std::uint64_t{1} << 22;  // inputs that are evaluated at once

float model_of(Function function, float x) {
  switch (function) {
    case Function::ex2_approx_ftz:
      return ex2_approx_ftz(x);
    case Function::ex2_approx:
    case Function::exp2f:
      return exp2_subnormal(x);
    case Function::expf:
      return cuda_expf(x);
    case Function::tanhf:
      return cuda_tanhf(x);
    case Function::rcp_approx_ftz:
      return rcp_approx_ftz(x);
    case Function::rsqrt_approx_ftz:
      return rsqrt_approx_ftz(x);
    case Function::sqrt_approx_ftz:
      return sqrt_approx_ftz(x);
    default:
      throw InputError(InputErrorKind::unknown_name,
                       "no exact model of " + std::string(function_name(function)));
  }
}

bool same(std::uint32_t a, std::uint32_t b) {
  return a == b || (std::isnan(std::bit_cast<float>(a)) && std::isnan(std::bit_cast<float>(b)));
}

}  // namespace

std::uint32_t modelled(Function function, std::uint32_t input) {
  return std::bit_cast<std::uint32_t>(model_of(function, std::bit_cast<float>(input)));
}

ExactTally compare_exactly(Function function, std::uint64_t begin, std::uint64_t end, int threads,
                           const std::function<Evaluate()>& make_device) {
  ExactTally tally;
  std::mutex mutex;
  std::exception_ptr failure;
  std::atomic<std::uint64_t> next = begin;
  const auto work = [&] {
    try {
      const Evaluate device = make_device();
      std::vector<std::uint32_t> inputs;
      for (std::uint64_t at = next.fetch_add(kShare); at < end; at = next.fetch_add(kShare)) {
        inputs.resize(static_cast<std::size_t>(std::min(kShare, end - at)));
        std::iota(inputs.begin(), inputs.end(), static_cast<std::uint32_t>(at));
        const std::vector<std::uint32_t> got = device(function, inputs);
        ExactTally mine{inputs.size()};
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const std::uint32_t want = modelled(function, inputs[i]);
          if (same(got.at(i), want)) continue;
          if (mine.differ++ == 0) mine.first = inputs[i], mine.got = got[i], mine.want = want;
        }
        const std::lock_guard lock(mutex);
        const bool earlier = mine.differ > 0 && (tally.differ == 0 || mine.first < tally.first);
        if (earlier) tally.first = mine.first, tally.got = mine.got, tally.want = mine.want;
        tally.inputs += mine.inputs, tally.differ += mine.differ;
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      next = end;
    }
  };
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) all.emplace_back(work);
  for (std::thread& each : all) each.join();
  if (failure) std::rethrow_exception(failure);
  return tally;
}

}  // namespace assay::silicon
