#define _GNU_SOURCE
#include "large_blocks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#ifdef __linux__
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>
#endif

#define FP_BEFORE 64               /* so that a block in a file begins at a cache line, behind its header */
#define FP_PAGE ((size_t)4096)
#define FP_MAPPED (1 << 20)        /* bytes from which on malloc maps each block by itself, once memory is short */
#define FP_RESERVE ((uint64_t)1 << 28) /* bytes that stay free on the disk */

typedef struct fp_header {
  size_t size, mapped;
} fp_header;

static void raise_to(_Atomic int64_t *most, int64_t now) {
  int64_t old = atomic_load_explicit(most, memory_order_relaxed);
  while (old < now && !atomic_compare_exchange_weak(most, &old, now)) {
  }
}

static void count(_Atomic int64_t *sum, _Atomic int64_t *most, size_t size) {
  raise_to(most, atomic_fetch_add(sum, (int64_t)size) + (int64_t)size);
}

static bool is_large(const fp_blocks *blocks, size_t size) { return blocks && blocks->large && size >= blocks->large; }

/* Returns the bytes of memory of this process that no file has, or 0 if they are unknown. */
static int64_t count_anonymous(void) {
  long long resident = 0, shared = 0;
#ifdef __linux__
  char text[128];
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[length < 0 ? 0 : length] = 0;
  if (sscanf(text, "%*d %lld %lld", &resident, &shared) != 2) return 0;
  resident *= sysconf(_SC_PAGESIZE), shared *= sysconf(_SC_PAGESIZE);
#endif
  return resident - shared;
}

/* Measures other memory. Pages of large blocks count only once they are written to, so the figure is known within bounds:
 * within them, it stays what it was, less what was returned to the system. */
static int64_t measure_others(fp_blocks *blocks, int64_t returned) {
  int64_t most = count_anonymous(), least = most - atomic_load(&blocks->in_memory);
  int64_t others = atomic_load(&blocks->others) - returned;
  others = others < least ? least : others > most ? most : others;
  atomic_store(&blocks->others, others);
  return others;
}

/* Returns the bytes that malloc held for others, and has given back to the system. From now on, it gives back at once what
 * has the size of an array. */
static int64_t return_freed(void) {
  int64_t held = count_anonymous();
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, FP_MAPPED);
  malloc_trim(0);
#endif
  return held - count_anonymous();
}

/* Measures other memory, if many bytes of blocks have been made since the last time. Freed memory that malloc holds is
 * other memory, so it is returned first if there may be much of it. */
static void measure(fp_blocks *blocks, size_t size) {
  if (!blocks->beside || atomic_fetch_add(&blocks->made, (int64_t)size) + (int64_t)size < FP_MEASURED) return;
  atomic_store(&blocks->made, 0);
  int64_t others = measure_others(blocks, 0), trimmed = atomic_load(&blocks->trimmed);
  if (others > blocks->beside && others > trimmed + FP_MEASURED) trimmed = others = measure_others(blocks, return_freed());
  atomic_store(&blocks->trimmed, others < trimmed ? others : trimmed);
}

/* Returns the bound, less what other memory takes beyond its share. */
static int64_t find_bound(const fp_blocks *blocks) {
  if (!blocks->beside) return blocks->bound;
  int64_t slack = blocks->bound / FP_SLACK + blocks->beside / FP_SLACK;
  int64_t excess = atomic_load_explicit(&blocks->others, memory_order_relaxed) + slack - blocks->beside;
  return excess > 0 ? blocks->bound - excess : blocks->bound;
}

static bool is_beyond(fp_blocks *blocks, size_t size) {
  if (!is_large(blocks, size)) return false;
  measure(blocks, size);
  return atomic_load_explicit(&blocks->in_memory, memory_order_relaxed) > find_bound(blocks) - (int64_t)size;
}

bool fp_blocks_bind(fp_blocks *blocks, int64_t bound, int64_t beside, size_t large, const char *folder) {
  static const char name[] = "/fastprof-XXXXXX";
  size_t length = strlen(folder);
  if (length + sizeof name > sizeof blocks->files) return false;
  memcpy(blocks->files, folder, length);
  memcpy(blocks->files + length, name, sizeof name);
  blocks->bound = bound;
  blocks->beside = beside;
  blocks->large = large;
  atomic_store(&blocks->most_in_memory, blocks->in_memory);
  atomic_store(&blocks->most_in_files, blocks->in_files);
  atomic_store(&blocks->refused, 0);
  return true;
}

/* Maps a new file of that many bytes, or NULL. Its disk space is allocated first: writing to a page without it would be
 * a signal. */
static void *map_file(const fp_blocks *blocks, size_t size) {
#ifdef __linux__
  char path[sizeof blocks->files];
  memcpy(path, blocks->files, sizeof path);
  int file = mkostemp(path, O_CLOEXEC);
  if (file < 0) return NULL;
  unlink(path);
  struct statvfs disk;
  bool has_room = !fstatvfs(file, &disk) && (uint64_t)disk.f_bavail * disk.f_frsize >= FP_RESERVE + size;
  void *at = MAP_FAILED;
  if (has_room && !fallocate(file, 0, 0, (off_t)size)) at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return at == MAP_FAILED ? NULL : at;
#else
  (void)blocks;
  (void)size;
  return NULL;
#endif
}

static void *begin_block(char *at, size_t size, size_t mapped) {
  fp_header *header = (fp_header *)at - 1;
  header->size = size;
  header->mapped = mapped;
  return at;
}

static fp_header *header_of(void *block) { return (fp_header *)block - 1; }

static int64_t find_process(void) {
#ifdef __linux__
  return getpid();
#else
  return 0;
#endif
}

static void unmap(fp_mapping mapping) {
#ifdef __linux__
  if (mapping.at) munmap(mapping.at, mapping.length);
#else
  (void)mapping;
#endif
}

/* A fork forgets the spare mappings of its parent, which share their pages. */
static void lock(fp_blocks *blocks) {
  int64_t process = find_process();
  while (atomic_exchange_explicit(&blocks->is_busy, true, memory_order_acquire) && blocks->process == process) {
  }
  if (blocks->process != process) memset(blocks->spare, 0, sizeof blocks->spare);
  blocks->process = process;
}

static void unlock(fp_blocks *blocks) { atomic_store_explicit(&blocks->is_busy, false, memory_order_release); }

/* Takes the mapping of that slot, or nothing. */
static fp_mapping take_spare(fp_blocks *blocks, int slot) {
  if (slot < 0) return (fp_mapping){NULL, 0};
  fp_mapping taken = blocks->spare[slot];
  memmove(blocks->spare + slot, blocks->spare + slot + 1, (size_t)(FP_SPARE - 1 - slot) * sizeof *blocks->spare);
  blocks->spare[FP_SPARE - 1] = (fp_mapping){NULL, 0};
  return taken;
}

/* Takes the smallest spare mapping of that length or up to half more, or nothing. */
static fp_mapping find_spare(fp_blocks *blocks, size_t length) {
  int best = -1;
  lock(blocks);
  for (int i = 0; i < FP_SPARE && blocks->spare[i].at; i++) {
    size_t other = blocks->spare[i].length;
    if (other >= length && other <= length + length / 2 && (best < 0 || other < blocks->spare[best].length)) best = i;
  }
  fp_mapping found = take_spare(blocks, best);
  unlock(blocks);
  return found;
}

/* Keeps a freed mapping as spare, and returns the oldest if all places are taken. */
static fp_mapping keep(fp_blocks *blocks, fp_mapping freed) {
  lock(blocks);
  fp_mapping oldest = take_spare(blocks, blocks->spare[FP_SPARE - 1].at ? 0 : -1);
  int slot = 0;
  while (blocks->spare[slot].at) slot++;
  blocks->spare[slot] = freed;
  unlock(blocks);
  return oldest;
}

static bool drop_oldest(fp_blocks *blocks) {
  lock(blocks);
  fp_mapping oldest = take_spare(blocks, blocks->spare[0].at ? 0 : -1);
  unlock(blocks);
  unmap(oldest);
  return oldest.at != NULL;
}

/* Kept files are dropped where the disk has no room for another. Pages of a new file are zero. */
static void *make_in_file(fp_blocks *blocks, size_t size, bool is_zeroed) {
  size_t length = (FP_BEFORE + size + FP_PAGE - 1) / FP_PAGE * FP_PAGE;
  fp_mapping mapping = find_spare(blocks, length);
  if (mapping.at && is_zeroed) memset(mapping.at, 0, FP_BEFORE + size);
  if (!mapping.at) mapping = (fp_mapping){map_file(blocks, length), length};
  while (!mapping.at && drop_oldest(blocks)) mapping.at = map_file(blocks, length);
  if (!mapping.at) {
    atomic_fetch_add(&blocks->refused, 1);
    return NULL;
  }
  count(&blocks->in_files, &blocks->most_in_files, size);
  *(int64_t *)mapping.at = find_process();
  return begin_block((char *)mapping.at + FP_BEFORE, size, mapping.length);
}

static void free_in_file(fp_blocks *blocks, void *block) {
  fp_mapping mapping = {(char *)block - FP_BEFORE, header_of(block)->mapped};
  atomic_fetch_sub(&blocks->in_files, (int64_t)fp_block_size(block));
  unmap(*(int64_t *)mapping.at == find_process() ? keep(blocks, mapping) : mapping);
}

/* Counts a block in memory instead of one of another size; 0: none. */
static void recount(fp_blocks *blocks, size_t old, size_t size) {
  if (is_large(blocks, old)) atomic_fetch_sub(&blocks->in_memory, (int64_t)old);
  if (is_large(blocks, size)) count(&blocks->in_memory, &blocks->most_in_memory, size);
}

void *fp_block_make(fp_blocks *blocks, size_t size, bool is_zeroed) {
  if (size > PTRDIFF_MAX - FP_BEFORE) return NULL;
  void *block = is_beyond(blocks, size) ? make_in_file(blocks, size, is_zeroed) : NULL;
  if (block) return block;
  char *at = is_zeroed ? calloc(1, sizeof(fp_header) + size) : malloc(sizeof(fp_header) + size);
  if (!at) return NULL;
  recount(blocks, 0, size);
  return begin_block(at + sizeof(fp_header), size, 0);
}

size_t fp_block_size(const void *block) { return block ? ((const fp_header *)block - 1)->size : 0; }

static void *move_block(fp_blocks *blocks, void *block, size_t size) {
  void *moved = fp_block_make(blocks, size, false);
  if (!moved) return NULL;
  size_t old = fp_block_size(block);
  memcpy(moved, block, old < size ? old : size);
  fp_block_free(blocks, block);
  return moved;
}

void *fp_block_resize(fp_blocks *blocks, void *block, size_t size) {
  if (!block) return fp_block_make(blocks, size, false);
  if (size > PTRDIFF_MAX - FP_BEFORE) return NULL;
  fp_header *header = header_of(block);
  size_t old = header->size;
  if (header->mapped || (size > old && is_beyond(blocks, size))) return move_block(blocks, block, size);
  char *at = realloc(header, sizeof *header + size);
  if (!at) return NULL;
  recount(blocks, old, size);
  return begin_block(at + sizeof *header, size, 0);
}

void fp_block_free(fp_blocks *blocks, void *block) {
  if (!block) return;
  fp_header *header = header_of(block);
  if (header->mapped) {
    free_in_file(blocks, block);
    return;
  }
  recount(blocks, header->size, 0);
  free(header);
}
