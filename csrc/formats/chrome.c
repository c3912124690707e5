/* The scribe as a whole: its head is looked at until what wrote it is known; then its events are read as they come. */
#include "formats/chrome_parts.h"

enum { FIRST_LOOK = 1 << 20, LAST_LOOK = 1 << 26 };

/* Takes a member as it is scanned. */
static bool take_member(void *context, const uint8_t *key, size_t key_length, const uint8_t *text, size_t length, bool is_whole) {
  fp_chrome *chrome = context;
  chrome->member_end = chrome->scan.base + chrome->scan.walk.at;
  chrome->document = chrome->scan.documents;
  return chrome_take_member(chrome, key, key_length, text, length, is_whole);
}

fp_chrome *fp_chrome_new(fp_memory *memory, bool salvage) {
  static const fp_json_handlers handlers = {chrome_take_event, take_member, chrome_take_remark};
  fp_chrome *chrome = fp_alloc_zeroed(memory, 1, sizeof *chrome);
  if (!chrome) return NULL;
  chrome->memory = memory;
  chrome->scan = (fp_json_scan){.memory = memory, .handlers = &handlers, .context = chrome, .salvage = salvage,
                                .index.ways = fp_json_best_ways()};
  chrome->look_at = FIRST_LOOK;
  chrome->last_device_plane = chrome->last_epoch = chrome->before_stat = -1;
  memset(&chrome->first_stat, 0xFF, sizeof chrome->first_stat);
  chrome->least_after_zero = INT64_MAX;
  for (int i = 0; i < WORDS; i++) chrome->words[i] = -1;
  fp_strings *pools[] = {&chrome->names, &chrome->cats, &chrome->stats, &chrome->texts, &chrome->flow_texts,
                         &chrome->frame_ids};
  fp_key_map *maps[] = {&chrome->process_keys, &chrome->thread_keys, &chrome->plane_keys, &chrome->line_keys,
                        &chrome->metadata_keys, &chrome->async_keys, &chrome->hour_keys, &chrome->plane_stat_keys,
                        &chrome->epoch_keys};
  fp_bytes *bytes[] = {&chrome->head, &chrome->field_name, &chrome->decoded, &chrome->arg_of, &chrome->sides, &chrome->event_stats,
                       &chrome->held_stats, &chrome->window, &chrome->spill, &chrome->environment, &chrome->stacks,
                       &chrome->keys};
  for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) pools[i]->memory = memory;
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) maps[i]->memory = memory;
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) bytes[i]->memory = memory;
  return chrome;
}

void fp_chrome_free(fp_chrome *chrome) {
  if (!chrome) return;
  fp_memory *memory = chrome->memory;
  chrome_process *processes = chrome->processes.items;
  chrome_plane *planes = chrome->planes.items;
  for (size_t i = 0; i < chrome->processes.count; i++) fp_bytes_free(&processes[i].stats);
  for (size_t i = 0; i < chrome->planes.count; i++) {
    fp_bytes_free(&planes[i].stats);
  }
  fp_strings *pools[] = {&chrome->names, &chrome->cats, &chrome->stats, &chrome->texts, &chrome->flow_texts,
                         &chrome->frame_ids};
  fp_key_map *maps[] = {&chrome->process_keys, &chrome->thread_keys, &chrome->plane_keys, &chrome->line_keys,
                        &chrome->metadata_keys, &chrome->async_keys, &chrome->hour_keys, &chrome->plane_stat_keys,
                        &chrome->epoch_keys};
  fp_bytes *bytes[] = {&chrome->head, &chrome->field_name, &chrome->decoded, &chrome->arg_of, &chrome->sides, &chrome->event_stats,
                       &chrome->held_stats, &chrome->window, &chrome->spill, &chrome->environment, &chrome->stacks,
                       &chrome->keys};
  fp_vector *vectors[] = {&chrome->processes, &chrome->threads, &chrome->planes, &chrome->lines, &chrome->metadatas,
                          &chrome->last_metadatas, &chrome->stat_list, &chrome->next_stat, &chrome->stat_uses, &chrome->held,
                          &chrome->epochs, &chrome->fragments, &chrome->hours, &chrome->frames,
                          &chrome->parts, &chrome->plane_stats, &chrome->named_planes, &chrome->stack_frames};
  for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) fp_strings_free(pools[i]);
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) fp_key_map_free(maps[i]);
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) fp_bytes_free(bytes[i]);
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) fp_vector_free(memory, vectors[i]);
  fp_json_scan_free(&chrome->scan);
  fp_release(memory, chrome);
}

static fp_code checked(fp_chrome *chrome, fp_code code, fp_fault *fault) {
  return chrome->failed ? fp_fail(fault, FP_NO_MEMORY, 0, "a trace") : code;
}

/* Decides what wrote the document by its first megabyte, or twice as much as the last time: where chunks end makes no
 * difference. */
static void decide(fp_chrome *chrome, bool is_all) {
  while (!chrome->is_decided && (is_all || chrome->head.size >= chrome->look_at)) {
    bool is_sure, is_last = chrome->look_at >= LAST_LOOK || (is_all && chrome->head.size <= chrome->look_at);
    size_t size = chrome->head.size < chrome->look_at ? chrome->head.size : chrome->look_at;
    const uint8_t *head = chrome->head.data ? chrome->head.data : (const uint8_t *)"";
    chrome->dialect = chrome_guess(chrome, head, size, is_last && is_all, &is_sure);
    if (chrome->failed) return;
    chrome->is_decided = is_sure || is_last;
    chrome->look_at *= 2;
  }
}

/* Keeps bytes until the dialect is decided. False: it is not, or memory ran out. */
static bool keep_head(fp_chrome *chrome, const uint8_t *data, size_t size) {
  fp_bytes_put(&chrome->head, data, size);
  chrome->failed |= chrome->head.failed;
  if (!chrome->failed) decide(chrome, false);
  return chrome->is_decided && !chrome->failed;
}

/* Reads the head, whose dialect is decided. */
static fp_code push_head(fp_chrome *chrome, fp_fault *fault) {
  fp_code code = FP_OK;
  if (chrome->head.size) code = fp_json_scan_push(&chrome->scan, chrome->head.data, chrome->head.size, fault);
  fp_bytes_free(&chrome->head);
  return checked(chrome, code, fault);
}

fp_code fp_chrome_push(fp_chrome *chrome, const uint8_t *data, size_t size, fp_fault *fault) {
  if (chrome->is_decided) return checked(chrome, fp_json_scan_push(&chrome->scan, data, size, fault), fault);
  return keep_head(chrome, data, size) ? push_head(chrome, fault) : checked(chrome, FP_OK, fault);
}

void fp_chrome_scan(fp_chrome *chrome, fp_chrome_tape *tape, const uint8_t *data, size_t size) {
  if (chrome->is_decided) {
    chrome_record(chrome, tape, data, size);
  } else if (keep_head(chrome, data, size)) {
    chrome_record(chrome, tape, chrome->head.data, chrome->head.size);
    fp_bytes_free(&chrome->head);
  } else {
    chrome_record(chrome, tape, data, 0);
  }
}

fp_code fp_chrome_finish(fp_chrome *chrome, fp_fault *fault) {
  if (!chrome->is_decided) decide(chrome, true);
  fp_code code = chrome->failed ? FP_OK : push_head(chrome, fault);
  if (!code && !chrome->failed) code = fp_json_scan_finish(&chrome->scan, fault);
  code = checked(chrome, code, fault);
  if (code) return code;
  bool is_trace = chrome->has_events || (chrome->scan.had_events && !chrome->object_count);
  if (!is_trace) return fp_fail(fault, FP_BAD_JSON, 0, chrome->scan.had_events ? "no events" : "no traceEvents");
  chrome_match(chrome);
  chrome_flush(chrome);
  if (chrome->failed) return checked(chrome, FP_OK, fault);
  chrome_find_zero(chrome);
  chrome_number_lines(chrome);
  if (!chrome->failed) chrome_put_space(chrome);
  for (int i = 0; i < CHROME_FAULTS; i++)
    if (chrome->remarks[i].count) chrome->remarks[chrome->remark_count++] = chrome->remarks[i];
  return checked(chrome, FP_OK, fault);
}

fp_bytes *fp_chrome_spill(fp_chrome *chrome) {
  return &chrome->spill;
}

const fp_chrome_part *fp_chrome_parts(const fp_chrome *chrome, size_t *count) {
  *count = chrome->parts.count;
  return chrome->parts.items;
}

const fp_chrome_remark *fp_chrome_remarks(const fp_chrome *chrome, size_t *count) {
  *count = chrome->remark_count;
  return chrome->remarks;
}

const fp_bytes *fp_chrome_keys(const fp_chrome *chrome) {
  return &chrome->keys;
}

uint64_t fp_chrome_offset(const fp_chrome *chrome) {
  return chrome->offset;
}
