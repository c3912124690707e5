#define _DEFAULT_SOURCE
#include "numpy_arrays.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#define FP_HUGE ((size_t)1 << 22) /* numpy asks for huge pages from this size on */
#define FP_PAGE ((uintptr_t)4096)

/* Only a hint, and without effect on pages of a file. */
static void *advise_huge_pages(void *block, size_t size) {
#ifdef __linux__
  if (block && size >= FP_HUGE) {
    uintptr_t at = (uintptr_t)block, first = (at + FP_PAGE - 1) / FP_PAGE * FP_PAGE;
    (void)madvise((void *)first, size - (first - at), MADV_HUGEPAGE);
  }
#else
  (void)size;
#endif
  return block;
}

static void *make(void *blocks, size_t size) { return advise_huge_pages(fp_block_make(blocks, size, false), size); }

static void *make_zeroed(void *blocks, size_t count, size_t item_size) {
  if (item_size && count > SIZE_MAX / item_size) return NULL;
  return advise_huge_pages(fp_block_make(blocks, count * item_size, true), count * item_size);
}

static void *resize(void *blocks, void *block, size_t size) { return fp_block_resize(blocks, block, size); }

static void release(void *blocks, void *block, size_t size) {
  (void)size;
  fp_block_free(blocks, block);
}

fp_numpy_handler fp_numpy_handle(fp_blocks *blocks) {
  return (fp_numpy_handler){"fastprof", 1, {blocks, make, make_zeroed, resize, release}};
}
