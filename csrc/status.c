#include "status.h"

/* In the order of the enum. */
const char *fp_code_name(fp_code code) {
  static const char *const names[] = {
      "ok",        "no_memory", "truncated", "bad_tag", "bad_varint",  "bad_length",
      "bad_group", "bad_utf8",  "too_deep",  "changed", "no_metadata", "no_text",
      "overflow",  "unsorted",  "out_of_range", "crossed", "too_long", "unreadable",
      "too_many",  "bad_json"};
  return (unsigned)code < sizeof names / sizeof *names ? names[code] : "unknown";
}

const char *fp_code_text(fp_code code) {
  switch (code) {
    case FP_OK: return "no fault";
    case FP_NO_MEMORY: return "out of memory";
    case FP_TRUNCATED: return "the data end inside a message";
    case FP_BAD_TAG: return "not a field of a protobuf message";
    case FP_BAD_VARINT: return "a number that does not end";
    case FP_BAD_LENGTH: return "a length that runs past the end of the enclosing message";
    case FP_BAD_GROUP: return "a group that is not closed or not opened";
    case FP_BAD_UTF8: return "a string that is not UTF-8";
    case FP_TOO_DEEP: return "messages nested more than a hundred deep";
    case FP_CHANGED: return "the bytes changed while they were being read";
    case FP_NO_METADATA: return "an event with a metadata id that its plane does not declare";
    case FP_NO_TEXT: return "a ref to an id that is not declared";
    case FP_OVERFLOW: return "a sum does not fit 64 bits";
    case FP_UNSORTED: return "events are not sorted by start, longer first";
    case FP_OUT_OF_RANGE: return "a number leads outside of its table";
    case FP_CROSSED: return "events of a line overlap";
    case FP_TOO_LONG: return "more work than allowed";
    case FP_UNREADABLE: return "the system could not read the file";
    case FP_TOO_MANY: return "more memory than 64 MiB plus 4 bytes per byte of the capture (--max-unpacked or max_unpacked= above 16 GiB raises this limit)";
    case FP_BAD_JSON: return "no JSON";
  }
  return "unknown fault";
}
