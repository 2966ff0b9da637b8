/*
 * Rules of thumb, from how byte-pair tokenizers cut texts: a short word is one token with the blank
 * before it, a long one a token per five letters or so; digits go in threes; signs of code are
 * often one each, in runs fewer; a line's indentation is one; letters of other alphabets take more,
 * and of CJK nearly one each.
 */
#include <string.h>

#include "context.h"
#include "json.h"
#include "banned.h"

/* Hundredths of a token. */
enum {
    WORD = 100,
    LETTERS_PER_TOKEN = 5,
    DIGITS_PER_TOKEN = 3,
    SIGN = 75,
    BREAK = 60,
    TWO = 55,
    THREE = 95,
    FOUR = 220
};

enum char_class { LETTER, DIGIT, BLANK, NEWLINE, SIGN_OF_CODE };

static enum char_class char_class(unsigned char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return LETTER;
    if (c >= '0' && c <= '9')
        return DIGIT;
    if (c == ' ' || c == '\t')
        return BLANK;
    return c == '\n' || c == '\r' ? NEWLINE : SIGN_OF_CODE;
}

uint64_t tokens_of_text(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    uint64_t cost = 0;
    size_t length;
    for (size_t i = 0; i < n; i += length) {
        if (s[i] >= 0x80) {
            length = s[i] >= 0xf0 ? 4 : s[i] >= 0xe0 ? 3 : 2;
            cost += length == 4 ? FOUR : length == 3 ? THREE : TWO;
            continue;
        }
        enum char_class c = char_class(s[i]);
        for (length = 1; i + length < n && s[i + length] < 0x80; length++)
            if (char_class(s[i + length]) != c)
                break;
        if (c == LETTER)
            cost += WORD +
                    (length > LETTERS_PER_TOKEN + 2 ? (length - 3) / LETTERS_PER_TOKEN * WORD : 0);
        else if (c == DIGIT)
            cost += (length + DIGITS_PER_TOKEN - 1) / DIGITS_PER_TOKEN * WORD;
        else if (c == BLANK) /* a single one goes with the word behind it */
            cost += length > 1 ? WORD * (1 + length / 16) : 0;
        else
            cost += c == NEWLINE ? BREAK : length * SIGN;
    }
    return (cost + 99) / 100;
}

static uint64_t tokens_of_string(const json_t *s)
{
    return s ? tokens_of_text(json_string_value(s), json_string_length(s)) : 0;
}

uint64_t tokens_of_json(const json_t *value)
{
    uint64_t sum = 2;
    size_t i;
    const char *name;
    json_t *one;
    if (!value)
        return 0;
    switch (json_typeof(value)) {
    case JSON_STRING:
        return 1 + tokens_of_string(value);
    case JSON_OBJECT:
        json_object_foreach((json_t *)value, name, one) sum +=
            2 + tokens_of_text(name, strlen(name)) + tokens_of_json(one);
        return sum;
    case JSON_ARRAY:
        json_array_foreach(value, i, one) sum += 1 + tokens_of_json(one);
        return sum;
    default:
        return sum;
    }
}

uint64_t tokens_of_block(const json_t *block)
{
    const char *type = json_get_string(block, "type");
    uint64_t sum = 4;
    size_t i;
    json_t *part, *raw = json_object_get(block, "raw");
    if (!type)
        return sum;
    if (strcmp(type, "image") == 0)
        return TOKENS_IMAGE;
    if (strcmp(type, "thinking") == 0 || strcmp(type, "other") == 0)
        return sum + (raw ? tokens_of_json(raw) : tokens_of_string(json_object_get(block, "text")));
    if (strcmp(type, "tool_use") == 0)
        return sum + 12 + tokens_of_string(json_object_get(block, "name")) +
               tokens_of_json(json_object_get(block, "input")) +
               tokens_of_string(json_object_get(block, "bad_input"));
    if (strcmp(type, "tool_result") == 0) {
        sum += 12;
        json_array_foreach(json_object_get(block, "content"), i, part) sum += tokens_of_block(part);
        return sum;
    }
    return sum + tokens_of_string(json_object_get(block, "text"));
}

uint64_t tokens_of_message(const json_t *message)
{
    uint64_t sum = TOKENS_MESSAGE;
    size_t i;
    json_t *block;
    json_array_foreach(json_object_get(message, "content"), i, block) sum += tokens_of_block(block);
    return sum;
}

/* The first report about a model sets the ratio; later ones move it by a third of the way. */
void tokens_learn(struct tokens_ratio *r, uint64_t estimated, uint64_t reported)
{
    if (estimated < 200 || reported == 0)
        return;
    double said = (double)reported / (double)estimated;
    said = said < TOKENS_RATIO_MIN   ? TOKENS_RATIO_MIN
           : said > TOKENS_RATIO_MAX ? TOKENS_RATIO_MAX
                                     : said;
    r->value = r->seen == 0 ? said : r->value + (said - r->value) / 3;
    r->seen++;
}

uint64_t tokens_corrected(const struct tokens_ratio *r, uint64_t estimated)
{
    return (uint64_t)((double)estimated * r->value + 0.5);
}
