// The kill table: what assay and the usual rules say of the outputs of wrong kernels, and of correct ones.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace assay {

// A customary rule, as it stands in the column heads.
struct KillRule {
  std::string name;
  std::string source;
};

// What one judge says of one wrong kernel: on gaussian inputs alone, and on all fills.
struct Judged2 {
  bool gaussian = false;
  bool all = false;
};

struct KillRow {
  std::string id;     // "17", "f16: missing rescale"
  std::string group;  // the class of a mutant, or the family of planted defects
  std::string place;  // "backends/cpu/wht.cpp:33"
  std::string before, after;
  Judged2 assay;
  std::vector<Judged2> rules;  // in the order of KillTable::rules
  std::string verdict;         // the first that assay found
  std::string case_line;       // where
  std::string
      equivalent;  // of a survivor: the excuse that the list of equivalent mutants has for it; "" for none
  bool reached = true;   // some case of the corpus executes it
  bool differs = false;  // in a number, or by none, from the correct kernel on some case that was run
};

struct FalseAlarms {
  std::size_t runs = 0;     // of correct kernels
  std::size_t outputs = 0;  // elements judged in them
  // Elements that assay calls wrong; a whole run that it rejects otherwise counts as one.
  std::size_t assay = 0;
  std::vector<std::size_t> rules;  // runs that a rule rejects
  std::vector<std::string> assay_cases;
};

struct KillTable {
  std::string title;
  std::vector<KillRule> rules;
  std::vector<KillRow> rows;
  FalseAlarms correct;
  std::size_t cases = 0;                 // of the corpus
  std::vector<std::string> distrusted;   // those of them that can show nothing under the contract: left out
  std::vector<std::string> list_faults;  // what is wrong with the list of equivalent mutants
  std::string command, machine, commit;  // what made the table; "" where it is not known
  double seconds = 0;

  std::size_t generated() const {
    return rows.size();
  }  // all of them, equivalent ones too: of these the raw rate
  std::size_t differing(bool killed) const;  // mutants that differ in a number; of those, the killed
  std::size_t total() const;                 // equivalent ones left out: of these the adjusted rate
  std::size_t killed() const;
  std::size_t equivalents() const;
  std::size_t survivors() const { return total() - killed(); }
  // Killed by assay and by none of the rules, on gaussian inputs alone or on all fills.
  std::size_t missed_by_all_rules(bool gaussian_only) const;
  // "killed K of N (82.3 %); less E excused: K of M (99.2 %); false alarms F of O outputs"
  std::string last_line() const;
};

std::string kill_table_text(const KillTable& table);
// kill_table.txt, kill_table.json and kill_table.html in this directory, which is made. Throws
// std::runtime_error.
void write_kill_table(const KillTable& table, const std::string& directory);

}  // namespace assay
