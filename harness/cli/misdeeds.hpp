// The misbehaving plug-in, judged through a worker: each of its variants breaks one rule of assay_backend.h,
// and has a counterpart that breaks none.
#pragma once

#include <string>
#include <vector>

namespace assay {

struct Judgement {
  bool right = false;  // the misdeed was noticed for what it is, and its counterpart passed
  std::string text;    // "write_past_end: overrun: wrote 4 bytes behind y"
};

// Where the plug-in lies: selftest/ beside the program, or ../lib/assay/selftest of an installation.
std::string misbehaving_plugin();

// One judgement for each variant, and one for each that the plug-in has and this list lacks, or the reverse.
// A plug-in or a worker that is missing is a single judgement, and not right.
std::vector<Judgement> judge_misdeeds();

}  // namespace assay
