/* Address space is a sequence of ranges, each entirely free or entirely in use, with unknown gaps between them. All
 * addresses at which anything begins or ends are numbered beforehand (`places`), so that ranges can lie in arrays and
 * neighbours are found in a set of numbers (number_set.h).
 *
 *    places    0      1    2      3                begins = { 0, 2 }
 *              |  free     | used |                ranges[0] = { end 2, FREE }, ranges[2] = { end 3, IN_USE }
 *
 * Painting a range in a state cuts away what it overlaps, joins it with free neighbours, and updates whether ranges
 * beside it are closed.
 *
 * Sums are not updated per event. Each free range remembers since when it has been what it is; when that ends,
 * count_until adds its bytes at its first event and subtracts them at its last (`add`), and sum_up turns these
 * differences into sums. As `request` never grows, a range of some size fits from one event on, which a search finds.
 */
#include "kernels/free_chunks.h"

#include <stdlib.h>

#include "kernels/key_numbers.h"
#include "kernels/number_set.h"

enum state { FREE = 1, IN_USE };

/* Memory from one place to another. It begins at its index in `ranges`. */
typedef struct range {
  int32_t end;   /* place */
  int32_t since; /* the event from which on it is free, has this length, and is closed or not */
  uint8_t state;
  uint8_t closed; /* free, with memory in use on either side */
} range;

/* The state of one allocator. */
typedef struct replay {
  const fp_chunk_events *events;
  const fp_chunk_sums *out;
  size_t first, last;  /* events of the allocator */
  int32_t *number;     /* by event: the number of its (address, size); -1: skipped */
  int32_t *begin, *end; /* by that number: the places where it begins and ends */
  uint64_t *address;   /* of each place */
  size_t place_count;
  struct {
    int64_t request;
    size_t row;        /* the first event with this request */
  } *requests;         /* the changes of `request` */
  size_t request_count;
  range *ranges;       /* by the place where they begin */
  fp_number_set begins;
} replay;

static int by_address(const void *a, const void *b) {
  uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
  return (first > second) - (first < second);
}

/* The place of an address, which is in the list. */
static int32_t place_of(const replay *work, uint64_t address) {
  size_t low = 0, high = work->place_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (work->address[middle] < address) low = middle + 1;
    else high = middle;
  }
  return (int32_t)low;
}

/* Sorts the addresses and removes repeats. */
static void sort_places(replay *work) {
  qsort(work->address, work->place_count, sizeof *work->address, by_address);
  size_t kept = 0;
  for (size_t i = 0; i < work->place_count; i++)
    if (!kept || work->address[i] != work->address[kept - 1]) work->address[kept++] = work->address[i];
  work->place_count = kept;
}

/* Whether an event has a size and stays within the address space. */
static bool is_usable(const fp_chunk_events *events, size_t row) {
  uint64_t address = (uint64_t)events->address[row], size = (uint64_t)events->size[row], end;
  return events->size[row] > 0 && !__builtin_add_overflow(address, size, &end);
}

/* Numbers the distinct pairs of address and size, and the places where these begin and end. There are few of them
 * compared with events, since programs allocate the same ranges again and again. Fails only when memory runs out. */
static bool find_places(fp_memory *memory, replay *work) {
  const fp_chunk_events *events = work->events;
  size_t count = work->last - work->first;
  const int64_t *pair[] = {events->address + work->first, events->size + work->first};
  work->number = fp_alloc(memory, count * sizeof *work->number);
  if (!work->number) return false;
  size_t pairs;
  if (fp_key_numbers(memory, pair, 2, count, work->number, &pairs) != FP_OK) return false;
  work->begin = fp_alloc(memory, pairs * sizeof *work->begin);
  work->end = fp_alloc(memory, pairs * sizeof *work->end);
  work->address = fp_alloc(memory, 2 * pairs * sizeof *work->address);
  if (!work->begin || !work->end || !work->address) return false;
  int64_t met = 0;
  for (size_t i = 0; i < count; i++) {
    bool is_new = work->number[i] == met;
    met += is_new;
    if (is_new) work->begin[work->number[i]] = -1;
    if (!is_usable(events, work->first + i)) {
      work->number[i] = -1;
    } else if (is_new) {
      work->address[work->place_count++] = (uint64_t)pair[0][i];
      work->address[work->place_count++] = (uint64_t)pair[0][i] + (uint64_t)pair[1][i];
    }
  }
  sort_places(work);
  for (size_t i = 0; i < count; i++) {
    int32_t number = work->number[i];
    if (number < 0 || work->begin[number] >= 0) continue;
    work->begin[number] = place_of(work, (uint64_t)pair[0][i]);
    work->end[number] = place_of(work, (uint64_t)pair[0][i] + (uint64_t)pair[1][i]);
  }
  return true;
}

/* Adds a value to the events from..upto of a column, as a difference. */
static void add(const replay *work, int64_t *column, size_t from, size_t upto, uint64_t value) {
  if (from >= upto) return;
  column[from] = (int64_t)((uint64_t)column[from] + value);
  if (upto < work->last) column[upto] = (int64_t)((uint64_t)column[upto] - value);
}

/* Lists where `request` changes. Fails only when memory runs out. */
static bool find_requests(fp_memory *memory, replay *work) {
  const int64_t *request = work->events->request;
  size_t changes = 1;
  for (size_t row = work->first + 1; row < work->last; row++) changes += request[row] != request[row - 1];
  work->requests = fp_alloc(memory, changes * sizeof *work->requests);
  if (!work->requests) return false;
  for (size_t row = work->first; row < work->last; row++) {
    if (row > work->first && request[row] == request[row - 1]) continue;
    work->requests[work->request_count].request = request[row];
    work->requests[work->request_count++].row = row;
  }
  return true;
}

/* The first event from which on a chunk of this size can hold the request; `last` if there is none. */
static size_t fits_from(const replay *work, uint64_t size) {
  size_t low = 0, high = work->request_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int64_t request = work->requests[middle].request;
    if (request > 0 && (uint64_t)request > size) low = middle + 1;
    else high = middle;
  }
  return low < work->request_count ? work->requests[low].row : work->last;
}

/* Counts a free range for the events since it last changed, up to `now`, and marks it as counted. */
static void count_until(const replay *work, int64_t begin, size_t now) {
  range *chunk = &work->ranges[begin];
  if (chunk->state != FREE) return;
  size_t since = (size_t)chunk->since;
  chunk->since = (int32_t)now;
  if (since >= now) return;
  uint64_t size = work->address[chunk->end] - work->address[begin];
  size_t fits = fits_from(work, size);
  add(work, work->out->bytes, since, now, size);
  add(work, work->out->chunks, since, now, 1);
  add(work, work->out->fitting, fits > since ? fits : since, now, size);
  if (chunk->closed) add(work, work->out->too_small, since, fits < now ? fits : now, size);
}

static bool is_in_use(const replay *work, int64_t begin) { return begin >= 0 && work->ranges[begin].state == IN_USE; }

/* The range that ends at this place; -1: none is known. */
static int64_t left_of(const replay *work, int64_t place) {
  int64_t begin = place ? fp_number_set_upto(&work->begins, (size_t)place - 1) : -1;
  return begin >= 0 && work->ranges[begin].end == place ? begin : -1;
}

/* The range that begins at this place; -1: none is known. */
static int64_t right_of(const replay *work, int64_t place) {
  return fp_number_set_has(&work->begins, (size_t)place) ? place : -1;
}

/* Whether memory in use lies on both sides of a free range. */
static void see_whether_closed(const replay *work, int64_t begin) {
  if (begin < 0 || work->ranges[begin].state != FREE) return;
  range *chunk = &work->ranges[begin];
  chunk->closed = is_in_use(work, left_of(work, begin)) && is_in_use(work, right_of(work, chunk->end));
}

/* Cuts away everything between two places. A range that reaches in from either side keeps its rest. Free ranges that
 * are cut, or that end here, are counted first.
 *
 *    before   |  A  |  B  |   C    |         clear from the middle of A to the middle of C:
 *    after    | A|           | C   |         B is gone; the rest of C becomes a range of its own (`tail`)
 */
static void clear(replay *work, int64_t begin, int64_t end, size_t now) {
  int64_t before = begin ? fp_number_set_upto(&work->begins, (size_t)begin - 1) : -1;
  range tail = {0};
  if (before >= 0 && work->ranges[before].end >= begin) {
    count_until(work, before, now);
    if (work->ranges[before].end > end) tail = work->ranges[before];
    work->ranges[before].end = (int32_t)begin;
  }
  int64_t next = fp_number_set_from(&work->begins, (size_t)begin);
  for (; next >= 0 && next < end; next = fp_number_set_from(&work->begins, (size_t)next)) {
    count_until(work, next, now);
    if (work->ranges[next].end > end) tail = work->ranges[next];
    fp_number_set_remove(&work->begins, (size_t)next);
  }
  if (next == end) count_until(work, next, now);
  if (tail.end > end) {
    work->ranges[end] = tail;
    fp_number_set_add(&work->begins, (size_t)end);
  }
}

/* Sets the state of everything between two places. Free ranges on either side are joined with it. */
static void paint(replay *work, int64_t begin, int64_t end, enum state state, size_t now) {
  clear(work, begin, end, now);
  int64_t left = left_of(work, begin), right = right_of(work, end);
  if (state == FREE && right >= 0 && work->ranges[right].state == FREE) {
    fp_number_set_remove(&work->begins, (size_t)right);
    end = work->ranges[right].end;
  }
  if (state == FREE && left >= 0 && work->ranges[left].state == FREE) begin = left;
  work->ranges[begin] = (range){(int32_t)end, (int32_t)now, (uint8_t)state, 0};
  fp_number_set_add(&work->begins, (size_t)begin);
  see_whether_closed(work, begin);
  if (state == FREE) return; /* what was free beside it is part of it */
  see_whether_closed(work, left);
  see_whether_closed(work, right);
}

/* First what was in use before the trace, then the events, then the counts of what is still free. */
static void run_through(replay *work) {
  const fp_chunk_events *events = work->events;
  for (size_t row = work->first; row < work->last; row++) {
    int32_t number = work->number[row - work->first];
    if (number >= 0 && !events->is_allocation[row] && events->held_before[row])
      paint(work, work->begin[number], work->end[number], IN_USE, work->first);
  }
  for (size_t row = work->first; row < work->last; row++) {
    int32_t number = work->number[row - work->first];
    enum state state = events->is_allocation[row] ? IN_USE : FREE;
    if (number >= 0) paint(work, work->begin[number], work->end[number], state, row);
  }
  int64_t begin = work->place_count ? fp_number_set_from(&work->begins, 0) : -1;
  while (begin >= 0) {
    count_until(work, begin, work->last);
    begin = fp_number_set_from(&work->begins, (size_t)begin + 1);
  }
}

/* Turns the differences of a column into sums. */
static void sum_up(const replay *work, int64_t *column) {
  for (size_t row = work->first + 1; row < work->last; row++)
    column[row] = (int64_t)((uint64_t)column[row] + (uint64_t)column[row - 1]);
}

/* One allocator. Fails only when memory runs out. */
static bool replay_one(fp_memory *memory, const fp_chunk_events *events, const fp_chunk_sums *out, size_t allocator) {
  size_t first = (size_t)events->bounds[allocator], last = (size_t)events->bounds[allocator + 1];
  replay work = {.events = events, .out = out, .first = first, .last = last};
  bool ok = find_requests(memory, &work) && find_places(memory, &work);
  if (ok) {
    work.ranges = fp_alloc(memory, (work.place_count + 1) * sizeof *work.ranges);
    ok = work.ranges && fp_number_set_open(memory, &work.begins, work.place_count + 1);
  }
  int64_t *columns[] = {out->bytes, out->chunks, out->fitting, out->too_small};
  if (ok) {
    for (size_t i = 0; i < 4; i++)
      for (size_t row = first; row < last; row++) columns[i][row] = 0;
    run_through(&work);
    for (size_t i = 0; i < 4; i++) sum_up(&work, columns[i]);
  }
  fp_release(memory, work.requests);
  fp_release(memory, work.number);
  fp_release(memory, work.begin);
  fp_release(memory, work.end);
  fp_release(memory, work.address);
  fp_release(memory, work.ranges);
  fp_number_set_close(memory, &work.begins);
  return ok;
}

fp_code fp_known_chunks(fp_memory *memory, const fp_chunk_events *events, const fp_chunk_sums *out) {
  for (size_t allocator = 0; allocator < events->allocator_count; allocator++)
    if (!replay_one(memory, events, out, allocator)) return FP_NO_MEMORY;
  return FP_OK;
}
