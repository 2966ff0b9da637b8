#include "fold.h"
#include "cleanup.h"
#include "utf8.h"
#include "banned.h"

/* Letters from U+00C0 to U+017F without their accents; '.' for those that have no such form. */
static const char LETTERS[] = "aaaaaa.ceeeeiiii.nooooo..uuuuy..aaaaaa.ceeeeiiii.nooooo..uuuuy.y"
                              "aaaaaaccccccccdd..eeeeeeeeeegggggggghh..iiiiiiiii...jjkk.llllll."
                              "...nnnnnn...oooooo..rrrrrrsssssssstttt..uuuuuuuuuuuuwwyyyzzzzzz.";

struct range {
    uint32_t first, last;
    enum fold_kind kind;
    const char *as;
};

/* In the order of their numbers. */
static const struct range RANGES[] = {
    {0x00a0, 0x00a0, FOLD_ODD_BLANK, ""}, {0x00ab, 0x00ab, FOLD_QUOTE, "'"},
    {0x00ad, 0x00ad, FOLD_INVISIBLE, ""}, {0x00b4, 0x00b4, FOLD_QUOTE, "'"},
    {0x00bb, 0x00bb, FOLD_QUOTE, "'"},    {0x02b9, 0x02bc, FOLD_QUOTE, "'"},
    {0x0300, 0x036f, FOLD_FORM, ""},      {0x1680, 0x1680, FOLD_ODD_BLANK, ""},
    {0x2000, 0x200a, FOLD_ODD_BLANK, ""}, {0x200b, 0x200f, FOLD_INVISIBLE, ""},
    {0x2010, 0x2015, FOLD_DASH, "-"},     {0x2018, 0x201f, FOLD_QUOTE, "'"},
    {0x2026, 0x2026, FOLD_FORM, "..."},   {0x2028, 0x2029, FOLD_ODD_BLANK, ""},
    {0x202a, 0x202e, FOLD_INVISIBLE, ""}, {0x202f, 0x202f, FOLD_ODD_BLANK, ""},
    {0x2032, 0x2036, FOLD_QUOTE, "'"},    {0x2039, 0x203a, FOLD_QUOTE, "'"},
    {0x205f, 0x205f, FOLD_ODD_BLANK, ""}, {0x2060, 0x2064, FOLD_INVISIBLE, ""},
    {0x2212, 0x2212, FOLD_DASH, "-"},     {0x3000, 0x3000, FOLD_ODD_BLANK, ""},
    {0xfe00, 0xfe0f, FOLD_INVISIBLE, ""}, {0xfe58, 0xfe58, FOLD_DASH, "-"},
    {0xfe63, 0xfe63, FOLD_DASH, "-"},     {0xfeff, 0xfeff, FOLD_INVISIBLE, ""},
};

const uint8_t FOLD_ASCII[128] = {
    0,    1,   2,    3,   4,   5,   6,   7,    8,   0,   0,   0,   0,    0,   14,  15,
    16,   17,  18,   19,  20,  21,  22,  23,   24,  25,  26,  27,  28,   29,  30,  31,
    0,    '!', '\'', '#', '$', '%', '&', '\'', '(', ')', '*', '+', ',',  '-', '.', '/',
    '0',  '1', '2',  '3', '4', '5', '6', '7',  '8', '9', ':', ';', '<',  '=', '>', '?',
    '@',  'a', 'b',  'c', 'd', 'e', 'f', 'g',  'h', 'i', 'j', 'k', 'l',  'm', 'n', 'o',
    'p',  'q', 'r',  's', 't', 'u', 'v', 'w',  'x', 'y', 'z', '[', '\\', ']', '^', '_',
    '\'', 'a', 'b',  'c', 'd', 'e', 'f', 'g',  'h', 'i', 'j', 'k', 'l',  'm', 'n', 'o',
    'p',  'q', 'r',  's', 't', 'u', 'v', 'w',  'x', 'y', 'z', '{', '|',  '}', '~', 127};

static enum fold_kind kind_of_ascii(uint8_t c)
{
    switch (c) {
    case 0:
        return FOLD_INVISIBLE;
    case ' ':
    case '\t':
    case '\f':
    case '\v':
        return FOLD_BLANK;
    case '\n':
    case '\r':
        return FOLD_NEWLINE;
    case '"':
    case '\'':
    case '`':
        return FOLD_QUOTE;
    case '-':
        return FOLD_DASH;
    default:
        return FOLD_PLAIN;
    }
}

static struct folded fold_ascii(uint8_t c)
{
    uint8_t as = FOLD_ASCII[c];
    return (struct folded){.kind = kind_of_ascii(c), .used = 1, .n = as != 0, .bytes = {as}};
}

uint32_t fold_code(struct bytes s)
{
    size_t n = utf8_character(s.data, s.n);
    if (n < 2)
        return s.data[0];
    uint32_t code = s.data[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (s.data[i] & 0x3f);
    return code;
}

static struct folded as_text(enum fold_kind kind, size_t used, const char *text)
{
    struct folded f = {.kind = kind, .used = (uint8_t)used};
    while (text[f.n]) {
        f.bytes[f.n] = (uint8_t)text[f.n];
        f.n++;
    }
    return f;
}

struct folded fold_next(struct bytes s)
{
    if (s.data[0] < 0x80)
        return fold_ascii(s.data[0]);
    size_t used = utf8_character(s.data, s.n);
    struct folded f = {
        .kind = FOLD_PLAIN, .used = (uint8_t)(used ? used : 1), .n = (uint8_t)(used ? used : 1)};
    uint32_t code = fold_code(s);
    memcpy(f.bytes, s.data, f.n);
    if (!used)
        return f;
    if (code >= 0xc0 && code < 0xc0 + sizeof LETTERS - 1 && LETTERS[code - 0xc0] != '.')
        return as_text(FOLD_FORM, used, (const char[]){LETTERS[code - 0xc0], 0});
    if (code >= 0xff01 && code <= 0xff5e) {
        f = fold_ascii((uint8_t)(code - 0xff01 + '!'));
        f.used = (uint8_t)used;
        f.kind = f.kind == FOLD_PLAIN ? FOLD_FORM : f.kind;
        return f;
    }
    for (size_t i = 0; i < ARRAY_SIZE(RANGES) && RANGES[i].first <= code; i++)
        if (code <= RANGES[i].last)
            return as_text(RANGES[i].kind, used, RANGES[i].as);
    return f;
}
