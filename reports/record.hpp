// The record of a run: JSON Lines, schema "assay-record" version 2. A header, a line for each case as soon
// as it is judged, in whatever order, and an end. Each line is one write(): whatever ends the run, the
// finished cases are on the disk, and every report can be made again from them. A line that was cut in the
// middle is dropped. Each line ends with `chain`, the fingerprint of all lines before it and of itself: one
// that was changed, put in or taken out is refused. The writer keeps that fingerprint in memory: while the
// run goes on, and at its end, a record whose last line has another was written anew by somebody who knows
// how, and the run says so. A fingerprint is no signature: who may write the file can write another one
// once the run is over.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/plan.hpp"
#include "harness/result.hpp"
#include "reports/file.hpp"

namespace assay {

// What decides the results of a run: the arguments of `assay run` that --resume takes up again.
struct RecordHeader {
  std::string command;  // for a reader
  std::vector<std::string> words, backends;
  std::string filter, seed, shard;  // "" where not given
  double timeout_seconds = 10;
  int repeats = 0;
  bool isolate = false, strict = false;
  std::string sandbox;        // "" for none
  std::size_t most_made = 0;  // cases of a suite that was made for a backend; 0: none was
  std::size_t cases = 0;
  std::string plan;  // plan_digest()

  bool operator==(const RecordHeader&) const = default;
};

// 64 bits over the case lines in their order, as 16 hexadecimal digits (FNV-1a).
std::string plan_digest(const Plan& plan);

struct Record {
  RecordHeader header;
  std::map<std::size_t, std::string> rows;  // of a case, by its place in the plan; the last of a place counts
  std::size_t whole_bytes = 0;              // up to the end of the last whole line
  std::string chain;                        // that the last whole line ends with
};

// Throws InputError: no such file, no record, a line in front of the last one that is none (with its number).
Record read_record(const std::string& path);

// The results of a record under the plan that it belongs to. Throws InputError for another plan.
std::map<std::size_t, CaseResult> results_of(const Record& record, const Plan& plan);

class RecordWriter {
 public:
  // A new record, or (resumed) what follows on the whole lines of one. Throws InputError when it cannot be
  // written.
  RecordWriter(const std::string& path, const RecordHeader& header, const Record* resumed);
  // A record that cannot be written any further (a full disk), or that somebody else has written to, does not
  // end the run: the first failure is kept.
  void result(std::size_t place, const CaseResult& r);
  void end(const Summary& s);
  const std::string& failure() const { return failure_; }
  const std::string& chain() const { return chain_; }  // that the last line ends with

 private:
  void line(std::string text);
  void look();  // whether the file ends with what was written last

  std::string path_, failure_, chain_;
  std::size_t bytes_ = 0;  // written
  OutputFile file_;
  bool readable_ = false;  // an ordinary file, not a device or a descriptor of somebody else's
};

}  // namespace assay
