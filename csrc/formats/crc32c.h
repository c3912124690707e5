/* CRC-32C (Castagnoli), which TFRecord files have behind lengths and data. */
#ifndef FASTPROF_CRC32C_H
#define FASTPROF_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t fp_crc32c(const uint8_t *data, size_t size);

#endif
