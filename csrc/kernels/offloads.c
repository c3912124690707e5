/* Open starts wait in chains, one for each key:
 *
 *    first of key 0 -> S0 -> S3 -> S5 <- last of key 0        an end of key 0 completes S0 and removes it
 *    first of key 1 -> S1        <- last of key 1
 *
 * Rows are few (41), so the row that became free first is found by looking at all of them. */
#include "kernels/offloads.h"

enum { NOBODY = -1 };

/* The open starts of one key: a chain of places through `next`, first in, first out. */
typedef struct queue {
  int64_t first, last;
} queue;

/* Chooses the row of a transfer and marks it as taken until `end`. The `<=` makes the last of several equally early
 * rows win, as in XProf. */
static int32_t row_for(int64_t *free_from, int32_t *rows, int64_t begin, int64_t end) {
  int32_t row = -1;
  int64_t least = begin;
  for (int32_t i = 0; i < *rows; i++) {
    if (free_from[i] <= least) {
      row = i;
      least = free_from[i];
    }
  }
  if (row < 0) {
    if (*rows < FP_OFFLOAD_ROWS) free_from[(*rows)++] = end;
    row = *rows - 1;
  }
  if (end > free_from[row]) free_from[row] = end;
  return row;
}

/* A start is appended to the chain of its key, an end takes the first of it. */
fp_code fp_offloads(fp_memory *memory, const int64_t *begin, const int64_t *end, const int32_t *key, const uint8_t *starts,
                    size_t count, size_t keys, int64_t *start_at, int64_t *end_at, int32_t *row, size_t *transfers) {
  queue *waiting = fp_alloc_zeroed(memory, keys, sizeof *waiting);
  int64_t *next = fp_alloc_zeroed(memory, count, sizeof *next);
  int64_t free_from[FP_OFFLOAD_ROWS];
  size_t found = 0;
  const bool ok = waiting && next;
  int32_t rows = 0;
  if (!ok) goto done;
  for (size_t i = 0; i < keys; i++) waiting[i] = (queue){NOBODY, NOBODY};
  for (size_t i = 0; i < count; i++) {
    queue *mine = &waiting[key[i]];
    if (starts[i]) {
      next[i] = NOBODY;
      if (mine->first == NOBODY) mine->first = (int64_t)i;
      else next[mine->last] = (int64_t)i;
      mine->last = (int64_t)i;
    } else if (mine->first != NOBODY) {
      int64_t at = mine->first;
      mine->first = next[at];
      start_at[found] = at;
      end_at[found] = (int64_t)i;
      row[found++] = row_for(free_from, &rows, begin[at], end[i]);
    }
  }
done:
  fp_release(memory, waiting);
  fp_release(memory, next);
  *transfers = found;
  return ok ? FP_OK : FP_NO_MEMORY;
}
