/* XSpace (*.xplane.pb): bytes to columns, in four passes. Each leaves for the next what it needs.
 *
 *   scan   xspace_scan.c    bytes, pushed in chunks -> where planes, lines, name tables and stats lie
 *   open   xspace_open.c    these places -> the name tables and the stats of planes
 *   index  xspace_index.c   the events of a line -> how many, when, and cut into segments
 *   fill   xspace_fill.c    segments -> columns that the caller has allocated at exactly their size
 *
 *   XSpace  [ plane                                            ][ plane ...
 *   part      [names][line                 ][line   ][names]     scan: fp_part, fp_span
 *   piece            [event][event][event]                       index: fp_piece
 *   segment          [ segment 0  ][seg. 1]                      index: fp_segment; each can be filled by itself
 *
 * Offsets are absolute, in the decompressed bytes. Each pass reads the bytes through a window that the caller gives it,
 * which may be of memory or of a file (byte_window.h); if a file changes between two passes, the later one is FP_CHANGED
 * or writes what is valid, though of other bytes: that the file is the same is for the caller to check. A *part* is an XPlane message in the file, and several may form one plane; a *piece* is an XLine
 * message in the file, and several may form one line. */
#ifndef FASTPROF_XSPACE_H
#define FASTPROF_XSPACE_H

#include "columns/id_map.h"
#include "columns/picked.h"
#include "columns/strings.h"
#include "formats/byte_window.h"
#include "memory.h"
#include "status.h"

/* ---- faults that reading survives ---------------------------------------------------------------- */

/* A fault or remark, how often it occurred, and where first. */
typedef struct fp_fault_row {
  int64_t code;
  int64_t count;
  uint64_t first_offset;
  const char *what;
} fp_fault_row;

/* Adds one to the row of this code and place, or appends a row. Fails only when memory runs out. */
bool fp_fault_log_add(fp_memory *memory, fp_vector *log, fp_code code, uint64_t offset, const char *what);

/* ---- memory that a capture may take ---------------------------------------------------------------- */

/* A message of two bytes takes a hundred in memory, so a few kilobytes, compressed, could fill any machine. So what is
 * held of a capture is in proportion to its bytes. Names and events of programs take less than that. */
#define FP_HELD_PER_BYTE 4
#define FP_HELD_BASE (UINT64_C(64) << 20)

/* What is held of a capture, by this core and by its callers. */
typedef struct fp_held {
  uint64_t bytes;
  uint64_t raised; /* the user's limit, if it is above that of the capture's size */
} fp_held;

/* How much more may be held of a capture of this size. */
static inline uint64_t fp_held_left(const fp_held *held, uint64_t size) {
  uint64_t most = size < UINT64_MAX / 8 ? FP_HELD_BASE + FP_HELD_PER_BYTE * size : UINT64_MAX;
  if (most < held->raised) most = held->raised;
  return held->bytes < most ? most - held->bytes : 0;
}

/* Counts `more` bytes, unless they are more than may be held. */
static inline bool fp_hold(fp_held *held, uint64_t more, uint64_t size) {
  bool fits = more <= fp_held_left(held, size);
  if (fits) held->bytes += more;
  return fits;
}

/* ---- scan ---------------------------------------------------------------------------------------- */

enum fp_span_kind { FP_LINES, FP_EVENT_METADATA, FP_STAT_METADATA, FP_PLANE_STATS, FP_ERRORS, FP_WARNINGS, FP_HOSTNAMES,
                    FP_SPAN_KINDS };

/* Where the payload of a length-delimited field lies. `part` is -1 for fields of the XSpace. */
typedef struct fp_span {
  uint64_t offset, length;
  int64_t part;
} fp_span;

/* An XPlane message: where it lies, its id and its name. */
typedef struct fp_part {
  uint64_t offset, end;
  int64_t id;
  uint64_t name_offset, name_length;
} fp_part;

/* The caller sets memory, salvage and held.raised, zeroes the rest, and frees it with fp_scanner_free. */
typedef struct fp_scanner {
  fp_memory *memory;
  bool salvage;
  fp_held held;
  fp_vector parts;                /* fp_part */
  fp_vector spans[FP_SPAN_KINDS]; /* fp_span */
  fp_vector faults;               /* fp_fault_row; only with salvage */
  /* where the scanner stands */
  uint64_t position; /* offset of the next header */
  uint64_t skip;     /* bytes of a payload still to come */
  uint64_t item;     /* offset of the field being read or skipped */
  const char *excess; /* after FP_TOO_MANY: the field that takes too much memory */
  uint64_t part_end;
  bool in_part;
  int depth; /* open groups */
  uint32_t groups[100];
  uint8_t carry[32]; /* the beginning of a header that the end of a chunk cut off */
  size_t carried;
  fp_window *window; /* of fp_scanner_read, while it runs */
} fp_scanner;

/* Reads all the bytes of a window, but not the payloads that it skips. */
fp_code fp_scanner_read(fp_scanner *scanner, fp_window *window, fp_fault *fault);
/* Takes the next bytes of a stream, in chunks of any size. Not with salvage, which goes back and forth. */
fp_code fp_scanner_push(fp_scanner *scanner, const uint8_t *chunk, size_t size, fp_fault *fault);
/* Says that no more bytes follow. */
fp_code fp_scanner_finish(fp_scanner *scanner, fp_fault *fault);
void fp_scanner_free(fp_scanner *scanner);

/* Sets *at to the first offset from there on where a chain of known fields of the message `what` begins; to `end` if
 * there is none. Used only with salvage. */
enum fp_message { FP_XSPACE, FP_XPLANE, FP_XLINE };
fp_code fp_resync(fp_window *window, uint64_t *at, uint64_t end, enum fp_message what);

/* ---- open ---------------------------------------------------------------------------------------- */

/* An XEventMetadata. Both structs must begin with id and part. */
typedef struct fp_event_meta {
  int64_t id, part;
  uint64_t name_offset, name_length;
  uint64_t display_offset, display_length;
  uint64_t metadata_offset, metadata_length;
  int64_t has_metadata; /* the opaque bytes were written, though they may be empty */
} fp_event_meta;

typedef struct fp_stat_meta {
  int64_t id, part;
  uint64_t name_offset, name_length; /* name_length UINT64_MAX: no metadata has this id */
  uint64_t description_offset, description_length;
} fp_stat_meta;

/* The place of an XStat. `owner` is a part, or a row of event_metas. */
typedef struct fp_owned_span {
  uint64_t offset, length;
  int64_t owner;
} fp_owned_span;

/* An event metadata row and the id of a child of it. */
typedef struct fp_child {
  int64_t owner, id;
} fp_child;

/* The caller sets memory and salvage, and zeroes the rest. After fp_xspace_open it is only read, by any
 * number of threads, until fp_xspace_declare_stats or fp_xspace_free. */
typedef struct fp_xspace {
  fp_memory *memory;
  bool salvage;
  fp_held held; /* goes on from the scanner's */
  size_t part_count;
  fp_id_map *event_maps; /* by part: id -> row of event_metas */
  fp_id_map *stat_maps;  /* by part: id -> row of stat_metas */
  fp_vector event_metas; /* fp_event_meta, by part, in the order of the file */
  fp_vector stat_metas;  /* fp_stat_meta, likewise */
  fp_vector meta_stats;  /* fp_owned_span, of event metadata */
  fp_vector children;    /* fp_child */
  fp_vector faults;      /* fp_fault_row; only with salvage */
} fp_xspace;

/* Reads the name tables at the places that the scanner found. Keeps no reference to the scanner. Must be freed
 * whatever the result. */
fp_code fp_xspace_open(fp_xspace *xspace, const fp_scanner *scanner, fp_window *window, fp_fault *fault);
/* Adds stat metadata without names, for ids that a part uses but does not declare. */
fp_code fp_xspace_declare_stats(fp_xspace *xspace, int64_t part, const int64_t *ids, size_t count, fp_fault *fault);
void fp_xspace_free(fp_xspace *xspace);
/* The same capture with stat maps and stat metadata of its own, so that stats can be declared in the fork while threads
 * read the original. All else is shared: the original must outlive the fork, which fp_xspace_free_fork frees. */
fp_code fp_xspace_fork(const fp_xspace *xspace, fp_xspace *fork, fp_fault *fault);
void fp_xspace_free_fork(fp_xspace *fork);

/* ---- index --------------------------------------------------------------------------------------- */

/* An XLine message. The caller sets offset, length and part; the index fills the fields up to event_count; the rest
 * is the caller's, for the fill. */
typedef struct fp_piece {
  uint64_t offset, length;
  int64_t part;
  int64_t id, timestamp_ns, duration_ps, display_id;
  uint64_t name_offset, name_length, display_offset, display_length;
  int64_t event_count;
  int64_t base_ps;           /* its events start at base_ps + offset_ps */
  int32_t line_id, plane_id; /* in the session */
  int32_t host, plane, line; /* dictionary indices */
  int32_t timeless;          /* base_ps does not fit 64 bits: no event has a start */
} fp_piece;

enum { FP_REGULAR = 1, /* every event has its fields in order, stats last */
       FP_SORTED = 2 }; /* by start, longer first, aggregated events last */

/* How much an index learns: only the number of events; also their times; also their stats. */
typedef enum fp_depth { FP_HOP, FP_EVENTS, FP_STATS } fp_depth;

/* Consecutive events of one piece, none cut. Times are offset_ps, relative to the piece; aggregated events count as
 * INT64_MAX. */
typedef struct fp_segment {
  uint64_t offset, end;
  int64_t piece;
  int64_t flags;
  int64_t event_count, aggregated_count;
  int64_t min_start, max_start, max_end;
  int64_t first_start, first_duration, last_start, last_duration;
  int64_t stat_count, text_count, bytes_count; /* stats; those with a text of their own; those with bytes */
  /* the caller's, for the fill */
  int64_t event_id; /* the id of its first event */
  int64_t row, row_end, stat_row, stat_row_end; /* where its rows go */
  int64_t kept_events, kept_stats;              /* set by fp_count_kept */
} fp_segment;

/* A stat id that events of a part use and the part does not declare. */
typedef struct fp_unknown_stat {
  int64_t part, id;
  int64_t kinds; /* bit 1 << kind for each kind of value that it has */
} fp_unknown_stat;

/* What an index appends to. The caller zeroes it, and owns it. */
typedef struct fp_index {
  fp_vector segments; /* fp_segment */
  fp_vector unknown;  /* fp_unknown_stat; an id may repeat */
  fp_vector faults;   /* fp_fault_row: remarks, and with salvage faults */
  uint8_t *kinds;     /* by row of stat_metas: bit 1 << kind for each kind of value; may be NULL */
} fp_index;

/* Walks one piece from `from` (its offset, or where the last call stopped) over about `budget` bytes. Fills the
 * header fields that it passes and appends segments of about `segment_size` bytes. *stopped is where it stopped: the
 * end of the piece when that is complete. */
fp_code fp_index_piece(const fp_xspace *xspace, fp_window *window, fp_piece *piece, int64_t piece_number, fp_depth depth,
                       uint64_t from, uint64_t budget, uint64_t segment_size, fp_index *index, uint64_t *stopped,
                       fp_fault *fault);
void fp_index_free(fp_memory *memory, fp_index *index);

/* ---- fill ---------------------------------------------------------------------------------------- */

enum fp_kind { FP_INT64, FP_UINT64, FP_DOUBLE, FP_STR, FP_BYTES, FP_REF, FP_NONE,
               FP_LOST_REF }; /* of wide columns only: a ref that leads nowhere; the value is the ref */

/* A column of dictionary indices, `width` bytes each (1, 2 or 4). `to` NULL: not wanted. */
typedef struct fp_index_column {
  void *to;
  int width;
} fp_index_column;

/* Which events are wanted. NULL, or all zero: all of them. */
typedef struct fp_filter {
  const uint8_t *keep_meta; /* by row of event_metas: 1 keeps its events; NULL: all */
  uint8_t keep_unnamed;     /* keeps events whose metadata is missing */
  int64_t from_ps, to_ps;   /* events that overlap [from_ps, to_ps) */
  uint8_t timed;            /* whether from_ps and to_ps apply */
} fp_filter;

enum { FP_HAS_START = 1, FP_HAS_OCCURRENCES = 2 };

/* A value beside each event: its first stat of some name, else the default of its metadata. */
typedef struct fp_wide_column {
  uint8_t *kind;                 /* fp_kind, FP_NONE where the event has none */
  int64_t *value;                /* an integer, the bits of a double, or an index of a text */
  const uint8_t *default_kind;   /* by row of event_metas; NULL: none has a default */
  const int64_t *default_value;
} fp_wide_column;

/* The bytes of a stat: the row and the column that they belong to (-1: event_stats), and where they lie. */
typedef struct fp_bytes_at {
  int64_t row, column;
  uint64_t offset, length;
} fp_bytes_at;

/* Where rows go, and what they are looked up in. Everything is the caller's. Column pointers may be NULL: not wanted.
 */
typedef struct fp_sink {
  const fp_filter *filter;
  const int32_t *meta_names;    /* by row of event_metas: its name in the dictionary of names */
  const int64_t *meta_ids;      /* by row of event_metas: the id to show; NULL: the id in the file */
  const int32_t *stat_names;    /* by row of stat_metas: its name in the dictionary of stats */
  const int32_t *stat_texts;    /* by row of stat_metas: its name as the text that a ref stands for; -1: none */
  const int32_t *wide_of_stat;  /* by row of stat_metas: its column of `wide`, or -1; NULL: none wanted */
  int64_t wide_count;
  fp_wide_column *wide;
  const int16_t *pick_of_stat;  /* by row of stat_metas: its item of `picks`, or -1; NULL: none picked */
  const uint8_t *pick_parts;    /* by part: whether its stats are picked */
  /* events */
  int64_t *event_id, *metadata_id, *start_ps, *duration_ps, *num_occurrences;
  int32_t *plane_id, *line_id;
  fp_index_column host, plane, line, name;
  uint8_t *present; /* FP_HAS_START, FP_HAS_OCCURRENCES */
  /* stats */
  int64_t want_stats;
  int64_t *stat_event_id, *int_value;
  double *double_value;
  fp_index_column stat;
  uint8_t *kind;
  fp_index_column text; /* 4 bytes wide if there are own texts, which are numbered from text_base on */
  int64_t text_base;
  /* what this call adds: empty before, freed by the caller */
  fp_strings texts;
  fp_vector bytes;  /* fp_bytes_at */
  fp_picked *picks; /* by item number in pick_of_stat; rows are below 2^31 */
  fp_vector faults; /* fp_fault_row */
  int64_t unnamed;  /* counts events without a name */
} fp_sink;

/* Decodes segments into the columns of the sink. FP_CHANGED if they are not what the index saw: nothing is written
 * outside the rows of a segment even then. */
fp_code fp_fill(const fp_xspace *xspace, fp_window *window, const fp_piece *pieces, const fp_segment *segments,
                size_t count, fp_sink *sink, fp_fault *fault);
/* Writes how many events and stats of each segment the filter keeps to kept_events and kept_stats. */
fp_code fp_count_kept(const fp_xspace *xspace, fp_window *window, const fp_piece *pieces, fp_segment *segments,
                      size_t count, const fp_filter *filter, bool stats, fp_fault *fault);

/* An event that is not filled in the order of the file: how it sorts, and where it lies. */
typedef struct fp_event_key {
  int64_t start, reversed_duration; /* absolute; ~duration, so that both sort upwards */
  uint64_t offset;                  /* of the event's payload */
  uint32_t length, stat_count;
  int32_t piece;
  int32_t flags; /* FP_KEY_KEPT: the filter keeps it; FP_KEY_REGULAR: as events of a segment that is FP_REGULAR */
} fp_event_key;
enum { FP_KEY_KEPT = 1, FP_KEY_REGULAR = 2 };

/* Writes the keys of a segment's events, event_count of them. */
fp_code fp_event_keys(const fp_xspace *xspace, fp_window *window, const fp_piece *pieces, const fp_segment *segment,
                      const fp_filter *filter, fp_event_key *keys, fp_fault *fault);
/* Fills the rows from `row` on and the stat rows from `stat_row` on with the events of the keys, in their order. The
 * sink's filter does not apply. */
fp_code fp_fill_keys(const fp_xspace *xspace, fp_window *window, const fp_piece *pieces, const fp_event_key *keys,
                     const int64_t *event_ids, size_t count, int64_t row, int64_t stat_row, int64_t stat_row_end,
                     fp_sink *sink, fp_fault *fault);

/* Fills a stat table with the stats at given places; parts[i] says whose names span i uses. The event id of a row is
 * the number of its span. `stat_ids` receives the metadata id of each. With salvage, a stat that does not decode gets
 * the kind FP_LOST_REF. */
fp_code fp_fill_spans(const fp_xspace *xspace, fp_window *window, const fp_owned_span *spans, const int64_t *parts,
                      size_t count, int64_t *stat_ids, fp_sink *sink, fp_fault *fault);
/* Appends the stat ids used at given places that their part does not declare. */
fp_code fp_unknown_in_spans(const fp_xspace *xspace, fp_window *window, const fp_owned_span *spans, const int64_t *parts,
                            size_t count, fp_vector *unknown, fp_fault *fault);

/* Puts texts into a pool and writes the number of each; -1 where a length is UINT64_MAX. Text that is not UTF-8 is a
 * fault; with salvage it is repaired and logged. */
fp_code fp_intern(const fp_xspace *xspace, fp_window *window, const uint64_t *offsets, const uint64_t *lengths,
                  size_t count, const char *what, fp_strings *pool, int32_t *numbers, fp_vector *faults, fp_fault *fault);

#endif
