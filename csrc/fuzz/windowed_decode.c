/* Reading a file through windows of any size gives what reading its bytes in memory gives: the same tables, or the same
 * error at the same offset. */
#include "fuzz/target.h"
#include "tests/decoding.h"

/* All passes, up to the first that fails: columns filled in order, then by keys. */
typedef struct passes {
  decoding d;
  fp_code code;
  columns straight, keyed;
} passes;

static void run(passes *p, const uint8_t *data, size_t size, bool salvage, uint64_t segment_size, uint64_t most) {
  memset(p, 0, sizeof *p);
  p->d = (decoding){.data = data, .size = size, .salvage = salvage, .depth = FP_STATS, .segment_size = segment_size,
                    .budget = UINT64_MAX, .most = most};
  decoding_begin(&p->d);
  p->code = decoding_open(&p->d);
  if (!p->code) p->code = decoding_index(&p->d);
  if (p->code) return;
  CHECK_INT(decoding_fill(&p->d, NULL, &p->straight), FP_OK);
  CHECK_INT(decoding_fill_keys(&p->d, NULL, &p->keyed), FP_OK);
  for (int of_planes = 0; !p->code && of_planes < 2; of_planes++) p->code = decoding_fill_spans(&p->d, of_planes);
}

static void free_passes(passes *p) {
  columns_free(&p->straight, &p->d);
  columns_free(&p->keyed, &p->d);
  decoding_free(&p->d);
}

static void same_items(const fp_vector *a, const fp_vector *b, size_t item_size) {
  CHECK_INT(a->count, b->count);
  CHECK(!a->count || !memcmp(a->items, b->items, a->count * item_size));
}

/* What the passes say, beside the columns. */
static void same_findings(const decoding *a, const decoding *b) {
  same_items(&a->scanner.parts, &b->scanner.parts, sizeof(fp_part));
  for (int kind = 0; kind < FP_SPAN_KINDS; kind++)
    same_items(&a->scanner.spans[kind], &b->scanner.spans[kind], sizeof(fp_span));
  same_items(&a->xspace.event_metas, &b->xspace.event_metas, sizeof(fp_event_meta));
  same_items(&a->xspace.stat_metas, &b->xspace.stat_metas, sizeof(fp_stat_meta));
  same_items(&a->xspace.meta_stats, &b->xspace.meta_stats, sizeof(fp_owned_span));
  same_items(&a->xspace.children, &b->xspace.children, sizeof(fp_child));
  same_items(&a->xspace.faults, &b->xspace.faults, sizeof(fp_fault_row));
  same_items(&a->index.faults, &b->index.faults, sizeof(fp_fault_row));
  same_items(&a->faults, &b->faults, sizeof(fp_fault_row));
}

static void compare(const uint8_t *data, size_t size, bool salvage, uint64_t segment_size, uint64_t most) {
  passes memory, file;
  run(&memory, data, size, salvage, segment_size, 0);
  run(&file, data, size, salvage, segment_size, most);
  CHECK_INT(memory.code, file.code);
  if (memory.code) CHECK_INT(memory.d.fault.offset, file.d.fault.offset);
  if (memory.code) CHECK(!strcmp(memory.d.fault.what, file.d.fault.what));
  if (!memory.code) {
    same_findings(&memory.d, &file.d);
    columns_compare(&memory.straight, &file.straight);
    columns_compare(&memory.keyed, &file.keyed);
  }
  free_passes(&memory);
  free_passes(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dice chance = dice_of(data, size);
  for (int salvage = 0; salvage < 2; salvage++) {
    uint64_t segment_size = 1 + roll_below(&chance, 1 << roll_below(&chance, 16));
    compare(data, size, salvage, segment_size, 1 + roll_below(&chance, 1 << roll_below(&chance, 14)));
  }
  return 0;
}
