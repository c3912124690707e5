/* What of a document is held: its text from a multiple of 64 bytes on, and the marks that are known of it.
 *
 *    text       | taken | the item at the walk ... | ... more        the index has read up to `indexed`
 *    marks      | ..... | walk.mark ...            |
 *
 * Handed over, all of it goes to whoever reads events later; what has not been taken is copied, and the scan goes on there. */
#include "formats/json_scan.h"

enum { SLICE = 1 << 14, SHORT_SLICE = 256 };

/* How many bytes before the walk are no longer needed. */
static size_t taken_bytes(const fp_json_scan *scan) {
  size_t taken = scan->walk.at < scan->indexed ? scan->walk.at : scan->indexed;
  return taken & ~(size_t)(FP_JSON_BLOCK - 1);
}

/* The text begins `taken` bytes later. */
static void move_base(fp_json_scan *scan, size_t taken) {
  for (size_t i = scan->walk.mark; i < scan->mark_count; i++) scan->marks[i] -= (uint32_t)taken;
  scan->text.size -= taken;
  scan->indexed -= taken;
  scan->retry_at -= scan->retry_at > taken ? taken : scan->retry_at;
  scan->walk.at -= (uint32_t)taken;
  scan->base += taken;
}

void fp_json_forget_taken(fp_json_scan *scan) {
  size_t taken = taken_bytes(scan);
  if (!taken || taken < scan->text.size / 2) return;
  memmove(scan->text.data, scan->text.data + taken, scan->text.size - taken);
  if (scan->indexed > taken)
    memmove(scan->has, scan->has + taken / FP_JSON_BLOCK, (scan->indexed - taken) / FP_JSON_BLOCK);
  move_base(scan, taken);
}

/* Room for marks, and for what blocks have in them. */
static bool reserve_marks(fp_json_scan *scan, size_t marks, size_t blocks) {
  if (marks > scan->mark_capacity) {
    size_t capacity = 2 * scan->mark_capacity > marks ? 2 * scan->mark_capacity : marks;
    uint32_t *more = fp_resize(scan->memory, scan->marks, capacity * sizeof *more);
    if (!more) return false;
    scan->marks = more;
    scan->mark_capacity = capacity;
  }
  if (blocks > scan->has_capacity) {
    uint8_t *has = fp_resize(scan->memory, scan->has, 2 * blocks);
    if (!has) return false;
    scan->has = has;
    scan->has_capacity = 2 * blocks;
  }
  return true;
}

/* What has not been taken is copied to the other buffers, and the scan goes on there. */
bool fp_json_scan_hand_over(fp_json_scan *scan, fp_json_stretch *text) {
  size_t taken = taken_bytes(scan), mark_count = scan->mark_count, first = scan->walk.mark;
  fp_json_stretch mine = {scan->text, scan->marks, scan->has, mark_count, scan->mark_capacity, scan->has_capacity, scan->base};
  scan->is_shared = false;
  scan->text = text->bytes;
  scan->text.memory = scan->memory;
  scan->text.size = 0;
  scan->marks = text->marks;
  scan->has = text->has;
  scan->mark_capacity = text->mark_capacity;
  scan->has_capacity = text->has_capacity;
  *text = mine;
  size_t blocks = (scan->indexed - taken) / FP_JSON_BLOCK;
  fp_bytes_put(&scan->text, mine.bytes.data + taken, mine.bytes.size - taken);
  scan->mark_count = mark_count - first;
  scan->walk.mark = 0;
  if (scan->text.failed || !reserve_marks(scan, scan->mark_count, blocks)) {
    scan->text.failed = true;
    return false;
  }
  if (scan->mark_count) memcpy(scan->marks, mine.marks + first, scan->mark_count * sizeof *scan->marks);
  if (blocks) memcpy(scan->has, mine.has + taken / FP_JSON_BLOCK, blocks);
  scan->text.size += taken; /* move_base takes it off */
  move_base(scan, taken);
  return true;
}

void fp_json_stretch_free(fp_memory *memory, fp_json_stretch *text) {
  if (text->bytes.memory) fp_bytes_free(&text->bytes);
  fp_release(memory, text->marks);
  fp_release(memory, text->has);
  *text = (fp_json_stretch){.marks = NULL};
}

/* Room for the marks of more bytes; those before the walk are dropped, unless a handler refers to them. */
static bool make_room(fp_json_scan *scan, size_t bytes) {
  if (scan->walk.mark && !scan->is_shared) {
    scan->mark_count -= scan->walk.mark;
    memmove(scan->marks, scan->marks + scan->walk.mark, scan->mark_count * sizeof *scan->marks);
    scan->walk.mark = 0;
  }
  return reserve_marks(scan, scan->mark_count + bytes, (scan->indexed + bytes) / FP_JSON_BLOCK);
}

/* Indexes blocks behind what is indexed. */
static void index_blocks(fp_json_scan *scan, size_t blocks) {
  const uint8_t *text = scan->text.data + scan->indexed;
  uint8_t first[FP_JSON_BLOCK], *has = scan->has + scan->indexed / FP_JSON_BLOCK;
  if (scan->restarted) { /* nothing before the walk counts */
    memcpy(first, text, sizeof first);
    memset(first, ' ', scan->walk.at - scan->indexed);
    text = first;
    blocks = 1;
    scan->restarted = false;
  }
  scan->mark_count +=
      fp_json_index_blocks(&scan->index, text, blocks, (uint32_t)scan->indexed, scan->marks + scan->mark_count, has);
  scan->indexed += blocks * FP_JSON_BLOCK;
}

bool fp_json_index_more(fp_json_scan *scan) {
  size_t limit = scan->text.size & ~(size_t)(FP_JSON_BLOCK - 1);
  if (scan->ended && limit < scan->text.size && scan->indexed >= limit) {
    uint8_t *pad = fp_bytes_room(&scan->text, FP_JSON_BLOCK);
    if (!pad) return false;
    memset(pad, ' ', FP_JSON_BLOCK);
    limit += FP_JSON_BLOCK;
  }
  if (scan->indexed >= limit) return false;
  size_t had = scan->indexed > scan->walk.at ? scan->indexed - scan->walk.at : 0;
  size_t slice = scan->state == FP_JSON_TRYING ? SHORT_SLICE : SLICE;
  size_t goal = scan->indexed + (had > slice ? had & ~(size_t)(FP_JSON_BLOCK - 1) : slice);
  if (goal > limit) goal = limit;
  while (scan->indexed < goal) { /* room for the marks of a slice only: a long text has none */
    if (!make_room(scan, slice < goal - scan->indexed ? slice : goal - scan->indexed)) {
      scan->text.failed = true;
      return false;
    }
    index_blocks(scan, (slice < goal - scan->indexed ? slice : goal - scan->indexed) / FP_JSON_BLOCK);
  }
  return true;
}
