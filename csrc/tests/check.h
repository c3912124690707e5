/* Assertions for tests and fuzz targets: a failure says where and what, and ends the program. */
#ifndef FASTPROF_CHECK_H
#define FASTPROF_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                               \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      fprintf(stderr, "%s:%d: in %s: %s\n", __FILE__, __LINE__, __func__, #condition); \
      abort();                                                                         \
    }                                                                                  \
  } while (0)

#define CHECK_INT(found, wanted)                                                                                \
  do {                                                                                                          \
    int64_t found_ = (int64_t)(found), wanted_ = (int64_t)(wanted);                                             \
    if (found_ != wanted_) {                                                                                    \
      fprintf(stderr, "%s:%d: in %s: %s is %" PRId64 ", not %" PRId64 "\n", __FILE__, __LINE__, __func__, #found, \
              found_, wanted_);                                                                                 \
      abort();                                                                                                  \
    }                                                                                                           \
  } while (0)

/* Runs a test, which is named after what it shows. */
#define RUN(test)                \
  do {                           \
    test();                      \
    printf("  ok  %s\n", #test); \
  } while (0)

#endif
