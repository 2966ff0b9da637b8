#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "fuzzy.h"
#include "banned.h"

#define NAME_LOOKED_AT 512

static bool same(char typed, char c, bool exact)
{
    return typed == c || (!exact && tolower((unsigned char)typed) == tolower((unsigned char)c));
}

static bool begins_word(const char *name, size_t i)
{
    return i == 0 || !isalnum((unsigned char)name[i - 1]) ||
           (isupper((unsigned char)name[i]) && islower((unsigned char)name[i - 1]));
}

/* The letters in order from `from` on, each at the first place where it fits. */
static int score_from(const char *typed, size_t n, const char *name, size_t length, size_t from,
                      bool exact)
{
    int score = 0;
    size_t at = from, last = 0;
    for (size_t k = 0; k < n; k++, at++) {
        while (at < length && !same(typed[k], name[at], exact))
            at++;
        if (at == length)
            return FUZZY_NONE;
        score += 4 + 6 * begins_word(name, at) + 8 * (k > 0 && at == last + 1) -
                 (k > 0 && at > last + 9);
        last = at;
    }
    return score;
}

int fuzzy_score(const char *typed, size_t n, const char *name)
{
    size_t length = strnlen(name, NAME_LOOKED_AT);
    bool exact = false;
    int best = FUZZY_NONE;
    for (size_t i = 0; i < n; i++)
        exact = exact || isupper((unsigned char)typed[i]);
    if (n == 0)
        return 1000 - (int)(length < 900 ? length : 900);
    if (n == length && memcmp(typed, name, n) == 0)
        return FUZZY_WHOLE;
    for (size_t from = 0; from < length; from++) {
        if (!same(typed[0], name[from], exact))
            continue;
        int score = score_from(typed, n, name, length, from, exact);
        if (score == FUZZY_NONE)
            break;
        best = score > best ? score : best;
    }
    if (best == FUZZY_NONE)
        return FUZZY_NONE;
    /* The last part of a path is what people remember; and of equals the shorter is meant. */
    const char *slash = memrchr(name, '/', length ? length - 1 : 0);
    const char *base = slash ? slash + 1 : name;
    size_t n_base = length - (size_t)(base - name);
    if (score_from(typed, n, base, n_base, 0, exact) != FUZZY_NONE)
        best += 20 + 20 * (n <= n_base && strncasecmp(base, typed, n) == 0);
    return best * 16 + 15 - (int)(length < 150 ? length / 10 : 15);
}
