/* Kineto's deviceProperties: what they say of a device are stats of its plane. ROCm may number the devices of events
 * otherwise than those of properties, as if HIP_VISIBLE_DEVICES were not set:
 *
 *    deviceProperties id 0, no event            no plane
 *    kernels on device 2, no properties         /device:GPU:2, with the properties of 0
 */
#include <stdlib.h>

#include "formats/chrome_stats.h"

/* A property under the name that XSpace has for it. */
static const char *property_name(const uint8_t *key, size_t length) {
  static const char *const names[][2] = {{"name", "gpu_device_name"}, {"totalGlobalMem", "memory_size"}, {"numSms", "core_count"},
                                         {"computeMajor", "compute_cap_major"}, {"computeMinor", "compute_cap_minor"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strlen(names[i][0]) == length && !memcmp(names[i][0], key, length)) return names[i][1];
  return NULL;
}

static void put_vendor(fp_chrome *chrome, fp_bytes *stats, const uint8_t *name, size_t length) {
  bool is_nvidia = chrome_begins_with(name, length, "NVIDIA") || chrome_begins_with(name, length, "Tesla") ||
                   chrome_begins_with(name, length, "Quadro") || chrome_begins_with(name, length, "GeForce");
  bool is_amd = chrome_begins_with(name, length, "AMD") || chrome_begins_with(name, length, "gfx");
  const char *vendor = is_nvidia ? "Nvidia" : "AMD";
  if (!is_nvidia && !is_amd) return;
  chrome_put_stat_text(stats, chrome_stat_number(chrome, "device_vendor"), (const uint8_t *)vendor, strlen(vendor));
}

static bool put_device(fp_chrome *chrome, const fp_json_view *view, const fp_json_value *device, int64_t number, uint32_t *at) {
  fp_json_value key, value;
  size_t length;
  if (chrome_member(view, device, "id", &value)) {
    fp_json_number id = chrome_read_number(view, &value);
    if (id.kind == FP_JSON_INT) number = (int64_t)id.bits;
  }
  int32_t plane = chrome_device_plane(chrome, number);
  if (plane < 0) return true;
  fp_bytes *stats = &((chrome_plane *)chrome->planes.items)[plane].stats;
  fp_json_walk walk = fp_json_into(device);
  while (fp_json_member(view, &walk, &key, &value) == FP_WALK_ITEM) {
    const char *known = property_name(view->text + key.from, key.to - key.from);
    chrome->before_stat = -1;
    int32_t name = known ? chrome_stat_number(chrome, known) : chrome_stat_name(chrome, view, &key);
    if (name < 0) return true;
    if (!chrome_put_stat(chrome, stats, name, view, &value, at)) return false;
    if (!known || strcmp(known, "gpu_device_name") || value.kind != FP_JSON_TEXT) continue;
    const uint8_t *text = chrome_text(chrome, view, &value, &length);
    put_vendor(chrome, stats, text, length);
    ((chrome_plane *)chrome->planes.items)[plane].model = fp_strings_add(&chrome->texts, text, length);
  }
  chrome->failed |= stats->failed;
  return true;
}

bool chrome_put_devices(fp_chrome *chrome, const fp_json_view *view, const fp_json_value *devices, uint32_t *at) {
  fp_json_value device;
  int64_t number = 0;
  fp_json_walk walk = fp_json_into(devices);
  for (fp_json_step step; (step = fp_json_element(view, &walk, &device)) == FP_WALK_ITEM; number++)
    if (device.kind == FP_JSON_OBJECT && !put_device(chrome, view, &device, number, at)) return false;
  return true;
}

/* ---- devices that properties number otherwise ---- */

typedef struct device {
  int64_t order;
  int32_t plane;
} device;

static int compare_devices(const void *a, const void *b) {
  const device *first = a, *second = b;
  return (first->order > second->order) - (first->order < second->order);
}

/* The GPUs that have events and no properties or, if not `are_used`, properties and no events; in order of number. */
static size_t pick_devices(const fp_chrome *chrome, const uint8_t *has_events, bool are_used, device *picked) {
  const chrome_plane *planes = chrome->planes.items;
  size_t count = 0;
  for (size_t i = 0; i < chrome->planes.count; i++) {
    if (!planes[i].is_device || has_events[i] != are_used || (planes[i].stats.size > 0) == are_used) continue;
    picked[count++] = (device){planes[i].order, (int32_t)i};
  }
  if (count) qsort(picked, count, sizeof *picked, compare_devices);
  return count;
}

static bool is_one_model(const fp_chrome *chrome, const device *devices, size_t count) {
  const chrome_plane *planes = chrome->planes.items;
  for (size_t i = 1; i < count; i++)
    if (planes[devices[i].plane].model != planes[devices[0].plane].model) return false;
  return true;
}

void chrome_match_devices(fp_chrome *chrome) {
  const chrome_line *lines = chrome->lines.items;
  chrome_plane *planes = chrome->planes.items;
  size_t planes_count = chrome->planes.count;
  uint8_t *has_events = fp_alloc_zeroed(chrome->memory, planes_count, 1);
  device *used = fp_alloc(chrome->memory, planes_count * sizeof *used), *idle = fp_alloc(chrome->memory, planes_count * sizeof *idle);
  chrome->failed |= planes_count && (!has_events || !used || !idle);
  if (planes_count && !chrome->failed) {
    for (size_t i = 0; i < chrome->lines.count; i++) has_events[lines[i].plane] |= lines[i].event_count > 0;
    size_t count = pick_devices(chrome, has_events, true, used), others = pick_devices(chrome, has_events, false, idle);
    bool are_certain = count == others || is_one_model(chrome, idle, others);
    for (size_t i = 0; are_certain && count <= others && i < count; i++) {
      fp_bytes none = planes[used[i].plane].stats;
      planes[used[i].plane].stats = planes[idle[i].plane].stats;
      planes[idle[i].plane].stats = none;
      planes[idle[i].plane].is_left_out = true;
      chrome_remark(chrome, CHROME_OTHER_DEVICE, 0, 1);
    }
  }
  fp_release(chrome->memory, has_events);
  fp_release(chrome->memory, used);
  fp_release(chrome->memory, idle);
}
