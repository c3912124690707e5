/* Where the marks of JSON text are: quotes, brackets, commas and colons, found 64 bytes at a time.
 *
 *    text    {"a": "x,\"y", "b": [1, 2]}
 *    marks   ^^ ^^ ^     ^^ ^ ^^ ^  ^ ^^      the comma and the escaped quote of the first value are no marks
 *
 * Whether a block begins inside a string, and whether its first byte is escaped, carries over from the block before. */
#ifndef FASTPROF_JSON_INDEX_H
#define FASTPROF_JSON_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FP_JSON_BLOCK = 64 };
/* What a block has in it: strings without both are their own text. */
enum { FP_JSON_ESCAPES = 1, FP_JSON_HIGH = 2 };

/* How blocks are looked at. All give the same results. */
typedef enum fp_json_ways { FP_JSON_PLAIN_C, FP_JSON_VECTORS, FP_JSON_WIDE_VECTORS } fp_json_ways;

/* Zeroed: the beginning of a text, in plain C. */
typedef struct fp_json_index {
  uint64_t in_string; /* all bits set: the last block ended inside a string */
  uint64_t escaped;   /* 1: the first byte of the next block is escaped */
  fp_json_ways ways;
} fp_json_index;

/* The fastest way that this processor has. */
fp_json_ways fp_json_best_ways(void);

/* Writes the places of the marks of `count` blocks, which begin at place `base`, to `marks`, which has
 * room for 64 a block, and what each block has in it to `has`. Returns how many marks there are. */
size_t fp_json_index_blocks(fp_json_index *index, const uint8_t *blocks, size_t count, uint32_t base, uint32_t *marks,
                            uint8_t *has);

#endif
