/* The bytes of a capture as a pass reads them: all of them where the caller has them in memory, else a stretch of a
 * file, which is copied into a buffer that is used again and again. A file is not mapped: it may shrink or be written
 * to meanwhile, and what a pass looks at twice must not change in between.
 *
 *    file      0 ......... first [ bytes ............ ] end ......... size
 *                                 | buffer             | slack
 */
#ifndef FASTPROF_BYTE_WINDOW_H
#define FASTPROF_BYTE_WINDOW_H

#include "memory.h"
#include "status.h"

enum {
  FP_WINDOW_SLACK = 64,      /* bytes behind a stretch of a file that may be read too, though they mean nothing */
  FP_WINDOW_MOST = 1 << 18,  /* what is read at once, unless more is requested: it fits caches of the second level */
  FP_WINDOW_LEAST = 1 << 13  /* what is read at once after a jump */
};

/* From byte `begin` of the capture on, up to the next part, bytes stand in the file from `place` on. */
typedef struct fp_window_part {
  uint64_t begin, place;
} fp_window_part;

/* Makes the bytes of a file from `begin` to `end` be there. An error other than FP_OK ends reading: fp_ends_reading. */
typedef fp_code fp_fetch(void *context, uint64_t begin, uint64_t end);

/* The caller sets memory by fp_window_begin, and one of the sources; threads must not share a window. */
typedef struct fp_window {
  fp_memory *memory;
  const uint8_t *data; /* all bytes, the caller's; NULL: they are read from `descriptor` */
  int descriptor;
  const fp_window_part *parts; /* the caller's, ascending from 0; NULL: the file is the capture */
  size_t part_count;
  fp_fetch *fetch; /* makes bytes of the file be there before they are read; NULL: all are there */
  void *fetched_for;
  uint64_t size; /* of the capture */
  uint64_t most; /* what is read at once; tests make it small */
  /* what lies in memory now */
  const uint8_t *bytes;    /* the bytes from first to end */
  uint64_t first, end;
  const uint8_t *readable; /* the end of what may be read, slack included */
  uint8_t *buffer;
  size_t capacity;
  uint64_t ahead; /* how much was read at once last */
} fp_window;

/* A window without a source or a buffer. */
void fp_window_begin(fp_window *window, fp_memory *memory);
/* Sets the source, which has no parts and no fetch until they are set. A buffer is kept; `same`: so are the bytes in it, which are of the same unchanged file. */
void fp_window_of_memory(fp_window *window, const uint8_t *data, uint64_t size);
void fp_window_of_file(fp_window *window, int descriptor, uint64_t size, bool same);
/* Releases the buffer. May be called twice. */
void fp_window_free(fp_window *window);

/* Makes the bytes from offset to end, which lie in the capture, readable, and as a rule some behind them. Pointers
 * into the window are no longer valid. FP_CHANGED: the file is shorter than it was; FP_UNREADABLE; FP_NO_MEMORY. */
fp_code fp_window_load(fp_window *window, uint64_t offset, uint64_t end);

/* Copies bytes of the capture, which need not all be in the window at once. */
fp_code fp_window_copy(fp_window *window, uint64_t offset, uint64_t size, uint8_t *to);

/* As fp_window_load, which does nothing where these bytes are readable. */
static inline fp_code fp_window_need(fp_window *window, uint64_t offset, uint64_t end) {
  return offset >= window->first && end <= window->end ? FP_OK : fp_window_load(window, offset, end);
}

/* Where a byte lies in memory, which must be in the window; and where in the capture. */
static inline const uint8_t *fp_window_at(const fp_window *window, uint64_t offset) {
  return window->bytes + (offset - window->first);
}
static inline uint64_t fp_window_place(const fp_window *window, const uint8_t *at) {
  return window->first + (uint64_t)(at - window->bytes);
}

/* Whether reading cannot go on after this status, whatever is to be salvaged: the bytes are not at fault. */
static inline bool fp_ends_reading(fp_code code) {
  return code == FP_NO_MEMORY || code == FP_CHANGED || code == FP_UNREADABLE;
}

#endif
