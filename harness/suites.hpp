// What the positional arguments of run and explain mean.
#pragma once

#include <string>
#include <vector>

#include "harness/case.hpp"
#include "harness/expectations.hpp"
#include "harness/suite_text.hpp"

namespace assay {

// Each word: a case file (*.cases; *.safetensors: one case with its data, `bare_files`: without its backend),
// or the name of a suite ("softmax" of the main job, "gpu/ops" of another group under cases/suites), or a
// case line (it names an op, or has a blank). None: all suites of the main job. Throws InputError for a word
// that is none of these, with the names that are near, and for a file without a case line.
std::vector<SuiteLine> gather_lines(const std::vector<std::string>& words, bool bare_files = false);
// The directory of the suites: $ASSAY_SUITES, or that of the source tree, or of the installation.
std::string suites_directory();
// As gather_lines takes them, in the order of the alphabet: those of the main job; those of every other
// group.
std::vector<std::string> suite_names();
std::vector<std::string> further_suite_names();
// The file of a suite; "" when there is none of this name.
std::string suite_file(const std::string& name);
// What a suite is for: the first line of its file, a comment; "" when that is none.
std::string suite_purpose(const std::string& file);
// suites/expected.list: what runs are known to find.
std::vector<Expectation> expectations();

}  // namespace assay
