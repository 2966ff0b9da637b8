#include "edit_text.h"
#include "cleanup.h"
#include "utf8.h"
#include "banned.h"

/* Letters from U+00C0 to U+017F without their accents; '.' for those that have no such form. */
static const char LETTERS[] = "aaaaaa.ceeeeiiii.nooooo..uuuuy..aaaaaa.ceeeeiiii.nooooo..uuuuy.y"
                              "aaaaaaccccccccdd..eeeeeeeeeegggggggghh..iiiiiiiii...jjkk.llllll."
                              "...nnnnnn...oooooo..rrrrrrsssssssstttt..uuuuuuuuuuuuwwyyyzzzzzz.";

/* In the order of their numbers. */
static const struct {
    uint32_t first, last;
    const char *as;
} RANGES[] = {
    {0x00a0, 0x00a0, ""},    {0x00ab, 0x00ab, "'"}, /* no-break space; quotes */
    {0x00ad, 0x00ad, ""},    {0x00b4, 0x00b4, "'"}, /* soft hyphen; acute accent */
    {0x00bb, 0x00bb, "'"},   {0x02b9, 0x02bc, "'"}, /* quotes */
    {0x0300, 0x036f, ""},    {0x1680, 0x1680, ""},  /* accents; spaces */
    {0x2000, 0x200a, ""},    {0x200b, 0x200f, ""},  /* spaces; zero width, direction */
    {0x2010, 0x2015, "-"},   {0x2018, 0x201f, "'"}, /* dashes; quotes */
    {0x2026, 0x2026, "..."}, {0x2028, 0x2029, ""},  /* ellipsis; separators */
    {0x202a, 0x202e, ""},    {0x202f, 0x202f, ""},  /* direction; space */
    {0x2032, 0x2036, "'"},   {0x2039, 0x203a, "'"}, /* primes; quotes */
    {0x205f, 0x205f, ""},    {0x2060, 0x2064, ""},  /* space; invisible operators */
    {0x2212, 0x2212, "-"},   {0x3000, 0x3000, ""},  /* minus; space */
    {0xfe00, 0xfe0f, ""},    {0xfe58, 0xfe58, "-"}, /* variants; dashes */
    {0xfe63, 0xfe63, "-"},   {0xfeff, 0xfeff, ""},  /* byte order mark */
};

static const uint8_t ASCII[128] = {
    0,    1,   2,    3,   4,   5,   6,   7,    8,   0,   0,   0,   0,    0,   14,  15,
    16,   17,  18,   19,  20,  21,  22,  23,   24,  25,  26,  27,  28,   29,  30,  31,
    0,    '!', '\'', '#', '$', '%', '&', '\'', '(', ')', '*', '+', ',',  '-', '.', '/',
    '0',  '1', '2',  '3', '4', '5', '6', '7',  '8', '9', ':', ';', '<',  '=', '>', '?',
    '@',  'a', 'b',  'c', 'd', 'e', 'f', 'g',  'h', 'i', 'j', 'k', 'l',  'm', 'n', 'o',
    'p',  'q', 'r',  's', 't', 'u', 'v', 'w',  'x', 'y', 'z', '[', '\\', ']', '^', '_',
    '\'', 'a', 'b',  'c', 'd', 'e', 'f', 'g',  'h', 'i', 'j', 'k', 'l',  'm', 'n', 'o',
    'p',  'q', 'r',  's', 't', 'u', 'v', 'w',  'x', 'y', 'z', '{', '|',  '}', '~', 127};

static struct folded fold_ascii(uint8_t c)
{
    return (struct folded){.used = 1, .n = ASCII[c] != 0, .bytes = {ASCII[c]}};
}

uint32_t fold_code(struct span s)
{
    size_t n = utf8_character(s.data, s.n);
    if (n < 2)
        return s.data[0];
    uint32_t code = s.data[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (s.data[i] & 0x3f);
    return code;
}

struct folded fold_at(struct span s, size_t at)
{
    if (s.data[at] < 0x80)
        return fold_ascii(s.data[at]);
    s = span_part(s, at, s.n);
    size_t used = utf8_character(s.data, s.n);
    uint32_t code = fold_code(s);
    struct folded f = {.used = (uint8_t)(used ? used : 1)};
    const char *as = NULL;
    char letter[2] = {0};
    if (used && code >= 0xff01 && code <= 0xff5e) {
        f = fold_ascii((uint8_t)(code - 0xff01 + '!'));
        f.used = (uint8_t)used;
        return f;
    }
    if (used && code >= 0xc0 && code < 0xc0 + sizeof LETTERS - 1 && LETTERS[code - 0xc0] != '.') {
        letter[0] = LETTERS[code - 0xc0];
        as = letter;
    }
    for (size_t i = 0; used && !as && i < ARRAY_SIZE(RANGES) && RANGES[i].first <= code; i++)
        if (code <= RANGES[i].last)
            as = RANGES[i].as;
    f.n = as ? (uint8_t)strlen(as) : f.used;
    memcpy(f.bytes, as ? (const void *)as : s.data, f.n);
    return f;
}
