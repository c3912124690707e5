/* Who wrote the events of threads: what their names leave open, what encloses them decides. And what follows for each event
 * from its writer and its name. */
#ifndef FASTPROF_EVENT_WRITERS_H
#define FASTPROF_EVENT_WRITERS_H

#include "memory.h"
#include "status.h"

enum { FP_MOST_WRITER_KINDS = 16 };

/* What a kind of event says of events inside of it whose own kind is open. `is_open`: its writer is looked for, and what
 * encloses it decides. `passes`: what encloses it decides, too, whether code inside is Python. `runs_python`, `is_native`:
 * events directly inside are ours, or are not. `calls_python`: all events inside are ours. `writer`: of events of this
 * kind, unless it is open. */
typedef struct fp_writer_kind {
  uint8_t is_open, passes, runs_python, is_native, calls_python, writer;
} fp_writer_kind;

/* The rows of a thread, and whether it runs Python. */
typedef struct fp_writer_thread {
  int64_t first, last, is_python;
} fp_writer_thread;

/* Events of threads, by row. `kinds`: below FP_MOST_WRITER_KINDS; `parent`: an earlier row of the thread, -1: none; `name`:
 * a number below `names`, -1: the last one. */
typedef struct fp_written {
  const uint8_t *kinds;
  const int32_t *parent, *name;
  size_t count, names;
  const fp_writer_thread *threads;
  size_t thread_count;
  const fp_writer_kind *of_kind; /* [FP_MOST_WRITER_KINDS] */
  uint8_t ours, theirs;          /* the writers of events of open kinds */
} fp_written;

/* Writes the writer of each event, and marks with 1 in `met`, [writer][names], who wrote which names. Events of
 * an open kind are ours if what encloses them says so, or, if nothing does, the thread; else they are theirs. Fails only
 * when memory runs out.
 *
 *    call of a framework from Python   |----------------------|
 *    load_batch, open                    |---------|              ours: it lies in a call from Python
 *    native code                                      |-----|
 *    step 3, open                                       |-|       theirs
 */
fp_code fp_event_writers(fp_memory *memory, const fp_written *of, uint8_t *writer, uint8_t *met);

/* Writes to `out` what `table`, [writer][names], has for each event of the threads. */
void fp_of_writer_and_name(const fp_written *of, const uint8_t *writer, const uint8_t *table, uint8_t *out);

#endif
