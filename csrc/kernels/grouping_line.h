/* Places events of a device's lines among those of its grouping line: its steps, or the modules that it ran. */
#ifndef FASTPROF_GROUPING_LINE_H
#define FASTPROF_GROUPING_LINE_H

#include <stddef.h>
#include <stdint.h>

/* The events of a grouping line, sorted by begin. upto[i] is the latest end of events 0..i, which ascends even where
 * events overlap, so that it can be searched. `value`: what to report for an event of this line, such as the number
 * of its step. */
typedef struct fp_grouping_line {
  const int64_t *begin, *end, *upto;
  const int32_t *value;
  size_t count;
} fp_grouping_line;

/* Writes for each event the value of the first event of the grouping line that ends after it begins, if that one
 * includes it; else -1. Events in order of time take constant time each; others are found by a search. */
void fp_including(const fp_grouping_line *line, const int64_t *start, const int64_t *duration, size_t count,
                  int32_t *found);
/* Writes for each event the value of the first event of the grouping line that ends at or after its begin, if that
 * one begins no later than the event ends; else -1. */
void fp_overlapping(const fp_grouping_line *line, const int64_t *start, const int64_t *duration, size_t count,
                    int32_t *found);

#endif
