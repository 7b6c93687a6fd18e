// What `assay hunt` tells of a finding: as text, and as one page of HTML that needs no other file.
#pragma once

#include <string>

namespace assay::culprit {

struct Story {
  std::string title;
  std::string found;   // what `assay run` says of the case
  std::string shrunk;  // the text of the issue
  std::string attribution;
  std::string bisection;  // what `assay bisect` printed; "" where it was not asked
  std::string repeat;     // the command that repeats it
};
std::string text_of(const Story& story);
std::string page_of(const Story& story);

}  // namespace assay::culprit
