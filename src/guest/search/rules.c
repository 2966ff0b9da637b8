#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "glob.h"
#include "rules.h"
#include "banned.h"

struct rule {
    char *text;
    size_t n;
    bool keeps;    /* ! */
    bool folders;  /* a slash at its end */
    bool anchored; /* matched against the path, not the name */
    size_t plain;  /* bytes before the first character with a meaning, of one that is anchored */
    enum { PLAIN, SUFFIX /* a star and plain characters */, GLOB } kind;
};

struct rules {
    struct rule *list;
    size_t count, room;
    size_t memory;
    bool have[RULES_KEEP + 1];
};

struct rules *rules_new(void)
{
    return calloc(1, sizeof(struct rules));
}

struct rules *rules_free(struct rules *r)
{
    if (!r)
        return NULL;
    for (size_t i = 0; i < r->count; i++)
        free(r->list[i].text);
    free(r->list);
    free(r);
    return NULL;
}

/* Blanks at the end do not count, unless a backslash stands before them. */
static size_t without_blanks(const char *s, size_t n)
{
    size_t end = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\\' && i + 1 < n)
            end = ++i + 1;
        else if (s[i] != ' ')
            end = i + 1;
    }
    return end;
}

static int append(struct rules *r, const struct rule *rule)
{
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 8;
        struct rule *more = reallocarray(r->list, room, sizeof *more);
        if (!more)
            return -ENOMEM;
        r->list = more;
        r->room = room;
    }
    r->list[r->count++] = *rule;
    r->memory += sizeof *rule + rule->n;
    r->have[rule->keeps ? RULES_KEEP : RULES_IGNORE] = true;
    return 0;
}

static void classify(struct rule *rule)
{
    if (glob_is_plain(rule->text, rule->n))
        rule->kind = PLAIN;
    else if (!rule->anchored && rule->text[0] == '*' && glob_is_plain(rule->text + 1, rule->n - 1))
        rule->kind = SUFFIX;
    else
        rule->kind = GLOB;
    while (rule->anchored && rule->plain < rule->n && glob_is_plain(rule->text + rule->plain, 1))
        rule->plain++;
}

int rules_add(struct rules *r, const char *s, size_t n)
{
    struct rule rule = {0};
    if (n > 0 && s[0] == '#')
        return 0;
    n = without_blanks(s, n);
    if (n > 0 && s[0] == '!') {
        rule.keeps = true;
        s++, n--;
    }
    if (n > 0 && s[n - 1] == '/') {
        rule.folders = true;
        n--;
    }
    rule.anchored = n > 0 && memchr(s, '/', n);
    if (n > 0 && s[0] == '/')
        s++, n--;
    if (n == 0)
        return 0;
    rule.text = malloc(n);
    if (!rule.text)
        return -ENOMEM;
    memcpy(rule.text, s, n);
    rule.n = n;
    classify(&rule);
    int failed = append(r, &rule);
    if (failed < 0)
        free(rule.text);
    return failed;
}

int rules_parse(const char *text, size_t n, struct rules **ret)
{
    struct rules *r = rules_new();
    if (!r)
        return -ENOMEM;
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3, n -= 3;
    while (n > 0) {
        const char *end = memchr(text, '\n', n);
        size_t line = end ? (size_t)(end - text) : n, kept = line;
        if (kept > 0 && text[kept - 1] == '\r')
            kept--;
        /* What follows a NUL in a line is not there for git. */
        if (rules_add(r, text, strnlen(text, kept)) < 0) {
            rules_free(r);
            return -ENOMEM;
        }
        line += end != NULL;
        text += line, n -= line;
    }
    *ret = r;
    return 0;
}

static bool rule_matches(const struct rule *rule, const char *s, size_t n)
{
    switch (rule->kind) {
    case PLAIN:
        return n == rule->n && memcmp(s, rule->text, n) == 0;
    case SUFFIX:
        return n >= rule->n - 1 && memcmp(s + n - (rule->n - 1), rule->text + 1, rule->n - 1) == 0;
    default:
        /* The plain beginning is taken off first, as git does it: a `**` behind it is then one at
         * the beginning. */
        return n >= rule->plain && memcmp(s, rule->text, rule->plain) == 0 &&
               glob_match(rule->text + rule->plain, rule->n - rule->plain, s + rule->plain,
                          n - rule->plain);
    }
}

enum rules_say rules_match(const struct rules *r, const char *path, size_t n, size_t n_name,
                           bool is_folder)
{
    const char *name = path + (n - n_name);
    for (size_t i = r->count; i > 0; i--) {
        const struct rule *rule = &r->list[i - 1];
        if (rule->folders && !is_folder)
            continue;
        if (rule->anchored ? rule_matches(rule, path, n) : rule_matches(rule, name, n_name))
            return rule->keeps ? RULES_KEEP : RULES_IGNORE;
    }
    return RULES_NOTHING;
}

bool rules_have(const struct rules *r, enum rules_say what)
{
    return r->have[what];
}

size_t rules_memory(const struct rules *r)
{
    return r->memory;
}
