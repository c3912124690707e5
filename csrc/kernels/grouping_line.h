/* Events of a device's lines, placed among those of its grouping line: its steps, or the modules that it ran. */
#ifndef FASTPROF_GROUPING_LINE_H
#define FASTPROF_GROUPING_LINE_H

#include <stddef.h>
#include <stdint.h>

/* The events of a grouping line, in order of `begin`; upto[i] is the latest end of 0..i. `value` is what each is told by. */
typedef struct fp_grouping_line {
  const int64_t *begin, *end, *upto;
  const int32_t *value;
  size_t count;
} fp_grouping_line;

/* Of each event the value of the first of the grouping line that ends after the event begins, if that includes it; else
 * -1. Events come in order of time; those that do not are found, too. */
void fp_including(const fp_grouping_line *line, const int64_t *start, const int64_t *duration, size_t count,
                  int32_t *found);
/* Of each event the value of the first that ends no earlier than the event begins, if that begins no later than the event
 * ends; else -1. */
void fp_overlapping(const fp_grouping_line *line, const int64_t *start, const int64_t *duration, size_t count,
                    int32_t *found);

#endif
