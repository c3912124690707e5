/* Devices that only their process shows, because the category of an event is unknown or not recorded.
 *
 *    pid "CUDA functions", tid 0               autograd's profiler before PyTorch 1.8: device 0
 *    process "Ascend Hardware", labels NPU     Ascend: work of device 0, as its task types say
 *    process "Communication", "HCCL"           collectives of the same device, and the tasks that they consist of
 *    process "Overlap Analysis"                sums of both: annotations
 *    labels "MTIA 9", cat of another vendor    work of device 9
 *
 * Labels also name the planes of devices: /device:MTIA:9, /device:NPU:0. Where they say GPU, categories may name them. */
#include <stdio.h>

#include "formats/chrome_processes.h"

static bool is_text(const uint8_t *text, size_t length, const char *name) {
  return length == strlen(name) && !memcmp(text, name, length);
}

static bool has_part(const uint8_t *text, size_t length, const char *part) {
  size_t size = strlen(part);
  for (size_t i = 0; i + size <= length; i++)
    if (!memcmp(text + i, part, size)) return true;
  return false;
}

static bool is_digit(uint8_t byte) {
  return (uint8_t)(byte - '0') < 10;
}

static bool is_word(uint8_t byte) {
  return is_digit(byte) || byte == '_' || (uint8_t)((byte | 32) - 'a') < 26;
}

/* Splits the label of a device, "MTIA 9" or "NPU", into a word and a number. False: it is none of a device. */
static bool split_label(const fp_chrome *chrome, const chrome_process *process, size_t *word, int64_t *number) {
  size_t length, at = 0;
  *number = -1;
  if (process->label < 0) return false;
  const uint8_t *text = chrome_string(&chrome->texts, process->label, &length);
  while (at < length && is_word(text[at])) at++;
  *word = at;
  if (!at || is_digit(*text) || at > 32 || length > at + 8 || (at < length && (text[at] != ' ' || at + 1 == length))) return false;
  if (at < length) *number = 0;
  for (at++; at < length; at++) {
    if (!is_digit(text[at])) return false;
    *number = *number * 10 + (text[at] - '0');
  }
  return true;
}

bool chrome_labelled_device(const fp_chrome *chrome, const chrome_process *process, int64_t *device) {
  size_t word;
  bool is_labelled = split_label(chrome, process, &word, device);
  if (*device < 0) *device = 0;
  return is_labelled;
}

bool chrome_is_functions(const uint8_t *pid, size_t length) {
  static const char end[] = " functions";
  const size_t size = sizeof end - 1;
  return length > size && !memcmp(pid + length - size, end, size);
}

typedef enum ascend { NOT_ASCEND, HARDWARE, COMMUNICATION, OVERLAP } ascend;

static bool is_hcom(const uint8_t *name, size_t length) {
  return length >= 4 && chrome_is_same(name, 4, "hcom");
}

/* Which of Ascend's processes an event is of: by its name, or by the event if M events come behind it. */
static ascend ascend_process(const fp_chrome *chrome, const chrome_process *process, const chrome_event *event) {
  static const struct {
    const char *name;
    ascend process;
  } names[] = {{"Ascend Hardware", HARDWARE}, {"Communication", COMMUNICATION}, {"HCCL", COMMUNICATION}, {"Overlap Analysis", OVERLAP}};
  static const char *const sums[] = {"Computing", "Communication", "Communication(Not Overlapped)", "Free"};
  size_t length;
  if (process->name >= 0) {
    const uint8_t *text = chrome_string(&chrome->texts, process->name, &length);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
      if (is_text(text, length, names[i].name)) return names[i].process;
    return NOT_ASCEND;
  }
  if (event->args_found >> ARG_TASK_TYPE & 1) return HARDWARE;
  const uint8_t *name = chrome_string(&chrome->names, event->name, &length);
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
    if (is_text(name, length, sums[i])) return OVERLAP;
  return is_hcom(name, length) ? COMMUNICATION : NOT_ASCEND;
}

/* Whether a task runs on cores that compute; tasks that do not say so do. */
static bool computes(fp_chrome *chrome, const chrome_event *event) {
  static const char *const cores[] = {"AI_", "AIC", "AIV", "MIX", "DSA", "DVPP"};
  size_t length;
  if (!(event->args_found >> ARG_TASK_TYPE & 1)) return true;
  const uint8_t *text = chrome_text(chrome, event->view, &event->args[ARG_TASK_TYPE], &length);
  for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
    if (has_part(text, length, cores[i])) return true;
  return false;
}

static chrome_role ascend_role(fp_chrome *chrome, const chrome_process *process, const chrome_event *event) {
  size_t length;
  const uint8_t *name = chrome_string(&chrome->names, event->name, &length);
  switch (ascend_process(chrome, process, event)) {
    case HARDWARE: return computes(chrome, event) ? CHROME_STREAM : CHROME_SYNC;
    case COMMUNICATION: return is_hcom(name, length) ? CHROME_STREAM : CHROME_SYNC;
    case OVERLAP: return CHROME_NOTES;
    default: return CHROME_THREAD;
  }
}

chrome_role chrome_role_of_process(fp_chrome *chrome, const chrome_event *event, int64_t *device) {
  size_t length;
  int32_t number = chrome_process_of(chrome, event->pid);
  *device = 0;
  if (number < 0) return CHROME_THREAD;
  const chrome_process *process = (const chrome_process *)chrome->processes.items + number;
  if (event->cat < 0 && event->pid.kind == CHROME_TEXT_ID) {
    const uint8_t *pid = chrome_string(&chrome->texts, (int32_t)event->pid.bits, &length);
    if (!chrome_is_functions(pid, length) || is_text(pid, length, "CPU functions")) return CHROME_THREAD;
    if (event->tid.kind == CHROME_INT_ID) *device = (int64_t)event->tid.bits;
    return CHROME_STREAM;
  }
  bool is_labelled = chrome_labelled_device(chrome, process, device);
  if (event->cat < 0) return ascend_role(chrome, process, event);
  return is_labelled && !process->is_host ? CHROME_STREAM : CHROME_THREAD;
}

void chrome_infer_category(fp_chrome *chrome, chrome_event *event) {
  static const char op[] = "cpu_op";
  size_t length;
  if (event->pid.kind != CHROME_TEXT_ID) return;
  const uint8_t *pid = chrome_string(&chrome->texts, (int32_t)event->pid.bits, &length);
  if (!is_text(pid, length, "CPU functions")) return;
  event->cat = fp_strings_add(&chrome->cats, (const uint8_t *)op, sizeof op - 1);
  if (event->cat < 0) chrome->failed = true;
}

void chrome_put_device_name(const fp_chrome *chrome, fp_bytes *out, const chrome_plane *plane, const chrome_process *process) {
  static const char *const others[] = {"GPU", "CPU", "CUDA", "TPU", "CUSTOM"};
  char number[32];
  size_t word = 0, length;
  int64_t unused;
  const char *other = chrome->device_word ? chrome->device_word : "GPU";
  const uint8_t *text = NULL;
  bool is_named = process && split_label(chrome, process, &word, &unused);
  if (is_named) text = chrome_string(&chrome->texts, process->label, &length);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) is_named &= !is_text(text, word, others[i]);
  snprintf(number, sizeof number, ":%lld", (long long)plane->ordinal);
  fp_bytes_text(out, "/device:");
  if (is_named) fp_bytes_put(out, text, word);
  else fp_bytes_text(out, other);
  fp_bytes_text(out, number);
}
