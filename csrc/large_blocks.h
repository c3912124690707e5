/* Blocks of any size. Large ones lie in memory up to a bound on their sum, then in temporary files without a name, whose
 * pages the kernel writes out and drops where memory is short.
 *
 *     ┌───────────────────────┬──────┬──────────────┬───────────────────────────┐
 *     │ only if it is a file: │ size │ mapped bytes │ what the caller was given │
 *     │ up to FP_BEFORE bytes │      │              │                           │
 *     └───────────────────────┴──────┴──────────────┴───────────────────────────┘
 *     mapped bytes = 0: from malloc; otherwise the length of the mapping, which begins FP_BEFORE before the block with the
 *     number of the process that made it
 */
#ifndef FASTPROF_LARGE_BLOCKS_H
#define FASTPROF_LARGE_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FP_LARGE ((size_t)1 << 18) /* bytes from which on a block is large, as a rule */

#define FP_MEASURED ((int64_t)1 << 25) /* bytes of large blocks made, or of other memory grown, that call for a new look */

#define FP_SLACK 7 /* 1/7 of the limit is left to other memory that grows after blocks were made that stay */

#define FP_SPARE 32 /* mappings of freed blocks that are kept for others */

/* A mapped file without a block. Its pages are there already, so that a block that takes it causes no page faults. */
typedef struct fp_mapping {
  void *at;
  size_t length;
} fp_mapping;

/* The large blocks of a process. The owner outlives all blocks. */
typedef struct fp_blocks {
  size_t large;                                            /* bytes from which on a block is large; 0: none is */
  int64_t bound;                                           /* of in_memory; INT64_MAX: none */
  char files[4096];                                        /* template of the names of files; empty: none are made */
  _Atomic int64_t in_memory, in_files;                     /* bytes of large blocks now */
  _Atomic int64_t most_in_memory, most_in_files;           /* since the bound was set */
  _Atomic bool is_busy;                                    /* a thread reads or changes `spare` */
  int64_t process;                                         /* whose they are: a fork shares their pages, so takes none */
  fp_mapping spare[FP_SPARE];                              /* the last that were freed, oldest first, then empty ones */
  _Atomic int64_t refused;                                 /* blocks beyond the bound that have no file, so lie in memory */
  int64_t beside;                                          /* bytes of other memory that the bound leaves room for; 0: any */
  _Atomic int64_t others;                                  /* bytes of other memory when last measured: they lower the bound */
  _Atomic int64_t made, trimmed;                           /* bytes made since then; others after memory was last returned */
} fp_blocks;

/* Sets the bound for blocks made from now on, and the directory of the files. Other memory of the process, such as small
 * blocks and Python's objects, lowers the bound by what it takes beyond `beside` bytes; 0: it is not measured. False if the
 * path is too long. Not while another thread makes blocks. */
bool fp_blocks_bind(fp_blocks *blocks, int64_t bound, int64_t beside, size_t large, const char *folder);

/* `blocks` may be NULL: no bound. NULL if memory runs out. Sizes of 0 give a block too. */
void *fp_block_make(fp_blocks *blocks, size_t size, bool is_zeroed);
void *fp_block_resize(fp_blocks *blocks, void *block, size_t size); /* NULL leaves the old block alone */
void fp_block_free(fp_blocks *blocks, void *block);
size_t fp_block_size(const void *block);

#endif
