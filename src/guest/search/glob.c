/* Globs, lists of them as ignore files have them, and the ignore files of a tree. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "glob.h"
#include "io.h"
#include "banned.h"

/* A part of a pattern that is being read. */
struct glob_cursor {
    const char *at, *end;
};

/* [:name:] at p, if there is one: whether c is of it in *has. 1, 0 if it is none, -EINVAL if it is
 * unknown. */
static int glob_class(struct glob_cursor *p, uint8_t c, bool *has)
{
    static const struct {
        const char *name;
        int (*has)(int c);
    } CLASSES[] = {
        {"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
        {"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
        {"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit},
    };
    if (p->end - p->at < 2 || p->at[0] != '[' || p->at[1] != ':')
        return 0;
    const char *name = p->at + 2, *close = name;
    while (close < p->end && *close != ']')
        close++;
    if (close == p->end)
        return -EINVAL;
    if (close == name || close[-1] != ':')
        return 0; /* then it is a bracket like any other character */
    size_t n = (size_t)(close - 1 - name);
    for (size_t i = 0; i < ARRAY_SIZE(CLASSES); i++)
        if (strlen(CLASSES[i].name) == n && memcmp(CLASSES[i].name, name, n) == 0) {
            *has |= c < 0x80 && CLASSES[i].has(c);
            p->at = close + 1;
            return 1;
        }
    return -EINVAL;
}

/* One character of a set, perhaps behind a backslash. */
static int glob_set_character(struct glob_cursor *p)
{
    if (p->at < p->end && *p->at == '\\')
        p->at++;
    return p->at < p->end ? (uint8_t)*p->at++ : -EINVAL;
}

/* The set behind a `[`: 1 if c is in it, 0 if not, -EINVAL if it does not end. Moves p behind
 * it. */
static int glob_set(struct glob_cursor *p, uint8_t c)
{
    bool negated = p->at < p->end && (*p->at == '!' || *p->at == '^'), has = false;
    p->at += negated;
    for (bool first = true; p->at < p->end && (first || *p->at != ']'); first = false) {
        int r = glob_class(p, c, &has);
        if (r < 0)
            return r;
        if (r > 0)
            continue;
        int low = glob_set_character(p), high = low;
        if (p->end - p->at >= 2 && p->at[0] == '-' && p->at[1] != ']') {
            p->at++;
            high = glob_set_character(p);
        }
        if (low < 0 || high < 0)
            return -EINVAL;
        has |= c == low || (c >= low && c <= high);
    }
    if (p->at == p->end)
        return -EINVAL;
    p->at++;
    return c != '/' && has != negated;
}

/* One element of the pattern that is no star, against one character. 1, 0, or -EINVAL: it can match
 * nothing. */
static int glob_one(struct glob_cursor *p, char c)
{
    char element = *p->at++;
    switch (element) {
    case '?':
        return c != '/';
    case '[':
        return glob_set(p, (uint8_t)c);
    case '\\':
        if (p->at == p->end)
            return -EINVAL;
        return *p->at++ == c;
    default:
        return element == c;
    }
}

/*
 * Only the last star and the last ** need to be tried anew, with one more character or component:
 * what precedes them has matched as early as it can, and from there a later star reaches every
 * place that it could reach from a later one.
 */
bool glob_match(const char *pattern, size_t n_pattern, const char *text, size_t n_text)
{
    struct glob_cursor p = {pattern, pattern + n_pattern};
    const char *t = text, *end = text + n_text;
    const char *star = NULL, *star_text = NULL; /* behind the last star; where it began to match */
    const char *deep = NULL, *deep_text = NULL; /* behind the last ** and its slash; the same */
    for (;;) {
        int matched = 0;
        if (p.at < p.end && *p.at == '*') {
            bool starts = p.at == pattern || p.at[-1] == '/';
            const char *stars = p.at;
            while (p.at < p.end && *p.at == '*')
                p.at++;
            bool escaped = p.end - p.at >= 2 && p.at[0] == '\\' && p.at[1] == '/';
            bool ends = p.at == p.end || *p.at == '/' || escaped;
            if (p.at - stars < 2 || !starts || !ends) {
                star = p.at;
                star_text = t;
                continue;
            }
            if (p.at == p.end)
                return true;
            p.at += escaped ? 2 : 1;
            star = NULL;
            deep = p.at;
            deep_text = t;
            if (!escaped) /* before an escaped slash git wants at least one component */
                continue;
        } else {
            if (p.at == p.end && t == end)
                return true;
            matched = p.at < p.end && t < end ? glob_one(&p, *t) : 0;
        }
        if (matched < 0)
            return false;
        if (matched > 0) {
            t++;
            continue;
        }
        if (star && star_text < end && *star_text != '/') {
            t = ++star_text;
            p.at = star;
            continue;
        }
        star = NULL;
        const char *slash = deep ? memchr(deep_text, '/', (size_t)(end - deep_text)) : NULL;
        if (!slash)
            return false;
        t = deep_text = slash + 1;
        p.at = deep;
    }
}

bool glob_is_plain(const char *pattern, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strchr("*?[\\", pattern[i]))
            return false;
    return true;
}

#define EXPANDED_MAX 4096

struct brace_expansion {
    int (*each)(void *data, const char *pattern, size_t n);
    void *data;
    unsigned count;
};

/* The length of what cannot hold a brace with a meaning: an escaped character, a set, or any other
 * one. */
static size_t brace_element(const char *s, size_t n)
{
    if (s[0] == '\\' && n > 1)
        return 2;
    if (s[0] != '[')
        return 1;
    size_t i = 1;
    if (i < n && (s[i] == '!' || s[i] == '^'))
        i++;
    if (i < n && s[i] == ']')
        i++;
    for (; i < n; i += s[i] == '\\' ? 2 : 1)
        if (s[i] == ']')
            return i + 1;
    return 1;
}

/* The comma or brace that ends the alternative which begins at i; n if there is none. */
static size_t brace_alternative_end(const char *s, size_t n, size_t i)
{
    size_t depth = 0;
    for (; i < n; i += brace_element(s + i, n - i)) {
        if (depth == 0 && (s[i] == ',' || s[i] == '}'))
            return i;
        depth += s[i] == '{';
        depth -= s[i] == '}';
    }
    return n;
}

static int brace_expand(struct brace_expansion *e, const char *pattern, size_t n)
{
    if (n > EXPANDED_MAX)
        return -E2BIG;
    for (size_t open = 0; open < n; open += brace_element(pattern + open, n - open)) {
        if (pattern[open] != '{')
            continue;
        size_t close = brace_alternative_end(pattern, n, open + 1);
        bool comma = close < n && pattern[close] == ',';
        while (close < n && pattern[close] == ',')
            close = brace_alternative_end(pattern, n, close + 1);
        if (close == n || !comma)
            continue;
        for (size_t at = open + 1, end; at <= close; at = end + 1) {
            _cleanup_buf_ struct buf one = BUF_INIT(EXPANDED_MAX);
            end = brace_alternative_end(pattern, n, at);
            buf_append(&one, pattern, open);
            buf_append(&one, pattern + at, end - at);
            if (buf_append(&one, pattern + close + 1, n - close - 1) < 0)
                return -ENOMEM;
            int r = brace_expand(e, (const char *)one.data, one.len);
            if (r < 0)
                return r;
        }
        return 0;
    }
    return ++e->count > GLOB_ALTERNATIVES_MAX ? -E2BIG : e->each(e->data, pattern, n);
}

int glob_expand(const char *pattern, size_t n,
                int (*each)(void *data, const char *pattern, size_t n), void *data)
{
    struct brace_expansion e = {.each = each, .data = data};
    return brace_expand(&e, pattern, n);
}

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

int rules_add(struct rules *r, const char *s, size_t n)
{
    struct rule rule = {0};
    size_t end = 0;
    if (n > 0 && s[0] == '#')
        return 0;
    /* Blanks at the end do not count, unless a backslash precedes them. */
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\\' && i + 1 < n)
            end = ++i + 1;
        else if (s[i] != ' ')
            end = i + 1;
    }
    n = end;
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
    if (glob_is_plain(s, n))
        rule.kind = PLAIN;
    else if (!rule.anchored && s[0] == '*' && glob_is_plain(s + 1, n - 1))
        rule.kind = SUFFIX;
    else
        rule.kind = GLOB;
    while (rule.anchored && rule.plain < n && glob_is_plain(s + rule.plain, 1))
        rule.plain++;

    rule.text = malloc(n);
    if (!rule.text || !ARRAY_GROW(r->list, r->count, r->room)) {
        free(rule.text);
        return -ENOMEM;
    }
    memcpy(rule.text, s, n);
    rule.n = n;
    r->list[r->count++] = rule;
    r->memory += sizeof rule + n;
    r->have[rule.keeps ? RULES_KEEP : RULES_IGNORE] = true;
    return 0;
}

int rules_parse(const char *text, size_t n, struct rules **ret)
{
    struct rules *r = calloc(1, sizeof(struct rules));
    if (!r)
        return -ENOMEM;
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3, n -= 3;
    while (n > 0) {
        const char *end = memchr(text, '\n', n);
        size_t line = end ? (size_t)(end - text) : n, kept = line;
        if (kept > 0 && text[kept - 1] == '\r')
            kept--;
        /* git ignores what follows a NUL in a line. */
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
        /* The plain beginning is removed first, as git does: a `**` behind it is then one at the
         * beginning. */
        return n >= rule->plain && memcmp(s, rule->text, rule->plain) == 0 &&
               glob_match(rule->text + rule->plain, rule->n - rule->plain, s + rule->plain,
                          n - rule->plain);
    }
}

enum rules_verdict rules_match(const struct rules *r, const char *path, size_t n, size_t n_name,
                               bool is_folder)
{
    const char *name = path + (n - n_name);
    for (size_t i = r ? r->count : 0; i > 0; i--) {
        const struct rule *rule = &r->list[i - 1];
        if (rule->folders && !is_folder)
            continue;
        if (rule->anchored ? rule_matches(rule, path, n) : rule_matches(rule, name, n_name))
            return rule->keeps ? RULES_KEEP : RULES_IGNORE;
    }
    return RULES_NOTHING;
}

/* A file that cannot be read, or is none, holds no rules. */
static int ignore_load(int folder, const char *name, struct rules **ret)
{
    _cleanup_fd_ int fd =
        openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    _cleanup_buf_ struct buf text = BUF_INIT(RULES_FILE_MAX);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    int r = io_read_all(fd, &text);
    if (r < 0 && r != -ENOBUFS)
        return r == -ENOMEM ? r : 0;
    return rules_parse((const char *)text.data, text.len, ret);
}

int ignore_extend(const struct ignore *up, int folder, unsigned has, size_t base,
                  atomic_size_t *memory, const struct ignore **ret)
{
    if (!has) {
        *ret = up;
        return 0;
    }
    struct ignore *own = calloc(1, sizeof *own);
    if (!own)
        return -ENOMEM;
    *own = (struct ignore){.up = up, .base = base, .repository = has & IGNORE_HAS_GIT};
    int r = 0;
    if (has & IGNORE_HAS_DOT)
        r = ignore_load(folder, ".ignore", &own->dot);
    if (r >= 0 && has & IGNORE_HAS_GITIGNORE)
        r = ignore_load(folder, ".gitignore", &own->git);
    if (r >= 0 && own->repository)
        r = ignore_load(folder, ".git/info/exclude", &own->exclude);
    size_t needs = sizeof *own + (own->dot ? own->dot->memory : 0) +
                   (own->git ? own->git->memory : 0) + (own->exclude ? own->exclude->memory : 0);
    if (r >= 0 && atomic_fetch_add(memory, needs) > IGNORE_MEMORY_MAX)
        r = -E2BIG;
    if (r < 0) {
        rules_free(own->dot);
        rules_free(own->git);
        rules_free(own->exclude);
        free(own);
        return r;
    }
    *ret = own;
    return 0;
}

unsigned ignore_file_bit(const char *name, size_t n)
{
    static const struct {
        const char *name;
        unsigned bit;
    } known[] = {{".ignore", IGNORE_HAS_DOT},
                 {".gitignore", IGNORE_HAS_GITIGNORE},
                 {".git", IGNORE_HAS_GIT}};
    if (n < 4 || name[0] != '.')
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (strlen(known[i].name) == n && memcmp(known[i].name, name, n) == 0)
            return known[i].bit;
    return 0;
}

bool ignore_has(const struct ignore *chain, const char *path, size_t n, size_t n_name,
                bool is_folder)
{
    enum rules_verdict verdict = RULES_NOTHING;
    for (const struct ignore *i = chain; i && verdict == RULES_NOTHING; i = i->up)
        verdict = rules_match(i->dot, path + i->base, n - i->base, n_name, is_folder);
    for (const struct ignore *i = chain; i && verdict == RULES_NOTHING; i = i->up) {
        verdict = rules_match(i->git, path + i->base, n - i->base, n_name, is_folder);
        if (verdict == RULES_NOTHING)
            verdict = rules_match(i->exclude, path + i->base, n - i->base, n_name, is_folder);
        if (i->repository)
            break;
    }
    return verdict == RULES_IGNORE;
}

#define GLOB_MAX 2048

struct filter_adding {
    struct rules *rules;
    bool refuses;
};

/* `!` and `#` only have a meaning in front of the whole glob, and blanks at its end count. So each
 * alternative is written as a line with that meaning. */
static int filter_add_alternative(void *data, const char *glob, size_t n)
{
    struct filter_adding *a = data;
    _cleanup_buf_ struct buf line = BUF_INIT(2 * GLOB_MAX + 8);
    bool folder = n > 0 && glob[n - 1] == '/';
    if (a->refuses)
        buf_append_str(&line, "!");
    if (n > 0 && strchr("!#", glob[0]))
        buf_append_str(&line, "\\");
    buf_append(&line, glob, n);
    /* A folder is wanted for what is in it. */
    if (folder && !a->refuses)
        buf_append_str(&line, "**");
    while (line.len > 0 && line.data[line.len - 1] == ' ') {
        line.len--;
        buf_append_str(&line, "[ ]");
    }
    return line.failed ? -ENOMEM : rules_add(a->rules, (const char *)line.data, line.len);
}

int filter_add(struct filter *f, const char *glob, size_t n, struct error *err)
{
    if (!f->rules)
        f->rules = calloc(1, sizeof(struct rules));
    struct filter_adding a = {.rules = f->rules, .refuses = n > 0 && glob[0] == '!'};
    if (a.refuses)
        glob++, n--;
    if (n >= 2 && memcmp(glob, "./", 2) == 0)
        glob += 2, n -= 2;
    if (n == 0)
        return error_set(err, EINVAL, "glob: is empty");
    if (n > GLOB_MAX)
        return error_set(err, EINVAL, "glob: is longer than %d bytes", GLOB_MAX);
    int r = f->rules ? glob_expand(glob, n, filter_add_alternative, &a) : -ENOMEM;
    if (r == -E2BIG)
        return error_set(err, EINVAL, "glob: its braces stand for more than %d globs",
                         GLOB_ALTERNATIVES_MAX);
    return r < 0 ? error_errno(err, -r, "glob") : 0;
}

void filter_free(struct filter *f)
{
    f->rules = rules_free(f->rules);
}

int filter_read(const struct wire_frame *f, struct filter *ret, struct error *err)
{
    struct filter made = {0};
    struct wire_field field;
    unsigned count = 0;
    for (size_t at = 0; wire_next(f, &at, &field);) {
        if (field.key != WIRE_K_GLOB)
            continue;
        int r = ++count > FILTER_GLOBS_MAX
                    ? error_set(err, EINVAL, "glob: there are more than %d", FILTER_GLOBS_MAX)
                    : filter_add(&made, (const char *)field.data, field.size, err);
        if (r < 0) {
            filter_free(&made);
            return r;
        }
    }
    *ret = made;
    return 0;
}

enum filter_verdict filter_match(const struct filter *f, const char *path, size_t n, size_t skip,
                                 size_t n_name, bool is_folder)
{
    if (!f->rules)
        return FILTER_WANTS;
    enum rules_verdict verdict = rules_match(f->rules, path + skip, n - skip, n_name, is_folder);
    if (verdict == RULES_NOTHING && skip > 0)
        verdict = rules_match(f->rules, path, n, n_name, is_folder);
    if (verdict == RULES_KEEP)
        return FILTER_REFUSES;
    return verdict == RULES_IGNORE || !f->rules->have[RULES_IGNORE] ? FILTER_WANTS : FILTER_LACKS;
}
