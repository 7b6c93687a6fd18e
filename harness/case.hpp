// The case grammar: one line of text, the same in a case file, on the command line and in a repro.
//
//   line   = op { " " key "=" value { "," value } }          a comma means a set, and sets multiply
//   key    = an attribute of the op | fill | fault | seed | layout | backend | variant | after
//   after  = "line; line ..."     in double quotes: calls that the same process of the backend gets before
//                                 this one
// In a value of `backend`, a comma in front of key=value belongs to the backend's options; there and in
// `variant`, %20 stands for a blank (harness/backend_names.hpp). A line has at most 65,536 cases, a value at
// most 4096 bytes.
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

// gaps       poisoned space behind every row of every tensor
// unaligned  one unit (an element, a block) of it behind every entry of every axis: a part of a wider tensor,
//            whose rows begin where no vector is aligned, and no two axes are one
// far        the outermost axis of every tensor spans 2^32 units, so that an offset counted in 32 bits, in
//            bytes or in units, goes elsewhere
inline constexpr std::string_view kLayouts[] = {"dense", "gaps", "unaligned", "far"};

struct Case {
  const Op* op = nullptr;
  Attributes attributes;
  std::string fill = "gaussian";
  std::string fault = "none";  // a row of faults(): what is done to the inputs after the fill
  std::uint64_t seed = 1;
  std::string layout = "dense";  // one of kLayouts
  std::string backend;  // as split_backends() spells it; "" until the plan multiplies by the chosen backends
  std::string variant;  // its name, unescaped; "" is the backend's own choice
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
// The number of cases that a line stands for; 2^64 - 1 when there are more.
std::uint64_t case_count(const CaseSet& set);
// Throws InputError for more cases than a line may have, for a bad value, and for tensors that no process can
// address.
std::vector<Case> expand(const CaseSet& set, std::string_view where = "case");

// Whether a key is every op's (fill, seed, backend), no attribute; and the one spelling of a value of such a
// key (seed=08 is seed=8). Throws InputError bad_value.
bool is_reserved(std::string_view key);
std::string spelt_value(std::string_view key, const std::string& value, std::string_view where);

// Whether a case lies in a set: for every key of the set the case has one of its values or, where they are
// written with a '!' (dtype=!f32,!bf16), none of them. The op "*" matches any op.
bool matches(const CaseSet& set, const Case& c);
// Brings the values of a set that cases are matched against to the spelling that cases have (rows=08 is
// rows=8). Throws InputError bad_value for a value that no case can have, and for values with and without '!'
// in one key.
void make_matchable(CaseSet& set, std::string_view where);

}  // namespace assay
