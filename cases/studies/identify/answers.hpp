// What kernels answered, kept in a file: a device is asked once, and the search goes on without it, on any
// machine.
#pragma once

#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/case.hpp"
#include "harness/inputs.hpp"

namespace assay {

struct KernelAnswer {
  std::vector<double> got;  // the first output
  std::string contract, path;
  std::vector<std::string> kernels;  // each once; what a witness saw outranks what the backend says
};

// A file of JSON lines, one for each call: the case line, a digest of the inputs' bytes, and what was
// answered, each output as the eight hexadecimal digits of its f32, which every format that identify takes
// fits into. An answer is written as soon as it is there.
class AnswerFile {
 public:
  enum class Mode : std::uint8_t { write, read };
  // Throws InputError where the file cannot be opened, or a line of it cannot be read.
  AnswerFile(const std::string& path, Mode mode);
  bool reads() const { return mode_ == Mode::read; }

  bool has(const Case& c, const Inputs& inputs) const;
  // nullopt: the backend did not take the call. Throws InputError where this call on these inputs is not in
  // the file.
  std::optional<KernelAnswer> find(const Case& c, const Inputs& inputs) const;
  void add(const Case& c, const Inputs& inputs, const std::optional<KernelAnswer>& answer);

 private:
  std::string path_;
  Mode mode_;
  std::ofstream out_;
  std::map<std::string, std::optional<KernelAnswer>> answers_;  // by line and digest
};

}  // namespace assay
