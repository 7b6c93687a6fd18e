// What the programs of the project end with.
#pragma once

namespace assay {

// 0 all green; 1 a finding; 2 wrong usage; 3 nothing was judged; 125 cannot be built or run (what `git bisect
// run` skips).
enum ExitCode : int { kGreen = 0, kFinding = 1, kUsage = 2, kNothingJudged = 3, kCannotRun = 125 };

}  // namespace assay
