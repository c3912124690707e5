/* Two structures. As long as open events nest, as they do on most lines, the lanes are a stack of ends, and an event
 * is placed in constant time. When an event crosses another, two trees over the lanes take over, until all lanes are
 * free again; then the stack returns.
 *
 * The trees hold for each node the largest and the smallest end of the lanes below it (INT64_MIN: free). `largest`
 * finds the lowest lane whose event reaches beyond an end, that is, the innermost encloser; `least` finds the first
 * lane from there on that is free at a start. Both searches take one step per level.
 *
 *    largest       20                      ends of lanes 0..3: 20 12 9 free
 *               20     9                   an event 10..12: the lowest lane with an end >= 12 is lane 1,
 *             20  12  9  -                 so it goes below lane 1: lane 2, whose 9 <= 10 is free
 */
#include "kernels/lanes.h"

#include <string.h>

/* The ends of the lanes: the stack's are in an array of fp_lanes. */
typedef struct lane_ends {
  fp_memory *memory;
  int64_t *largest, *least; /* trees: node i has children 2i and 2i + 1, leaves begin at `leaves`; INT64_MIN: free */
  uint32_t leaves;
  uint32_t depth; /* how many lanes of the stack are taken */
  uint32_t used;  /* lanes below this one may have an end in the trees */
  bool crossed;   /* the trees hold the ends, not the stack */
  int64_t last;   /* the latest end so far: when all lanes are free */
} lane_ends;

/* Doubles the leaves of both trees. Both are in one block, which `largest` owns. */
static bool grow(lane_ends *ends) {
  uint32_t leaves = ends->leaves ? ends->leaves * 2 : 8;
  int64_t *trees = fp_alloc(ends->memory, (size_t)leaves * 4 * sizeof *trees);
  if (!trees) return false;
  for (uint32_t i = 0; i < leaves * 4; i++) trees[i] = INT64_MIN;
  for (uint32_t i = 0; i < ends->leaves; i++) trees[leaves + i] = trees[leaves * 3 + i] = ends->largest[ends->leaves + i];
  for (uint32_t i = leaves; --i;) {
    trees[i] = trees[2 * i] > trees[2 * i + 1] ? trees[2 * i] : trees[2 * i + 1];
    int64_t *least = trees + leaves * 2;
    least[i] = least[2 * i] < least[2 * i + 1] ? least[2 * i] : least[2 * i + 1];
  }
  fp_release(ends->memory, ends->largest);
  ends->largest = trees;
  ends->least = trees + leaves * 2;
  ends->leaves = leaves;
  return true;
}

/* Sets the end of a lane, in both trees up to the root. */
static void set(lane_ends *ends, uint32_t lane, int64_t end) {
  int64_t *largest = ends->largest, *least = ends->least;
  uint32_t node = ends->leaves + lane;
  largest[node] = least[node] = end;
  while (node /= 2) {
    largest[node] = largest[2 * node] > largest[2 * node + 1] ? largest[2 * node] : largest[2 * node + 1];
    least[node] = least[2 * node] < least[2 * node + 1] ? least[2 * node] : least[2 * node + 1];
  }
}

/* The lane below the lowest one whose event reaches to `end` or further; 0 if there is none. */
static uint32_t below_encloser(const lane_ends *ends, int64_t end) {
  uint32_t node = 1;
  if (ends->largest[1] < end) return 0;
  while (node < ends->leaves) node = 2 * node + (ends->largest[2 * node + 1] >= end);
  return node - ends->leaves + 1;
}

/* The first lane from `from` on that is free at `start`; `leaves` if none is. */
static uint32_t free_lane(const lane_ends *ends, uint32_t from, int64_t start) {
  if (from >= ends->leaves) return ends->leaves;
  uint32_t node = ends->leaves + from;
  while (ends->least[node] > start) {
    while (node & 1) node /= 2; /* a right child: its subtree is done, go on behind its parent */
    if (!node) return ends->leaves;
    node++;
  }
  while (node < ends->leaves) node = 2 * node + (ends->least[2 * node] > start);
  return node - ends->leaves;
}

/* Copies the stack into the trees, which take over. */
static void cross(lane_ends *ends, const int64_t *stack) {
  for (uint32_t i = 0; i < ends->depth; i++) set(ends, i, stack[i]);
  ends->used = ends->depth;
  ends->crossed = true;
}

/* Clears the trees; the stack, now empty, takes over. */
static void uncross(lane_ends *ends) {
  for (uint32_t i = 0; i < ends->used; i++) set(ends, i, INT64_MIN);
  ends->used = ends->depth = 0;
  ends->crossed = false;
}

/* The lane of an event while the lanes are a stack; -1 if it crosses the innermost open event, or the stack is full. */
static int32_t place_on_stack(lane_ends *ends, int64_t *stack, int64_t start, int64_t end) {
  uint32_t depth = ends->depth;
  while (depth && stack[depth - 1] <= start) depth--;
  ends->depth = depth;
  if ((depth && stack[depth - 1] < end) || depth == FP_MOST_LANES) return -1;
  stack[depth] = end;
  ends->depth = depth + 1;
  return (int32_t)depth;
}

/* The lane of an event while the trees hold the ends; -1 when memory runs out. On the last lane of all, ends only
 * grow. */
static int32_t place_among(lane_ends *ends, int64_t start, int64_t end) {
  uint32_t lane = free_lane(ends, below_encloser(ends, end), start);
  if (lane >= ends->leaves && ends->leaves < FP_MOST_LANES) {
    if (!grow(ends)) return -1;
    lane = ends->leaves / 2;
  }
  if (lane >= FP_MOST_LANES) {
    lane = FP_MOST_LANES - 1;
    int64_t taken = ends->largest[ends->leaves + lane];
    end = taken > end ? taken : end;
  }
  set(ends, lane, end);
  if (lane >= ends->used) ends->used = lane + 1;
  return (int32_t)lane;
}

/* Whether event i is not before its predecessor in the order of start, longer first. */
static bool sorted(const int64_t *start, const int64_t *duration, size_t i) {
  return start[i] > start[i - 1] || (start[i] == start[i - 1] && duration[i] <= duration[i - 1]);
}

/* The stack of ends is on the C stack, 32 KiB. The trees are allocated only if some event crosses another. */
fp_code fp_lanes(fp_memory *memory, const int64_t *start, const int64_t *duration, size_t count, uint16_t *lane,
                 int32_t *found) {
  lane_ends ends = {.memory = memory, .last = INT64_MIN};
  int64_t stack[FP_MOST_LANES];
  int32_t lanes = 0;
  fp_code code = FP_OK;
  for (size_t i = 0; i < count; i++) {
    int32_t at = -1;
    int64_t end = fp_counted_end(start[i], duration[i]);
    if (i && !sorted(start, duration, i)) {
      code = FP_UNSORTED;
      break;
    }
    if (ends.crossed && ends.last <= start[i]) uncross(&ends);
    if (!ends.crossed) at = place_on_stack(&ends, stack, start[i], end);
    if (at < 0) {
      while (ends.leaves < ends.depth || !ends.leaves)
        if (!grow(&ends)) break;
      if (ends.leaves >= ends.depth && ends.leaves) {
        if (!ends.crossed) cross(&ends, stack);
        at = place_among(&ends, start[i], end);
      }
    }
    if (at < 0) {
      code = FP_NO_MEMORY;
      break;
    }
    lane[i] = (uint16_t)at;
    if (at >= lanes) lanes = at + 1;
    if (end > ends.last) ends.last = end;
  }
  fp_release(memory, ends.largest);
  *found = lanes;
  return code;
}

/* Counting sort. Filling moves each lane's begin to its end, which is where the next lane begins; the last loop moves
 * them back. */
void fp_lane_order(const uint16_t *lane, size_t count, size_t lanes, uint32_t *order, uint32_t *first) {
  memset(first, 0, (lanes + 1) * sizeof *first);
  for (size_t i = 0; i < count; i++) first[lane[i] + 1]++;
  for (size_t i = 0; i < lanes; i++) first[i + 1] += first[i];
  for (size_t i = 0; i < count; i++) order[first[lane[i]]++] = (uint32_t)i;
  for (size_t i = lanes; i; i--) first[i] = first[i - 1];
  first[0] = 0;
}
