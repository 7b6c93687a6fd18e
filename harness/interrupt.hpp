// What ends a run before its end: SIGINT, SIGTERM and SIGHUP stop it in good order (workers are killed,
// reports are written and marked incomplete); a second signal ends the program at once.
#pragma once

namespace assay {

// While it lives, those signals are caught. One at a time, made before the first thread.
class StopSignals {
 public:
  StopSignals();  // throws std::system_error
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Readable once a signal has come, and from then on.
  int descriptor() const;
  // The signal, 0 while none has come.
  int signal() const;
  bool stopped() const { return signal() != 0; }
};

}  // namespace assay
