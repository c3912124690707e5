/* Time by name: adds up the time of each name of a run of events, and tells the name that has most of it. */
#ifndef FASTPROF_NAME_TIMES_H
#define FASTPROF_NAME_TIMES_H

#include "memory.h"

typedef struct fp_name_time {
  int64_t time;
  uint32_t name;
} fp_name_time;

/* Zeroed memory with `memory` set is an empty one; used again and again, by one thread at a time. */
typedef struct fp_name_times {
  fp_memory *memory;
  uint64_t *time;  /* by name, one more than the sum, 0 for names not met; all 0 between runs */
  uint32_t *names; /* those met */
  size_t met, room;
} fp_name_times;

/* Room for names 0 to `names` - 1; false for want of memory. */
bool fp_name_times_reserve(fp_name_times *times, size_t names);
void fp_name_times_free(fp_name_times *times);

static inline void fp_name_times_add(fp_name_times *times, uint32_t name, int64_t time) {
  if (!times->time[name]) {
    times->time[name] = 1;
    times->names[times->met++] = name;
  }
  times->time[name] += (uint64_t)time;
}

/* The name with the most time, the smaller number of equal ones, and forgets all. `each` (NULL: not wanted) has room for
 * what was met and gets their sums. */
static inline uint32_t fp_name_times_take(fp_name_times *times, fp_name_time *each) {
  uint64_t most = 0;
  uint32_t leading = 0;
  for (size_t i = 0; i < times->met; i++) {
    uint32_t name = times->names[i];
    uint64_t time = times->time[name];
    if (time > most || (time == most && name < leading)) {
      most = time;
      leading = name;
    }
    if (each) each[i] = (fp_name_time){(int64_t)(time - 1), name};
    times->time[name] = 0;
  }
  times->met = 0;
  return leading;
}

#endif
