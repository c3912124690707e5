/* Events that begin and end apart are matched when all are known, in order of time, as files are not sorted.
 *
 *    B foo 10    B bar 12    E 15    E 20        ->   foo 10 to 20, bar 12 to 15
 *    S a 1    T a step x 3    T a step y 5    F a 9    ->   a 1 to 9, a:x 3 to 5, a:y 5 to 9
 *
 * Complete events wait, too, if the name of their process decides what they are, and comes later in the file.
 *
 * Groups of events that belong together lie side by side once they are sorted: those of a thread, or of an id. */
#include <stdlib.h>

#include "formats/chrome_stats.h"
#include "formats/proto_write.h"

static const int64_t FIRST_ASYNC_GROUP = INT64_C(1) << 32;

/* ---- holding ---- */

static bool is_of_thread(uint8_t phase) {
  return phase == 'B' || phase == 'E' || phase == 'X';
}

/* The group of an asynchronous event: by category, id and scope; the process counts for local ids and legacy events. */
static int64_t async_group(fp_chrome *chrome, const chrome_event *event, int32_t process) {
  bool is_legacy = event->phase != 'b' && event->phase != 'n' && event->phase != 'e';
  uint64_t scope = 0, owner = is_legacy || event->is_local ? (uint64_t)(uint32_t)process + 1 : 0;
  if (event->fields[FIELD_SCOPE].kind != FP_JSON_NOTHING && !is_legacy)
    scope = (uint64_t)chrome_intern(chrome, &chrome->texts, event->view, &event->fields[FIELD_SCOPE]) + 1;
  const fp_key key = {{(uint64_t)(uint32_t)(event->cat + 1) << 32 | (uint64_t)is_legacy << 8 | (uint64_t)event->id.kind,
                       event->id.bits, scope, owner}};
  int32_t number = fp_key_map_add(&chrome->async_keys, &key);
  if (number < 0) chrome->failed = true;
  return FIRST_ASYNC_GROUP + number;
}

static int32_t step_of(fp_chrome *chrome, const chrome_event *event) {
  fp_json_value step;
  if (!chrome_member(event->view, &event->fields[FIELD_ARGS], "step", &step)) return -1;
  return chrome_intern(chrome, &chrome->texts, event->view, &step);
}

void chrome_hold(fp_chrome *chrome, chrome_event *event) {
  bool has_name = event->fields[FIELD_NAME].kind != FP_JSON_NOTHING, of_thread = is_of_thread(event->phase);
  int32_t process = chrome_process_of(chrome, event->pid);
  int32_t line = of_thread ? chrome_thread_line(chrome, event) : -1;
  int32_t step = event->phase == 'T' || event->phase == 'p' ? step_of(chrome, event) : -1;
  int64_t group = of_thread ? line : async_group(chrome, event, process);
  chrome_held *held = fp_vector_add(chrome->memory, &chrome->held, sizeof *held);
  if (!held || chrome->failed) {
    chrome->failed = true;
    return;
  }
  *held = (chrome_held){.ns = event->time.ns, .ps = event->time.ps, .offset = event->offset, .group = group,
                        .stats_at = chrome->held_stats.size, .stats_size = (uint32_t)chrome->event_stats.size,
                        .args_size = (uint32_t)event->args_size, .process = process,
                        .name = has_name || event->phase != 'E' ? event->name : -1, .cat = event->cat, .step = step,
                        .phase = event->phase, .direction = (uint8_t)event->direction, .duration_ps = event->duration_ps};
  if (held->stats_size) fp_bytes_put(&chrome->held_stats, chrome->event_stats.data, held->stats_size);
  if (held->direction) fp_bytes_put(&chrome->held_stats, &event->bind_id, sizeof event->bind_id);
  chrome->failed |= chrome->held_stats.failed;
}

static fp_json_time time_of(const chrome_held *held) {
  return (fp_json_time){held->ns, held->ps};
}

/* The flow that it begins or ends. */
static void put_flow(fp_chrome *chrome, const chrome_held *held, int32_t line, int32_t name, int64_t duration_ps) {
  chrome_id bind_id = {CHROME_NO_ID, 0};
  if (held->direction) memcpy(&bind_id, chrome->held_stats.data + held->stats_at + held->stats_size, sizeof bind_id);
  chrome_put_flow_event(chrome, (chrome_direction)held->direction, bind_id,
                        &(chrome_flow_end){.ns = held->ns, .ps = held->ps, .line = line, .name = name, .cat = held->cat,
                                           .duration_ps = duration_ps});
}

/* ---- matching ---- */

static int compare_held(const void *a, const void *b) {
  const chrome_held *first = a, *second = b;
  if (first->group != second->group) return first->group < second->group ? -1 : 1;
  if (first->ns != second->ns) return first->ns < second->ns ? -1 : 1;
  if (first->ps != second->ps) return first->ps < second->ps ? -1 : 1;
  return (first->offset > second->offset) - (first->offset < second->offset);
}

/* Time from one moment to another, at most what 64 bits of picoseconds hold. */
static int64_t ps_between(fp_json_time from, fp_json_time to) {
  int64_t ns, ps;
  if (__builtin_sub_overflow(to.ns, from.ns, &ns) || __builtin_mul_overflow(ns, 1000, &ps)) return INT64_MAX;
  return __builtin_add_overflow(ps, to.ps - from.ps, &ps) ? INT64_MAX : ps;
}

/* An event from one held event, to another or (NULL) to a time, with the stats of both. */
static void put_pair(fp_chrome *chrome, int32_t line, const chrome_held *begin, const chrome_held *end, fp_json_time until,
                     int32_t name, bool is_async) {
  const uint8_t *stats = chrome->held_stats.data;
  chrome->offset = begin->offset;
  chrome_begin_stats(chrome);
  if (begin->args_size) chrome_add_written(chrome, stats + begin->stats_at, begin->args_size, false);
  if (end && end->args_size) chrome_add_written(chrome, stats + end->stats_at, end->args_size, false);
  if (begin->stats_size > begin->args_size)
    chrome_add_written(chrome, stats + begin->stats_at + begin->args_size, begin->stats_size - begin->args_size, true);
  if (!end) chrome_add_field_int(chrome, WORD_UNFINISHED, 1);
  if (is_async) chrome_add_derived_int(chrome, WORD_ASYNC, 1);
  int64_t duration_ps = ps_between(time_of(begin), until);
  if (end && !is_async) chrome_note_end(chrome, line, time_of(begin), duration_ps);
  chrome_put_event(chrome, line, name, begin->cat, time_of(begin), duration_ps);
  put_flow(chrome, begin, line, name, duration_ps);
}

/* A complete event, whose process is named by now. */
static void put_waiting(fp_chrome *chrome, const chrome_held *held) {
  const uint8_t *stats = chrome->held_stats.data;
  chrome->offset = held->offset;
  chrome_begin_stats(chrome);
  if (held->stats_size) chrome_add_written(chrome, stats + held->stats_at, held->stats_size, false);
  chrome_derive_root(chrome, held->process, held->name);
  int32_t line = (int32_t)held->group;
  chrome_put_event(chrome, line, held->name, held->cat, time_of(held), held->duration_ps);
  put_flow(chrome, held, line, held->name, held->duration_ps);
}

static chrome_held *pop(fp_vector *stack) {
  return stack->count ? ((chrome_held **)stack->items)[--stack->count] : NULL;
}

static void push(fp_chrome *chrome, fp_vector *stack, chrome_held *held) {
  chrome_held **place = fp_vector_add(chrome->memory, stack, sizeof *place);
  if (place) *place = held;
  else chrome->failed = true;
}

static bool is_before(fp_json_time a, fp_json_time b) {
  return a.ns < b.ns || (a.ns == b.ns && a.ps < b.ps);
}

/* The later of a time and the latest end of a line. */
static fp_json_time latest(const fp_chrome *chrome, int32_t line, fp_json_time time) {
  const chrome_line *found = (const chrome_line *)chrome->lines.items + line;
  fp_json_time end = {found->latest_ns, found->latest_ps};
  return is_before(time, end) ? end : time;
}

/* B and E of a thread, and complete events that have waited. */
static void match_thread(fp_chrome *chrome, chrome_held *held, size_t count, fp_vector *stack) {
  int32_t line = (int32_t)held->group;
  stack->count = 0;
  for (size_t i = 0; i < count; i++) {
    if (held[i].phase == 'X') {
      put_waiting(chrome, &held[i]);
      continue;
    }
    if (held[i].phase == 'B') {
      push(chrome, stack, &held[i]);
      continue;
    }
    chrome_held *begin = pop(stack);
    if (!begin) {
      chrome_remark(chrome, CHROME_END_WITHOUT_BEGIN, held[i].offset, 1);
      continue;
    }
    if (held[i].name >= 0 && held[i].name != begin->name) chrome_remark(chrome, CHROME_NAME_MISMATCH, held[i].offset, 1);
    put_pair(chrome, line, begin, &held[i], time_of(&held[i]), begin->name, false);
  }
  for (chrome_held *begin; (begin = pop(stack));) {
    chrome_remark(chrome, CHROME_BEGIN_WITHOUT_END, begin->offset, 1);
    put_pair(chrome, line, begin, NULL, latest(chrome, line, time_of(begin)), begin->name, false);
  }
}

/* The line of an asynchronous event: by the category and name of the outermost. */
static int32_t async_line(fp_chrome *chrome, int32_t process, const chrome_held *outermost) {
  fp_bytes text = {.memory = chrome->memory};
  size_t length;
  const uint8_t *part = chrome_string(&chrome->cats, outermost->cat, &length);
  fp_bytes_put(&text, part, length);
  fp_bytes_byte(&text, '/');
  part = chrome_string(&chrome->names, outermost->name, &length);
  fp_bytes_put(&text, part, length);
  int32_t line = text.failed ? -1 : chrome_named_line(chrome, process, CHROME_ASYNC, "async: ", text.data, text.size);
  chrome->failed |= text.failed;
  fp_bytes_free(&text);
  return line;
}

/* b, n and e of an id. */
static void match_nestable(fp_chrome *chrome, chrome_held *held, size_t count, fp_vector *stack) {
  const chrome_held *last = NULL;
  int32_t line = -1;
  stack->count = 0;
  for (size_t i = 0; i < count; i++) {
    if (held[i].phase == 'e') last = &held[i];
    if (held[i].phase != 'e' && !stack->count) line = async_line(chrome, held->process, &held[i]);
    if (held[i].phase == 'b') {
      push(chrome, stack, &held[i]);
    } else if (held[i].phase == 'n') {
      put_pair(chrome, line, &held[i], &(chrome_held){.stats_size = 0}, time_of(&held[i]), held[i].name, true);
    } else {
      chrome_held *begin = pop(stack);
      if (begin) put_pair(chrome, line, begin, &held[i], time_of(&held[i]), begin->name, true);
      else chrome_remark(chrome, CHROME_END_WITHOUT_BEGIN, held[i].offset, 1);
    }
  }
  for (chrome_held *begin; (begin = pop(stack));) {
    chrome_remark(chrome, CHROME_BEGIN_WITHOUT_END, begin->offset, 1);
    const chrome_held *end = last && is_before(time_of(begin), time_of(last)) ? last : begin;
    put_pair(chrome, line, begin, NULL, time_of(end), begin->name, true);
  }
}

/* The name of a step: NAME:STEP. */
static int32_t step_name(fp_chrome *chrome, const chrome_held *step) {
  fp_bytes text = {.memory = chrome->memory};
  size_t length;
  const uint8_t *part = chrome_string(&chrome->names, step->name, &length);
  fp_bytes_put(&text, part, length);
  fp_bytes_byte(&text, ':');
  part = chrome_string(&chrome->texts, step->step, &length);
  fp_bytes_put(&text, part, length);
  int32_t name = text.failed ? -1 : fp_strings_add(&chrome->names, text.data, text.size);
  if (name < 0) chrome->failed = true;
  fp_bytes_free(&text);
  return name;
}

/* An open legacy slice: its line, the last step of either kind. */
typedef struct legacy_slice {
  const chrome_held *begin, *step;
  uint8_t kind; /* of its steps: T or p; 0: none yet */
  int32_t line;
} legacy_slice;

/* Ends a slice, and the step that is open in it. */
static void end_slice(fp_chrome *chrome, legacy_slice *slice, const chrome_held *end, fp_json_time until) {
  const chrome_held none = {.stats_size = 0};
  if (slice->kind == 'T' && slice->step)
    put_pair(chrome, slice->line, slice->step, &none, until, step_name(chrome, slice->step), true);
  put_pair(chrome, slice->line, slice->begin, end, until, slice->begin->name, true);
  slice->begin = NULL;
}

/* A step of an open slice: T begins one, p ends one. */
static void take_step(fp_chrome *chrome, legacy_slice *slice, const chrome_held *held) {
  const chrome_held none = {.stats_size = 0};
  if (slice->kind && slice->kind != held->phase) {
    chrome_remark(chrome, CHROME_MIXED_STEPS, held->offset, 1);
    return;
  }
  slice->kind = held->phase;
  if (held->phase == 'T') {
    if (slice->step)
      put_pair(chrome, slice->line, slice->step, &none, time_of(held), step_name(chrome, slice->step), true);
  } else {
    chrome_held step = *held;
    const chrome_held *before = slice->step ? slice->step : slice->begin;
    step.ns = before->ns;
    step.ps = before->ps;
    put_pair(chrome, slice->line, &step, &none, time_of(held), step_name(chrome, held), true);
  }
  slice->step = held;
}

/* S, T, p and F of an id. */
static void match_legacy(fp_chrome *chrome, chrome_held *held, size_t count) {
  legacy_slice slice = {NULL, NULL, 0, -1};
  for (size_t i = 0; i < count; i++) {
    if (held[i].phase == 'S') {
      if (slice.begin) {
        chrome_remark(chrome, CHROME_BEGIN_WITHOUT_END, slice.begin->offset, 1);
        end_slice(chrome, &slice, NULL, time_of(&held[i]));
      }
      slice = (legacy_slice){&held[i], NULL, 0, async_line(chrome, held->process, &held[i])};
    } else if (!slice.begin) {
      chrome_remark(chrome, held[i].phase == 'F' ? CHROME_END_WITHOUT_BEGIN : CHROME_STEP_WITHOUT_BEGIN, held[i].offset, 1);
    } else if (held[i].phase == 'F') {
      end_slice(chrome, &slice, &held[i], time_of(&held[i]));
    } else {
      take_step(chrome, &slice, &held[i]);
    }
  }
  if (!slice.begin) return;
  chrome_remark(chrome, CHROME_BEGIN_WITHOUT_END, slice.begin->offset, 1);
  end_slice(chrome, &slice, NULL, time_of(&held[count - 1]));
}

void chrome_match(fp_chrome *chrome) {
  chrome_held *held = chrome->held.items;
  size_t count = chrome->held.count;
  fp_vector stack = {0};
  if (count) qsort(held, count, sizeof *held, compare_held);
  for (size_t first = 0, last; first < count && !chrome->failed; first = last) {
    for (last = first + 1; last < count && held[last].group == held[first].group; last++) {
    }
    uint8_t phase = held[first].phase;
    if (held[first].group < FIRST_ASYNC_GROUP) match_thread(chrome, held + first, last - first, &stack);
    else if (phase == 'b' || phase == 'n' || phase == 'e') match_nestable(chrome, held + first, last - first, &stack);
    else match_legacy(chrome, held + first, last - first);
  }
  fp_vector_free(chrome->memory, &stack);
}
