// Two runs beside each other: what is new, what is gone, and what passes by other means than before. Rows are
// read as text, not as cases: a report of another version, whose cases this one no longer knows, can still be
// compared.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// A row of a report or of a record, as far as it is compared.
struct ComparedRow {
  std::string line, op, formats, backend, verdict, summary, contract, repro;
  std::string
      path;  // the kernels that a witness saw, else the one that was declared; "" where the backend claims none
  bool green = false;
  double worst_ratio = 0;
  double kernel_seconds = 0;
};

struct ComparedRun {
  std::string file, commit;
  bool complete = true;
  std::vector<ComparedRow> rows;
};

// A report of `assay run --json`, or a record. Throws InputError: no such file, neither of both, a row that
// is none.
ComparedRun read_compared(const std::string& file);

enum class ChangeKind : unsigned char {
  red,
  other,
  worse,
  lost,
  path,
  contract,
  drift,
  slower,
  fixed,
  added
};
constexpr std::string_view kChangeNames[] = {"red",      "other", "worse",  "lost",  "path",
                                             "contract", "drift", "slower", "fixed", "added"};
constexpr std::string_view kChangeTitles[] = {"new findings",
                                              "findings with another verdict",
                                              "findings grown",
                                              "cases lost",
                                              "cases by another path",
                                              "cases under another contract",
                                              "passes nearer to their limit",
                                              "groups slower",
                                              "fixed",
                                              "new cases, green"};
constexpr std::string_view to_string(ChangeKind k) { return kChangeNames[static_cast<std::size_t>(k)]; }

struct Change {
  ChangeKind kind;
  std::string line;  // the case; of `slower`, the group: "attention q8_0 backend=cpu"
  std::string note;  // what was and what is
  std::string repro;
};

// What counts as a change of magnitude.
struct CompareRules {
  double worse = 10;    // a finding grows when its worst ratio is multiplied by this
  double drift = 2;     // a pass drifts when its worst ratio is multiplied by this beyond every baseline
  double slower = 1.1;  // a group is slower when its interval lies beyond this
};

struct RunComparison {
  std::vector<Change> changes;  // in the order of the kinds, then of the runs
  std::size_t cases = 0;        // in both
  bool complete = true;         // the later run is
  // How many of the given kinds there are.
  std::size_t count(ChangeKind kind) const;
};

// `before` has one run or several of the same cases: a pass drifts beyond the largest of their ratios. The
// last one decides what was green, which path and which contract.
//
// Speed is compared by groups of op, formats and backend: r_i = after / before of the kernel seconds of case
// i, divided by the median of all r, so that a machine which is slower as a whole is no finding. A group is
// slower when the lower end of the distribution-free interval of its median (order statistics; error 1 % in
// all groups together) lies above rules.slower.
RunComparison compare(const std::vector<ComparedRun>& before, const ComparedRun& after,
                      const CompareRules& rules);

std::string comparison_text(const RunComparison& c, std::size_t shown_per_kind);
std::string comparison_markdown(const RunComparison& c, std::size_t shown_per_kind);
std::string comparison_json(const RunComparison& c);
// One self-contained page; `runs` are named in its head.
std::string comparison_page(const RunComparison& c, const std::vector<std::string>& runs);

}  // namespace assay
