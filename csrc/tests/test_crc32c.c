/* CRC-32C of texts whose remainders RFC 3720 gives. */
#include "formats/crc32c.h"
#include "tests/check.h"

static void remainders_are_those_of_the_standard(void) {
  uint8_t zeros[32] = {0}, ones[32], rising[32];
  memset(ones, 0xFF, sizeof ones);
  for (size_t i = 0; i < sizeof rising; i++) rising[i] = (uint8_t)i;
  CHECK_INT(fp_crc32c(zeros, 0), 0);
  CHECK_INT(fp_crc32c(zeros, sizeof zeros), 0x8A9136AA);
  CHECK_INT(fp_crc32c(ones, sizeof ones), 0x62A8AB43);
  CHECK_INT(fp_crc32c(rising, sizeof rising), 0x46DD794E);
  CHECK_INT(fp_crc32c((const uint8_t *)"123456789", 9), 0xE3069283);
}

int main(void) {
  RUN(remainders_are_those_of_the_standard);
  return 0;
}
