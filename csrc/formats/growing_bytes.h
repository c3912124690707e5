/* Bytes that grow while a file is written. When memory runs out, all further writing does nothing, and the writer
 * needs to look at `failed` only once, at the end. */
#ifndef FASTPROF_GROWING_BYTES_H
#define FASTPROF_GROWING_BYTES_H

#include <string.h>

#include "memory.h"

/* The caller sets `memory` and zeroes the rest. */
typedef struct fp_bytes {
  fp_memory *memory;
  uint8_t *data; /* owned */
  size_t size, capacity;
  bool failed;
} fp_bytes;

/* Makes room for `extra` more bytes. False when memory runs out; `failed` is set then. */
bool fp_bytes_grow(fp_bytes *out, size_t extra);
void fp_bytes_free(fp_bytes *out);

/* Where the next `extra` bytes may be written; NULL after a failure. The caller adds what it wrote to `size`. */
static inline uint8_t *fp_bytes_room(fp_bytes *out, size_t extra) {
  if (out->failed || (extra > out->capacity - out->size && !fp_bytes_grow(out, extra))) return NULL;
  return out->data + out->size;
}

static inline void fp_bytes_put(fp_bytes *out, const void *bytes, size_t length) {
  uint8_t *to = fp_bytes_room(out, length);
  if (!to || !length) return;
  memcpy(to, bytes, length);
  out->size += length;
}

static inline void fp_bytes_text(fp_bytes *out, const char *text) {
  fp_bytes_put(out, text, strlen(text));
}

static inline void fp_bytes_byte(fp_bytes *out, uint8_t byte) {
  uint8_t *to = fp_bytes_room(out, 1);
  if (!to) return;
  *to = byte;
  out->size++;
}

#endif
