// Which defect is seen by which fill, in how many of so many seeds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cases/studies/planted/defect.hpp"

namespace assay::planted {

struct Subject {
  std::string line, contract;
  std::string path;         // what the table calls it
  std::string unseen = {};  // why a defect other than of bits cannot be seen
};
std::vector<Subject> subjects();

struct Effort {
  int scouts = 2;                 // seeds that every fill is tried with
  int seeds = 100;                // of the fills that saw most
  int fills = 2;                  // how many of them
  std::vector<std::string> only;  // these fills alone; empty: all that the op can have
  bool made = false;              // those alone that are made for these defects, with all seeds
};

// Of one fill and one defect at one size.
struct Sight {
  int seeds = 0, seen = 0;
  double moved = 0;  // the largest error / limit of any element in any seed
  bool good() const { return seeds > 0 && 100 * (seeds - seen) <= seeds; }  // 99 of 100
};

struct Found {
  Kind kind = Kind::none;
  std::string fill, smallest_fill;  // the best for the size that is asked, and for the smallest that is seen
  Sight asked;
  double smallest = 0;  // seen in 99 of 100 seeds; 0: none is
};

struct Measured {
  Subject subject;
  std::vector<Found> found;
  int accused = 0;  // calls whose honest kernel was beyond a limit
  std::string first_accused;
};
// Throws InputError for a line, a contract or a fill that there is not.
Measured measure(const Subject& subject, const Effort& effort);

std::string table_head();
std::string table_row(const Measured& measured);

}  // namespace assay::planted
