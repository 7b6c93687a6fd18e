#include "reference/parallel.hpp"

#include <sched.h>

#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace assay {
namespace {

std::atomic<int> thread_limit{1};

}  // namespace

void set_reference_threads(int threads) { thread_limit = std::max(1, threads); }
int reference_threads() { return thread_limit; }

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

void parallel_units(std::size_t units, const std::function<void(std::size_t)>& f, int threads) {
  const auto allowed = static_cast<std::size_t>(threads > 0 ? threads : reference_threads());
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  const auto work = [&] {
    try {
      for (std::size_t unit = next++; unit < units; unit = next++) f(unit);
    } catch (...) {
      next = units;
      if (!failed.test_and_set()) failure = std::current_exception();
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < std::min(allowed, units); ++t) others.emplace_back(work);
  work();
  others.clear();  // joins
  if (failure) std::rethrow_exception(failure);
}

}  // namespace assay
