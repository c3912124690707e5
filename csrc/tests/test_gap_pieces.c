/* Pieces against asking for each picosecond, on short random devices; examples of what cuts them; and their sums. */
#include "kernels/gap_sums.h"
#include "tests/check.h"
#include "tests/message.h"

enum { MOST = 12, RANGE = 60, NONE = 9, IDLE = 0, LAUNCH = 1, STRAGGLER = 2, COMMUNICATION = 3, TRANSFER = 4, INFEED = 5,
       QUEUE = 7, BETWEEN = 8 };
static const fp_gap_causes CAUSES = {NONE, IDLE, LAUNCH, STRAGGLER, COMMUNICATION, TRANSFER, QUEUE, BETWEEN};
static const uint8_t KINDS[] = {FP_COMMUNICATES, FP_COPIES, FP_DEVICE_WAITS};
static const int32_t OF_WAIT[] = {0, 0, INFEED};
static const uint8_t CODES[] = {0, 1, 2, 3, 4}; /* of rows: nothing; code 1; a launch; the host waits; a copy */
static const int64_t CALLS[] = {-1, 2, 4};     /* rows of calls that launch */
enum { WAITS = 3 };

/* A device with all that its pieces are made of. */
typedef struct device {
  int64_t begin[MOST], ahead[MOST], launched[MOST], returned[MOST], row[MOST], work[MOST], busy[2 * MOST], steps[2 * MOST], group[MOST];
  int32_t state[MOST], of_code[256];
  fp_piece host[4 * MOST];
  fp_device_gaps of;
} device;

static void device_make(device *d) {
  memset(d, 0, sizeof *d);
  for (int code = 0; code < 256; code++) d->of_code[code] = NONE;
  d->of_code[1] = 6;
  d->of_code[2] = LAUNCH;
  d->of_code[4] = TRANSFER;
  d->of = (fp_device_gaps){.begin = d->begin, .state = d->state, .kind = KINDS, .cause_of_wait = OF_WAIT, .host = d->host,
                           .codes = CODES, .cause_of_code = d->of_code, .waits = WAITS, .busy = d->busy, .steps = d->steps,
                           .step_group = d->group, .latency = 4, .causes = CAUSES};
}

/* Ascending bounds with at least `least` between two. */
static size_t rising(int64_t *bounds, size_t most, int64_t least, dice *chance) {
  int64_t at = (int64_t)roll_below(chance, 8);
  size_t count = 0;
  for (; count < most && at < RANGE; count++) {
    bounds[count] = at;
    at += least + (int64_t)roll_below(chance, 9);
  }
  return count;
}

static void device_roll(device *d, dice *chance) {
  int64_t host[4 * MOST];
  device_make(d);
  d->of.count = rising(d->begin, MOST, 1, chance);
  d->of.last = d->of.count ? d->begin[d->of.count - 1] + 9 : 0;
  d->of.last_work = (int64_t)roll_below(chance, RANGE);
  d->of.host_count = rising(host, 4 * MOST, 1, chance);
  d->of.busy_count = rising(d->busy, 2 * MOST, 1, chance) / 2;
  d->of.step_count = rising(d->steps, 2 * MOST, 0, chance) / 2;
  for (size_t i = 0; i < d->of.host_count; i++)
    d->host[i] = (fp_piece){host[i], 0, (int64_t)roll_below(chance, 5) - 1};
  for (size_t i = 0; i < d->of.step_count; i++) d->group[i] = (int64_t)i + 20;
  bool is_gpu = roll_below(chance, 2);
  for (size_t i = 0; i < d->of.count; i++) {
    d->state[i] = (int32_t)roll_below(chance, 5) - 2;
    d->ahead[i] = 3;
    d->launched[i] = roll_below(chance, 2) ? INT64_MAX : d->begin[i] + (int64_t)roll_below(chance, 12) - 4;
    d->returned[i] = d->launched[i] == INT64_MAX ? INT64_MAX : d->launched[i] + (int64_t)roll_below(chance, 6);
    d->row[i] = CALLS[roll_below(chance, 3)];
    d->work[i] = 0;
  }
  if (is_gpu) d->of.launched = d->launched, d->of.returned = d->returned, d->of.launch_row = d->row, d->of.work_row = d->work;
  if (!is_gpu) d->of.ahead = d->ahead;
}

/* How many of some bounds are not after a time. */
static size_t passed(const int64_t *bounds, size_t count, int64_t time) {
  size_t found = 0;
  while (found < count && bounds[found] <= time) found++;
  return found;
}

static int64_t row_at(const device *d, int64_t time) {
  int64_t row = -1;
  for (size_t i = 0; i < d->of.host_count && d->host[i].begin <= time; i++) row = d->host[i].label;
  return row;
}

/* The cause at a time of a part that ends at `end`. */
static int32_t cause_at(const device *d, int64_t time, int64_t end, bool launch_may_wait) {
  size_t at = passed(d->begin, d->of.count, time) - 1;
  int32_t state = d->state[at];
  if (state == FP_STATE_COMPUTES || state == 0 || state == 1)
    return state == FP_STATE_COMPUTES ? NONE : state ? TRANSFER : COMMUNICATION;
  int64_t until = at + 1 < d->of.count ? d->begin[at + 1] : d->of.last, row = row_at(d, time + (d->of.ahead ? 3 : 0));
  uint8_t code = row < 0 ? 0 : CODES[row];
  bool busy = passed(d->busy, 2 * d->of.busy_count, time) % 2 && state == FP_STATE_IDLE;
  if (d->of.launched && state == FP_STATE_IDLE && time >= d->launched[at]) {
    int64_t call = d->row[at], returned = d->returned[at];
    if (time < returned) return call == 4 ? TRANSFER : LAUNCH;
    bool before = returned <= d->begin[at];
    bool soon = until - (before ? d->begin[at] : returned) <= 4;
    return soon ? before ? BETWEEN : LAUNCH : busy ? STRAGGLER : QUEUE;
  }
  int32_t cause = d->of_code[code];
  if (cause == NONE) {
    bool late = code == WAITS && launch_may_wait && end < d->of.last_work;
    cause = busy && until - d->begin[at] > 4 ? STRAGGLER : late ? LAUNCH : IDLE;
  }
  return state == 2 && (cause == IDLE || cause == LAUNCH) ? INFEED : cause;
}

static void each_picosecond_has_its_cause(void) {
  dice chance = {5};
  for (int round = 0; round < 2000; round++) {
    device d;
    fp_memory memory;
    fp_vector gaps = {0};
    fp_memory_init(&memory);
    device_roll(&d, &chance);
    /* what depends on cuts is looked at in the examples: the end of the last work */
    d.of.last_work = INT64_MIN;
    CHECK(fp_gap_pieces(&memory, &d.of, &gaps) == FP_OK);
    const fp_gap *items = gaps.items;
    int64_t time = d.of.count ? d.begin[0] : 0;
    for (size_t i = 0; i < gaps.count; i++) {
      CHECK_INT(items[i].begin, time);
      CHECK(items[i].end > time);
      size_t at = passed(d.begin, d.of.count, time) - 1;
      CHECK_INT(items[i].transfer, d.state[at] < 0 ? -1 : d.state[at]);
      for (; time < items[i].end; time++) {
        size_t step = passed(d.steps, 2 * d.of.step_count, time);
        CHECK_INT(items[i].group, step % 2 ? d.group[step / 2] : -1);
        CHECK_INT(cause_at(&d, time, 0, false), items[i].cause);
      }
      CHECK(i == 0 || items[i].begin == d.begin[at] || items[i].cause != items[i - 1].cause ||
            items[i].group != items[i - 1].group);
    }
    CHECK_INT(time, d.of.count ? d.of.last : 0);
    fp_vector_free(&memory, &gaps);
    CHECK_INT(memory.live, 0);
  }
}

/* ---- examples ---- */

static void check_gaps(const device *d, const fp_gap *wanted, size_t count) {
  fp_memory memory;
  fp_vector gaps = {0};
  fp_memory_init(&memory);
  CHECK(fp_gap_pieces(&memory, &d->of, &gaps) == FP_OK);
  CHECK_INT(gaps.count, count);
  for (size_t i = 0; i < count; i++) {
    const fp_gap *one = (fp_gap *)gaps.items + i;
    CHECK_INT(one->begin, wanted[i].begin);
    CHECK_INT(one->end, wanted[i].end);
    CHECK_INT(one->row, wanted[i].row);
    CHECK_INT(one->group, wanted[i].group);
    CHECK_INT(one->transfer, wanted[i].transfer);
    CHECK_INT(one->cause, wanted[i].cause);
    CHECK_INT(one->kind, wanted[i].kind);
  }
  fp_vector_free(&memory, &gaps);
}

/* A device that is idle from 10 to 50, between two computations. */
static void idle_between(device *d) {
  device_make(d);
  d->begin[1] = 10;
  d->begin[2] = 50;
  d->state[0] = d->state[2] = FP_STATE_COMPUTES;
  d->state[1] = FP_STATE_IDLE;
  d->of.count = 3;
  d->of.last = d->of.last_work = 60;
}

static void idle_time_is_cut_by_the_host_and_by_steps(void) {
  device d;
  idle_between(&d);
  d.host[0] = (fp_piece){5, 20, 1};
  d.host[1] = (fp_piece){20, 26, 0}; /* nothing: as long as the device is idle, unexplained */
  d.host[2] = (fp_piece){26, 99, 3};
  d.of.host_count = 3;
  d.steps[0] = 0;
  d.steps[1] = d.steps[2] = 15;
  d.steps[3] = 40;
  d.group[0] = 7;
  d.group[1] = 8;
  d.of.step_count = 2;
  const fp_gap wanted[] = {
      {0, 10, -1, 7, -1, NONE, FP_COMPUTES}, {10, 15, 1, 7, -1, 6, FP_IDLE},       {15, 20, 1, 8, -1, 6, FP_IDLE},
      {20, 26, -1, 8, -1, IDLE, FP_IDLE},    {26, 40, 3, 8, -1, LAUNCH, FP_IDLE},  {40, 50, 3, -1, -1, LAUNCH, FP_IDLE},
      {50, 60, -1, -1, -1, NONE, FP_COMPUTES}};
  check_gaps(&d, wanted, 7);
  d.of.last_work = 10; /* the host waits for work that never comes */
  const fp_gap silent[] = {
      {0, 10, -1, 7, -1, NONE, FP_COMPUTES}, {10, 15, 1, 7, -1, 6, FP_IDLE},       {15, 20, 1, 8, -1, 6, FP_IDLE},
      {20, 40, 3, 8, -1, IDLE, FP_IDLE},     {40, 50, 3, -1, -1, IDLE, FP_IDLE},   {50, 60, -1, -1, -1, NONE, FP_COMPUTES}};
  check_gaps(&d, silent, 6); /* of one cause, the longer part says which row explains it */
}

static void work_that_waits_after_its_launch_is_not_the_hosts(void) {
  device d;
  idle_between(&d);
  d.host[0] = (fp_piece){0, 99, 1};
  d.of.host_count = 1;
  d.launched[0] = d.launched[2] = d.returned[0] = d.returned[2] = INT64_MAX;
  d.launched[1] = 25;
  d.returned[1] = 30;
  d.row[1] = 2;
  d.work[1] = 0;
  d.of.launched = d.launched;
  d.of.returned = d.returned;
  d.of.launch_row = d.row;
  d.of.work_row = d.work;
  fp_gap wanted[] = {{0, 10, -1, -1, -1, NONE, FP_COMPUTES},
                     {10, 25, 1, -1, -1, 6, FP_IDLE},
                     {25, 30, 2, -1, -1, LAUNCH, FP_IDLE},
                     {30, 50, 0, -1, -1, QUEUE, FP_IDLE},
                     {50, 60, -1, -1, -1, NONE, FP_COMPUTES}};
  check_gaps(&d, wanted, 5);
  d.of.latency = 20; /* it begins as soon as it can */
  wanted[2].end = 50;
  wanted[3] = wanted[4];
  check_gaps(&d, wanted, 4);
  d.of.latency = 19;
  d.launched[1] = d.returned[1] = INT64_MIN; /* launched while the device worked */
  const fp_gap queued[] = {{0, 10, -1, -1, -1, NONE, FP_COMPUTES},
                           {10, 50, 0, -1, -1, QUEUE, FP_IDLE},
                           {50, 60, -1, -1, -1, NONE, FP_COMPUTES}};
  check_gaps(&d, queued, 3);
  d.of.latency = 40;
  const fp_gap soon[] = {{0, 10, -1, -1, -1, NONE, FP_COMPUTES},
                         {10, 50, 0, -1, -1, BETWEEN, FP_IDLE},
                         {50, 60, -1, -1, -1, NONE, FP_COMPUTES}};
  check_gaps(&d, soon, 3);
}

static void where_clocks_drift_a_piece_of_the_host_cuts_one_stretch(void) {
  device d;
  idle_between(&d);
  d.state[2] = FP_STATE_IDLE; /* idle until 60; in the last stretch the clock of the host is less ahead */
  d.ahead[0] = d.ahead[1] = 100;
  d.ahead[2] = 90;
  d.of.ahead = d.ahead;
  d.host[0] = (fp_piece){110, 145, 1};
  d.host[1] = (fp_piece){145, 200, 2};
  d.of.host_count = 2;
  const fp_gap wanted[] = {{0, 10, -1, -1, -1, NONE, FP_COMPUTES},
                           {10, 50, 1, -1, -1, 6, FP_IDLE},
                           {50, 55, 1, -1, -1, 6, FP_IDLE},
                           {55, 60, 2, -1, -1, LAUNCH, FP_IDLE}};
  check_gaps(&d, wanted, 4);
}

static void other_devices_explain_what_the_host_does_not(void) {
  device d;
  idle_between(&d);
  d.busy[0] = 20;
  d.busy[1] = 30;
  d.of.busy_count = 1;
  const fp_gap wanted[] = {{0, 10, -1, -1, -1, NONE, FP_COMPUTES},
                           {10, 20, -1, -1, -1, IDLE, FP_IDLE},
                           {20, 30, -1, -1, -1, STRAGGLER, FP_IDLE},
                           {30, 50, -1, -1, -1, IDLE, FP_IDLE},
                           {50, 60, -1, -1, -1, NONE, FP_COMPUTES}};
  check_gaps(&d, wanted, 5);
  d.busy[0] = 5; /* they began before */
  const fp_gap longer[] = {{0, 10, -1, -1, -1, NONE, FP_COMPUTES},
                           {10, 30, -1, -1, -1, STRAGGLER, FP_IDLE},
                           {30, 50, -1, -1, -1, IDLE, FP_IDLE},
                           {50, 60, -1, -1, -1, NONE, FP_COMPUTES}};
  check_gaps(&d, longer, 4);
  d.of.latency = 40;
  const fp_gap alone[] = {{0, 10, -1, -1, -1, NONE, FP_COMPUTES},
                          {10, 50, -1, -1, -1, IDLE, FP_IDLE},
                          {50, 60, -1, -1, -1, NONE, FP_COMPUTES}};
  check_gaps(&d, alone, 3);
}

/* ---- sums ---- */

static void sums_are_those_of_step_kind_and_cause(void) {
  const fp_gap gaps[] = {{0, 10, 1, 7, -1, 6, FP_IDLE},  {10, 13, -1, 7, -1, NONE, FP_COMPUTES},
                         {13, 17, 0, 7, -1, 6, FP_IDLE}, {17, 23, 0, 7, -1, 6, FP_IDLE},
                         {23, 25, -1, 8, 1, 6, FP_IDLE}, {25, 27, 2, 8, 1, 6, FP_IDLE}};
  const int32_t names[] = {3, 4, -1};
  const fp_gap_sum wanted[] = {{7, FP_IDLE, 6, 4, 20, 20, 3, 10, 0}, /* two names explain 10 each: the higher number */
                               {7, FP_COMPUTES, NONE, -1, 3, 0, 1, 3, 10},
                               {8, FP_IDLE, 6, 6, 4, 2, 2, 2, 23}}; /* the transfer, as high as the names are many */
  for (int after = -1; after < 16; after++) {
    fp_memory memory;
    fp_vector sums = {0};
    fp_memory_init(&memory);
    memory.countdown = after;
    fp_code code = fp_gap_sums(&memory, gaps, 6, names, 5, &sums);
    CHECK(code == FP_OK || (code == FP_NO_MEMORY && after >= 0 && after < 8));
    if (code == FP_OK) {
      CHECK_INT(sums.count, 3);
      CHECK(!memcmp(sums.items, wanted, sizeof wanted));
    }
    fp_vector_free(&memory, &sums);
    CHECK_INT(memory.live, 0);
  }
}

static void many_sums_are_found_again(void) {
  enum { COUNT = 3000, DISTINCT = 700 };
  static fp_gap gaps[COUNT];
  const int32_t names[] = {0, 1, 2, 3, 4};
  fp_memory memory;
  fp_vector sums = {0};
  fp_memory_init(&memory);
  for (int i = 0; i < COUNT; i++)
    gaps[i] = (fp_gap){i, i + 1 + i % 2, i % 5, i % DISTINCT, -1, i % 2, FP_IDLE};
  CHECK(fp_gap_sums(&memory, gaps, COUNT, names, 5, &sums) == FP_OK);
  CHECK_INT(sums.count, DISTINCT);
  for (int i = 0; i < DISTINCT; i++) {
    const fp_gap_sum *one = (fp_gap_sum *)sums.items + i;
    int64_t count = (COUNT - i + DISTINCT - 1) / DISTINCT;
    CHECK_INT(one->group, i);
    CHECK_INT(one->count, count);
    CHECK_INT(one->time, count * (1 + i % 2));
    CHECK_INT(one->longest_begin, i);
    CHECK_INT(one->what, i % 5);
  }
  fp_vector_free(&memory, &sums);
  CHECK_INT(memory.live, 0);
}

static void times_beyond_64_bits_are_refused(void) {
  const fp_gap gaps[] = {{INT64_MIN, 0, -1, 7, -1, 6, FP_IDLE}};
  const fp_gap twice[] = {{0, INT64_MAX, -1, 7, -1, 6, FP_IDLE}, {0, INT64_MAX, -1, 7, -1, 6, FP_IDLE}};
  fp_memory memory;
  fp_vector sums = {0};
  fp_memory_init(&memory);
  CHECK(fp_gap_sums(&memory, gaps, 1, NULL, 5, &sums) == FP_OVERFLOW);
  fp_vector_free(&memory, &sums);
  CHECK(fp_gap_sums(&memory, twice, 2, NULL, 5, &sums) == FP_OVERFLOW);
  fp_vector_free(&memory, &sums);
  CHECK_INT(memory.live, 0);
}

static void memory_that_runs_out_is_said(void) {
  device d;
  fp_memory memory;
  fp_vector gaps = {0};
  fp_memory_init(&memory);
  memory.countdown = 0;
  idle_between(&d);
  CHECK(fp_gap_pieces(&memory, &d.of, &gaps) == FP_NO_MEMORY);
  fp_vector_free(&memory, &gaps);
  CHECK_INT(memory.live, 0);
}

int main(void) {
  RUN(each_picosecond_has_its_cause);
  RUN(idle_time_is_cut_by_the_host_and_by_steps);
  RUN(work_that_waits_after_its_launch_is_not_the_hosts);
  RUN(where_clocks_drift_a_piece_of_the_host_cuts_one_stretch);
  RUN(other_devices_explain_what_the_host_does_not);
  RUN(sums_are_those_of_step_kind_and_cause);
  RUN(many_sums_are_found_again);
  RUN(times_beyond_64_bits_are_refused);
  RUN(memory_that_runs_out_is_said);
  return 0;
}
