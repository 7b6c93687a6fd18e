// Which stage a line of our CPU kernels belongs to (stages.list), and by it the generated mutants whose stage
// is known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cases/studies/mutants/mutant_list.hpp"

namespace assay::attribution {

struct LabelRow {
  std::string file, beginning, stages, where;  // where: "stages.list:12"
};
// Throws InputError for a line that is not FILE @ BEGINNING OF A LINE @ STAGES.
std::vector<LabelRow> parse_labels(std::string_view text, const std::string& where);

// The stages of a line, counted from 1, of a file with this text, in a case of this op; "" where no row
// speaks of them. Throws InputError for a row of the file whose beginning is of no line behind that of the
// row before.
std::string label(const std::vector<LabelRow>& rows, const std::string& file, std::string_view text, int line,
                  std::string_view op);
// Those of a mutant of a file with this text: of its line, but for another kernel that is announced, and bits
// that differ from call to call, which are stages of their own.
std::string label(const std::vector<LabelRow>& rows, const mutants::Manifest& mutant, std::string_view text,
                  std::string_view op);

// A mutant that a case kills, as a row of a corpus.
struct Labelled {
  mutants::Manifest mutant;
  int which = 1;  // of those that change the same text of the same line alike
  std::string stages, case_line, half;
};
// The halves of a list: one is looked at, the other is held out. By a hash of what the mutant changes; of the
// ops that were looked at before there were halves, all is looked at.
std::string half_of(const mutants::Manifest& mutant, int which, std::string_view op);

// The mutants that kill tables of this build say are killed, less those of a corpus: each once for each op
// that kills it. Of each file its text is read below `root`. Mutants on lines that no row labels are left
// out, and named on standard error.
std::vector<Labelled> beyond(const std::vector<std::string>& kill_tables, const std::string& corpus,
                             const std::vector<mutants::Manifest>& manifest,
                             const std::vector<LabelRow>& labels, const std::string& root);
// As corpus.json is written.
std::string to_json(const std::vector<Labelled>& rows);

}  // namespace assay::attribution
