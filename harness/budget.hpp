// Memory of a run: what a case needs is known before it is tried, and jobs wait for one another rather than
// for the kernel's out-of-memory killer.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "harness/case.hpp"

namespace assay {

// Bytes that judging the case takes at one time, in this process and its worker, from the shapes alone:
//   inputs   4 (drawn) + encoded, once here and once in the shared memory, + 8 (decoded by the reference),
//            per element
//   outputs  8 (value) + 8 (limit) + 8 (got) per element, and their bytes in the shared memory and in each of
//            two runs
// An input fault or a corruption holds the inputs twice. Computed in floating point: shapes whose product no
// integer holds are compared like all others.
double bytes_needed(const Case& c);

// What the case weighs among others of its op where time is shared out: its bytes, and 1 MiB for what every
// case costs.
double weight_of(const Case& c);

// What this process may still take: the least of the machine's available memory, the limit of its control
// group less what that uses, and RLIMIT_AS.
double bytes_available();

// "1.5 GiB", "312 MiB".
std::string byte_text(double bytes);

// A share of the budget, given back with its owner.
class MemoryBudget;
class MemoryShare {
 public:
  MemoryShare() = default;
  MemoryShare(MemoryBudget* budget, double bytes) : budget_(budget), bytes_(bytes) {}
  ~MemoryShare();
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;
  MemoryShare(MemoryShare&& other) noexcept : budget_(other.budget_), bytes_(other.bytes_) {
    other.budget_ = nullptr;
  }
  MemoryShare& operator=(MemoryShare&&) = delete;

 private:
  MemoryBudget* budget_ = nullptr;
  double bytes_ = 0;
};

// Threads share one.
class MemoryBudget {
 public:
  explicit MemoryBudget(double bytes) : whole_(bytes), left_(bytes) {}
  double bytes() const { return whole_; }
  bool holds(double bytes) const { return bytes <= whole_; }
  // Waits until so much is left; holds(bytes) must be true.
  MemoryShare take(double bytes);

 private:
  friend class MemoryShare;
  void give_back(double bytes);

  double whole_, left_;
  std::mutex mutex_;
  std::condition_variable freed_;
};

}  // namespace assay
