/* Ends of flows: events of phase s, t and f, and events of threads with a bind_id. What they lead to is matched when the
 * XSpace is read, as that needs all events; here they become records. */
#include "formats/chrome_parts.h"

/* Texts of flows are few, and have numbers of their own. */
static int32_t flow_text(fp_chrome *chrome, const fp_strings *pool, int32_t number) {
  size_t length;
  const uint8_t *text = chrome_string(pool, number, &length);
  int32_t found = fp_strings_add(&chrome->flow_texts, text, length);
  if (found < 0) chrome->failed = true;
  return found;
}

/* Writes an end, whose name and category are those of an event, with an id. */
static void put_end(fp_chrome *chrome, chrome_flow_end end, chrome_id id) {
  if (end.line < 0 || chrome->failed) return;
  end.name = flow_text(chrome, &chrome->names, end.name);
  end.cat = end.cat < 0 ? -1 : flow_text(chrome, &chrome->cats, end.cat);
  end.id_kind = (int32_t)id.kind;
  end.id = id.kind == CHROME_TEXT_ID ? (uint64_t)flow_text(chrome, &chrome->texts, (int32_t)id.bits) : id.bits;
  chrome_put_flow_record(chrome, &end);
}

void chrome_put_flow_end(fp_chrome *chrome, chrome_event *event) {
  const fp_json_value *point = &event->fields[FIELD_BP];
  size_t length = 0;
  const uint8_t *text = point->kind != FP_JSON_NOTHING ? chrome_text(chrome, event->view, point, &length) : NULL;
  bool encloses = length == 1 && *text == 'e';
  const chrome_flow_end end = {.ns = event->time.ns, .ps = event->time.ps, .phase = event->phase - (encloses ? 32 : 0),
                               .line = chrome_thread_line(chrome, event), .name = event->name, .cat = event->cat};
  put_end(chrome, end, event->id);
}

/* Whether a flag is set: `true`, or a number other than 0. */
static bool is_set(const chrome_event *event, chrome_field which) {
  const fp_json_value *flag = &event->fields[which];
  if (flag->kind != FP_JSON_FINITE) return flag->kind == FP_JSON_TRUE;
  fp_json_number number = chrome_read_number(event->view, flag);
  return number.kind == FP_JSON_DOUBLE ? number.value != 0 : number.bits != 0;
}

void chrome_read_direction(fp_chrome *chrome, chrome_event *event) {
  event->direction = CHROME_NO_FLOW;
  if (event->fields[FIELD_BIND_ID].kind == FP_JSON_NOTHING) return;
  bool in = is_set(event, FIELD_FLOW_IN), out = is_set(event, FIELD_FLOW_OUT);
  event->bind_id = chrome_read_id(chrome, event->view, &event->fields[FIELD_BIND_ID]);
  if (event->phase == 'X' || event->phase == 'B')
    event->direction = in && out ? CHROME_FLOW_BOTH : out ? CHROME_FLOW_OUT : in ? CHROME_FLOW_IN : CHROME_NO_FLOW;
  if (event->direction == CHROME_NO_FLOW) chrome_remark(chrome, CHROME_NOT_READ, event->offset, 1);
}

void chrome_put_flow_event(fp_chrome *chrome, chrome_direction direction, chrome_id bind_id, const chrome_flow_end *event) {
  if (direction == CHROME_NO_FLOW) return;
  chrome_flow_end end = *event;
  end.phase = (int32_t)direction;
  put_end(chrome, end, bind_id);
}
