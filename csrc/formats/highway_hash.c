/* Four lanes of 64 bits take 32 bytes at a time. The rest is padded to 32 bytes in a way that depends on its length, and
 * four more rounds mix the lanes. All numbers are little-endian. */
#include "formats/highway_hash.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef fp_riegeli_hasher lanes;

static const uint64_t MUL0[4] = {0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344, 0x243f6a8885a308d3};
static const uint64_t MUL1[4] = {0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c, 0x452821e638d01377};
/* "Riegeli/records\n", twice. */
static const uint64_t KEY[4] = {0x2f696c6567656952, 0x0a7364726f636572, 0x2f696c6567656952, 0x0a7364726f636572};

static uint64_t swapped_halves(uint64_t value) {
  return value >> 32 | value << 32;
}

static uint64_t load(const uint8_t *at) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--) value = value << 8 | at[i];
  return value;
}

static uint64_t byte_of(uint64_t value, int number) {
  return value >> 8 * number & 0xff;
}

/* Bytes of a pair of lanes, low to high: even a3 b4 a2 a5 b6 a1 b7 a0, odd b3 a4 b2 b5 b1 a6 b0 a7. */
static void add_zipped(const uint64_t from[2], uint64_t to[2]) {
  uint64_t a = from[0], b = from[1];
  to[0] += byte_of(a, 3) | byte_of(b, 4) << 8 | byte_of(a, 2) << 16 | byte_of(a, 5) << 24 | byte_of(b, 6) << 32 |
           byte_of(a, 1) << 40 | byte_of(b, 7) << 48 | byte_of(a, 0) << 56;
  to[1] += byte_of(b, 3) | byte_of(a, 4) << 8 | byte_of(b, 2) << 16 | byte_of(b, 5) << 24 | byte_of(b, 1) << 32 |
           byte_of(a, 6) << 40 | byte_of(b, 0) << 48 | byte_of(a, 7) << 56;
}

static void update(lanes *at, const uint64_t packet[4]) {
  for (int i = 0; i < 4; i++) {
    at->v1[i] += at->mul0[i] + packet[i];
    at->mul0[i] ^= (at->v1[i] & 0xffffffff) * (at->v0[i] >> 32);
    at->v0[i] += at->mul1[i];
    at->mul1[i] ^= (at->v0[i] & 0xffffffff) * (at->v1[i] >> 32);
  }
  add_zipped(at->v1, at->v0);
  add_zipped(at->v1 + 2, at->v0 + 2);
  add_zipped(at->v0, at->v1);
  add_zipped(at->v0 + 2, at->v1 + 2);
}

static void update_bytes(lanes *at, const uint8_t bytes[32]) {
  uint64_t packet[4];
  for (int i = 0; i < 4; i++) packet[i] = load(bytes + 8 * i);
  update(at, packet);
}

static uint64_t rotated_halves(uint64_t value, unsigned by) {
  uint32_t low = (uint32_t)value, high = (uint32_t)(value >> 32);
  low = low << by | low >> (32 - by);
  high = high << by | high >> (32 - by);
  return (uint64_t)high << 32 | low;
}

/* 1 to 31 bytes. */
static void update_rest(lanes *at, const uint8_t *rest, size_t size) {
  for (int i = 0; i < 4; i++) {
    at->v0[i] += ((uint64_t)size << 32) + size;
    at->v1[i] = rotated_halves(at->v1[i], (unsigned)size);
  }
  uint8_t packet[32] = {0};
  size_t words = size & ~(size_t)3, left = size & 3;
  memcpy(packet, rest, words);
  if (size & 16) {
    memcpy(packet + 28, rest + size - 4, 4);
  } else if (left) {
    const uint8_t *tail = rest + words;
    packet[16] = tail[0];
    packet[17] = tail[left >> 1];
    packet[18] = tail[left - 1];
  }
  update_bytes(at, packet);
}

static void update_packets(lanes *at, const uint8_t *data, size_t count) {
  for (size_t i = 0; i < count; i++) update_bytes(at, data + 32 * i);
}

#if defined(__x86_64__)
/* The same with the four lanes side by side. Zipping moves bytes within pairs of lanes: 0 to 7 are those of the even one. */
static void update_wide(lanes *at, const uint8_t *data, size_t count) __attribute__((target("avx2")));

static void update_wide(lanes *at, const uint8_t *data, size_t count) {
  const __m256i zip = _mm256_broadcastsi128_si256(_mm_setr_epi8(3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7));
  __m256i v0 = _mm256_loadu_si256((const __m256i *)(const void *)at->v0), v1 = _mm256_loadu_si256((const __m256i *)(const void *)at->v1);
  __m256i mul0 = _mm256_loadu_si256((const __m256i *)(const void *)at->mul0);
  __m256i mul1 = _mm256_loadu_si256((const __m256i *)(const void *)at->mul1);
  for (size_t i = 0; i < count; i++) {
    __m256i packet = _mm256_loadu_si256((const __m256i *)(const void *)(data + 32 * i));
    v1 = _mm256_add_epi64(v1, _mm256_add_epi64(mul0, packet));
    mul0 = _mm256_xor_si256(mul0, _mm256_mul_epu32(v1, _mm256_srli_epi64(v0, 32)));
    v0 = _mm256_add_epi64(v0, mul1);
    mul1 = _mm256_xor_si256(mul1, _mm256_mul_epu32(v0, _mm256_srli_epi64(v1, 32)));
    v0 = _mm256_add_epi64(v0, _mm256_shuffle_epi8(v1, zip));
    v1 = _mm256_add_epi64(v1, _mm256_shuffle_epi8(v0, zip));
  }
  _mm256_storeu_si256((__m256i *)(void *)at->v0, v0);
  _mm256_storeu_si256((__m256i *)(void *)at->v1, v1);
  _mm256_storeu_si256((__m256i *)(void *)at->mul0, mul0);
  _mm256_storeu_si256((__m256i *)(void *)at->mul1, mul1);
}
#endif

static void update_all(lanes *at, const uint8_t *data, size_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    update_wide(at, data, count);
    return;
  }
#endif
  update_packets(at, data, count);
}

void fp_riegeli_hash_begin(fp_riegeli_hasher *hasher) {
  *hasher = (fp_riegeli_hasher){.rest_size = 0};
  for (int i = 0; i < 4; i++) {
    hasher->mul0[i] = MUL0[i];
    hasher->mul1[i] = MUL1[i];
    hasher->v0[i] = MUL0[i] ^ KEY[i];
    hasher->v1[i] = MUL1[i] ^ swapped_halves(KEY[i]);
  }
}

void fp_riegeli_hash_more(fp_riegeli_hasher *hasher, const uint8_t *data, size_t size) {
  if (hasher->rest_size) {
    size_t missing = 32 - hasher->rest_size, taken = size < missing ? size : missing;
    if (taken) memcpy(hasher->rest + hasher->rest_size, data, taken);
    hasher->rest_size += taken;
    if (taken < missing) return;
    update_packets(hasher, hasher->rest, 1);
    data += taken;
    size -= taken;
  }
  hasher->rest_size = size & 31;
  update_all(hasher, data, size / 32);
  if (hasher->rest_size) memcpy(hasher->rest, data + size - hasher->rest_size, hasher->rest_size);
}

uint64_t fp_riegeli_hash_now(const fp_riegeli_hasher *hasher) {
  lanes at = *hasher;
  if (at.rest_size) update_rest(&at, hasher->rest, at.rest_size);
  for (int i = 0; i < 4; i++) {
    uint64_t packet[4] = {swapped_halves(at.v0[2]), swapped_halves(at.v0[3]), swapped_halves(at.v0[0]),
                          swapped_halves(at.v0[1])};
    update(&at, packet);
  }
  return at.v0[0] + at.v1[0] + at.mul0[0] + at.mul1[0];
}

uint64_t fp_riegeli_hash(const uint8_t *data, size_t size) {
  fp_riegeli_hasher hasher;
  fp_riegeli_hash_begin(&hasher);
  fp_riegeli_hash_more(&hasher, data, size);
  return fp_riegeli_hash_now(&hasher);
}
