// The keeper: a small process between the assay program and a worker, which leaves nothing of the worker
// behind.
//
//   assay-worker --keep [--sandbox SCRATCH MEMORY_BYTES] -- COMMAND...
//
// It starts COMMAND in a process group of its own. When that ends, or the other end of the lifeline closes
// (the assay program is gone, however it went), or is told to, it kills every descendant of its own until
// none is left, wherever they put themselves: what is orphaned below it becomes its child. It opens no
// plug-in, holds none of the worker's descriptors, and does nothing in between.
//
// The lifeline is descriptor 5, a socket of packets. Towards the keeper: any packet is the order to end. From
// it:
//   "X STATUS"  the worker ended, with this status of waitpid()
//   "E ERRNO"   COMMAND cannot be started
//   "R REASON"  the sandbox cannot be had: nothing was started
// It ends, and so closes the lifeline, when nothing is left.
#pragma once

namespace assay {

inline constexpr int kLifelineDescriptor = 5;
inline constexpr const char* kKeepOption = "--keep";
inline constexpr const char* kSandboxOption = "--sandbox";

// `arguments`: those behind --keep, ended by a null pointer. Returns the exit status of the keeper. `work` is
// the worker of this very program: where COMMAND is nothing but this program it is called in the new process,
// which spares it the time of being loaded once more, and what it returns is the exit status of that process.
int keep(char** arguments, int (*work)());

}  // namespace assay
