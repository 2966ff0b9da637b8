#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "encoding.h"
#include "linediff.h"
#include "literal.h"
#include "patch.h"
#include "relpath.h"
#include "banned.h"

/* Text, a quoted name, and text behind it. */
static int write_name(struct answer *a, const char *before, const char *prefix, const char *path,
                      const char *after)
{
    _cleanup_buf_ struct buf name = BUF_INIT(4 * RELPATH_MAX + 16);
    cquote_append(&name, prefix, path);
    if (name.failed)
        return a->status = -ENOMEM;
    answer_write(a, before, strlen(before));
    answer_write(a, name.data, name.len);
    return answer_write(a, after, strlen(after));
}

static int write_first_line(struct answer *a, const char *from, const char *to)
{
    write_name(a, "diff --git ", "a/", from, " ");
    return write_name(a, "", "b/", to, "\n");
}

static int write_modes(struct answer *a, mode_t old, mode_t new)
{
    if (old == 0)
        return answer_printf(a, "new file mode %06o\n", new);
    if (new == 0)
        return answer_printf(a, "deleted file mode %06o\n", old);
    if (old != new)
        return answer_printf(a, "old mode %06o\nnew mode %06o\n", old, new);
    return 0;
}

static int write_index(struct answer *a, const struct blob *old, const struct blob *new)
{
    answer_printf(a, "index %s..%s", old->name, new->name);
    if (old->mode == new->mode)
        answer_printf(a, " %06o", new->mode);
    return answer_write(a, "\n", 1);
}

/* The names above the hunks. One with a blank gets a tab behind it, as git's has, so that its end
 * can be told. */
static int write_sides(struct answer *a, const char *path, const struct blob *old,
                       const struct blob *new)
{
    const char *end = strchr(path, ' ') && !cquote_is_needed(path) ? "\t\n" : "\n";
    if (old->mode)
        write_name(a, "--- ", "a/", path, end);
    else
        answer_printf(a, "--- /dev/null\n");
    if (new->mode)
        return write_name(a, "+++ ", "b/", path, end);
    return answer_printf(a, "+++ /dev/null\n");
}

static int write_untold(struct answer *a, const char *path, const struct blob *old,
                        const struct blob *new)
{
    if (old->mode)
        write_name(a, "Binary files ", "a/", path, " and ");
    else
        answer_printf(a, "Binary files /dev/null and ");
    if (new->mode)
        return write_name(a, "", "b/", path, " differ\n");
    return answer_printf(a, "/dev/null differ\n");
}

static int write_bytes(void *data, const void *bytes, size_t n)
{
    return answer_write(data, bytes, n);
}

/* 0 with *ret filled for texts that can be compared line by line, 1 if they are to be taken as
 * binary. */
static int compare_text(const struct blob *old, const struct blob *new, struct linediff *ret)
{
    if (blob_is_binary(old) || blob_is_binary(new))
        return 1;
    int r = linediff_make(old->data, (size_t)old->size, new->data, (size_t) new->size, ret);
    return r == -E2BIG || r == -ENOMEM ? 1 : r;
}

static int write_content(struct answer *a, const char *path, const struct blob *old,
                         const struct blob *new)
{
    if (old->untold || new->untold)
        return write_untold(a, path, old, new);
    if (strcmp(old->name, new->name) == 0)
        return a->status;
    write_index(a, old, new);
    if (old->size == 0 && new->size == 0)
        return a->status;
    _cleanup_(linediff_free) struct linediff d = {0};
    int r = compare_text(old, new, &d);
    if (r > 0)
        return literal_write(a, old, new);
    if (r < 0)
        return r;
    write_sides(a, path, old, new);
    return linediff_print(&d, write_bytes, a);
}

/* git tells of a file that became a link, or back, as of one that went and one that came. */
static bool is_other_type(const struct blob *old, const struct blob *new)
{
    return old->mode && new->mode && (old->mode & S_IFMT) != (new->mode &S_IFMT);
}

static bool is_same(const struct blob *old, const struct blob *new)
{
    return old->mode == new->mode && !old->untold &&
           !new->untold &&strcmp(old->name, new->name) == 0;
}

int patch_write(struct answer *a, const char *path, const struct blob *old, const struct blob *new,
                struct patch_totals *totals)
{
    if (is_same(old, new))
        return a->status;
    if (is_other_type(old, new)) {
        int r = patch_write(a, path, old, &BLOB_NONE, totals);
        return r < 0 ? r : patch_write(a, path, &BLOB_NONE, new, totals);
    }
    totals->files++;
    totals->untold += old->untold || new->untold;
    write_first_line(a, path, path);
    write_modes(a, old->mode, new->mode);
    return write_content(a, path, old, new);
}

int patch_write_rename(struct answer *a, const char *from, const char *to, mode_t old_mode,
                       mode_t new_mode)
{
    write_first_line(a, from, to);
    write_modes(a, old_mode, new_mode);
    answer_printf(a, "similarity index 100%%\n");
    write_name(a, "rename from ", "", from, "\n");
    return write_name(a, "rename to ", "", to, "\n");
}

int patch_count(struct answer *a, const char *path, const struct blob *old, const struct blob *new,
                struct patch_totals *totals)
{
    uint64_t added, deleted;
    _cleanup_(linediff_free) struct linediff d = {0};
    if (is_same(old, new))
        return a->status;
    totals->files++;
    totals->untold += old->untold || new->untold;
    int r = compare_text(old, new, &d);
    if (r < 0)
        return r;
    if (r > 0)
        return write_name(a, "-\t-\t", "", path, "\n");
    linediff_totals(&d, &added, &deleted);
    totals->added += added;
    totals->deleted += deleted;
    answer_printf(a, "%llu\t%llu\t", (unsigned long long)added, (unsigned long long)deleted);
    return write_name(a, "", "", path, "\n");
}

int patch_count_rename(struct answer *a, const char *from, const char *to)
{
    write_name(a, "0\t0\t", "", from, " => ");
    return write_name(a, "", "", to, "\n");
}
