// A report file appears whole or not at all.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "reference/error.hpp"

namespace assay {

class ReportFile {
 public:
  // Opens a temporary file beside `path`, so that a path that cannot be written is refused before a run, not
  // after it.
  explicit ReportFile(std::string path)
      : path_(std::move(path)), temporary_(path_ + ".part"), stream_(temporary_) {
    if (!stream_)
      throw InputError(InputErrorKind::bad_value, fmt::format("report file '{}' cannot be written", path_));
  }
  ~ReportFile() {
    if (!finished_) std::remove(temporary_.c_str());
  }
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;

  std::ostream& stream() { return stream_; }
  void finish() {
    stream_.close();
    if (stream_.fail() || std::rename(temporary_.c_str(), path_.c_str()) != 0)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("report file '{}' could not be completed", path_));
    finished_ = true;
  }

 private:
  std::string path_, temporary_;
  std::ofstream stream_;
  bool finished_ = false;
};

}  // namespace assay
