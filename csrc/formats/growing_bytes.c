/* Doubling, of much growth by half, keeps the cost of growth proportional to the size. After a failure `failed` stays set: later writes would
 * leave a gap. */
#include "formats/growing_bytes.h"

enum { FIRST_CAPACITY = 64, MUCH = 1 << 20 }; /* there may be one for each process of a trace */

/* Enlarges the capacity. `need < extra`: the sum has wrapped. */
bool fp_bytes_grow(fp_bytes *out, size_t extra) {
  if (out->failed) return false;
  size_t need = out->size + extra, capacity = out->capacity + (out->capacity < MUCH ? out->capacity : out->capacity / 2);
  if (capacity < FIRST_CAPACITY) capacity = FIRST_CAPACITY;
  if (capacity < need) capacity = need;
  uint8_t *data = need < extra ? NULL : fp_resize(out->memory, out->data, capacity);
  if (!data) {
    out->failed = true;
    return false;
  }
  out->data = data;
  out->capacity = capacity;
  return true;
}

void fp_bytes_free(fp_bytes *out) {
  fp_release(out->memory, out->data);
  out->data = NULL;
  out->size = out->capacity = 0;
}
