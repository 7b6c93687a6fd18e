// The case grammar: one line of text, the same in a case file, on the command line and in a repro.
//
//   line   = op { " " key "=" value { "," value } }          a comma means a set, and sets multiply
//   key    = an attribute of the op | fill | fault | seed | layout | backend | variant | after
//   after  = "line; line ..."     in double quotes: calls that the same process of the backend gets before this one
// In a value of `backend`, a comma in front of key=value belongs to the backend's options (split_backends).
//
// Parse and print are a fixed point: parse(print(c)) == c, and print(parse(print(c))) == print(c). No
// tolerance can be written in a case: limits are derived.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/ops/op.hpp"

namespace assay {

struct Case {
  const Op* op = nullptr;
  Attributes attributes;
  std::string fill = "gaussian";
  std::string fault = "none";  // a row of faults(): what is done to the inputs after the fill
  std::uint64_t seed = 1;
  // "gaps": poisoned space behind every row of every tensor. "far": the outermost axis of every tensor spans
  // 2^32 units, so that an offset counted in 32 bits, in bytes or in units, goes elsewhere.
  std::string layout = "dense";
  std::string backend;  // "" until the plan multiplies by the chosen backends
  std::string variant;  // "" is the backend's own choice
  // What a new process of the backend is given first, oldest first: lines without backend and after.
  std::vector<std::string> after;

  std::string inputs()
      const;  // the part of the line that decides the inputs: everything but backend and variant
  std::string line() const;  // the whole line; attributes at their defaults are left out
};

// A parsed line before its sets are multiplied.
struct CaseSet {
  std::string op;
  std::vector<std::pair<std::string, std::vector<std::string>>> sets;
  std::string print() const;
  bool operator==(const CaseSet&) const = default;
};

// Throws InputError: unknown_name for an op or key that does not exist (with the near names), bad_value for
// an empty, repeated or malformed value. `where` ("suites/softmax.cases:12") is put in front of the message.
CaseSet parse_case(std::string_view text, std::string_view where = "case");
std::vector<Case> expand(const CaseSet& set, std::string_view where = "case");

// "cpu,python:mine.py,device=cpu" is two backends: a comma separates backends, but one that is followed by key=value
// belongs to the options of the backend in front of it. Throws InputError bad_value for an empty name, and for a
// key=value behind a backend that has no options (a colon begins them).
std::vector<std::string> split_backends(std::string_view text, std::string_view where = "--backend");

// Lines of a case file: '#' starts a comment, a trailing backslash continues a line.
struct SuiteLine {
  std::string text;
  std::string where;  // "suites/attention.cases:12"
};
std::vector<SuiteLine> read_suite(const std::string& path);  // throws InputError when it cannot be read

// Whether a case lies in a set: for every key of the set the case has one of its values or, where they are
// written with a '!' (dtype=!f32,!bf16), none of them. The op "*" matches any op.
bool matches(const CaseSet& set, const Case& c);

}  // namespace assay
