/* What is remarked of a trace. One row a kind, with the number of times and the first place. */
#include "formats/chrome_parts.h"

enum { INFO, NOTICE, LOSS };
typedef struct row {
  const char *code, *text;
  int64_t severity;
} row;

static const row rows[CHROME_FAULTS] = {
    [CHROME_BAD_TIME] = {"bad_time", "events whose time is missing, not a number or too far from the others are left out", LOSS},
    [CHROME_NO_DURATION] = {"no_duration", "complete events without a duration: it is 0, and their stat unfinished is 1", NOTICE},
    [CHROME_NEGATIVE_DURATION] = {"negative_duration", "events with a negative duration", NOTICE},
    [CHROME_BAD_TEXT] = {"bad_text", "bytes and escapes of texts that are no characters became U+FFFD", NOTICE},
    [CHROME_DUPLICATE_KEY] = {"duplicate_key", "keys that occur twice in an object: the last value counts", NOTICE},
    [CHROME_UNKNOWN_PHASE] = {"unknown_phase", "events without a phase, or of an unknown one, are left out", NOTICE},
    [CHROME_EMPTY_EVENT] = {"empty_event", "empty objects among the events", NOTICE},
    [CHROME_END_WITHOUT_BEGIN] = {"end_without_begin", "ends of events that never began are left out", NOTICE},
    [CHROME_BEGIN_WITHOUT_END] = {"begin_without_end", "events that never ended last until the end of their line", NOTICE},
    [CHROME_NAME_MISMATCH] = {"name_mismatch", "ends of events have another name than their beginnings, which counts", NOTICE},
    [CHROME_BIG_NUMBER] = {"big_number", "integers that 64 bits do not hold are kept as text", NOTICE},
    [CHROME_NONFINITE] = {"nonfinite_number", "numbers that are NaN or infinite", NOTICE},
    [CHROME_EXTRA_COMMA] = {"extra_comma", "a comma before the first event", NOTICE},
    [CHROME_SEVERAL_DOCUMENTS] = {"several_documents", "documents that follow each other are read as one", NOTICE},
    [CHROME_SEVERAL_ARRAYS] = {"several_arrays", "another traceEvents of a document is read behind the first", NOTICE},
    [CHROME_STRAY_ITEM] = {"unknown_phase", "items of the events that are no objects are left out", NOTICE},
    [CHROME_LOST] = {"lost_bytes", "bytes that are no JSON were passed over, up to the next event", LOSS},
    [CHROME_TRUNCATED] = {"truncated", "the document ends early, behind its last whole event", LOSS},
    [CHROME_TOO_DEEP] = {"too_deep", "events with values nested deeper than 512 are left out", LOSS},
    [CHROME_NOT_READ] = {"not_read", "members of the document and fields of events that are not read", INFO},
    [CHROME_CUT_VALUE] = {"cut_value", "members of the document longer than 64 KiB are cut", NOTICE},
    [CHROME_BAD_COUNTER] = {"bad_counter", "values of counters that are no numbers are left out", NOTICE},
    [CHROME_BOTH_IDS] = {"both_ids", "events with id and id2: id2 counts", NOTICE},
    [CHROME_STEP_WITHOUT_BEGIN] = {"step_without_begin", "steps of asynchronous events that never began are left out", NOTICE},
    [CHROME_MIXED_STEPS] = {"mixed_steps", "asynchronous events with steps of both kinds: the later kind is left out", NOTICE},
    [CHROME_BAD_STACK] = {"bad_stack", "stacks end at a frame that is missing or its own parent, or where all stacks would be too long", NOTICE},
    [CHROME_BAD_BASE] = {"bad_base", "baseTimeNanoseconds gives no time of these centuries and is not used", NOTICE},
    [CHROME_RENAMED_THREAD] = {"renamed_thread", "threads of one id have several names: they are one line, with the last name", NOTICE},
    [CHROME_OTHER_DEVICE] = {"other_device", "events name devices that deviceProperties does not list: they have the properties of listed devices without events", NOTICE},
    [CHROME_UNESCAPED] = {"unescaped_backslash", "texts with invalid escapes, such as Windows paths, are kept as written", NOTICE},
};

void chrome_remark(fp_chrome *chrome, chrome_fault fault, uint64_t offset, uint64_t count) {
  fp_chrome_remark *remark = &chrome->remarks[fault];
  if (!remark->count || offset < remark->first_offset) remark->first_offset = offset;
  remark->code = rows[fault].code;
  remark->text = rows[fault].text;
  remark->severity = rows[fault].severity;
  remark->count += count;
}

void chrome_remark_text(fp_chrome *chrome, const fp_json_bad_text *bad, uint64_t offset) {
  if (bad->count) chrome_remark(chrome, CHROME_BAD_TEXT, offset, bad->count);
  if (bad->repeated) chrome_remark(chrome, CHROME_DUPLICATE_KEY, offset, bad->repeated);
  if (bad->unescaped) chrome_remark(chrome, CHROME_UNESCAPED, offset, bad->unescaped);
}

void chrome_take_remark(void *context, fp_json_remark what, uint64_t offset, uint64_t count) {
  static const chrome_fault faults[] = {
      [FP_JSON_EXTRA_COMMA] = CHROME_EXTRA_COMMA, [FP_JSON_SEVERAL_DOCUMENTS] = CHROME_SEVERAL_DOCUMENTS,
      [FP_JSON_SEVERAL_ARRAYS] = CHROME_SEVERAL_ARRAYS, [FP_JSON_STRAY_ITEM] = CHROME_STRAY_ITEM,
      [FP_JSON_LOST] = CHROME_LOST, [FP_JSON_ENDS_EARLY] = CHROME_TRUNCATED};
  fp_chrome *chrome = context;
  chrome->object_count += what == FP_JSON_STRAY_ITEM;
  bool is_early = what == FP_JSON_ENDS_EARLY;
  chrome_remark(chrome, faults[what], offset, is_early ? 1 : count);
  if (is_early) chrome->remarks[CHROME_TRUNCATED].open_brackets = count;
}
