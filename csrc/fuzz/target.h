/* A fuzz target: one property that must hold for any bytes. */
#ifndef FASTPROF_TARGET_H
#define FASTPROF_TARGET_H

#include "tests/check.h"
#include "tests/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The random choices of a target. They follow from the last bytes of its input, so a failing input fails again. */
static inline dice dice_of(const uint8_t *data, size_t size) {
  size_t taken = size < 16 ? size : 16;
  dice d = {size};
  for (size_t i = size - taken; i < size; i++) d.state = (d.state ^ data[i]) * UINT64_C(0x100000001B3);
  roll(&d);
  return d;
}

#endif
