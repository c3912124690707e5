/* What args of events are for, by their names: XProf's are numbers written as texts, others' give lines and stats. */
#include "formats/chrome_parts.h"

bool chrome_is_same(const uint8_t *text, size_t length, const char *name) {
  if (length != strlen(name)) return false;
  for (size_t i = 0; i < length; i++) {
    uint8_t byte = text[i] >= 'A' && text[i] <= 'Z' ? (uint8_t)(text[i] + 32) : text[i];
    if (byte != (uint8_t)name[i]) return false;
  }
  return true;
}

bool chrome_begins_with(const uint8_t *text, size_t length, const char *word) {
  return length >= strlen(word) && !memcmp(text, word, strlen(word));
}

/* XProf writes all values as texts. Those of these stats are numbers, as their canonical types say. */
static bool is_numeric(const uint8_t *name, size_t length) {
  static const char *const names[] = {
      "group_id", "run_id", "program_id", "queue_id", "core_type", "device_ordinal", "replica_id",
      "correlation_id", "device_id", "context_id", "stream_id", "memcpy_stream_id", "flops", "model_flops", "iter_num",
      "num_occurrences", "bytes_accessed", "raw_bytes_accessed", "chip_id", "core_id", "global_chip_id", "id", "parent_id",
      "step_id", "symbol_id", "region_type", "peak_bytes_in_use",
      "all_reduce_unique_id", "offload_core_id", "tc_offload_start_id", "time scale multiplier", "uses_ici", "vdd_energy_j"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (chrome_is_same(name, length, names[i])) return true;
  return (length > 3 && !memcmp(name + length - 3, "_ps", 3)) || (length > 6 && !memcmp(name + length - 6, "_bytes", 6));
}

chrome_arg chrome_arg_of(chrome_dialect dialect, const uint8_t *name, size_t length) {
  static const struct {
    const char *name;
    chrome_arg arg;
  } kineto[] = {{"correlation", ARG_CORRELATION}, {"device", ARG_DEVICE}, {"stream", ARG_STREAM}, {"registers per thread", ARG_REGISTERS}, {"shared memory", ARG_SHARED},
                {"grid", ARG_GRID}, {"block", ARG_BLOCK}, {"theoretical occupancy %", ARG_OCCUPANCY}, {"est. achieved occupancy %", ARG_ESTIMATE},
                {"blocks per sm", ARG_BLOCKS_PER_SM}, {"warps per sm", ARG_WARPS_PER_SM},
                {"bytes", ARG_BYTES}, {"todevice", ARG_TO_DEVICE}, {"size", ARG_BYTES}, {"direction", ARG_DIRECTION}, {"task type", ARG_TASK_TYPE}};
  if (dialect == CHROME_XPROF && chrome_is_same(name, length, "step_num")) return ARG_STEP_NUM;
  if (dialect == CHROME_XPROF) return is_numeric(name, length) ? ARG_NUMERIC : ARG_NONE;
  if (dialect == CHROME_TF1) return chrome_is_same(name, length, "name") ? ARG_NAME : chrome_is_same(name, length, "op") ? ARG_OP : ARG_NONE;
  for (size_t i = 0; dialect == CHROME_KINETO && i < sizeof kineto / sizeof *kineto; i++)
    if (chrome_is_same(name, length, kineto[i].name)) return kineto[i].arg;
  return ARG_NONE;
}
