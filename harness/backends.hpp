// Which backends this build knows: the list that the build wrote beside the plug-ins, and plug-ins named by
// path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/worker/worker.hpp"

namespace assay {

struct BackendInfo {
  std::string name;                      // "cpu"
  std::string file;                      // of the plug-in, absolute; "" when it was not built
  std::string not_built;                 // why it was not built
  bool awaited = false;                  // it was configured, and no build has made its plug-in yet
  std::string install;                   // what to do to get it
  std::size_t alignment = 0;             // bytes that its library asks of every buffer; 0: natural
  bool is_default = false;               // part of a run that names no backend
  bool is_stranger = false;              // kernels of another project: judged by the suite strangers
  std::vector<std::string> worker = {};  // command of a worker that is not assay-worker
  std::string witness = {};              // library that watches its device, absolute; "" for none
};

// A row of backends.json: its paths are still relative to the list.
struct BackendRow {
  BackendInfo info;
  std::string interpreter, worker;  // of Python files, for example; "" for those of assay-worker
};
// Throws InputError that names the row for one that lacks something, has another type, or a name that no case
// could give.
std::vector<BackendRow> parse_backend_list(std::string_view text, const std::string& where);

// Reads backends.json from $ASSAY_BACKENDS, or from backends/ beside the program, or ../lib/assay/backends of
// an installation. Throws InputError when there is none.
std::vector<BackendInfo> known_backends();

// A name as a case has it (harness/backend_names.hpp): "cpu", "onednn:threads=2", "./my_kernel.so", or
// "./my_kernels.py": a file that the worker of the backend `python` loads, under the witness of that backend.
// A shared object by its path is watched by the witness of the CPU, as the backend `example` is. The
// environment variable ASSAY_WITNESS names another witness of plug-ins by path, or none ("": nobody watches).
// Throws InputError unknown_name (listing those known), or bad_value with the reason and what to install when
// it was not built.
struct BackendChoice {
  BackendInfo info;
  std::string options;
};
BackendChoice choose_backend(std::string_view name, const std::vector<BackendInfo>& known);

// How the backend's worker is started.
WorkerOptions worker_options(const BackendChoice& choice);

// The directory of the running program.
std::string program_directory();

}  // namespace assay
