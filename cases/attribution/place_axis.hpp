// What columns of an answer say of the things that they show (keys, dimensions of a head): which of them are
// wrong.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

namespace assay::attribution {

// A column that shows the things first..last together.
struct Part {
  std::int64_t first = 0, last = 0;
  double want = 0, got = 0, limit = 0;
  bool seen() const { return want > kSeen * limit; }
  bool lost() const { return !(std::fabs(got) > want / 4); }
  static constexpr double kSeen = 8;  // a weight of so many limits
};

// doubtful: off, and by so little that an error that grows from thing to thing may just pass there.
enum class Mark : std::uint8_t { open, right, doubtful, gained, off };

// The factor that most things of a row agree on. What is lost has no vote; 1 is taken where an eighth agrees
// on it and not on the other.
double common_factor(const std::vector<Part>& row);
Mark mark_of(const Part& p, double factor);

// What is known of the things along an axis. What has gained where others are lost has what they lost: it is
// not wrong itself.
struct Axis {
  std::vector<Mark> marks;
  bool some_lost = false;

  explicit Axis(std::int64_t extent) : marks(static_cast<std::size_t>(extent), Mark::open) {}
  bool wrong(std::size_t i) const {
    return marks[i] == Mark::off || (marks[i] == Mark::gained && !some_lost);
  }
  bool any_wrong() const;
};

// first..last; of_each > 0: these of each so many.
struct Run {
  std::int64_t first = 0, last = 0, of_each = 0;
};

// One run of neighbours that is wrong, or the same in each so many, where others are right; nothing for what
// lies scattered, for an error that grows from thing to thing, and where fewer than `fewest` are right: of
// those that are compared with each other two are no majority beside one that is wrong. Things that no column
// showed are neither.
std::optional<Run> run_of(const Axis& axis, std::int64_t fewest = 3);

}  // namespace assay::attribution
