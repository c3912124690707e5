/* Sums of time by name: which name leads, and that a run leaves nothing for the next. */
#include "kernels/name_times.h"

#include "tests/check.h"

static void the_name_with_most_time_leads_and_all_is_forgotten(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_name_times times = {.memory = &memory};
  CHECK(fp_name_times_reserve(&times, 3));
  fp_name_time each[3];
  for (int round = 0; round < 2; round++) {
    fp_name_times_add(&times, 2, 5);
    fp_name_times_add(&times, 0, 3);
    fp_name_times_add(&times, 2, 0);
    fp_name_times_add(&times, 0, 4);
    CHECK_INT(times.met, 2);
    CHECK_INT(fp_name_times_take(&times, each), 0);
    CHECK(each[0].name == 2 && each[0].time == 5 && each[1].name == 0 && each[1].time == 7);
  }
  CHECK_INT(times.met, 0);
  CHECK(fp_name_times_reserve(&times, 2) && times.room == 3 && fp_name_times_reserve(&times, 9) && times.room == 9);
  fp_name_times_free(&times);
  fp_name_times_free(&times);
  CHECK_INT(memory.live, 0);
}

static void of_equal_times_the_smaller_number_leads(void) {
  fp_memory memory;
  fp_memory_init(&memory);
  fp_name_times times = {.memory = &memory};
  CHECK(fp_name_times_reserve(&times, 5));
  fp_name_times_add(&times, 4, 0);
  fp_name_times_add(&times, 3, 0);
  CHECK_INT(fp_name_times_take(&times, NULL), 3);
  fp_name_times_add(&times, 4, 0);
  CHECK_INT(fp_name_times_take(&times, NULL), 4);
  fp_name_times_free(&times);
}

static void without_memory_what_was_there_stays(void) {
  for (int64_t allowed = 2; allowed < 4; allowed++) {
    fp_memory memory;
    fp_memory_init(&memory);
    memory.countdown = allowed;
    fp_name_times times = {.memory = &memory};
    CHECK(fp_name_times_reserve(&times, 2) && !fp_name_times_reserve(&times, 20));
    fp_name_times_add(&times, 1, 8);
    CHECK_INT(fp_name_times_take(&times, NULL), 1);
    fp_name_times_free(&times);
    CHECK_INT(memory.live, 0);
  }
}

int main(void) {
  RUN(the_name_with_most_time_leads_and_all_is_forgotten);
  RUN(of_equal_times_the_smaller_number_leads);
  RUN(without_memory_what_was_there_stays);
  return 0;
}
