/* A stat that was picked by its name: the row of its event, the caller's number for the name, and the value: an
 * integer, the bits of a double, the index of a text, or the length of bytes. */
#ifndef FASTPROF_PICK_H
#define FASTPROF_PICK_H

#include <stdint.h>

typedef struct fp_pick {
  int32_t row;
  int16_t stat;
  uint8_t kind, unused; /* enum fp_kind of formats/xspace.h */
  int64_t value;
} fp_pick;

#endif
