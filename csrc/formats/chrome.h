/* Chrome's JSON traces as an XSpace: those of browsers, of Kineto (PyTorch), of XProf and of TF1's timelines.
 *
 *    document --push--> events --> window --flush--> spill ------.
 *                         |   names, lines, planes                |
 *                         '--> held: B E b n e S T p F            v
 *    finish: match what was held, find the zero of times; then the XSpace, plane after plane:
 *            literal bytes (names, metadata) and ranges of the spill (events of a line)
 *
 * Memory holds the event in progress, a window of events, names, and what is held. The caller keeps the spill, and reads
 * ranges of it when the XSpace is put together. */
#ifndef FASTPROF_CHROME_H
#define FASTPROF_CHROME_H

#include "formats/growing_bytes.h"
#include "status.h"

typedef struct fp_chrome fp_chrome;

/* A part of the XSpace: `length` bytes at `offset` of the literal bytes (0) or of the spill (1). */
typedef struct fp_chrome_part {
  uint64_t offset, length;
  int64_t is_spilled;
} fp_chrome_part;

/* What is remarked: severity 0 info, 1 notice, 2 data_loss. `open_brackets`: of a document that ends early. */
typedef struct fp_chrome_remark {
  const char *code, *text;
  int64_t severity;
  uint64_t count, first_offset, open_brackets;
} fp_chrome_remark;

/* A reader of one document; NULL when memory runs out. */
fp_chrome *fp_chrome_new(fp_memory *memory, bool salvage);
void fp_chrome_free(fp_chrome *chrome);

/* Takes the next bytes of the document. Then `fp_chrome_spill` may have bytes to be kept. */
fp_code fp_chrome_push(fp_chrome *chrome, const uint8_t *data, size_t size, fp_fault *fault);
/* All bytes have been pushed. Then
 * the parts of the XSpace are known. FP_BAD_JSON: it is not a trace; fp_chrome_keys says which keys it has. */
fp_code fp_chrome_finish(fp_chrome *chrome, fp_fault *fault);

/* Bytes to be appended to the spill. The caller keeps them and sets the size to 0. */
fp_bytes *fp_chrome_spill(fp_chrome *chrome);
/* After finish: the parts, the literal bytes, and what is remarked. They are the reader's. */
const fp_chrome_part *fp_chrome_parts(const fp_chrome *chrome, size_t *count);
const fp_bytes *fp_chrome_literals(const fp_chrome *chrome);
const fp_chrome_remark *fp_chrome_remarks(const fp_chrome *chrome, size_t *count);
/* The first keys of a document that is not a trace, separated by ", ". */
const fp_bytes *fp_chrome_keys(const fp_chrome *chrome);

#endif
