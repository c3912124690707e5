#include "columns/picked.h"

#include <string.h>

static bool resize(fp_memory *memory, void **column, size_t capacity, size_t item_size) {
  void *grown = capacity <= SIZE_MAX / item_size ? fp_resize(memory, *column, capacity * item_size) : NULL;
  if (grown) *column = grown;
  return grown != NULL;
}

bool fp_picked_grow(fp_memory *memory, fp_picked *picked) {
  size_t capacity = picked->capacity < 512 ? 512 : picked->capacity * 2;
  void *row = picked->row, *kind = picked->kind, *value = picked->value;
  bool grown = resize(memory, &row, capacity, sizeof *picked->row) && resize(memory, &kind, capacity, 1) &&
               resize(memory, &value, capacity, sizeof *picked->value);
  picked->row = row; /* those that have been moved, whether all were or not */
  picked->kind = kind;
  picked->value = value;
  if (grown) picked->capacity = capacity;
  return grown;
}

void fp_picked_free(fp_memory *memory, fp_picked *picked) {
  fp_release(memory, picked->row);
  fp_release(memory, picked->kind);
  fp_release(memory, picked->value);
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
