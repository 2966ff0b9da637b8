#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "bytes.h"
#include "banned.h"

#define BLOCK 16

/* The bytes of source text, from the most frequent on; all others are rarer. */
static const char frequent[] =
    " etaoinrsl\ncdupmf_hgb,(.);=\"y*vxk-w0/1'>:[]{}TESAR&CIN2<D#LPOj+MF3q4z\t\\U!|";

static unsigned rareness(uint8_t c)
{
    const char *at = c ? strchr(frequent, c) : NULL;
    return at ? (unsigned)(at - frequent) : sizeof frequent;
}

static bool is_letter(uint8_t c)
{
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

/* The rarest byte of the needle that is not at `but`. */
static size_t rarest(const uint8_t *needle, size_t n, size_t but)
{
    size_t best = but == 0 && n > 1 ? 1 : 0;
    for (size_t i = best + 1; i < n; i++)
        if (i != but && rareness(needle[i]) > rareness(needle[best]))
            best = i;
    return best;
}

void finder_init(struct finder *f, const uint8_t *needle, size_t n, bool fold)
{
    *f = (struct finder){.needle = needle, .n = n, .fold = fold};
    f->at[0] = rarest(needle, n, n);
    f->at[1] = rarest(needle, n, f->at[0]);
    for (int i = 0; i < 2; i++) {
        uint8_t c = needle[f->at[i]];
        f->mask[i] = fold && is_letter(c) ? 0x20 : 0;
        f->byte[i] = c | f->mask[i];
    }
}

static bool is_here(const struct finder *f, const uint8_t *s)
{
    if (!f->fold)
        return memcmp(s, f->needle, f->n) == 0;
    for (size_t i = 0; i < f->n; i++)
        if (lower(s[i]) != f->needle[i])
            return false;
    return true;
}

static size_t find_slowly(const struct finder *f, const uint8_t *s, size_t n, size_t from)
{
    for (size_t i = from; i + f->n <= n; i++)
        if ((s[i + f->at[0]] | f->mask[0]) == f->byte[0] && is_here(f, s + i))
            return i;
    return n;
}

#ifdef __SSE2__

static __m128i load(const uint8_t *s)
{
    return _mm_loadu_si128((const __m128i *)(const void *)s);
}

static unsigned equal(const uint8_t *s, __m128i c)
{
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(load(s), c));
}

size_t bytes_find(const uint8_t *s, size_t n, uint8_t c)
{
    const __m128i all = _mm_set1_epi8((char)c);
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        unsigned found = equal(s + i, all);
        if (found)
            return i + (size_t)__builtin_ctz(found);
    }
    for (; i < n; i++)
        if (s[i] == c)
            return i;
    return n;
}

size_t bytes_find_last(const uint8_t *s, size_t n, uint8_t c)
{
    const __m128i all = _mm_set1_epi8((char)c);
    size_t i = n;
    for (; i >= BLOCK; i -= BLOCK) {
        unsigned found = equal(s + i - BLOCK, all);
        if (found)
            return i - BLOCK + (size_t)(31 - __builtin_clz(found));
    }
    while (i-- > 0)
        if (s[i] == c)
            return i;
    return n;
}

size_t bytes_count(const uint8_t *s, size_t n, uint8_t c)
{
    const __m128i all = _mm_set1_epi8((char)c);
    size_t i = 0, count = 0;
    while (i + BLOCK <= n) {
        /* Each lane counts down from 0 by one per block, so at most 255 blocks fit before they are
         * added up.
         */
        size_t blocks = (n - i) / BLOCK < 255 ? (n - i) / BLOCK : 255;
        __m128i lanes = _mm_setzero_si128();
        for (size_t end = i + blocks * BLOCK; i < end; i += BLOCK)
            lanes = _mm_sub_epi8(lanes, _mm_cmpeq_epi8(load(s + i), all));
        __m128i sums = _mm_sad_epu8(lanes, _mm_setzero_si128());
        count +=
            (size_t)_mm_cvtsi128_si64(sums) + (size_t)_mm_cvtsi128_si64(_mm_srli_si128(sums, 8));
    }
    for (; i < n; i++)
        count += s[i] == c;
    return count;
}

static unsigned kinds_slowly(const uint8_t *s, size_t n)
{
    unsigned kinds = 0;
    for (size_t i = 0; i < n; i++)
        kinds |= (s[i] == 0 ? BYTES_NUL : 0u) | (s[i] & 0x80 ? BYTES_HIGH : 0u) |
                 (s[i] == '\r' ? BYTES_CR : 0u);
    return kinds;
}

unsigned bytes_kinds(const uint8_t *s, size_t n)
{
    const __m128i cr = _mm_set1_epi8('\r'), zero = _mm_setzero_si128();
    __m128i crs = zero, nuls = zero, highs = zero;
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        __m128i v = load(s + i);
        highs = _mm_or_si128(highs, v);
        nuls = _mm_or_si128(nuls, _mm_cmpeq_epi8(v, zero));
        crs = _mm_or_si128(crs, _mm_cmpeq_epi8(v, cr));
    }
    return kinds_slowly(s + i, n - i) | (_mm_movemask_epi8(nuls) ? BYTES_NUL : 0u) |
           (_mm_movemask_epi8(highs) ? BYTES_HIGH : 0u) | (_mm_movemask_epi8(crs) ? BYTES_CR : 0u);
}

size_t finder_find(const struct finder *f, const uint8_t *s, size_t n, size_t from)
{
    const __m128i byte0 = _mm_set1_epi8((char)f->byte[0]), byte1 = _mm_set1_epi8((char)f->byte[1]);
    const __m128i mask0 = _mm_set1_epi8((char)f->mask[0]), mask1 = _mm_set1_epi8((char)f->mask[1]);
    size_t i = from;
    /* All sixteen places of a block have room for the whole needle. */
    for (; i + f->n + BLOCK - 1 <= n; i += BLOCK) {
        __m128i here0 = _mm_cmpeq_epi8(_mm_or_si128(load(s + i + f->at[0]), mask0), byte0);
        __m128i here1 = _mm_cmpeq_epi8(_mm_or_si128(load(s + i + f->at[1]), mask1), byte1);
        for (unsigned found = (unsigned)_mm_movemask_epi8(_mm_and_si128(here0, here1)); found;
             found &= found - 1) {
            size_t at = i + (size_t)__builtin_ctz(found);
            if (is_here(f, s + at))
                return at;
        }
    }
    return find_slowly(f, s, n, i);
}

#else

size_t bytes_find(const uint8_t *s, size_t n, uint8_t c)
{
    const uint8_t *at = n ? memchr(s, c, n) : NULL;
    return at ? (size_t)(at - s) : n;
}

size_t bytes_find_last(const uint8_t *s, size_t n, uint8_t c)
{
    for (size_t i = n; i > 0; i--)
        if (s[i - 1] == c)
            return i - 1;
    return n;
}

size_t bytes_count(const uint8_t *s, size_t n, uint8_t c)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += s[i] == c;
    return count;
}

unsigned bytes_kinds(const uint8_t *s, size_t n)
{
    uint8_t high = 0;
    bool nul = false, cr = false;
    for (size_t i = 0; i < n; i++) {
        high |= s[i];
        nul |= s[i] == 0;
        cr |= s[i] == '\r';
    }
    return (nul ? BYTES_NUL : 0u) | (high & 0x80 ? BYTES_HIGH : 0u) | (cr ? BYTES_CR : 0u);
}

size_t finder_find(const struct finder *f, const uint8_t *s, size_t n, size_t from)
{
    return find_slowly(f, s, n, from);
}

#endif
