/* Devices that only processes show. */
#ifndef FASTPROF_CHROME_PROCESSES_H
#define FASTPROF_CHROME_PROCESSES_H

#include "formats/chrome_parts.h"

/* The number of the device that M events label a process as, 0 if they number none. */
bool chrome_labelled_device(const fp_chrome *chrome, const chrome_process *process, int64_t *device);
/* Whether a pid is of autograd's old profiler. */
bool chrome_is_functions(const uint8_t *pid, size_t length);
/* The role, and the device, of an event of no known category; CHROME_THREAD: the host runs it. */
chrome_role chrome_role_of_process(fp_chrome *chrome, const chrome_event *event, int64_t *device);
/* The line of a counter of a device; -1: it is of none. */
int32_t chrome_counter_line(fp_chrome *chrome, const chrome_event *event);
/* Gives an event the category that its process implies. */
void chrome_infer_category(fp_chrome *chrome, chrome_event *event);
/* Appends /device:MTIA:9, by the label of the process that most events are of, which may be NULL. */
void chrome_put_device_name(const fp_chrome *chrome, fp_bytes *out, const chrome_plane *plane, const chrome_process *process);

#endif
