/* numpy's interface for allocators of array data (NEP 49), answered by large blocks. */
#ifndef FASTPROF_NUMPY_ARRAYS_H
#define FASTPROF_NUMPY_ARRAYS_H

#include "large_blocks.h"

#define FP_NUMPY_HANDLER "mem_handler"    /* name of the capsule that numpy expects */
#define FP_NUMPY_SET_HANDLER ((size_t)304) /* place of PyDataMem_SetHandler in the table of numpy's C API, fixed by its ABI */

/* A handler, as numpy lays it out. The owner outlives all arrays that are made with it. */
typedef struct fp_numpy_handler {
  char name[127];
  uint8_t version;
  struct {
    void *blocks;
    void *(*make)(void *blocks, size_t size);
    void *(*make_zeroed)(void *blocks, size_t count, size_t item_size);
    void *(*resize)(void *blocks, void *block, size_t size);
    void (*release)(void *blocks, void *block, size_t size);
  } allocator;
} fp_numpy_handler;

/* A handler of arrays whose data are these blocks. */
fp_numpy_handler fp_numpy_handle(fp_blocks *blocks);

#endif
