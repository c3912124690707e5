/* What the files of the scribe of Chrome's traces share. formats/chrome.h is its face. */
#ifndef FASTPROF_CHROME_PARTS_H
#define FASTPROF_CHROME_PARTS_H

#include "columns/key_map.h"
#include "columns/strings.h"
#include "formats/chrome.h"
#include "formats/json_number.h"
#include "formats/json_scan.h"
#include "formats/json_text.h"

/* ---- remarks ---- */

typedef enum chrome_fault {
  CHROME_BAD_TIME, CHROME_NO_DURATION, CHROME_NEGATIVE_DURATION, CHROME_BAD_TEXT, CHROME_DUPLICATE_KEY,
  CHROME_UNKNOWN_PHASE, CHROME_EMPTY_EVENT, CHROME_END_WITHOUT_BEGIN, CHROME_BEGIN_WITHOUT_END, CHROME_NAME_MISMATCH,
  CHROME_BIG_NUMBER, CHROME_NONFINITE, CHROME_EXTRA_COMMA, CHROME_SEVERAL_DOCUMENTS, CHROME_SEVERAL_ARRAYS,
  CHROME_STRAY_ITEM, CHROME_LOST, CHROME_TRUNCATED, CHROME_TOO_DEEP, CHROME_NOT_READ, CHROME_CUT_VALUE,
  CHROME_BAD_COUNTER, CHROME_BOTH_IDS, CHROME_STEP_WITHOUT_BEGIN, CHROME_MIXED_STEPS, CHROME_BAD_STACK, CHROME_BAD_BASE,
  CHROME_RENAMED_THREAD, CHROME_OTHER_DEVICE, CHROME_UNESCAPED, CHROME_FAULTS
} chrome_fault;

/* ---- ids, processes, planes, lines ---- */

/* A process or thread id, or an id of an event, as compared: an integer, or a number of `texts`. */
typedef enum chrome_id_kind { CHROME_NO_ID, CHROME_INT_ID, CHROME_UINT_ID, CHROME_TEXT_ID } chrome_id_kind;
typedef struct chrome_id {
  chrome_id_kind kind;
  uint64_t bits;
} chrome_id;

/* What M events say of a process. Texts are numbers of `texts`, -1: none. */
typedef struct chrome_process {
  chrome_id pid;
  int32_t name, plane, label; /* label: of a device */
  int64_t sort_index;
  bool is_sorted, is_host;   /* is_host: a label says CPU */
  fp_bytes stats; /* XStats of plane_stats, in the order in which they came */
} chrome_process;

/* What M events say of a thread. */
typedef struct chrome_thread {
  int32_t name;
  int64_t sort_index;
} chrome_thread;

/* Which events of a thread a line has. */
typedef enum chrome_role {
  CHROME_THREAD, CHROME_COUNTERS, CHROME_OBJECTS, CHROME_DUMPS, CHROME_ASYNC, CHROME_STREAM, CHROME_SYNC, CHROME_NOTES
} chrome_role;

typedef struct chrome_line {
  int32_t plane, process, name; /* name: of a line that no thread gives one; -1 */
  chrome_role role;
  chrome_id tid;
  int64_t xline_id;
  uint64_t event_count;
  int64_t latest_ns; /* the latest end of an event, for what is never closed */
  int32_t latest_ps;
} chrome_line;

/* The line and the process that were found last by a number of a few bits: events of several threads alternate. */
enum { CHROME_USUAL = 16 };
enum { CHROME_NAMES = 512 };
typedef struct chrome_usual_line {
  fp_key key;
  int32_t line; /* 1 + its number; 0: none */
} chrome_usual_line;
typedef struct chrome_usual_process {
  chrome_id pid;
  int32_t process; /* 1 + its number; 0: none */
} chrome_usual_process;

typedef struct chrome_plane {
  int32_t process; /* whose M events name it; -1 */
  int32_t name;    /* of `texts`, if no process gives it one; -1 */
  int32_t metadata_count;
  int64_t order;   /* among planes of a dialect that orders them */
  int64_t ordinal; /* of a device */
  bool is_device;
  int32_t model;   /* Kineto: of a device, as its properties name it; -1 */
  bool is_left_out;
  fp_bytes stats;  /* XStats, before those of the process */
} chrome_plane;

typedef struct chrome_metadata {
  int32_t plane, name, cat, id;
} chrome_metadata;

/* A name of a stat that events of a plane use. */
typedef struct chrome_plane_stat {
  int32_t plane, stat;
} chrome_plane_stat;

/* The last metadata of a name, which mostly is the next, too. */
typedef struct chrome_last_metadata {
  int32_t plane, cat, id;
} chrome_last_metadata;

/* ---- events ---- */

/* Args that a dialect derives stats or lines from. */
typedef enum chrome_arg {
  ARG_NONE, ARG_NUMERIC, ARG_STEP_NUM, ARG_CORRELATION, ARG_DEVICE, ARG_STREAM, ARG_REGISTERS, ARG_SHARED, ARG_GRID,
  ARG_BLOCK, ARG_OCCUPANCY, ARG_ESTIMATE, ARG_BLOCKS_PER_SM, ARG_WARPS_PER_SM, ARG_BYTES, ARG_TO_DEVICE, ARG_DIRECTION, ARG_TASK_TYPE,
  ARG_NAME, ARG_OP, ARGS
} chrome_arg;

typedef enum chrome_field {
  FIELD_PH, FIELD_NAME, FIELD_CAT, FIELD_PID, FIELD_TID, FIELD_TS, FIELD_DUR, FIELD_ARGS, FIELD_ID, FIELD_ID2, FIELD_SCOPE,
  FIELD_S, FIELD_BP, FIELD_CNAME, FIELD_TTS, FIELD_TDUR, FIELD_SF, FIELD_ESF, FIELD_STACK, FIELD_ESTACK, FIELD_BIND_ID,
  FIELD_FLOW_IN, FIELD_FLOW_OUT, FIELD_COUNT
} chrome_field;

/* What an event with a bind_id does with its flow. */
typedef enum chrome_direction { CHROME_NO_FLOW = 0, CHROME_FLOW_IN = 'i', CHROME_FLOW_OUT = 'o', CHROME_FLOW_BOTH = 'b' } chrome_direction;

/* A member of args. */
typedef struct chrome_pair {
  fp_json_value key, value;
} chrome_pair;

/* What of an event follows from its fields alone. `ps`: its duration. */
typedef struct chrome_times {
  fp_json_time at;
  int64_t ps;
  bool has_at, has_ps;
} chrome_times;

/* An event as it is read. Fields that are absent, or null, are of kind FP_JSON_NOTHING. */
typedef struct chrome_event {
  const fp_json_view *view;
  fp_json_value fields[FIELD_COUNT];
  uint32_t present;
  uint64_t offset;
  uint8_t phase;
  bool is_deep, has_fields, is_twice, is_local, is_listed;
  const chrome_pair *pairs; /* of args, if they are listed */
  size_t pair_count;
  chrome_id pid, tid, id, bind_id;
  chrome_direction direction; /* of the flow of `bind_id` */
  chrome_times times;
  fp_json_time time;
  int64_t duration_ps;
  int32_t name, cat; /* numbers of `names` and `cats`; cat -1: none */
  fp_json_value args[ARGS]; /* by what they are for; those of `args_found` */
  uint32_t args_found;
  size_t args_size; /* of the stats of args */
} chrome_event;

/* The stat that came after another the last time, by a few bits of the category; -1: none. */
enum { CHROME_STAT_KINDS = 8 };
typedef struct chrome_next_stat {
  int32_t numbers[CHROME_STAT_KINDS];
} chrome_next_stat;

/* A member of the document, and in which document it was. */
/* A frame that events refer to: as id, and as the stat whose name becomes the stack. */
typedef struct chrome_frame {
  chrome_id id;
  int32_t stat;
} chrome_frame;

/* Names of stats that are written or looked for by the scribe. */
typedef enum chrome_word {
  WORD_ID, WORD_ID2, WORD_SCOPE, WORD_S, WORD_BP, WORD_CNAME, WORD_THREAD_START, WORD_THREAD_DURATION, WORD_STACK,
  WORD_END_STACK, WORD_UNFINISHED, WORD_OBJECT, WORD_CONTEXT, WORD_ARGS, WORD_ASYNC, WORD_CAT, WORD_STEP, WORD_STEP_NUM,
  WORD_ROOT, WORD_CORRELATION_ID, WORD_KERNEL_DETAILS, WORD_MEMCPY_DETAILS, WORD_PROFILER_RANGE, WORD_TF_OP, WORDS
} chrome_word;

/* An event that is matched with others when all are known. A trace may have little else: small. */
typedef struct chrome_held {
  int64_t ns;
  int32_t ps;
  uint8_t phase, direction; /* direction: a chrome_direction; if there is one, the bind_id is behind the stats */
  uint64_t offset;
  uint64_t stats_at;
  uint32_t stats_size, args_size; /* the stats of args come first */
  int64_t group; /* events that are matched with each other: of a thread, whose line it is, or of an id */
  int32_t name, cat, process;
  int32_t step; /* of T and p: a number of `texts` */
  int64_t duration_ps; /* of a complete event */
} chrome_held;

/* A frame of stackFrames: its name in their text, and its parent. NOTHING or -1: there is none. */
typedef struct chrome_stack_frame {
  fp_json_value name;
  int32_t parent;
  bool is_object; /* else the frame is missing */
} chrome_stack_frame;

/* A stretch of time around `base_ns`, within which offsets of events fit. */
typedef struct chrome_epoch {
  int64_t base_ns, first_ns, last_ns;
  uint64_t count, first_offset;
} chrome_epoch;

/* Events of one line and epoch, side by side in the spill. */
typedef struct chrome_fragment {
  int32_t line, epoch;
  uint64_t offset, length;
} chrome_fragment;

/* An end of a flow, as the XSpace has it behind its planes; see docs/traces.md. */
typedef struct chrome_flow_end {
  int64_t ns;
  int32_t ps, phase; /* s t f; upper case: with bp e; of events with a bind_id a chrome_direction */
  int32_t line, name, cat, id_kind; /* texts are numbers of `flow_texts`, -1: none */
  uint64_t id;
  int64_t duration_ps; /* of events with a bind_id */
} chrome_flow_end;

/* Times of the file, by stretches of about an hour. */
typedef struct chrome_hour {
  int64_t hour, least_ns;
  uint64_t count;
} chrome_hour;

typedef enum chrome_dialect { CHROME_BROWSER, CHROME_XPROF, CHROME_KINETO, CHROME_TF1 } chrome_dialect;

struct fp_chrome {
  fp_memory *memory;
  fp_json_scan scan;
  chrome_dialect dialect;
  bool is_decided, failed, has_ended;
  fp_bytes head; /* until the dialect is decided */
  fp_chrome_tape *tape; /* what is scanned goes there, while another thread takes the last one: */
  fp_bytes field_name;  /* these two, head and scan are the scanning one's */
  size_t look_at;

  fp_chrome_remark remarks[CHROME_FAULTS];
  size_t remark_count;
  uint64_t offset; /* of the event that is read */
  bool is_empty_before;
  uint64_t empty_offset;

  fp_strings names, cats, stats, texts;
  fp_strings frame_ids; /* of stackFrames, as they are written there */
  fp_bytes decoded; /* the text that was decoded last */
  fp_key_map process_keys, thread_keys, plane_keys, line_keys, metadata_keys, async_keys, plane_stat_keys, epoch_keys;
  fp_vector processes, threads, planes, lines, metadatas, last_metadatas;
  fp_vector plane_stats;  /* chrome_plane_stat */
  fp_vector named_planes; /* int32_t, by key of plane_keys: which plane has this name */
  int32_t words[WORDS];
  fp_bytes arg_of; /* by stat: what it is for */
  fp_bytes sides;  /* Kineto, by category: 1 + the side */
  const char *device_word; /* what categories call devices that labels call GPU; NULL: nothing else */
  chrome_usual_line usual_lines[CHROME_USUAL];
  chrome_usual_process usual_processes[CHROME_USUAL];
  int32_t last_device_plane;
  int64_t last_device;
  int32_t usual_cats[64]; /* by length and first letter: 1 + a category that was so */
  int32_t usual_names[CHROME_NAMES]; /* by length and some letters: 1 + a name of events that was so */

  fp_bytes event_stats;
  fp_vector stat_list; /* chrome_stat */
  fp_vector next_stat; /* chrome_next_stat, by stat */
  fp_vector stat_uses; /* chrome_stat_use, by stat */
  bool are_scattered;  /* a stat was replaced: the bytes of event_stats are not in the order of the list */
  uint64_t event_number;
  int32_t before_stat;
  chrome_next_stat first_stat;
  uint32_t stat_kind; /* of the event */

  fp_vector held; /* chrome_held */
  fp_bytes held_stats;

  fp_bytes window, spill;
  fp_vector epochs, fragments;
  int32_t last_epoch;
  uint64_t spilled; /* bytes, those included that the caller has taken */
  fp_strings flow_texts;
  uint64_t flow_count;

  fp_vector hours;
  fp_key_map hour_keys;
  uint64_t zero_count;
  int64_t least_after_zero;
  bool has_span, has_fractions; /* of microseconds */
  fp_json_time span;
  int64_t span_ps;
  int64_t zero_ns, unix_ns;
  bool has_unix;
  int64_t base_ns;
  bool has_base;

  fp_bytes environment; /* XStats of the plane Task Environment */
  uint64_t member_end;  /* of the member that is taken, and in which document it is */
  uint32_t document;
  fp_bytes stacks;      /* stackFrames, as text */
  fp_vector frames;     /* chrome_frame: those that events name */
  fp_vector stack_frames; /* chrome_stack_frame, by frame_ids */
  uint64_t stack_room;    /* bytes that stacks may still have */
  fp_bytes keys;
  uint32_t key_count;
  uint64_t object_count; /* items of the events, but for empty objects */
  bool has_events;

  fp_vector parts; /* fp_chrome_part */
};

/* ---- chrome_log.c ---- */

void chrome_remark(fp_chrome *chrome, chrome_fault fault, uint64_t offset, uint64_t count);
void chrome_remark_text(fp_chrome *chrome, const fp_json_bad_text *bad, uint64_t offset);
/* Takes what the scan remarks. */
void chrome_take_remark(void *context, fp_json_remark what, uint64_t offset, uint64_t count);

/* ---- chrome_text.c: values as texts, ids and times ---- */

/* What a string says; the bytes hold until the next call. */
const uint8_t *chrome_text(fp_chrome *chrome, const fp_json_view *view, const fp_json_value *value, size_t *length);
/* The number of a text of `pool`; a value other than a string is compact JSON. -1: memory ran out. */
int32_t chrome_intern(fp_chrome *chrome, fp_strings *pool, const fp_json_view *view, const fp_json_value *value);
/* Whether two texts of a length are the same: without a call, as most are short. */
static inline bool chrome_is_equal(const uint8_t *a, const uint8_t *b, size_t length) {
  uint64_t differ = 0, x, y;
  if (length < 8) {
    for (size_t i = 0; i < length; i++) differ |= (uint64_t)(a[i] ^ b[i]);
    return !differ;
  }
  if (length > 32) return !memcmp(a, b, length);
  for (size_t at = 0; at < length; at += 8) {
    size_t from = at + 8 < length ? at : length - 8;
    memcpy(&x, a + from, 8);
    memcpy(&y, b + from, 8);
    differ |= x ^ y;
  }
  return !differ;
}
/* The number of a name of events. Most occur again and again. */
int32_t chrome_event_name(fp_chrome *chrome, const fp_json_view *view, const fp_json_value *value);
/* The number of a category. A trace has few. */
int32_t chrome_category(fp_chrome *chrome, const fp_json_view *view, const fp_json_value *value);
/* The canonical form of an id. */
chrome_id chrome_read_id(fp_chrome *chrome, const fp_json_view *view, const fp_json_value *value);
/* How many bytes of a text are whole characters, of at most `most` bytes. */
static inline size_t chrome_cut(const uint8_t *text, size_t length, size_t most) {
  if (length <= most) return length;
  while (most && (text[most] & 0xC0) == 0x80) most--;
  return most;
}
/* The text of an id, and of a number of a pool. */
void chrome_put_id(const fp_chrome *chrome, fp_bytes *out, chrome_id id);
const uint8_t *chrome_string(const fp_strings *pool, int32_t number, size_t *length);
/* A number or a text that is one, in microseconds. */
bool chrome_read_time(const fp_json_view *view, const fp_json_value *value, fp_json_time *time);
/* The same as picoseconds of 64 bits. */
bool chrome_read_ps(const fp_json_view *view, const fp_json_value *value, int64_t *ps);
/* A number, or a text that is one. */
fp_json_number chrome_read_number(const fp_json_view *view, const fp_json_value *value);
/* The value of a key of an object; false: it has none, or null. Of several, the last. */
bool chrome_member(const fp_json_view *view, const fp_json_value *object, const char *key, fp_json_value *found);

/* ---- chrome_args.c ---- */

/* What an arg of a dialect is for. */
chrome_arg chrome_arg_of(chrome_dialect dialect, const uint8_t *name, size_t length);
/* Whether a text is a name, whatever the case of its letters. `name`: in lower case. */
bool chrome_is_same(const uint8_t *text, size_t length, const char *name);
bool chrome_begins_with(const uint8_t *text, size_t length, const char *word);

/* ---- chrome_names.c: processes, threads, planes, lines, metadata ---- */

/* The line of this name on the plane of a process. */
int32_t chrome_named_line(fp_chrome *chrome, int32_t process, chrome_role role, const char *before, const uint8_t *rest,
                          size_t length);
int32_t chrome_process_of(fp_chrome *chrome, chrome_id pid);
int32_t chrome_thread_of(fp_chrome *chrome, chrome_id pid, chrome_id tid, bool add);
/* The plane of a process, or one of its own with this name. */
int32_t chrome_plane_of_process(fp_chrome *chrome, int32_t process);
int32_t chrome_plane_named(fp_chrome *chrome, const char *name, int64_t order);
/* The plane of a device of Kineto's. */
int32_t chrome_device_plane(fp_chrome *chrome, int64_t ordinal);
/* TF1: the GPU of a process of kernels, "/device:GPU:0/stream:13 Compute", and where the number of its stream begins; -1: none. */
int64_t chrome_tf1_gpu(const uint8_t *text, size_t length, size_t *stream);
/* A line; `name`: of `texts`, for lines that are not a thread's; else -1. */
int32_t chrome_line_of(fp_chrome *chrome, int32_t plane, int32_t process, chrome_role role, chrome_id tid, int32_t name);
/* The line of a device's stream, named by no text; -1: there is none. */
int32_t chrome_find_line(const fp_chrome *chrome, int32_t plane, chrome_role role, chrome_id tid);
int32_t chrome_metadata_of(fp_chrome *chrome, int32_t plane, int32_t name, int32_t cat);
/* Takes an event of phase M. */
bool chrome_name_event(fp_chrome *chrome, const chrome_event *event, uint32_t *at);
/* Gives lines their ids. */
void chrome_number_lines(fp_chrome *chrome);

/* ---- chrome_put.c: events into the window, and the window into the spill ---- */

void chrome_count_time(fp_chrome *chrome, fp_json_time time);
/* Writes an event with the stats that have been begun. */
void chrome_put_event(fp_chrome *chrome, int32_t line, int32_t name, int32_t cat, fp_json_time time, int64_t duration_ps);
/* Remembers the latest end of a line's events. */
void chrome_note_end(fp_chrome *chrome, int32_t line, fp_json_time time, int64_t duration_ps);
void chrome_put_flow_record(fp_chrome *chrome, const chrome_flow_end *end);
void chrome_flush(fp_chrome *chrome);

/* ---- chrome_zero.c ---- */

void chrome_find_zero(fp_chrome *chrome);

/* ---- chrome_kineto.c: lines and stats by dialect ---- */

/* The line of an event of a thread. */
int32_t chrome_thread_line(fp_chrome *chrome, const chrome_event *event);
/* Kineto: the lines of a device's stream that have events of a thread, whose pid is the device's number; -1: none. */
enum { CHROME_BESIDE = 3 };
void chrome_lines_beside(const fp_chrome *chrome, const chrome_line *line, int32_t found[CHROME_BESIDE]);
/* Stats that follow from the event: Kineto's, TF1's. */
void chrome_derive_stats(fp_chrome *chrome, const chrome_event *event);
/* XProf: whether what follows from the event depends on the name of its process, which has not come yet; and what follows
 * from an event with the number of a step, when it has. */
bool chrome_waits_for_name(fp_chrome *chrome, const chrome_event *event);
void chrome_derive_root(fp_chrome *chrome, int32_t process, int32_t event_name);
bool chrome_is_kineto_category(const uint8_t *text, size_t length);

/* ---- chrome_devices.c ---- */

/* Plane stats of deviceProperties. */
bool chrome_put_devices(fp_chrome *chrome, const fp_json_view *view, const fp_json_value *devices, uint32_t *at);
/* Gives devices with events the properties of those that have none, when all are known. */
void chrome_match_devices(fp_chrome *chrome);

/* ---- chrome_flows.c ---- */

/* Notes an event of phase s, t or f. */
void chrome_put_flow_end(fp_chrome *chrome, chrome_event *event);
/* Reads which flow an event of a thread has by bind_id. */
void chrome_read_direction(fp_chrome *chrome, chrome_event *event);
/* Notes an event that has one. */
void chrome_put_flow_event(fp_chrome *chrome, chrome_direction direction, chrome_id bind_id, const chrome_flow_end *event);

/* ---- chrome_pairs.c ---- */

void chrome_hold(fp_chrome *chrome, chrome_event *event);
void chrome_match(fp_chrome *chrome);

/* ---- chrome_event.c ---- */

fp_json_step chrome_take_event(void *context, const fp_json_view *view, fp_json_walk *walk, uint64_t offset);
/* An event without fields. */
void chrome_begin_event(chrome_event *event, const fp_json_view *view, uint64_t offset);
/* Reads which fields an event has, and its times; nothing else of the trace is touched. `name`: room for a name. `pairs`:
 * members of args are appended to it if all is as usual, which `is_listed` says; NULL: they are not. */
fp_json_step chrome_read_fields(const fp_json_view *view, fp_json_walk *walk, uint64_t offset, fp_bytes *name, fp_vector *pairs,
                                chrome_event *event);
/* Takes an event whose fields have been read. False: a value is not JSON, at `*at`. */
bool chrome_take_fields(fp_chrome *chrome, chrome_event *event, uint32_t *at);

/* ---- chrome_tape.c ---- */

/* Scans the next bytes; what they have goes on the tape. */
void chrome_record(fp_chrome *chrome, fp_chrome_tape *tape, const uint8_t *data, size_t size);

/* ---- chrome_members.c: members of the document beside events ---- */

/* Its end and its document are known (member_end, document). */
bool chrome_take_member(void *context, const uint8_t *key, size_t key_length, const uint8_t *text, size_t length, bool is_whole);
/* Which dialect the head of a document is. `is_sure`: it has said enough. */
chrome_dialect chrome_guess(fp_chrome *chrome, const uint8_t *head, size_t size, bool is_all, bool *is_sure);
/* Marks of a text that is whole. False: memory ran out. */
typedef struct chrome_text_view {
  fp_json_view view;
  uint8_t *text, *has;
  uint32_t *marks;
} chrome_text_view;
bool chrome_view_text(fp_memory *memory, const uint8_t *text, size_t length, chrome_text_view *found);
void chrome_free_view(fp_memory *memory, chrome_text_view *found);
/* The value of a text: an object or array, a string, or a number or word up to the end. False: it is none. */
bool chrome_whole_value(const chrome_text_view *found, size_t length, fp_json_value *value);

/* ---- chrome_stacks.c ---- */

/* Learns the frames of stackFrames; the view holds while stacks are put. False: memory ran out. */
bool chrome_read_frames(fp_chrome *chrome, chrome_text_view *text);
/* The stack of a frame: its names, outermost first, a line each. */
void chrome_put_stack(fp_chrome *chrome, fp_bytes *out, const chrome_text_view *text, chrome_id frame);

/* ---- chrome_titles.c ---- */

/* The name of a plane. `process`: that most events of a device are of, -1: none. */
void chrome_put_plane_name(const fp_chrome *chrome, fp_bytes *out, const chrome_plane *plane, int32_t process);
/* The thread whose line it is; NULL: none. */
const chrome_thread *chrome_thread_of_line(fp_chrome *chrome, const chrome_line *line);
/* The name that M events give a thread, or its tid, or that of its plane. */
void chrome_put_line_name(fp_chrome *chrome, fp_bytes *out, const chrome_line *line, const chrome_plane *plane);

/* ---- chrome_space.c ---- */

void chrome_put_space(fp_chrome *chrome);

#endif
