/* Parents come before their children, so one pass hands down what the nearest events around a row say: in the low half of
 * a byte the kind of the nearest that is not open, in the high half that of the nearest that does not pass either. The
 * outermost event takes the place of a missing one. */
#include "kernels/event_writers.h"

/* Whether an event whose kind is open is ours. */
static bool is_ours(const fp_writer_kind *of_kind, uint8_t around, bool on_python) {
  const fp_writer_kind *nearest = &of_kind[around & 15], *through = &of_kind[around >> 4];
  return through->calls_python || nearest->runs_python || (on_python && !nearest->is_native);
}

static inline size_t pair_of(const fp_written *of, uint8_t writer, int64_t row) {
  return writer * of->names + (of->name[row] < 0 ? of->names - 1 : (size_t)of->name[row]);
}

static void of_thread(const fp_written *of, const fp_writer_thread *thread, uint8_t *around, uint8_t *writer,
                      uint8_t *met) {
  for (int64_t row = thread->first; row < thread->last; row++) {
    const uint8_t kind = of->kinds[row];
    const fp_writer_kind *own = &of->of_kind[kind];
    const int32_t up = of->parent[row];
    uint8_t here = (uint8_t)(kind | kind << 4);
    if (up >= 0 && own->is_open) here = (uint8_t)((here & 0xF0) | (around[up] & 0x0F));
    if (up >= 0 && own->passes) here = (uint8_t)((here & 0x0F) | (around[up] & 0xF0));
    around[row] = here;
    writer[row] = !own->is_open ? own->writer : is_ours(of->of_kind, here, thread->is_python) ? of->ours : of->theirs;
    met[pair_of(of, writer[row], row)] = 1;
  }
}

fp_code fp_event_writers(fp_memory *memory, const fp_written *of, uint8_t *writer, uint8_t *met) {
  uint8_t *around = fp_alloc_zeroed(memory, of->count, 1);
  if (!around) return FP_NO_MEMORY;
  for (size_t i = 0; i < of->thread_count; i++) of_thread(of, &of->threads[i], around, writer, met);
  fp_release(memory, around);
  return FP_OK;
}

void fp_of_writer_and_name(const fp_written *of, const uint8_t *writer, const uint8_t *table, uint8_t *out) {
  for (size_t i = 0; i < of->thread_count; i++)
    for (int64_t row = of->threads[i].first; row < of->threads[i].last; row++)
      out[row] = table[pair_of(of, writer[row], row)];
}
