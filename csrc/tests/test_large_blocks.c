/* Large blocks beyond the bound lie in files, keep their bytes when they grow, are zero where that is asked, and use again
 * what others freed; without a disk they lie in memory. */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "large_blocks.h"

#include "tests/check.h"

#ifdef __linux__
#define HAS_FILES 1
#else
#define HAS_FILES 0
#endif

static const char *folder(void) { return getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp"; }

static bool holds(const unsigned char *block, size_t size, unsigned char value) {
  for (size_t i = 0; i < size; i++)
    if (block[i] != value) return false;
  return true;
}

static void small_blocks_and_no_bound_are_memory(void) {
  static fp_blocks blocks = {.bound = INT64_MAX, .large = FP_LARGE};
  void *large = fp_block_make(&blocks, FP_LARGE, false), *small = fp_block_make(&blocks, 7, true), *none = fp_block_make(NULL, 2 * FP_LARGE, true);
  CHECK_INT(blocks.in_memory, FP_LARGE);
  CHECK_INT(fp_block_size(small), 7);
  CHECK(holds(small, 7, 0) && holds(none, 2 * FP_LARGE, 0));
  fp_block_free(&blocks, large);
  fp_block_free(&blocks, small);
  fp_block_free(NULL, none);
  fp_block_free(&blocks, NULL);
  CHECK_INT(blocks.in_memory, 0);
  CHECK(!fp_block_make(&blocks, SIZE_MAX, false) && !fp_block_make(&blocks, SIZE_MAX - 16, true));
}

static void blocks_beyond_the_bound_are_files(void) {
  static fp_blocks blocks;
  CHECK(fp_blocks_bind(&blocks, 3 * (int64_t)FP_LARGE, 0, FP_LARGE, folder()));
  unsigned char *first = fp_block_make(&blocks, 2 * FP_LARGE, false), *second = fp_block_make(&blocks, 2 * FP_LARGE, true);
  CHECK_INT(blocks.in_memory, (HAS_FILES ? 2 : 4) * FP_LARGE);
  CHECK_INT(blocks.in_files, HAS_FILES ? 2 * FP_LARGE : 0);
  CHECK(holds(second, 2 * FP_LARGE, 0));
  memset(first, 1, 2 * FP_LARGE);
  memset(second, 2, 2 * FP_LARGE);
  first = fp_block_resize(&blocks, first, 3 * FP_LARGE); /* from memory into a file */
  second = fp_block_resize(&blocks, second, FP_LARGE);   /* and back, as there is room now */
  CHECK(holds(first, 2 * FP_LARGE, 1) && holds(second, FP_LARGE, 2));
  CHECK_INT(blocks.in_memory, (HAS_FILES ? 1 : 4) * FP_LARGE);
  CHECK_INT(blocks.in_memory + blocks.in_files, 4 * FP_LARGE);
  fp_block_free(&blocks, first);
  fp_block_free(&blocks, second);
  CHECK_INT(blocks.in_memory + blocks.in_files, 0);
  CHECK_INT(blocks.refused == 0, HAS_FILES);
}

static void freed_files_are_used_again(void) {
  static fp_blocks blocks;
  fp_blocks_bind(&blocks, 0, 0, FP_LARGE, folder());
  for (int i = 0; i < 3 * FP_SPARE; i++) {
    unsigned char *block = fp_block_make(&blocks, FP_LARGE + (size_t)i * 999, i % 2);
    if (i % 2) CHECK(holds(block, FP_LARGE, 0));
    memset(block, 255, FP_LARGE);
    fp_block_free(&blocks, block);
  }
  void *held[2 * FP_SPARE];
  for (int i = 0; i < 2 * FP_SPARE; i++) CHECK((held[i] = fp_block_make(&blocks, FP_LARGE, true)) && holds(held[i], FP_LARGE, 0));
  CHECK_INT(blocks.in_files, HAS_FILES ? 2 * FP_SPARE * FP_LARGE : 0);
  for (int i = 0; i < 2 * FP_SPARE; i++) fp_block_free(&blocks, held[i]);
  CHECK_INT(blocks.in_files, 0);
}

static void a_fork_takes_no_pages_of_its_parent(void) {
  static fp_blocks blocks;
  fp_blocks_bind(&blocks, 0, 0, FP_LARGE, folder());
  unsigned char *held = fp_block_make(&blocks, FP_LARGE, false);
  fp_block_free(&blocks, fp_block_make(&blocks, FP_LARGE, false));
  memset(held, 7, FP_LARGE);
  pid_t child = fork();
  if (!child) {
    fp_block_free(&blocks, held);
    unsigned char *own = fp_block_make(&blocks, FP_LARGE, false), *other = fp_block_make(&blocks, FP_LARGE, false);
    memset(own, 9, FP_LARGE);
    memset(other, 9, FP_LARGE);
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(!status && holds(held, FP_LARGE, 7));
  unsigned char *again = fp_block_make(&blocks, FP_LARGE, false);
  if (HAS_FILES) CHECK(!holds(again, FP_LARGE, 9));
  fp_block_free(&blocks, again);
  fp_block_free(&blocks, held);
}

static void without_a_directory_blocks_are_memory(void) {
  static fp_blocks blocks;
  CHECK(fp_blocks_bind(&blocks, 0, 0, FP_LARGE, "/nowhere/at/all"));
  void *block = fp_block_make(&blocks, FP_LARGE, false);
  CHECK_INT(blocks.in_memory, FP_LARGE);
  CHECK_INT(blocks.refused, 1);
  fp_block_free(&blocks, block);
  char path[5000];
  memset(path, 'x', sizeof path);
  path[sizeof path - 1] = 0;
  CHECK(!fp_blocks_bind(&blocks, 0, 0, FP_LARGE, path));
}

/* 40 MiB that are no large blocks leave 40 MiB less, and a reserve, to large ones. */
static void other_memory_lowers_the_bound(void) {
  enum { mib = 1 << 20, bound = 128 * mib, others = 40 * mib };
  static fp_blocks blocks;
  fp_blocks_bind(&blocks, bound, 1, FP_LARGE, folder());
  char *other = malloc(others);
  memset(other, 1, others);
  void *held[256];
  for (int i = 0; i < 256; i++) memset(held[i] = fp_block_make(&blocks, mib, false), 1, mib);
  if (HAS_FILES) {
    CHECK(blocks.others >= others);
    CHECK(blocks.in_memory <= bound - others - bound / FP_SLACK + FP_MEASURED);
    CHECK_INT(blocks.in_memory + blocks.in_files, 256 * mib);
  }
  CHECK(other[others - 1] == 1);
  for (int i = 0; i < 256; i++) fp_block_free(&blocks, held[i]);
  free(other);
}

int main(void) {
  RUN(small_blocks_and_no_bound_are_memory);
  RUN(blocks_beyond_the_bound_are_files);
  RUN(freed_files_are_used_again);
  RUN(a_fork_takes_no_pages_of_its_parent);
  RUN(without_a_directory_blocks_are_memory);
  RUN(other_memory_lowers_the_bound);
  return 0;
}
