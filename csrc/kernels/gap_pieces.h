/* Why a device does not compute: its time, cut by what its host does, by steps and by what other devices do. */
#ifndef FASTPROF_GAP_PIECES_H
#define FASTPROF_GAP_PIECES_H

#include "kernels/foremost.h"

/* What a device does, in the order in which it counts. */
enum fp_device_kind { FP_COMPUTES, FP_COMMUNICATES, FP_COPIES, FP_DEVICE_WAITS, FP_IDLE };

/* Numbers of causes that do not follow from a code of the host. `none`: of compute; `queue`: work is launched and does not
 * begin for long; `between`: it does soon, after the work before it. */
typedef struct fp_gap_causes {
  int32_t none, idle, launch, straggler, communication, transfer, queue, between;
} fp_gap_causes;

/* A device, its host and its steps. Times are by the clock of the device, but for `host`. All is in order of time. */
typedef struct fp_device_gaps {
  /* what the device does, without holes: each stretch ends where the next one begins, the last one at `last` */
  const int64_t *begin;
  const int32_t *state; /* of each: FP_STATE_COMPUTES, FP_STATE_IDLE, or the number of what it moves or waits for */
  size_t count;
  int64_t last;
  const int64_t *ahead;      /* of each, by how much the host's clock is ahead; NULL: it is the same clock */
  /* of each idle one, when the call began and returned that launched the work after it, INT64_MAX: unknown; NULL: of all */
  const int64_t *launched, *returned;
  const int64_t *launch_row, *work_row; /* beside these: the call, and that work; -1 */
  /* what the device moves or waits for, by number */
  const uint8_t *kind;           /* enum fp_device_kind */
  const int32_t *cause_of_wait;  /* the cause of a wait for it, if the host does nothing known */
  const fp_piece *host;          /* which event says what the host does; its `label` is a row, -1: none */
  size_t host_count;
  const uint8_t *codes;          /* of the events of the host, by row */
  const int32_t *cause_of_code;  /* [256] */
  uint8_t waits;                 /* the code of a host that waits for its devices */
  const int64_t *busy;           /* begin and end of the stretches in which any device of the host works; disjoint */
  size_t busy_count;
  const int64_t *steps;          /* begin and end of steps; disjoint */
  const int64_t *step_group;     /* the group of each */
  size_t step_count;
  int64_t last_work; /* the end of what the device ran last */
  int64_t latency;   /* work that begins within this time after its launch, or after the work before it, is not late */
  fp_gap_causes causes;
} fp_device_gaps;

enum { FP_STATE_COMPUTES = -1, FP_STATE_IDLE = -2 };

/* A piece of time with one cause. `row`: the event of the host that explains the longest part of it, -1: none does;
 * `group`: of the step, -1: between steps; `transfer`: what the device moves or waits for, -1. */
typedef struct fp_gap {
  int64_t begin, end, row;
  int32_t group, transfer, cause, kind;
} fp_gap;

/* Appends the pieces (fp_gap) of a device, which add up to its time. Fails only when memory runs out.
 *
 *    device    |==compute==|          idle           |==compute==|
 *    host         |---python---|---input---|--python-|             what it does while the device computes is nothing
 *    steps     |---------------7--------|-----------8------------|
 *    gaps      |--none, 7--|pyt|-input,7|in,8|python8|--none, 8--|
 *
 * Once the next work is launched, the host is not what the device waits for:
 *
 *    calls         |==|                                 |==|
 *    device    |=work=|     idle      |=work=|         idle         |=work=|
 *    gaps             |between, queue |      |-python--|-launch|queue|           queue: if it is long
 */
fp_code fp_gap_pieces(fp_memory *memory, const fp_device_gaps *of, fp_vector *gaps);

#endif
