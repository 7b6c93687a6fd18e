// Files that a run writes. A report appears whole or not at all; nothing that stands at its path is followed
// or replaced unless it is an ordinary file.
#pragma once

#include <sys/types.h>

#include <sstream>
#include <string>
#include <string_view>

namespace assay {

// An open file descriptor, closed with its owner.
class OutputFile {
 public:
  explicit OutputFile(int descriptor = -1) : descriptor_(descriptor) {}
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  int get() const { return descriptor_; }
  void reset(int descriptor = -1);
  // All of it, or an exception std::system_error (a full disk, a reader that is gone).
  void write(std::string_view bytes);
  void sync();  // to the disk, where there is one; throws std::system_error

 private:
  int descriptor_;
};

// A file for a report, which is written as a whole at the end:
//   a device, a pipe, /dev/stdout     written in place
//   an ordinary file, or none yet     a file without a name (O_TMPFILE), which finish() names PATH.part and
//                                     renames to PATH: a killed run leaves nothing behind. Where the file
//                                     system has no such files, PATH.part is made new (O_EXCL) at once
//   a symbolic link, a directory      refused
//   what another run is writing       refused: each holds the path by the name of an abstract socket, which
//                                     ends with it
class ReportFile {
 public:
  // Throws InputError bad_value when the path cannot be written: before a run, not after it.
  explicit ReportFile(std::string path);
  ~ReportFile();
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;

  std::ostream& stream() { return text_; }
  void finish();  // throws std::runtime_error with the path and the cause

 private:
  std::string path_, part_;  // part_: "" when written in place
  OutputFile file_, claim_;
  bool named_ = false;  // part_ is there
  std::ostringstream text_;
  bool finished_ = false;
};

// The text as such a file, at once.
void write_report(const std::string& path, const std::string& text);

// Opens what a run appends to while it goes on (a record): made new, or kept if `resume`, and locked. The
// same rules.
int open_record(const std::string& path, bool resume);

}  // namespace assay
