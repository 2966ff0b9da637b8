#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "glob.h"
#include "io.h"
#include "tree_walk.h"
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

    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 8;
        struct rule *more = reallocarray(r->list, room, sizeof *more);
        if (!more)
            return -ENOMEM;
        r->list = more;
        r->room = room;
    }
    rule.text = malloc(n);
    if (!rule.text)
        return -ENOMEM;
    memcpy(rule.text, s, n);
    rule.n = n;
    r->list[r->count++] = rule;
    r->memory += sizeof rule + n;
    r->have[rule.keeps ? RULES_KEEP : RULES_IGNORE] = true;
    return 0;
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
    for (size_t i = r->count; i > 0; i--) {
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

static enum rules_verdict ignore_ask(const struct rules *rules, size_t base, const char *path,
                                     size_t n, size_t n_name, bool is_folder)
{
    return rules ? rules_match(rules, path + base, n - base, n_name, is_folder) : RULES_NOTHING;
}

bool ignore_has(const struct ignore *chain, const char *path, size_t n, size_t n_name,
                bool is_folder)
{
    enum rules_verdict verdict = RULES_NOTHING;
    for (const struct ignore *i = chain; i && verdict == RULES_NOTHING; i = i->up)
        verdict = ignore_ask(i->dot, i->base, path, n, n_name, is_folder);
    for (const struct ignore *i = chain; i && verdict == RULES_NOTHING; i = i->up) {
        verdict = ignore_ask(i->git, i->base, path, n, n_name, is_folder);
        if (verdict == RULES_NOTHING)
            verdict = ignore_ask(i->exclude, i->base, path, n, n_name, is_folder);
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
        f->rules = rules_new();
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
