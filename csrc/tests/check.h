/* Assertions for tests and fuzz targets: a failure says where and what, and ends the program. */
#ifndef FASTPROF_CHECK_H
#define FASTPROF_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Not assert(): tests are also built with NDEBUG. abort() is what sanitizers and fuzzers report. */
#define CHECK(condition)                                                               \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      fprintf(stderr, "%s:%d: in %s: %s\n", __FILE__, __LINE__, __func__, #condition); \
      abort();                                                                         \
    }                                                                                  \
  } while (0)

/* The same for two integers, of any type; a failure shows both. */
#define CHECK_INT(found, wanted)                                                                                \
  do {                                                                                                          \
    int64_t found_ = (int64_t)(found), wanted_ = (int64_t)(wanted);                                             \
    if (found_ != wanted_) {                                                                                    \
      fprintf(stderr, "%s:%d: in %s: %s is %" PRId64 ", not %" PRId64 "\n", __FILE__, __LINE__, __func__, #found, \
              found_, wanted_);                                                                                 \
      abort();                                                                                                  \
    }                                                                                                           \
  } while (0)

/* Runs a test. Its name is a sentence that says which behaviour it shows. */
#define RUN(test)                \
  do {                           \
    test();                      \
    printf("  ok  %s\n", #test); \
  } while (0)

#endif
