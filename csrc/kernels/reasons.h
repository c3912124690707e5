/* What a thread does at each time, where only some of its events say so. */
#ifndef FASTPROF_REASONS_H
#define FASTPROF_REASONS_H

#include "kernels/foremost.h"

/* How codes of events combine. An event whose `takes` is at least what the code around it `holds` says what its thread
 * does from then on; another one, and each of code 0 or of the same code, leaves that as it was. */
typedef struct fp_code_powers {
  uint8_t takes[256], holds[256];
} fp_code_powers;

/* The rows of a thread, and the number of what it is for its host. */
typedef struct fp_thread {
  int64_t first, last, role;
} fp_thread;

enum { FP_NO_RANK = 255 };

/* The events of threads, rows sorted by start, longer first; a negative duration counts as 0. */
typedef struct fp_reasons_in {
  const int64_t *start, *duration;
  const uint8_t *codes;
  const fp_code_powers *powers;
  const fp_thread *threads;
  size_t thread_count;
  const uint8_t *ranks; /* [role][256]: of what a thread says with a code; FP_NO_RANK: it does not count */
  const int64_t *open;  /* begin and end of stretches, ascending and disjoint: time outside of these is not looked at */
  size_t open_count;
} fp_reasons_in;

/* A thread, whose spans are taken one by one: see fp_reasons_next. */
typedef struct fp_reasons_walk {
  fp_memory *memory;
  const fp_reasons_in *in;
  const uint8_t *ranks; /* of the thread */
  int64_t row, stop;    /* the next event, and behind the last one */
  fp_vector stack;      /* events still open */
  fp_piece latest;      /* of the time that is done; its `label` is the row, -1: there is none */
  size_t open;          /* the first stretch that ends after the latest piece begins */
  fp_span *found;
  bool has_found, ended, failed;
} fp_reasons_walk;

void fp_reasons_begin(fp_reasons_walk *walk, fp_memory *memory, const fp_reasons_in *in, const fp_thread *thread);

/* Writes the next span of a walk (fp_reasons_walk): a piece of time in which an event with a code says what its thread
 * does; `label` is the row of that event. Left out are those outside of the stretches that are open, and those of no
 * rank. Spans of a thread whose events nest ascend and are disjoint; adjoining ones have different rows. False: there is
 * none, or memory ran out, see `failed`.
 *
 *    row 0 (takes 1, holds 2)    |---------------------------|
 *    row 1 (takes 1)                |-----|
 *    row 2 (takes 2)                           |------|
 *    row 3                                                      |------|
 *    open                               |---|       |---|
 *    spans                       |000000000000|2222222|000|          not row 3, which lies outside
 */
bool fp_reasons_next(void *walk, fp_span *span);
void fp_reasons_end(fp_reasons_walk *walk);

/* Appends pieces of time: which event says what a host does, whose threads these are. See fp_foremost_of, whose errors
 * it has. */
fp_code fp_foremost_reasons(fp_memory *memory, const fp_reasons_in *in, int64_t first, int64_t last, fp_vector *pieces);

#endif
