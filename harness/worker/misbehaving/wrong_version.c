/* A plug-in built for a version of the header that no worker knows. */
#include "backends/assay_backend.h"

const assay_backend* assay_backend_open(const char* options, char* reason) {
  static const assay_backend backend = {
      ASSAY_BACKEND_VERSION + 41, "wrong_version", "", "", NULL, NULL, NULL, NULL};
  (void)options;
  (void)reason;
  return &backend;
}
