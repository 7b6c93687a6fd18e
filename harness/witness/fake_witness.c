/* A witness for tests: it sees one kernel, which FAKE_WITNESS names, in every run. FAKE_WITNESS=blind: it
 * cannot open. The `ns` of the kernel counts the calls of assay_witness_collect. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/worker/assay_witness.h"

static const char* seen(void) {
  const char* name = getenv("FAKE_WITNESS");
  return name == NULL ? "" : name;
}

const char* assay_witness_open(void) { return strcmp(seen(), "blind") == 0 ? "it is dark" : NULL; }

const char* assay_witness_collect(void) {
  static char text[512];
  static int calls = 0;
  ++calls;
  if (seen()[0] == '\0') return "{\"by\":\"fake\",\"kernels\":[]}";
  snprintf(text, sizeof text, "{\"by\":\"fake\",\"kernels\":[{\"name\":\"%s\",\"ns\":%d}],\"peak_bytes\":%d}",
           seen(), calls, 100);
  return text;
}
