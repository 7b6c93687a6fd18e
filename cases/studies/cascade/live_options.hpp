// assay cascade --endpoint: the options of the live run.
#pragma once

#include <CLI/CLI.hpp>

namespace assay {

struct LiveOptions;
void add_live_options(CLI::App& command, LiveOptions& options);

}  // namespace assay
