/* CUPTI for tests: a device that ran one kernel and holds 100 bytes, in records as those of CUDA 12 and 13 begin. FAKE_CUPTI=old: its
 * driver is too old for it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*give_buffer)(uint8_t**, size_t*, size_t*);
typedef void (*take_buffer)(void*, uint32_t, uint8_t*, size_t, size_t);

enum { RECORD_BYTES = 208 }; /* of CUpti_ActivityKernel9 */
static give_buffer give;
static take_buffer take;

static void put(uint8_t* record, size_t at, const void* value, size_t bytes) {
  memcpy(record + at, value, bytes);
}
static void put32(uint8_t* record, size_t at, uint32_t value) { put(record, at, &value, sizeof value); }
static void put64(uint8_t* record, size_t at, uint64_t value) { put(record, at, &value, sizeof value); }

int cuptiActivityRegisterCallbacks(give_buffer g, take_buffer t) {
  const char* what = getenv("FAKE_CUPTI");
  if (what != NULL && strcmp(what, "old") == 0) return 35;
  give = g;
  take = t;
  return 0;
}

int cuptiActivityEnable(uint32_t kind) { return kind == 10 || kind == 49 ? 0 : 1; }

/* The offsets are those of NVIDIA's header. */
int cuptiActivityFlushAll(uint32_t flags) {
  static const char name[] = "_Z6kernelPf";
  const char* at = name;
  uint8_t* buffer = NULL;
  size_t bytes = 0, most = 0;
  if (flags != 1) return 1;
  give(&buffer, &bytes, &most);
  if (buffer == NULL || bytes < (size_t)2 * RECORD_BYTES) return 1;
  memset(buffer, 0xEE, (size_t)2 * RECORD_BYTES); /* what is not read */
  put32(buffer, 0, 10);
  put64(buffer, 16, 1000);
  put64(buffer, 24, 1250);
  put32(buffer, 48, 7);
  for (uint32_t i = 0; i < 6; ++i) put32(buffer, 52 + 4 * i, 2 + i);
  put(buffer, 104, &at, sizeof at);
  uint8_t* memory = buffer + RECORD_BYTES;
  put32(memory, 0, 49);
  put32(memory, 4, 1);
  put32(memory, 8, 3);
  put64(memory, 16, 4096);
  put64(memory, 24, 100);
  put64(memory, 32, 900);
  take(NULL, 7, buffer, bytes, (size_t)2 * RECORD_BYTES);
  return 0;
}

int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes, uint8_t** record) {
  uint8_t* next = *record == NULL ? buffer : *record + RECORD_BYTES;
  if (next >= buffer + valid_bytes) return 12;
  *record = next;
  return 0;
}

int cuptiActivityGetNumDroppedRecords(void* context, uint32_t stream, size_t* dropped) {
  (void)context, (void)stream;
  *dropped = 0;
  return 0;
}

int cuptiGetResultString(int result, const char** text) {
  *text = result == 35 ? "CUPTI_ERROR_OLD_DRIVER" : "CUPTI_ERROR";
  return 0;
}

int cuptiGetVersion(uint32_t* version) {
  *version = 26;
  return 0;
}
