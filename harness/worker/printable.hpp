// Text of a stranger (a plug-in's reason, a kernel's name, what a worker printed) as it may stand on a
// terminal, in XML and in JSON: no control character moves a cursor, ends a line or recolours what follows.
#pragma once

#include <string>
#include <string_view>

namespace assay {

// One line: control characters (C0, DEL, C1), the marks that reorder text (U+202A..202E, U+2066..2069),
// U+2028 and 2029 become \n, \t, \xNN or \uNNNN, and bytes that are no UTF-8 \xNN. Everything else stays, so
// the text is valid UTF-8.
std::string printable(std::string_view text);

// Several lines: each printable, and behind "  | ", so that none can be taken for a line of ours.
std::string quoted_block(std::string_view text);

}  // namespace assay
