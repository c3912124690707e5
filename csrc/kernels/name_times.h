/* Time by name: sums for each name of a run of events, and the name with the most time. */
#ifndef FASTPROF_NAME_TIMES_H
#define FASTPROF_NAME_TIMES_H

#include "memory.h"

/* A name and its time. */
typedef struct fp_name_time {
  int64_t time;
  uint32_t name;
} fp_name_time;

/* Zeroed memory with `memory` set is empty. It is used for run after run without being cleared, by one thread at a
 * time. */
typedef struct fp_name_times {
  fp_memory *memory;
  uint64_t *time;  /* by name: 1 + the sum; 0: not in this run. All 0 between runs */
  uint32_t *names; /* the names of this run, `met` of them */
  size_t met, room;
} fp_name_times;

/* Room for names 0 to `names` - 1. Fails only when memory runs out. */
bool fp_name_times_reserve(fp_name_times *times, size_t names);
void fp_name_times_free(fp_name_times *times);

/* Adds the time of one event. Sums are kept plus 1, so that a name with no time differs from one that has not
 * occurred. */
static inline void fp_name_times_add(fp_name_times *times, uint32_t name, int64_t time) {
  if (!times->time[name]) {
    times->time[name] = 1;
    times->names[times->met++] = name;
  }
  times->time[name] += (uint64_t)time;
}

/* Ends a run: returns the name with the most time (of equal ones the smaller number) and resets all sums. `each`
 * (NULL: not wanted) has room for `met` items and receives the sums. */
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
