#include "kernels/name_times.h"

/* Between runs all sums are 0, so a larger array can replace the old one without copying. */
bool fp_name_times_reserve(fp_name_times *times, size_t names) {
  if (names <= times->room) return true;
  uint64_t *time = fp_alloc_zeroed(times->memory, names, sizeof *time);
  uint32_t *met = fp_alloc_zeroed(times->memory, names, sizeof *met);
  if (!time || !met) {
    fp_release(times->memory, time);
    fp_release(times->memory, met);
    return false;
  }
  fp_name_times_free(times);
  times->time = time;
  times->names = met;
  times->room = names;
  return true;
}

void fp_name_times_free(fp_name_times *times) {
  fp_release(times->memory, times->time);
  fp_release(times->memory, times->names);
  times->time = NULL;
  times->names = NULL;
  times->room = times->met = 0;
}
