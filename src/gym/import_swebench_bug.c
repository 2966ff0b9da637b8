/*
 * Rows of SWE-smith: the patch makes the bug. The base is the repository without it, or a commit
 * that has it already; either way the workspace has it, and the solution is the difference back.
 * The tests are the base's.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "import_swebench.h"
#include "banned.h"

#define DIFF_MAX (16u << 20)

static const struct task_file *find(const struct task_tree *tree, const char *path)
{
    size_t at;
    return task_tree_find(tree, path, &at) ? &tree->items[at] : NULL;
}

/* The difference from the files with the bug to those without. */
static int make_fix(const struct task_list *paths, const struct task_tree *bad,
                    const struct task_tree *good, struct buf *fix, struct error *err)
{
    for (size_t i = 0; i < paths->count; i++) {
        const struct task_file *a = find(bad, paths->items[i]), *b = find(good, paths->items[i]);
        if (!a || !b || !S_ISREG(a->mode) || !S_ISREG(b->mode))
            return error_set(
                err, EOPNOTSUPP,
                "its patch adds or removes %s; only changes of files can be taken back",
                paths->items[i]);
        int r = diff_make(paths->items[i], a->bytes, a->size, b->bytes, b->size, fix);
        if (r < 0 && r != -ENODATA)
            return error_errno(err, -r, "%s", paths->items[i]);
    }
    return buf_cstr(fix) ? 0 : task_no_memory(err);
}

static int read_both(const char *scratch, const char *patch, bool *ret_has_bug,
                     struct task_tree *before, struct task_tree *after, struct error *err)
{
    struct error why = {0};
    int r = task_tree_read(before, scratch, "", err);
    if (r < 0)
        return r;
    *ret_has_bug = swebench_apply(scratch, patch, true, "", &why) == 0;
    if (!*ret_has_bug)
        r = swebench_apply(scratch, patch, false, "its patch does not apply to the base", err);
    return r == 0 ? task_tree_read(after, scratch, "", err) : r;
}

static int take_bug(const char *scratch, const char *patch, const struct task_list *paths,
                    struct task *t, struct error *err)
{
    struct task_tree before = {0}, after = {0};
    _cleanup_buf_ struct buf fix = BUF_INIT(DIFF_MAX);
    bool has_bug = false;
    int r = read_both(scratch, patch, &has_bug, &before, &after, err);
    if (r == 0)
        r = make_fix(paths, has_bug ? &before : &after, has_bug ? &after : &before, &fix, err);
    if (r == 0 &&
        (task_patch_add(t, "fix", buf_cstr(&fix)) < 0 || task_list_add(&t->solution, "fix") < 0))
        r = task_no_memory(err);
    if (r == 0 && !has_bug) {
        t->files = after;
        after = (struct task_tree){0};
    }
    task_tree_free(&before);
    task_tree_free(&after);
    return r;
}

int swebench_bug(const struct rows *rows, const struct row *row, struct task *t, struct error *err)
{
    struct task_list paths = {0};
    char scratch[PATH_MAX];
    int r = diff_paths(row->patch, &paths, err);
    if (r == 0)
        r = swebench_scratch(rows, t, &paths, scratch, err);
    if (r == 0) {
        r = take_bug(scratch, row->patch, &paths, t, err);
        import_remove(scratch);
    }
    task_list_free(&paths);
    return r;
}
