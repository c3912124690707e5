/* A block becomes four numbers of 64 bits, one bit a byte: quotes, backslashes, brackets with commas and colons, and
 * bytes of 0x80 and more. The rest is arithmetic on these:
 *
 *    text       { " a \ " b " , " c      (bit 0 is at the left)
 *    quotes     0 1 0 0 1 0 1 0 1 0
 *    escaped    0 0 0 0 1 0 0 0 0 0      behind a backslash that is not escaped itself
 *    unescaped  0 1 0 0 0 0 1 0 1 0      quotes & ~escaped
 *    inside     0 1 1 1 1 1 0 0 1 1      a bit is the exclusive or of all bits up to it: an odd number of quotes
 *
 * Of a run of backslashes every other one escapes; adding the run's first bit to the run carries to the bit behind it,
 * whose parity against the first one's says whether the run was odd (Langdale and Lemire, Parsing Gigabytes of JSON
 * per Second, 2019). */
#include "formats/json_index.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef struct block_bits {
  uint64_t quotes, backslashes, marks, high;
} block_bits;

static inline block_bits look_plain(const uint8_t *bytes) {
  block_bits found = {0, 0, 0, 0};
  for (int i = 0; i < FP_JSON_BLOCK; i++) {
    uint8_t byte = bytes[i], folded = byte | 0x20;
    uint64_t bit = UINT64_C(1) << i;
    if (byte == '"') found.quotes |= bit;
    if (byte == '\\') found.backslashes |= bit;
    if (folded == '{' || folded == '}' || byte == ',' || byte == ':') found.marks |= bit;
    if (byte & 0x80) found.high |= bit;
  }
  return found;
}

#if defined(__x86_64__)
/* Brackets differ from braces in the bit 0x20 only. */
static inline block_bits look_vectors(const uint8_t *bytes) {
  block_bits found = {0, 0, 0, 0};
  for (int i = 0; i < 4; i++) {
    __m128i part = _mm_loadu_si128((const __m128i *)(const void *)(bytes + 16 * i));
    __m128i folded = _mm_or_si128(part, _mm_set1_epi8(0x20));
    __m128i brackets = _mm_or_si128(_mm_cmpeq_epi8(folded, _mm_set1_epi8('{')), _mm_cmpeq_epi8(folded, _mm_set1_epi8('}')));
    __m128i points = _mm_or_si128(_mm_cmpeq_epi8(part, _mm_set1_epi8(',')), _mm_cmpeq_epi8(part, _mm_set1_epi8(':')));
    found.quotes |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(part, _mm_set1_epi8('"'))) << 16 * i;
    found.backslashes |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(part, _mm_set1_epi8('\\'))) << 16 * i;
    found.marks |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_or_si128(brackets, points)) << 16 * i;
    found.high |= (uint64_t)(uint32_t)_mm_movemask_epi8(part) << 16 * i;
  }
  return found;
}

__attribute__((target("avx2"))) static inline block_bits look_wide(const uint8_t *bytes) {
  block_bits found = {0, 0, 0, 0};
  for (int i = 0; i < 2; i++) {
    __m256i part = _mm256_loadu_si256((const __m256i *)(const void *)(bytes + 32 * i));
    __m256i folded = _mm256_or_si256(part, _mm256_set1_epi8(0x20));
    __m256i brackets =
        _mm256_or_si256(_mm256_cmpeq_epi8(folded, _mm256_set1_epi8('{')), _mm256_cmpeq_epi8(folded, _mm256_set1_epi8('}')));
    __m256i points =
        _mm256_or_si256(_mm256_cmpeq_epi8(part, _mm256_set1_epi8(',')), _mm256_cmpeq_epi8(part, _mm256_set1_epi8(':')));
    found.quotes |= (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(part, _mm256_set1_epi8('"'))) << 32 * i;
    found.backslashes |= (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(part, _mm256_set1_epi8('\\'))) << 32 * i;
    found.marks |= (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_or_si256(brackets, points)) << 32 * i;
    found.high |= (uint64_t)(uint32_t)_mm256_movemask_epi8(part) << 32 * i;
  }
  return found;
}
#elif defined(__aarch64__)
/* Four times 16 bytes of 0x00 or 0xFF become 64 bits: each byte keeps the bit of its place, and neighbours are added. */
static inline uint64_t bits_of(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d) {
  const uint8x16_t places = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  uint8x16_t low = vpaddq_u8(vandq_u8(a, places), vandq_u8(b, places));
  uint8x16_t high = vpaddq_u8(vandq_u8(c, places), vandq_u8(d, places));
  low = vpaddq_u8(low, high);
  low = vpaddq_u8(low, low);
  return vgetq_lane_u64(vreinterpretq_u64_u8(low), 0);
}

static inline block_bits look_vectors(const uint8_t *bytes) {
  uint8x16_t quotes[4], backslashes[4], marks[4], high[4];
  for (int i = 0; i < 4; i++) {
    uint8x16_t part = vld1q_u8(bytes + 16 * i), folded = vorrq_u8(part, vdupq_n_u8(0x20));
    uint8x16_t brackets = vorrq_u8(vceqq_u8(folded, vdupq_n_u8('{')), vceqq_u8(folded, vdupq_n_u8('}')));
    quotes[i] = vceqq_u8(part, vdupq_n_u8('"'));
    backslashes[i] = vceqq_u8(part, vdupq_n_u8('\\'));
    marks[i] = vorrq_u8(brackets, vorrq_u8(vceqq_u8(part, vdupq_n_u8(',')), vceqq_u8(part, vdupq_n_u8(':'))));
    high[i] = vcgeq_u8(part, vdupq_n_u8(0x80));
  }
  return (block_bits){bits_of(quotes[0], quotes[1], quotes[2], quotes[3]),
                      bits_of(backslashes[0], backslashes[1], backslashes[2], backslashes[3]),
                      bits_of(marks[0], marks[1], marks[2], marks[3]), bits_of(high[0], high[1], high[2], high[3])};
}
#endif

fp_json_ways fp_json_best_ways(void) {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") ? FP_JSON_WIDE_VECTORS : FP_JSON_VECTORS;
#elif defined(__aarch64__)
  return FP_JSON_VECTORS;
#else
  return FP_JSON_PLAIN_C;
#endif
}

/* Which bytes are escaped. */
static inline uint64_t escaped_bits(uint64_t backslashes, uint64_t *carry) {
  const uint64_t even = UINT64_C(0x5555555555555555);
  if (!backslashes) {
    uint64_t first = *carry;
    *carry = 0;
    return first;
  }
  backslashes &= ~*carry;
  uint64_t follows = backslashes << 1 | *carry, odd_starts = backslashes & ~even & ~follows, sum;
  *carry = __builtin_add_overflow(odd_starts, backslashes, &sum);
  return (even ^ (sum << 1)) & follows;
}

/* Each bit becomes the exclusive or of all bits up to it. */
static inline uint64_t parity_bits(uint64_t bits) {
  for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
  return bits;
}

/* Writes the places of the set bits. Eight are written at a time, whether or not they are there: that costs less than
 * a branch for each. A block has at most 64, so nothing is written past its room. */
static inline size_t write_places(uint64_t bits, uint32_t base, uint32_t *out) {
  size_t count = (size_t)__builtin_popcountll(bits);
  for (size_t done = 0; done < count; done += 8)
    for (int i = 0; i < 8; i++) {
      out[done + (size_t)i] = base + (uint32_t)__builtin_ctzll(bits | UINT64_C(1) << 63);
      bits &= bits - 1;
    }
  return count;
}

static inline __attribute__((always_inline)) size_t index_with(block_bits (*look)(const uint8_t *), fp_json_index *index,
                                                               const uint8_t *blocks, size_t count, uint32_t base,
                                                               uint32_t *marks, uint8_t *has) {
  uint64_t in_string = index->in_string, escaped = index->escaped;
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    block_bits bits = look(blocks + FP_JSON_BLOCK * i);
    uint64_t quotes = bits.quotes & ~escaped_bits(bits.backslashes, &escaped);
    uint64_t inside = parity_bits(quotes) ^ in_string;
    in_string = (uint64_t)((int64_t)inside >> 63);
    has[i] = (uint8_t)((bits.backslashes ? FP_JSON_ESCAPES : 0) | (bits.high ? FP_JSON_HIGH : 0));
    found += write_places((bits.marks & ~inside) | quotes, base + (uint32_t)(FP_JSON_BLOCK * i), marks + found);
  }
  index->in_string = in_string;
  index->escaped = escaped;
  return found;
}

#if defined(__x86_64__)
__attribute__((target("avx2,bmi,popcnt"))) static size_t index_wide(fp_json_index *index, const uint8_t *blocks,
                                                                    size_t count, uint32_t base, uint32_t *marks,
                                                                    uint8_t *has) {
  return index_with(look_wide, index, blocks, count, base, marks, has);
}
#endif

size_t fp_json_index_blocks(fp_json_index *index, const uint8_t *blocks, size_t count, uint32_t base, uint32_t *marks,
                            uint8_t *has) {
#if defined(__x86_64__)
  if (index->ways == FP_JSON_WIDE_VECTORS) return index_wide(index, blocks, count, base, marks, has);
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  if (index->ways != FP_JSON_PLAIN_C) return index_with(look_vectors, index, blocks, count, base, marks, has);
#endif
  return index_with(look_plain, index, blocks, count, base, marks, has);
}
