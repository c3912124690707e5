/* A field's length comes before its bytes, so sizes are computed first:
 *
 *    [tag 4][length] [1 id][tag 2][length] [1 id][tag 2][length]name [tag 5][length] [1 stat id][tag 5][length]name
 *
 * Free lanes are found in a tree whose nodes have the earliest end of the lanes below:
 *
 *    root                10
 *    nodes        40          10
 *    lanes     0:90  1:40  2:10  3:never       free at 15: to the right, then lane 2
 */
#include "formats/xspace_write.h"

#include "formats/proto_write.h"

enum {
  PLANE_EVENT_METADATA = 4, STAT_ID = 1, STAT_STR = 5, MAP_KEY = 1, MAP_VALUE = 2, METADATA_ID = 1, METADATA_NAME = 2,
  METADATA_STATS = 5
};

/* The bytes of a field whose number is below 16. */
static size_t number_size(int64_t value) { return 1 + proto_varint_size((uint64_t)value); }
static size_t bytes_size(size_t length) { return 1 + proto_varint_size(length) + length; }

static void put_head(fp_bytes *out, uint32_t field, size_t length) {
  proto_put_varint(out, field << 3 | WIRE_LEN);
  proto_put_varint(out, length);
}

static void put_text(fp_bytes *out, uint32_t field, const uint8_t *text, size_t length) {
  put_head(out, field, length);
  fp_bytes_put(out, text, length);
}

void fp_put_event_metadata(fp_bytes *out, int64_t first_id, const int64_t *offsets, const uint8_t *bytes, size_t count,
                           int64_t stat_id) {
  for (size_t i = 0; i < count && !out->failed; i++) {
    int64_t id = first_id + (int64_t)i;
    const uint8_t *text = bytes + offsets[i];
    size_t length = (size_t)(offsets[i + 1] - offsets[i]);
    size_t stat = number_size(stat_id) + bytes_size(length);
    size_t value = number_size(id) + bytes_size(length) + (stat_id ? bytes_size(stat) : 0);
    put_head(out, PLANE_EVENT_METADATA, number_size(id) + bytes_size(value));
    proto_put_number(out, MAP_KEY, (uint64_t)id);
    put_head(out, MAP_VALUE, value);
    proto_put_number(out, METADATA_ID, (uint64_t)id);
    put_text(out, METADATA_NAME, text, length);
    if (!stat_id) continue;
    put_head(out, METADATA_STATS, stat);
    proto_put_number(out, STAT_ID, (uint64_t)stat_id);
    put_text(out, STAT_STR, text, length);
  }
}

/* ---- lanes ---- */

/* Of `size` lanes, a power of two: node 1 is the root, the nodes of a level follow those of the level above. */
typedef struct lane_tree {
  fp_vector ends; /* int64_t, INT64_MIN: never taken */
  size_t size;
} lane_tree;

/* Twice the lanes: the leaves move behind the place of the nodes, and these are computed again. */
static bool grow(fp_memory *memory, lane_tree *tree) {
  size_t before = tree->size, size = before ? 2 * before : 1;
  if (!fp_vector_reserve(memory, &tree->ends, sizeof(int64_t), 2 * size)) return false;
  int64_t *ends = tree->ends.items;
  if (before) memcpy(ends + size, ends + before, before * sizeof *ends);
  for (size_t i = size + before; i < 2 * size; i++) ends[i] = INT64_MIN;
  for (size_t i = size - 1; i > 0; i--) ends[i] = ends[2 * i] < ends[2 * i + 1] ? ends[2 * i] : ends[2 * i + 1];
  tree->size = size;
  return true;
}

static size_t take(lane_tree *tree, int64_t begin, int64_t end) {
  int64_t *ends = tree->ends.items;
  size_t at = 1;
  while (at < tree->size) at = ends[2 * at] <= begin ? 2 * at : 2 * at + 1;
  size_t lane = at - tree->size;
  ends[at] = end;
  while (at > 1) {
    at /= 2;
    ends[at] = ends[2 * at] < ends[2 * at + 1] ? ends[2 * at] : ends[2 * at + 1];
  }
  return lane;
}

fp_code fp_first_free_lanes(fp_memory *memory, const int64_t *begin, const int64_t *end, size_t count, int32_t *lane,
                            int32_t *found) {
  lane_tree tree = {0};
  fp_code code = FP_OK;
  *found = 0;
  for (size_t i = 0; i < count; i++) {
    bool is_full = !tree.size || ((int64_t *)tree.ends.items)[1] > begin[i];
    if (is_full && !grow(memory, &tree)) {
      code = FP_NO_MEMORY;
      break;
    }
    lane[i] = (int32_t)take(&tree, begin[i], end[i]);
    if (lane[i] >= *found) *found = lane[i] + 1;
  }
  fp_vector_free(memory, &tree.ends);
  return code;
}
