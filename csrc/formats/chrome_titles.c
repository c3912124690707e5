/* What planes and lines are called: as M events name their process or thread, else by its id. */
#include "formats/chrome_processes.h"
#include "formats/json_values.h"

static const chrome_process *process_of(const fp_chrome *chrome, int32_t number) {
  return (const chrome_process *)chrome->processes.items + number;
}

void chrome_put_plane_name(const fp_chrome *chrome, fp_bytes *out, const chrome_plane *plane, int32_t process) {
  size_t length;
  int32_t number = plane->name >= 0 ? plane->name : process_of(chrome, plane->process)->name;
  if (plane->is_device) {
    chrome_put_device_name(chrome, out, plane, process < 0 ? NULL : process_of(chrome, process));
  } else if (number >= 0) {
    const uint8_t *text = chrome_string(&chrome->texts, number, &length);
    fp_bytes_put(out, text, length);
  } else if (process_of(chrome, plane->process)->pid.kind == CHROME_NO_ID) {
    fp_bytes_text(out, "process");
  } else {
    chrome_put_id(chrome, out, process_of(chrome, plane->process)->pid);
    if (!out->size) fp_bytes_text(out, "process");
  }
}

const chrome_thread *chrome_thread_of_line(fp_chrome *chrome, const chrome_line *line) {
  int32_t number = chrome_thread_of(chrome, process_of(chrome, line->process)->pid, line->tid, false);
  return number < 0 || line->tid.kind == CHROME_NO_ID ? NULL : (const chrome_thread *)chrome->threads.items + number;
}

void chrome_put_line_name(fp_chrome *chrome, fp_bytes *out, const chrome_line *line, const chrome_plane *plane) {
  size_t length;
  bool is_stream = line->role == CHROME_STREAM || line->role == CHROME_SYNC || line->role == CHROME_NOTES;
  const chrome_thread *thread = chrome_thread_of_line(chrome, line);
  if (chrome->dialect == CHROME_TF1 && plane->is_device && line->process >= 0) { /* stream 13 of ".../stream:13 Compute" */
    size_t stream;
    const uint8_t *text = chrome_string(&chrome->texts, process_of(chrome, line->process)->name, &length);
    if (chrome_tf1_gpu(text, length, &stream) >= 0) {
      fp_bytes_text(out, "stream ");
      fp_bytes_put(out, text + stream, length - stream - strlen(" Compute"));
      return;
    }
  }
  if (line->name >= 0) {
    const uint8_t *text = chrome_string(&chrome->texts, line->name, &length);
    fp_bytes_put(out, text, length);
    return;
  }
  if (thread && thread->name >= 0 && line->role != CHROME_SYNC) {
    const uint8_t *text = chrome_string(&chrome->texts, thread->name, &length);
    fp_bytes_put(out, text, length);
  } else if (line->tid.kind != CHROME_NO_ID) {
    if (is_stream && line->tid.kind != CHROME_TEXT_ID) fp_bytes_text(out, "stream ");
    chrome_put_id(chrome, out, line->tid);
  }
  if (!out->size) chrome_put_plane_name(chrome, out, plane, line->process);
  if (line->role == CHROME_SYNC) fp_bytes_text(out, " (sync)");
  if (line->role == CHROME_NOTES) fp_bytes_text(out, " annotations");
}
