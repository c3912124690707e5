#include "columns/picked.h"

#include <string.h>

enum { LINE = 64, LINES = 64, LEAST = 512 }; /* bytes of a cache line; lines of a page; the first capacity */

/* The three arrays lie in one block: values first, since they need the strictest alignment, then rows, then kinds.
 *
 *    block   [shift][ value ............ ][ row ...... ][ kind ]
 */
bool fp_picked_grow(fp_memory *memory, fp_picked *picked, size_t number) {
  /* Most events have the same stats, so all columns grow in step. Columns that began at the same offset within a page
   * would always be written at the same offset, and would push each other out of the cache. */
  size_t shift = number % LINES * LINE;
  size_t capacity = picked->capacity ? picked->capacity * 2 : LEAST;
  size_t item_size = sizeof *picked->value + sizeof *picked->row + sizeof *picked->kind;
  char *block = capacity <= (SIZE_MAX - LINE * LINES) / item_size ? fp_alloc(memory, shift + capacity * item_size) : NULL;
  if (!block) return false;
  fp_picked grown = {.value = (void *)(block + shift), .count = picked->count, .capacity = capacity, .block = block};
  grown.row = (void *)(grown.value + capacity);
  grown.kind = (void *)(grown.row + capacity);
  fp_picked_copy(picked, NULL, 0, 0, grown.row, grown.kind, grown.value);
  fp_release(memory, picked->block);
  *picked = grown;
  return true;
}

void fp_picked_free(fp_memory *memory, fp_picked *picked) {
  fp_release(memory, picked->block);
  memset(picked, 0, sizeof *picked);
}

void fp_picked_copy(const fp_picked *picked, const int32_t *own_numbers, int64_t text_base, int own_kind, int32_t *row,
                    uint8_t *kind, int64_t *value) {
  if (!picked->count) return;
  memcpy(row, picked->row, picked->count * sizeof *row);
  memcpy(kind, picked->kind, picked->count);
  memcpy(value, picked->value, picked->count * sizeof *value);
  if (!own_numbers) return;
  for (size_t i = 0; i < picked->count; i++)
    if (kind[i] == own_kind && value[i] >= text_base) value[i] = own_numbers[value[i] - text_base];
}
