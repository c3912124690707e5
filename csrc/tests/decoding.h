/* A capture on its way through all passes of the core, as the Python package takes it. Every buffer is exactly as
 * large as the core requests, so AddressSanitizer sees every access behind its end. */
#ifndef FASTPROF_DECODING_H
#define FASTPROF_DECODING_H

#include <stdio.h>

#include "formats/xspace.h"

enum { WIDE_COLUMNS = 3 };

typedef struct decoding {
  /* set by the caller before decoding_open */
  const uint8_t *data;
  size_t size;
  bool salvage;
  fp_depth depth;
  uint64_t segment_size, budget; /* of an index call */
  uint64_t most; /* 0: the bytes are read in memory; else from a file, this number at once */
  /* owned by the core */
  fp_memory memory;
  fp_window window;
  fp_scanner scanner;
  fp_xspace xspace, original; /* `original`: what xspace is a fork of, once stats were declared */
  bool forked;
  FILE *file;
  fp_index index;
  fp_strings names, texts; /* of events; of stat metadata */
  fp_vector faults;
  fp_fault fault;
  /* results of the passes */
  fp_piece *pieces;
  size_t piece_count;
  int64_t event_count, stat_count, text_count, bytes_count;
  int32_t *meta_names, *stat_names, *stat_texts, *wide_of_stat;
  int16_t *pick_of_stat;
  uint8_t *pick_parts;
  uint8_t *default_kind;
  int64_t *default_value;
} decoding;

/* A zeroed block of exactly this size. */
void *exact(size_t count, size_t item_size);

/* Zeroes everything that the caller has not set. Allocations are not limited until decoding.memory.countdown is set. */
void decoding_begin(decoding *d);
/* Gives the file the bytes that `data` has now, `size` of them or fewer, as another process would. */
void decoding_rewrite(decoding *d, size_t size);
/* Scans and opens. */
fp_code decoding_open(decoding *d);
/* Indexes every line, declares stats that are used but not declared, interns names, and numbers the rows. */
fp_code decoding_index(decoding *d);
/* Releases everything. Blocks that are still live then are a leak, and fail the test. */
void decoding_free(decoding *d);

/* Columns for events and stats, and the sink that points to them. */
typedef struct columns {
  int64_t rows, stat_rows;
  size_t pick_count; /* columns of picked stats: one for each name */
  fp_sink sink;
  fp_wide_column wide[WIDE_COLUMNS];
} columns;

int64_t index_at(const fp_index_column *c, int64_t row);
void columns_make(columns *c, decoding *d, int64_t rows, int64_t stat_rows);
void columns_free(columns *c, decoding *d);
/* Fails unless every index is in its dictionary and every place in the data. */
void columns_check(const columns *c, const decoding *d);
/* Fails unless both hold the same bytes. */
void columns_compare(const columns *a, const columns *b);

/* Makes columns for what the filter keeps (NULL: everything) and fills them. They must be freed after a failure too. */
fp_code decoding_fill(decoding *d, const fp_filter *filter, columns *c);
/* The same through the events' keys, sorted by time. */
fp_code decoding_fill_keys(decoding *d, const fp_filter *filter, columns *c);
/* Fills the stats of planes, or those of event metadata. */
fp_code decoding_fill_spans(decoding *d, bool of_planes);

#endif
