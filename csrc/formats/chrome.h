/* Chrome's JSON traces as an XSpace: those of browsers, of Kineto (PyTorch), of XProf and of TF1's timelines.
 *
 *    document --push--> events --> window --flush--> spill ------.
 *                         |   names, lines, planes                |
 *                         '--> held: B E b n e S T p F            v
 *    finish: match what was held, find the zero of times; spill names and metadata; then the XSpace, plane after plane:
 *            ranges of the spill
 *
 * Memory holds the event in progress, a window of events, names, and what is held. The caller keeps the spill, and reads
 * its ranges as the XSpace. */
#ifndef FASTPROF_CHROME_H
#define FASTPROF_CHROME_H

#include "formats/growing_bytes.h"
#include "status.h"

typedef struct fp_chrome fp_chrome;
typedef struct fp_chrome_tape fp_chrome_tape;

/* A part of the XSpace: `length` bytes at `place` of all that was spilled. */
typedef struct fp_chrome_part {
  uint64_t place, length;
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
/* The same in two steps; one thread may do the first while another does the second of what came before: scans the next bytes, less than a gibibyte, onto a tape; takes what a tape has. Where the scan failed, taking does. A tape may be
 * used again once it was taken. Not to be salvaged. */
fp_chrome_tape *fp_chrome_tape_new(fp_memory *memory);
void fp_chrome_tape_free(fp_chrome_tape *tape);
void fp_chrome_scan(fp_chrome *chrome, fp_chrome_tape *tape, const uint8_t *data, size_t size);
fp_code fp_chrome_take(fp_chrome *chrome, fp_chrome_tape *tape, fp_fault *fault);
/* All bytes have been pushed, or scanned and taken. Then there may be bytes to be kept, and the parts are known. FP_BAD_JSON: it is not a trace; fp_chrome_keys says which keys it has. */
fp_code fp_chrome_finish(fp_chrome *chrome, fp_fault *fault);

/* Bytes to be appended to the spill. The caller keeps them and sets the size to 0. */
fp_bytes *fp_chrome_spill(fp_chrome *chrome);
/* After finish: the parts of the XSpace, one behind the other, and what is remarked. They are the reader's. */
const fp_chrome_part *fp_chrome_parts(const fp_chrome *chrome, size_t *count);
const fp_chrome_remark *fp_chrome_remarks(const fp_chrome *chrome, size_t *count);
/* Where the event is that was taken last. */
uint64_t fp_chrome_offset(const fp_chrome *chrome);
/* The first keys of a document that is not a trace, separated by ", ". */
const fp_bytes *fp_chrome_keys(const fp_chrome *chrome);

#endif
