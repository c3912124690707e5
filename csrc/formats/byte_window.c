/* Reading ahead follows the reader: after a jump little is read, and twice as much each time it goes on from there. A
 * file of at most one window is read once, entire. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include "formats/byte_window.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void fp_window_begin(fp_window *w, fp_memory *memory) {
  *w = (fp_window){.memory = memory, .descriptor = -1, .most = FP_WINDOW_MOST};
}

void fp_window_of_memory(fp_window *w, const uint8_t *data, uint64_t size) {
  w->data = w->bytes = data;
  w->descriptor = -1;
  w->parts = NULL;
  w->fetch = NULL;
  w->first = 0;
  w->end = w->size = size;
  w->readable = data + size;
}

void fp_window_of_file(fp_window *w, int descriptor, uint64_t size, bool same) {
  w->data = NULL;
  w->descriptor = descriptor;
  w->parts = NULL;
  w->fetch = NULL;
  w->size = size;
  if (same) return;
  w->bytes = w->readable = w->buffer;
  w->first = w->end = w->ahead = 0;
}

void fp_window_free(fp_window *w) {
  fp_release(w->memory, w->buffer);
  fp_window_begin(w, w->memory);
}

/* Makes room for `room` bytes. The `kept` bytes of the window from `offset` on come to the front. */
static bool move_to_front(fp_window *w, size_t room, uint64_t offset, size_t kept) {
  const uint8_t *from = kept ? fp_window_at(w, offset) : NULL;
  if (w->buffer && room <= w->capacity) {
    if (kept) memmove(w->buffer, from, kept);
    return true;
  }
  size_t capacity = room > w->most ? room : (size_t)(w->most < w->size ? w->most : w->size);
  if (capacity < room) capacity = room;
  uint8_t *buffer = fp_alloc(w->memory, capacity + FP_WINDOW_SLACK);
  if (!buffer) return false;
  if (kept) memcpy(buffer, from, kept);
  fp_release(w->memory, w->buffer);
  w->buffer = buffer;
  w->capacity = capacity;
  return true;
}

/* Reads `size` bytes of the file from `offset` on. */
static fp_code read_file(const fp_window *w, uint8_t *to, uint64_t offset, size_t size) {
  fp_code code = w->fetch && size ? w->fetch(w->fetched_for, offset, offset + size) : FP_OK;
  if (code) return code;
  while (size) {
    ssize_t got = pread(w->descriptor, to, size, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == ESTALE ? FP_CHANGED : FP_UNREADABLE;
    if (!got) return FP_CHANGED; /* the file ends here now */
    to += got;
    offset += (uint64_t)got;
    size -= (size_t)got;
  }
  return FP_OK;
}

/* The part that has a byte of the capture. */
static size_t part_of(const fp_window *w, uint64_t offset) {
  size_t low = 0, high = w->part_count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (w->parts[middle].begin <= offset) low = middle;
    else high = middle;
  }
  return low;
}

/* Reads `size` bytes of the capture from `offset` on. */
static fp_code read_at(const fp_window *w, uint8_t *to, uint64_t offset, size_t size) {
  if (!w->parts) return read_file(w, to, offset, size);
  for (size_t i = size ? part_of(w, offset) : 0; size; i++) {
    uint64_t end = i + 1 < w->part_count ? w->parts[i + 1].begin : w->size;
    size_t piece = size < end - offset ? size : (size_t)(end - offset);
    fp_code code = read_file(w, to, w->parts[i].place + (offset - w->parts[i].begin), piece);
    if (code) return code;
    to += piece;
    offset += piece;
    size -= piece;
  }
  return FP_OK;
}

fp_code fp_window_load(fp_window *w, uint64_t offset, uint64_t end) {
  if (offset > end || end > w->size || w->data) return FP_CHANGED; /* a place that was true of other bytes */
  uint64_t least = w->most < FP_WINDOW_LEAST ? w->most : FP_WINDOW_LEAST;
  bool goes_on = w->end && offset >= w->first && offset <= w->end + least;
  w->ahead = !goes_on ? least : w->ahead < w->most / 2 ? w->ahead * 2 : w->most;
  if (w->size <= w->most) offset = 0, w->ahead = w->size;
  uint64_t stop = w->ahead < w->size - offset ? offset + w->ahead : w->size;
  if (stop < end) stop = end;
  if (stop - offset > SIZE_MAX / 2) return FP_NO_MEMORY;
  size_t kept = offset >= w->first && offset < w->end ? (size_t)(w->end - offset) : 0, size = (size_t)(stop - offset);
  if (kept > size) kept = size;
  if (!move_to_front(w, size, offset, kept)) return FP_NO_MEMORY;
  w->bytes = w->buffer;
  w->first = w->end = offset; /* nothing is in it, should reading fail */
  fp_code code = read_at(w, w->buffer + kept, offset + kept, size - kept);
  w->readable = w->buffer;
  if (code) return code;
  w->end = stop;
  memset(w->buffer + size, 0, FP_WINDOW_SLACK);
  /* as in memory, nothing is behind the last byte of a capture: readers there go the same way */
  uint64_t behind = w->size - stop;
  w->readable = w->buffer + size + (behind < FP_WINDOW_SLACK ? behind : FP_WINDOW_SLACK);
  return FP_OK;
}

fp_code fp_window_copy(fp_window *w, uint64_t offset, uint64_t size, uint8_t *to) {
  if (!size) return FP_OK;
  if (size > w->most && !w->data) return read_at(w, to, offset, (size_t)size);
  fp_code code = fp_window_need(w, offset, offset + size);
  if (!code) memcpy(to, fp_window_at(w, offset), (size_t)size);
  return code;
}
