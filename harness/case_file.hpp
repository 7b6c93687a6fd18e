// One file for a case with its data: what a fill would make stands in the file, so that a case found by
// shrinking, by a recorder or by a search is judged bit for bit, anywhere. The container is safetensors (8
// bytes of length, a header in JSON, the tensors one behind the other), which every framework reads.
//
//   __metadata__      "assay": "case 1"; "case": the case line; "contract", "path", "verdict", "summary",
//                     "detail", "version", "commit": what the case was when the file was written, for people
//                     and programs
//   NAME              a plane of an input, as the reference sees it ("k", "k.scale"): the bytes that the
//                     kernel gets
//   clean/NAME        of a case whose fault is in the inputs: the same without it
//   given/NAME        of a case with a corruption: what the kernel alone gets
//   truth/NAME.value  f64: the reference's value of each element of an output; truth/NAME.limit: its limit
//   got/NAME          a plane of an output, as the backend left it
//
// The case line says all but the data. In a line of its own the file is a fill: `softmax rows=1 cols=2
// fill=file:x.safetensors` is a case like any other, and its history stands in its `after`. Only inputs are
// read back: truth and limits are computed again, by the contract that the backend declares then.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/inputs.hpp"
#include "harness/safetensors.hpp"

namespace assay {

struct CaseFile {
  Case c;
  TensorSet set, clean, corrupted;  // as Inputs has them
  std::vector<Truth> truths;
  TensorSet got;
  std::map<std::string, std::string> about;  // the rest of the metadata
};

// The case of a line that is one. Throws InputError that begins with `where`.
Case one_case_of(const std::string& line, const std::string& where);

// The file's bytes. The data must fit the case's tensors.
std::string print_case_file(const CaseFile& file);
// Strict: every plane that the case's line asks for, of the one type and shape that it has, no other, no gap,
// no overlap and nothing behind. Truths and outputs are read where they are. Throws InputError that begins
// with `where`.
CaseFile parse_case_file(std::string_view bytes, const std::string& where);
// Tensors that somebody else recorded, in a file or in memory: `line` says what they are, `names` how they
// call a plane of the case ("x", "k.scale", "y") where it is not so. Each has as many elements, in the case's
// order, and its type; I64 is taken for I32 where every number fits. Tensors that the case does not have are
// left, and without `outputs` its outputs are. Throws InputError that begins with `where`.
CaseFile parse_dump(const Safetensors& container, const std::string& line,
                    std::map<std::string, std::string> names, const std::string& where, bool outputs = true);
// How safetensors calls a plane's elements, without its bytes. Blocks, and codes that share a byte, are bytes
// to it.
StoredTensor stored_as(const PlaneSpec& plane);
// Whether the file says itself which case it is.
bool has_case(std::string_view bytes, const std::string& where);
// A regular file of at most 64 MiB. Throws InputError.
CaseFile read_case_file(const std::string& path);

// Whether a word is the name of such a file; and the line that judges it: the case's own with fill=file:PATH.
// With `bare` the line names no backend, so that those of the command line are asked.
bool is_case_file(std::string_view word);
std::string case_file_line(const std::string& path, bool bare);

// The path in fill=file:PATH; nothing for the name of a fill.
std::optional<std::string> file_of_fill(std::string_view fill);
std::string fill_of_file(std::string_view path);

// The data of the case's file as its inputs. Throws InputError when the file holds another op's, or other
// shapes.
void take_inputs(const Case& c, const std::string& path, Inputs& inputs);

}  // namespace assay
