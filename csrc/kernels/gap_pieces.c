/* One walk over the stretches of a device, which are cut at the bounds of what goes on meanwhile. Places in what the host
 * does, in what other devices do and in the steps move along. Neighbours of equal cause and step are one piece. */
#include "kernels/gap_pieces.h"

#include "time_sums.h"

typedef struct walk {
  const fp_device_gaps *of;
  fp_memory *memory;
  fp_vector *gaps;
  size_t step, busy; /* the bounds before these are not after `now`: 2 * number for a begin, one more for an end */
  int64_t clock;     /* the latest time of the host at which a stretch began */
  /* the present stretch */
  size_t at;
  int32_t state;
  int64_t begin, end, ahead;
  enum fp_device_kind kind;
  int64_t host;      /* the piece of the host's time at hand, -1: before all */
  int64_t host_cut;  /* the next piece of the host's time that may cut; not if it begins at `host_end` or later */
  int64_t host_end;
  /* of this idle stretch, when the call begins and returns that launches the work after it; INT64_MAX: unknown */
  int64_t launched, returned;
  fp_gap *gap;     /* the latest piece of this stretch, NULL: none yet */
  int64_t longest; /* of its parts */
} walk;

/* The last piece of the host's time that begins before or at a time, -1: none does. `guess`: one that is near. */
static int64_t host_at(const fp_device_gaps *of, int64_t guess, int64_t time) {
  int64_t low = -1, high = (int64_t)of->host_count - 1; /* the answer is from low to high */
  if (guess >= 0 && of->host[guess].begin <= time) low = guess;
  for (int64_t step = 1; low + step <= high; step *= 2) {
    if (of->host[low + step].begin > time) {
      high = low + step - 1;
      break;
    }
    low += step;
  }
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (of->host[middle].begin <= time)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

static int64_t by_host(const fp_device_gaps *of, size_t stretch) {
  return fp_time_sum(of->begin[stretch], of->ahead ? of->ahead[stretch] : 0);
}

/* Finds the pieces of the host's time that cut a stretch. Where clocks drift, two stretches may overlap by the host's
 * clock: what begins there cuts the later one. */
static void enter_host(walk *w) {
  const fp_device_gaps *of = w->of;
  int64_t begin = by_host(of, w->at);
  w->host = host_at(of, w->host, begin);
  w->host_cut = host_at(of, w->host, begin < w->clock ? w->clock - 1 : begin) + 1;
  w->host_end = fp_time_sum(w->end, w->ahead);
  if (w->at + 1 == of->count) return;
  int64_t next = by_host(of, w->at + 1);
  if (next < w->clock) next = w->clock;
  if (next < w->host_end) w->host_end = next;
}

static void enter(walk *w, size_t at) {
  const fp_device_gaps *of = w->of;
  w->at = at;
  w->state = of->state[at];
  w->begin = of->begin[at];
  w->end = at + 1 < of->count ? of->begin[at + 1] : of->last;
  w->ahead = of->ahead ? of->ahead[at] : 0;
  w->gap = NULL;
  w->kind = w->state == FP_STATE_COMPUTES ? FP_COMPUTES
            : w->state == FP_STATE_IDLE   ? FP_IDLE
                                          : (enum fp_device_kind)of->kind[w->state];
  bool waits = of->launched && w->kind == FP_IDLE;
  w->launched = waits ? of->launched[at] : INT64_MAX;
  w->returned = waits ? of->returned[at] : INT64_MAX;
  if (!at || by_host(of, at) > w->clock) w->clock = by_host(of, at);
  if (w->kind >= FP_DEVICE_WAITS) enter_host(w);
}

/* ---- cuts ---- */

/* When a piece of the host's time begins, by the clock of the device. */
static int64_t host_begin(const walk *w, int64_t piece) {
  int64_t time;
  return __builtin_sub_overflow(w->of->host[piece].begin, w->ahead, &time) ? INT64_MAX : time;
}

static int64_t sooner(int64_t until, bool has, int64_t bound) { return has && bound < until ? bound : until; }

/* Moves on to `now`, and finds the next time at which anything changes. */
static int64_t next_cut(walk *w, int64_t now) {
  const fp_device_gaps *of = w->of;
  while (w->step < 2 * of->step_count && of->steps[w->step] <= now) w->step++;
  while (w->busy < 2 * of->busy_count && of->busy[w->busy] <= now) w->busy++;
  int64_t until = w->end;
  if (w->kind == FP_IDLE && w->busy < 2 * of->busy_count) until = sooner(until, true, of->busy[w->busy]);
  until = sooner(until, w->step < 2 * of->step_count, of->steps[w->step < 2 * of->step_count ? w->step : 0]);
  until = sooner(until, w->launched > now, w->launched);
  until = sooner(until, w->returned > now, w->returned);
  if (w->kind < FP_DEVICE_WAITS) return until;
  w->host = host_at(of, w->host, fp_time_sum(now, w->ahead));
  while (w->host_cut < (int64_t)of->host_count && host_begin(w, w->host_cut) <= now) w->host_cut++;
  if (w->host_cut == (int64_t)of->host_count || of->host[w->host_cut].begin >= w->host_end) return until;
  return sooner(until, true, host_begin(w, w->host_cut));
}

/* ---- causes ---- */

/* Whether a part of idle time that begins so late has to wait for other devices, if these work. */
static bool others_work(const walk *w, int64_t since) {
  return w->kind == FP_IDLE && w->busy % 2 && fp_time_between(since, w->end) > w->of->latency;
}

/* The cause of time from the begin of the call on that launches the next work. */
static int32_t cause_of_launched(const walk *w, int64_t begin) {
  const fp_device_gaps *of = w->of;
  if (begin < w->returned) {
    int64_t call = of->launch_row[w->at];
    bool copies = call >= 0 && of->cause_of_code[of->codes[call]] == of->causes.transfer;
    return copies ? of->causes.transfer : of->causes.launch;
  }
  int64_t since = w->returned > w->begin ? w->returned : w->begin;
  if (others_work(w, since)) return of->causes.straggler;
  if (fp_time_between(since, w->end) > of->latency) return of->causes.queue;
  return w->returned > w->begin ? of->causes.launch : of->causes.between;
}

/* The cause of a part of idle time or of a wait, up to `end`, in which the host's code is given. */
static int32_t cause_of(const walk *w, uint8_t code, int64_t end) {
  const fp_device_gaps *of = w->of;
  int32_t cause = of->cause_of_code[code];
  if (cause == of->causes.none) {
    bool begins_late = code == of->waits && !of->launched && end < of->last_work;
    cause = others_work(w, w->begin) ? of->causes.straggler : begins_late ? of->causes.launch : of->causes.idle;
  }
  bool vague = cause == of->causes.idle || cause == of->causes.launch;
  return w->kind == FP_DEVICE_WAITS && vague ? of->cause_of_wait[w->state] : cause;
}

/* A part of the present stretch from `begin` to `end`. */
static fp_gap part(const walk *w, int64_t begin, int64_t end) {
  const fp_device_gaps *of = w->of;
  fp_gap one = {begin, end, -1, w->step % 2 ? (int32_t)of->step_group[w->step / 2] : -1, w->state < 0 ? -1 : w->state, 0,
                (int32_t)w->kind};
  if (w->kind < FP_DEVICE_WAITS) {
    one.cause = w->kind == FP_COMPUTES ? of->causes.none
                : w->kind == FP_COPIES ? of->causes.transfer
                                       : of->causes.communication;
    return one;
  }
  int64_t row = w->host < 0 ? -1 : of->host[w->host].label;
  uint8_t code = row < 0 ? 0 : of->codes[row];
  if (begin >= w->launched) {
    one.cause = cause_of_launched(w, begin);
    bool is_host = begin < w->returned || one.cause == of->causes.launch;
    one.row = is_host ? of->launch_row[w->at] : of->work_row[w->at];
    return one;
  }
  one.cause = cause_of(w, code, end);
  if (of->cause_of_code[code] == one.cause || code == of->waits)
    one.row = row;
  return one;
}

/* Appends a part, or extends the latest piece by it. Of the parts of a piece the longest one says what explains it. */
static bool add(walk *w, fp_gap one) {
  int64_t length = fp_time_between(one.begin, one.end);
  if (w->gap && w->gap->cause == one.cause && w->gap->group == one.group) {
    w->gap->end = one.end;
    if (length <= w->longest) return true;
    w->gap->row = one.row;
  } else {
    w->gap = fp_vector_add(w->memory, w->gaps, sizeof one);
    if (!w->gap) return false;
    *w->gap = one;
  }
  w->longest = length;
  return true;
}

fp_code fp_gap_pieces(fp_memory *memory, const fp_device_gaps *of, fp_vector *gaps) {
  walk w = {.of = of, .memory = memory, .gaps = gaps, .host = -1};
  for (size_t at = 0; at < of->count; at++) {
    enter(&w, at);
    for (int64_t now = w.begin, next; now < w.end; now = next) {
      next = next_cut(&w, now);
      if (!add(&w, part(&w, now, next))) return FP_NO_MEMORY;
    }
  }
  return FP_OK;
}
