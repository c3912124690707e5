/* Each row is a stack of open slices, linked through `below`. Two trees over the rows answer the two questions in
 * logarithmic time: which row has the slice that ends next (`least`), and which row has an innermost slice that
 * reaches far enough (`most`). */
#include "formats/open_slices.h"

enum { MOST_KEPT = 64, MOST_WEIGHED = 16 }; /* leaves that fp_open_slices_clear keeps; rows that row_for compares */

/* An open slice, or a place that can be reused. */
typedef struct slice {
  fp_slice_end end;
  int32_t below; /* the slice that includes it, or the next place to reuse; counted from 1 */
} slice;

static slice *slice_of(const fp_open_slices *open, int32_t place) {
  return (slice *)open->slices.items + place - 1;
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* Whether one slice includes another that begins later, for every reader. */
static bool holds(const fp_slice_end *outer, const fp_slice_end *inner) {
  for (int i = 0; i < FP_READERS; i++)
    if (outer->ends[i] < inner->ends[i]) return false;
  return true;
}

/* The first end for any reader. */
static int64_t first_end(const fp_slice_end *end) {
  int64_t first = end->ends[0];
  for (int i = 1; i < FP_READERS; i++) first = earlier(first, end->ends[i]);
  return first;
}

/* The last end for any reader. */
static int64_t last_end(const fp_slice_end *end) {
  int64_t last = end->ends[0];
  for (int i = 1; i < FP_READERS; i++) last = later(last, end->ends[i]);
  return last;
}

/* Updates the trees after a change of a row's innermost slice. */
static void update(fp_open_slices *open, size_t row) {
  int32_t top = ((int32_t *)open->rows.items)[row];
  const fp_slice_end *end = top ? &slice_of(open, top)->end : NULL;
  size_t node = open->leaves + row;
  open->most[node] = end ? first_end(end) : INT64_MAX;
  open->least[node] = end ? end->over : INT64_MAX;
  while (node /= 2) {
    open->most[node] = later(open->most[2 * node], open->most[2 * node + 1]);
    open->least[node] = earlier(open->least[2 * node], open->least[2 * node + 1]);
  }
}

/* Doubles the leaves of the trees. Rows that do not exist yet have room for nothing. */
static bool grow(fp_open_slices *open) {
  size_t leaves = open->leaves ? 2 * open->leaves : 1;
  int64_t *most = fp_resize(open->memory, open->most, 2 * leaves * sizeof *most);
  if (most) open->most = most;
  int64_t *least = most ? fp_resize(open->memory, open->least, 2 * leaves * sizeof *least) : NULL;
  if (!least) return false;
  open->least = least;
  open->leaves = leaves;
  for (size_t i = 0; i < 2 * leaves; i++) {
    most[i] = INT64_MIN;
    least[i] = INT64_MAX;
  }
  for (size_t row = 0; row < open->rows.count; row++) update(open, row);
  return true;
}

/* Goes down the tree `least` to the row whose innermost slice ends first, and removes that slice. The one below it is
 * the innermost then. */
bool fp_open_slices_end(fp_open_slices *open, int64_t until, int32_t *row, int64_t *end) {
  if (!open->leaves || open->least[1] > until || open->least[1] == INT64_MAX) return false;
  size_t node = 1;
  while (node < open->leaves) node = 2 * node + (open->least[2 * node] != open->least[node]);
  int32_t *top = (int32_t *)open->rows.items + (node - open->leaves), place = *top;
  slice *ended = slice_of(open, place);
  *row = (int32_t)(node - open->leaves);
  *end = ended->end.over;
  *top = ended->below;
  ended->below = open->unused;
  open->unused = place;
  update(open, (size_t)*row);
  return true;
}

/* Whether everything open in a row includes a slice with this end. */
static bool has_room(const fp_open_slices *open, size_t row, const fp_slice_end *end) {
  int32_t top = ((int32_t *)open->rows.items)[row];
  return !top || holds(&slice_of(open, top)->end, end);
}

/* The row with the shortest innermost slice that includes one with this end; the number of rows if there is none.
 * Only the first rows are compared: beyond them the tree finds the first row whose slice ends late enough for every
 * reader. */
static size_t row_for(const fp_open_slices *open, const fp_slice_end *end) {
  size_t rows = open->rows.count, best = rows;
  int64_t last = last_end(end);
  if (!open->leaves) return rows;
  for (size_t row = 0; row < rows && row < MOST_WEIGHED; row++)
    if (has_room(open, row, end) &&
        (best == rows || open->most[open->leaves + row] < open->most[open->leaves + best]))
      best = row;
  if (best < rows || open->most[1] < last) return best;
  size_t node = 1;
  while (node < open->leaves) node = 2 * node + (open->most[2 * node] < last);
  return node - open->leaves;
}

/* A place in `slices`, reused or new, counted from 1; 0 when memory runs out. */
static int32_t place_for_slice(fp_open_slices *open) {
  int32_t place = open->unused;
  if (place) {
    open->unused = slice_of(open, place)->below;
    return place;
  }
  if (open->slices.count >= INT32_MAX || !fp_vector_add(open->memory, &open->slices, sizeof(slice))) return 0;
  return (int32_t)open->slices.count;
}

int32_t fp_open_slices_add(fp_open_slices *open, int64_t end) {
  return fp_open_slices_add_for_all(open, &(fp_slice_end){end, {end, end, end}});
}

/* Puts the slice on top of its row's stack. */
int32_t fp_open_slices_add_for_all(fp_open_slices *open, const fp_slice_end *given) {
  const int64_t latest = INT64_MAX - 1; /* INT64_MAX in the trees means: no slice */
  fp_slice_end end = {.over = earlier(given->over, latest)};
  for (int i = 0; i < FP_READERS; i++) end.ends[i] = earlier(given->ends[i], latest);
  size_t row = row_for(open, &end);
  if (row == open->rows.count) {
    if (row >= INT32_MAX || (row == open->leaves && !grow(open))) return -1;
    if (!fp_vector_add(open->memory, &open->rows, sizeof(int32_t))) return -1;
  }
  int32_t place = place_for_slice(open);
  if (!place) return -1;
  int32_t *top = (int32_t *)open->rows.items + row;
  *slice_of(open, place) = (slice){end, *top};
  *top = place;
  update(open, row);
  return (int32_t)row;
}

static void free_trees(fp_open_slices *open) {
  fp_release(open->memory, open->most);
  fp_release(open->memory, open->least);
  open->most = open->least = NULL;
  open->leaves = 0;
}

void fp_open_slices_clear(fp_open_slices *open) {
  open->slices.count = open->rows.count = 0;
  open->unused = 0;
  if (open->leaves > MOST_KEPT) free_trees(open); /* else every small line that follows would clear large trees */
  for (size_t i = 0; i < 2 * open->leaves; i++) {
    open->most[i] = INT64_MIN;
    open->least[i] = INT64_MAX;
  }
}

void fp_open_slices_free(fp_open_slices *open) {
  fp_vector_free(open->memory, &open->slices);
  fp_vector_free(open->memory, &open->rows);
  free_trees(open);
  open->unused = 0;
}
