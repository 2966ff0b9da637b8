#include <errno.h>
#include <string.h>

#include "filter.h"
#include "glob.h"
#include "rules.h"
#include "banned.h"

#define GLOB_MAX 2048

struct adding {
    struct rules *rules;
    bool refuses;
};

/* `!` and `#` have their meaning in front of the whole glob alone, and blanks at its end are meant.
 * So each alternative is written as a line that says just that. */
static int add_alternative(void *data, const char *glob, size_t n)
{
    struct adding *a = data;
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
    struct adding a = {.rules = f->rules, .refuses = n > 0 && glob[0] == '!'};
    if (a.refuses)
        glob++, n--;
    if (n >= 2 && memcmp(glob, "./", 2) == 0)
        glob += 2, n -= 2;
    if (n == 0)
        return error_set(err, EINVAL, "glob: is empty");
    if (n > GLOB_MAX)
        return error_set(err, EINVAL, "glob: is longer than %d bytes", GLOB_MAX);
    int r = f->rules ? glob_expand(glob, n, add_alternative, &a) : -ENOMEM;
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

enum filter_say filter_asks(const struct filter *f, const char *path, size_t n, size_t skip,
                            size_t n_name, bool is_folder)
{
    if (!f->rules)
        return FILTER_WANTS;
    enum rules_say said = rules_match(f->rules, path + skip, n - skip, n_name, is_folder);
    if (said == RULES_NOTHING && skip > 0)
        said = rules_match(f->rules, path, n, n_name, is_folder);
    if (said == RULES_KEEP)
        return FILTER_REFUSES;
    return said == RULES_IGNORE || !rules_have(f->rules, RULES_IGNORE) ? FILTER_WANTS
                                                                       : FILTER_LACKS;
}
