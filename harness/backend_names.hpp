// How a backend is named in a case: NAME, PATH, NAME:options, PATH:options.
//
// A line of text gives blank, comma, '#', ':', '=', both quotes and the backslash a meaning, and a path may
// have any of them. In `backend=` and `variant=` such a byte is written as in a URL: %20 for a blank, %25 for
// '%' itself; so are control characters and bytes beyond ASCII. Every name has one spelling, which stands
// between single quotes in a repro.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// "my dir/x,y.so" -> "my%20dir/x%2Cy.so": the name of a plug-in file in front of its options.
std::string escaped_path(std::string_view path);
// The same for a text that may have colons and equals signs: a variant.
std::string escaped_text(std::string_view text);
// What was escaped. Throws InputError bad_value for a '%' without two hexadecimal digits, and for %00.
std::string unescaped(std::string_view text, std::string_view where);
// The one spelling of NAME[:options] and of a variant, however much of them was escaped. Throws as
// unescaped() does.
std::string spelt_backend(std::string_view name, std::string_view where);
std::string spelt_variant(std::string_view name, std::string_view where);

// NAME[:options] taken apart and unescaped.
struct BackendName {
  std::string name;
  std::string options;
};
BackendName parse_backend(std::string_view text, std::string_view where);

// "cpu,python:mine.py,device=cpu" is two backends: a comma separates backends, but one that is followed by
// key=value belongs to the options of the backend in front of it. Throws InputError bad_value for an empty
// name, and for a key=value behind a backend that has no options (a colon begins them).
std::vector<std::string> split_backends(std::string_view text, std::string_view where = "--backend");

// The same as a person types it behind --backend: the path of a file that is there may stand unescaped, with
// all its commas, colons and blanks.
std::vector<std::string> typed_backends(std::string_view text,
                                        const std::function<bool(const std::string&)>& is_file);
std::vector<std::string> typed_backends(std::string_view text);

}  // namespace assay
