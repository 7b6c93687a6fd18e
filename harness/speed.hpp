// Two calls timed against each other: whether one is slower than its partner, by a ratio with its interval.
//
//   ratio        t(first) / t(second) of one round, or with `over` the ratio of the slopes
//                (t(first, high) - t(first, low)) / (t(second, high) - t(second, low))
//   round        every call once, in an order drawn for it; the time of a call is the least of kRepeats runs
//                in a row, on the device where a witness timed its kernels, else of the backend's run()
//   interval     order statistics r_(k) .. r_(n+1-k) of n rounds, which hold the median ratio F of a round
//                unless n - k + 1 rounds or more fall on one side of it: probability P(Bin(n, 1/2) <= k - 1)
//                for each end, and k is the largest for which this is at most 1 - confidence. Of two calls
//                that take the same time the ratio is as often above 1 as below, whatever the noise, since
//                their order is drawn anew in each round.
//   slower       r_(k) is above the allowed ratio: never an absolute time
//   expected     the ratio of the bytes moved: the tensors' own, and temporary ones that the backend notes,
//                written and read once. It is told beside the measured one, and decides nothing.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge.hpp"

namespace assay {

struct SpeedOptions {
  int rounds = 21;
  double confidence = 0.999;  // of each end of the interval
  // A kernel may be this much slower before it is told. Two builds of one loop differ by a tenth with the
  // placement of code and data alone; a path that was missed costs a multiple.
  double allowed = 1.25;
  std::chrono::milliseconds timeout{10'000};
  std::uint64_t seed = 1;  // of the orders
};

// The smallest and largest ratio that the rounds do not exclude, and their median. Rounds without a sign,
// where the slope of the second is not above 0, are excluded by neither end: `unclear`, 0 to infinity.
struct RatioInterval {
  double low = 0, median = 0, high = 0;
};
// Throws InputError where so few rounds cannot give that confidence.
RatioInterval ratio_interval(std::vector<std::pair<double, double>> numerators_and_denominators,
                             double confidence);

struct SpeedPair {
  Case first, second;
  std::string attribute = {};  // with it: the two values between which the slope is taken
  std::string low = {}, high = {};
};

struct SpeedSide {
  std::string line, path;
  std::vector<double> median_ns;  // of the call; with a slope at both values
  std::vector<double> bytes;      // moved, as above
};

struct SpeedResult {
  SpeedPair pair;
  std::string why;  // not empty: not run, and what came in between
  SpeedSide first, second;
  RatioInterval ratio;
  double expected = 0;
  int rounds = 0;
  bool on_device = false;
  double allowed = 1;
  double confidence = 0;

  bool slower() const { return why.empty() && ratio.low > allowed; }
  bool no_slower() const { return why.empty() && ratio.high <= allowed; }
};

SpeedResult compare_speed(const SpeedPair& pair, Workers& workers, const InputLists& lists,
                          const SpeedOptions& options);

// The partner of a case: the same with other words, "kv=f16" or "backend=./old.so variant=split". Throws
// InputError.
Case partner(const Case& c, const std::string& words);

// In several lines: the verdict, both cases, the ratio, the times, how to repeat it.
std::string describe(const SpeedResult& result);

}  // namespace assay
