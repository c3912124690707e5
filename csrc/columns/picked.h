/* Stats that are picked by name, as columns that grow: one fp_picked for each name. */
#ifndef FASTPROF_PICKED_H
#define FASTPROF_PICKED_H

#include "memory.h"

/* The rows of the events that have the stat, ascending, each once; its kind there (enum fp_kind of formats/xspace.h);
 * and its value: an integer, the bits of a double, the index of a text, or the length of bytes. Zeroed memory is a
 * valid empty one. To reuse its memory, set count to 0. */
typedef struct fp_picked {
  int32_t *row;
  uint8_t *kind;
  int64_t *value;
  size_t count, capacity;
  void *block; /* owned: the three arrays lie in it */
} fp_picked;

/* Makes room for at least one more item. `number` is the index of the column among its siblings. False when memory
 * runs out; the column is unchanged then. */
bool fp_picked_grow(fp_memory *memory, fp_picked *picked, size_t number);
void fp_picked_free(fp_memory *memory, fp_picked *picked);

/* Appends to column `number` of several. Rows must not descend; of several values of one row the first counts. Fails
 * only when memory runs out. */
static inline bool fp_picked_add(fp_memory *memory, fp_picked *columns, size_t number, int32_t row, int kind, int64_t value) {
  fp_picked *picked = &columns[number];
  size_t at = picked->count;
  if (at && picked->row[at - 1] == row) return true;
  if (at == picked->capacity && !fp_picked_grow(memory, picked, number)) return false;
  picked->row[at] = row;
  picked->kind[at] = (uint8_t)kind;
  picked->value[at] = value;
  picked->count = at + 1;
  return true;
}

/* Copies the items to arrays of the caller. With own_numbers (NULL: not wanted), values of kind `own_kind` from
 * text_base on are translated: they become own_numbers[value - text_base]. */
void fp_picked_copy(const fp_picked *picked, const int32_t *own_numbers, int64_t text_base, int own_kind, int32_t *row,
                    uint8_t *kind, int64_t *value);

#endif
