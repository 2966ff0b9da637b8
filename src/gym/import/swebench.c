/*
 * Rows as SWE-bench has them, and those who make such rows:
 *
 *     instance_id         the task's name
 *     repo, base_commit   the workspace: all files of that commit, without the history, which
 *                         holds the answer
 *     problem_statement   the instruction, with requirements and interface if there are any
 *     patch               the solution
 *     test_patch          changes to the tests: applied here to the base, so that grading has
 *                         them; hidden
 *     FAIL_TO_PASS,
 *     PASS_TO_PASS        the tests that count
 *
 * A row of SWE-smith has neither base_commit nor test_patch: its patch makes the bug, and the
 * reverse is the solution.
 *
 * A commit is extracted once, into a folder of the cache that is named after it, and is shared by
 * its tasks: boxes see it as a layer that they cannot write. Rows whose repository or commit is not
 * there, or whose tests are not pytest's, are skipped with a message.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"
#include "json.h"
#include "relpath.h"
#include "swebench.h"
#include "thread.h"
#include "banned.h"

#define DIFF_MAX    (16u << 20)
#define ROWS_MAX    200000u
#define ROW_MAX     (32u << 20)
#define WHOLE_BYTES (256u << 20)
#define VALUES_MAX  8000000u
#define FILE_MAX    (1ll << 30)

/* A member that must be a text; else the error is set. */
static const char *row_member(const json_t *o, const char *name, struct error *err)
{
    const char *text = json_string_value(json_object_get(o, name));
    if (!text && err->code == 0)
        error_set(err, EINVAL, "%s: is missing or not a string", name);
    return text ? text : "";
}

/* A text that may be missing: NULL. */
static const char *row_optional(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    return text && *text ? text : NULL;
}

/* OWNER/NAME, of characters that are safe in a path. */
static bool row_repo_is_valid(const char *repo)
{
    static const char ALLOWED[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t owner = strspn(repo, ALLOWED);
    size_t name = repo[owner] == '/' ? strspn(repo + owner + 1, ALLOWED) : 0;
    return owner > 0 && name > 0 && owner + name < 200 && repo[owner + 1 + name] == 0 &&
           relpath_is_valid(repo, strlen(repo));
}

static int row_read(const json_t *o, struct row *ret, struct error *err)
{
    *ret = (struct row){
        .id = row_member(o, "instance_id", err),
        .repo = row_member(o, "repo", err),
        .problem = row_member(o, "problem_statement", err),
        .patch = row_member(o, "patch", err),
        .commit = row_optional(o, "base_commit"),
        .test_patch = row_optional(o, "test_patch"),
        .json = o,
    };
    if (err->code)
        return -err->code;
    if (!row_repo_is_valid(ret->repo))
        return error_set(err, EINVAL, "repo: \"%.100s\" is not of the form OWNER/NAME", ret->repo);
    if (!ret->commit && ret->test_patch)
        return error_set(err, EINVAL, "base_commit: is missing");
    size_t n = ret->commit ? strlen(ret->commit) : 40;
    if (ret->commit && (n < 7 || n > 64 || ret->commit[strspn(ret->commit, "0123456789abcdef")]))
        return error_set(err, EINVAL, "base_commit: \"%.100s\" is not a commit id", ret->commit);
    if (!ret->test_patch && strncmp(ret->repo, "swesmith/", 9) != 0)
        return error_set(err, EINVAL, "test_patch: is missing");
    if (!*ret->problem || !*ret->patch)
        return error_set(err, EINVAL, "%s: is empty",
                         *ret->problem ? "patch" : "problem_statement");
    return swebench_lists(ret, err);
}

static int row_describe(struct task *t, const struct row *row, const char *file, struct error *err)
{
    char prefix[256];
    t->test_timeout_ns = 1800 * NS_PER_S;
    t->test_cpu_ns = 1800 * NS_PER_S;
    t->limits.memory = 4ull << 30;
    t->limits.disk = 2ull << 30;
    t->limits.pids = 512;
    t->max_steps = 100;
    snprintf(prefix, sizeof prefix, "%s: ", row->repo);
    int r = import_title(&t->title, prefix, row->problem + strspn(row->problem, " \t\r\n"), err);
    const char *must = row_optional(row->json, "requirements"),
               *interface = row_optional(row->json, "interface");
    if (r == 0)
        r = import_text(&t->instruction, err, "%s%s%s%s%s", row->problem,
                        must ? "\n\nRequirements:\n" : "", must ? must : "",
                        interface ? "\n\nInterface:\n" : "", interface ? interface : "");
    if (r == 0)
        r = import_text(&t->origin, err, "%s", file);
    return r == 0 ? import_text(&t->language, err, "python") : r;
}

static int row_add_fix(struct task *t, const char *diff, struct error *err)
{
    return task_patch_add(t, "fix", diff) < 0 || task_list_add(&t->solution, "fix") < 0
               ? task_no_memory(err)
               : 0;
}

/* A row with a test patch. Binary files that a diff names without their content stay as they are in
 * the base. */
static int row_take_patches(struct rows *rows, const struct row *row, struct task *t,
                            struct error *err)
{
    _cleanup_buf_ struct buf fix = BUF_INIT(strlen(row->patch) + 1);
    _cleanup_buf_ struct buf tests = BUF_INIT(strlen(row->test_patch) + 1);
    size_t dropped = diff_drop_binary(row->patch, &fix) + diff_drop_binary(row->test_patch, &tests);
    if (!buf_cstr(&fix) || !buf_cstr(&tests))
        return task_no_memory(err);
    if (dropped)
        import_say(rows->im,
                   "%s: %zu binary files of its patches have no content and stay as they are",
                   t->name, dropped);
    int r = row_add_fix(t, buf_cstr(&fix), err);
    if (r == 0)
        r = diff_paths(buf_cstr(&tests), &t->tests.own, err);
    return r == 0 ? swebench_hidden(rows, buf_cstr(&tests), t, err) : r;
}

/*
 * Rows of SWE-smith: the patch makes the bug. The base is the repository without it, or a commit
 * that has it already; either way the workspace has it, and the solution is the difference back.
 * The tests are the base's.
 */

/* The difference from the files with the bug to those without. */
static int bug_make_fix(const struct task_list *paths, const struct task_tree *bad,
                        const struct task_tree *good, struct buf *fix, struct error *err)
{
    for (size_t i = 0; i < paths->count; i++) {
        size_t at_a, at_b;
        const char *path = paths->items[i];
        if (!task_tree_find(bad, path, &at_a) || !task_tree_find(good, path, &at_b) ||
            !S_ISREG(bad->items[at_a].mode) || !S_ISREG(good->items[at_b].mode))
            return error_set(err, EOPNOTSUPP,
                             "its patch adds or removes %s; only modified files can be reverted",
                             paths->items[i]);
        const struct task_file *a = &bad->items[at_a], *b = &good->items[at_b];
        int r = diff_make(path, a->bytes, a->size, b->bytes, b->size, fix);
        if (r < 0 && r != -ENODATA)
            return error_errno(err, -r, "%s", paths->items[i]);
    }
    return buf_cstr(fix) ? 0 : task_no_memory(err);
}

static int bug_take(const char *scratch, const char *patch, const struct task_list *paths,
                    struct task *t, struct error *err)
{
    struct task_tree before = {0}, after = {0};
    struct error why = {0};
    _cleanup_buf_ struct buf fix = BUF_INIT(DIFF_MAX);
    int r = task_tree_read(&before, scratch, "", err);
    bool has_bug = r == 0 && swebench_apply(scratch, patch, true, "", &why) == 0;
    if (r == 0 && !has_bug)
        r = swebench_apply(scratch, patch, false, "its patch does not apply to the base", err);
    if (r == 0)
        r = task_tree_read(&after, scratch, "", err);
    if (r == 0)
        r = bug_make_fix(paths, has_bug ? &before : &after, has_bug ? &after : &before, &fix, err);
    if (r == 0)
        r = row_add_fix(t, buf_cstr(&fix), err);
    if (r == 0 && !has_bug) {
        t->files = after;
        after = (struct task_tree){0};
    }
    task_tree_free(&before);
    task_tree_free(&after);
    return r;
}

static int row_take_bug(const struct rows *rows, const struct row *row, struct task *t,
                        struct error *err)
{
    struct task_list paths = {0};
    char scratch[PATH_MAX];
    int r = diff_paths(row->patch, &paths, err);
    if (r == 0)
        r = swebench_scratch(rows, t, &paths, scratch, err);
    if (r == 0) {
        r = bug_take(scratch, row->patch, &paths, t, err);
        import_remove(scratch);
    }
    task_list_free(&paths);
    return r;
}

static void row_free(struct row *row)
{
    task_list_free(&row->must);
    task_list_free(&row->keep);
}

static int row_import(struct rows *rows, const json_t *o, const char *at, struct error *err)
{
    _cleanup_(row_free) struct row row = {0};
    struct error why = {0};
    char name[TASK_NAME_MAX];
    const char *id = json_string_value(json_object_get(o, "instance_id"));
    import_name(id ? id : "", name);
    if (id && !import_wants(rows->im, name))
        return 0;
    _cleanup_task_ struct task *t = task_new();
    if (!t)
        return task_no_memory(err);
    memcpy(t->name, name, sizeof name);
    int r = row_read(o, &row, &why);
    if (r == 0)
        r = row_describe(t, &row, at, &why);
    if (r == 0)
        r = swebench_root(rows, &row, t, &why);
    if (r == 0)
        r = row.test_patch ? row_take_patches(rows, &row, t, &why)
                           : row_take_bug(rows, &row, t, &why);
    if (r == 0)
        r = swebench_tests(rows, &row, t, &why);
    if (r == 0)
        r = swebench_supports(t, row.patch, &why);
    if (r == 0)
        r = swebench_code(t, &why);
    if (cancel_check(rows->im->o->cancel, err) < 0)
        return -ECANCELED;
    if (r < 0) {
        import_skip(rows->im, id ? name : at, &why);
        return 0;
    }
    return import_add(rows->im, &t, err);
}

/*
 * The file of rows: an array of objects; an object a line; one object alone, in lines or not; or
 * what the data sets' server answers, an object whose member `rows` is a list of objects with a
 * member `row`.
 */

static int rows_read_whole(struct rows *rows, FILE *in, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(WHOLE_BYTES);
    json_error_t at;
    int r = lseek(fileno(in), 0, SEEK_SET) < 0 ? -errno : io_read_all(fileno(in), &b);
    if (r < 0)
        return error_errno(err, r == -ENOBUFS ? EFBIG : -r, "%s", rows->file);
    if (json_count_values((const char *)b.data, b.len, VALUES_MAX) > VALUES_MAX)
        return error_set(err, E2BIG, "%s: has more than %u values", rows->file, VALUES_MAX);
    _cleanup_json_ json_t *whole = json_loadb((const char *)b.data, b.len, 0, &at);
    if (!whole)
        return error_set(err, EINVAL, "%s: line %d, column %d: %s", rows->file, at.line, at.column,
                         at.text);
    const json_t *list = json_is_array(whole) ? whole : json_object_get(whole, "rows");
    if (!json_is_array(list))
        return row_import(rows, whole, rows->file, err);
    json_t *one;
    size_t i;
    json_array_foreach(list, i, one)
    {
        const json_t *inner = json_object_get(one, "row");
        if (r == 0)
            r = row_import(rows, json_is_object(inner) ? inner : one, rows->file, err);
    }
    return r;
}

static int rows_read_lines(struct rows *rows, FILE *in, struct error *err)
{
    _cleanup_free_ char *line = NULL;
    size_t room = 0, number = 0;
    ssize_t n;
    int r = 0;
    while (r == 0 && number < ROWS_MAX && (n = getline(&line, &room, in)) > 0) {
        _cleanup_json_ json_t *o = NULL;
        struct error why = {0};
        char at[PATH_MAX];
        snprintf(at, sizeof at, "%.3900s, line %zu", rows->file, ++number);
        if (line[strspn(line, " \t\r\n")] == 0)
            continue;
        if (n > (ssize_t)ROW_MAX)
            error_set(&why, EFBIG, "is too long");
        else
            task_json(line, (size_t)n, &o, &why);
        if (why.code)
            import_skip(rows->im, at, &why);
        else
            r = row_import(rows, o, at, err);
    }
    return r;
}

/* Is the first line a row? Then each line is one. */
static bool rows_are_lines(FILE *in)
{
    _cleanup_free_ char *line = NULL;
    size_t room = 0;
    struct error why = {0};
    json_t *o = NULL;
    ssize_t n;
    do {
        n = getline(&line, &room, in);
    } while (n > 0 && line[strspn(line, " \t\r\n")] == 0);
    bool rows = n > 0 && n <= (ssize_t)ROW_MAX && task_json(line, (size_t)n, &o, &why) == 0 &&
                !json_object_get(o, "rows");
    json_decref(o);
    rewind(in);
    return rows;
}

static int rows_read(struct rows *rows, struct error *err)
{
    struct stat st;
    int first;
    _cleanup_fclose_ FILE *in = fopen(rows->file, "re");
    if (!in)
        return error_errno(err, errno, "%s", rows->file);
    if (fstat(fileno(in), &st) < 0 || !S_ISREG(st.st_mode))
        return error_set(err, EINVAL, "%s: not a regular file with rows as JSON", rows->file);
    if (st.st_size > FILE_MAX)
        return error_set(err, EFBIG, "%s: is larger than %lld MiB", rows->file, FILE_MAX >> 20);
    while ((first = getc(in)) == ' ' || first == '\n' || first == '\t' || first == '\r')
        ;
    rewind(in);
    if (first != '[' && first != '{')
        return error_set(
            err, EINVAL, "%s: must begin with [ (an array of rows) or { (one row per line)%s",
            rows->file, first == 'P' ? "; a Parquet file must be converted to JSON first" : "");
    bool lines = first == '{' && rows_are_lines(in);
    return lines ? rows_read_lines(rows, in, err) : rows_read_whole(rows, in, err);
}

static int swebench_import(struct import *im, const char *where, struct error *err)
{
    struct rows rows = {.im = im, .file = where};
    int r = import_cache(rows.cache, sizeof rows.cache, err);
    return r < 0 ? r : rows_read(&rows, err);
}

const struct import_kind IMPORT_SWEBENCH = {"swebench", "swebench:FILE", swebench_import};
