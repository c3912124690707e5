/* The stats of an event while it is read: XStats, and where each of them is. */
#ifndef FASTPROF_CHROME_STATS_H
#define FASTPROF_CHROME_STATS_H

#include "formats/chrome_parts.h"

/* The stats of the event that is read: XStats, each with its bytes. */
typedef struct chrome_stat {
  int32_t name;
  uint32_t size;
  size_t from;
} chrome_stat;

/* An XStat that was written: its bytes with and without tag and length, its value, and their end. */
typedef struct chrome_written {
  int32_t name;
  const uint8_t *begin, *fields, *value, *end;
} chrome_written;

/* The last event that had a stat, and its place in that event's list. `document`: 1 + that of the member of this name
 * that is kept, 0 without one. `plane`: 1 + that of the last event that had it. */
typedef struct chrome_stat_use {
  uint64_t event;
  uint32_t place, document, plane;
} chrome_stat_use;

void chrome_begin_stats(fp_chrome *chrome);
/* Whether the event has had a stat of this name, of those that are noted so. */
bool chrome_is_again(fp_chrome *chrome, int32_t name);
/* The number of the name of a stat. */
int32_t chrome_stat_name(fp_chrome *chrome, const fp_json_view *view, const fp_json_value *key);
/* Adds the members of args. False: one is not JSON, at `*at`. */
bool chrome_add_args(fp_chrome *chrome, chrome_event *event, uint32_t *at);
/* Adds a field of an event: `event.NAME` if args have NAME. */
void chrome_add_field_text(fp_chrome *chrome, chrome_word word, const uint8_t *text, size_t length);
void chrome_add_field_int(fp_chrome *chrome, chrome_word word, int64_t value);
/* Adds a derived stat, which is left out if args have its name. */
void chrome_add_derived_text(fp_chrome *chrome, chrome_word word, const uint8_t *text, size_t length);
void chrome_add_derived_int(fp_chrome *chrome, chrome_word word, int64_t value);
/* Adds a reference to the stack of a frame of stackFrames. */
void chrome_add_frame(fp_chrome *chrome, chrome_word word, chrome_id frame);
/* Adds a numeric member of a counter's args. */
bool chrome_add_series(fp_chrome *chrome, const chrome_event *event, uint32_t *at);
/* An XStat on its own, appended to bytes. */
void chrome_put_stat_text(fp_bytes *out, int32_t name, const uint8_t *text, size_t length);
void chrome_put_stat_int(fp_bytes *out, int32_t name, int64_t value);
/* Reads the next of XStats that were written, and moves on behind it. False: there are no more. */
bool chrome_next_written(const uint8_t **p, const uint8_t *end, chrome_written *stat);
/* Of XStats of one name, keeps the last. */
void chrome_keep_last(fp_chrome *chrome, fp_bytes *stats);
int32_t chrome_word_number(fp_chrome *chrome, chrome_word word);
int32_t chrome_stat_number(fp_chrome *chrome, const char *name);
/* Appends a value as a stat of `name`: any kind. False: no JSON, at `*at`. */
bool chrome_put_stat(fp_chrome *chrome, fp_bytes *out, int32_t name, const fp_json_view *view, const fp_json_value *value,
                     uint32_t *at);
/* Adds stats that are written already; of equal names the later value, at the place of the earlier. Fields: `event.NAME` if
 * args have NAME. */
void chrome_add_written(fp_chrome *chrome, const uint8_t *stats, size_t size, bool are_fields);

#endif
