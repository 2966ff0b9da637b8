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
 * A row of SWE-smith has neither base_commit nor test_patch: its patch makes the bug, and taken
 * back it is the solution.
 *
 * A commit is extracted once, into a folder of the cache that is named after it, and is shared by
 * its tasks: boxes see it as a layer that they cannot write. Rows whose repository or commit is not
 * there, or whose tests are not pytest's, are passed over with a line why.
 */
#include <errno.h>
#include <string.h>

#include "thread.h"
#include "clock.h"
#include "import_swebench.h"
#include "relpath.h"
#include "banned.h"

static const char *member(const json_t *o, const char *name, struct error *err)
{
    const char *text = json_string_value(json_object_get(o, name));
    if (!text && err->code == 0)
        error_set(err, EINVAL, "%s: is missing, or no text", name);
    return text ? text : "";
}

/* A text that may be missing. */
static const char *optional(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    return text && *text ? text : NULL;
}

static bool is_hex(const char *text)
{
    size_t n = strlen(text);
    return n >= 7 && n <= 64 && text[strspn(text, "0123456789abcdef")] == 0;
}

/* OWNER/NAME, of characters that are safe in a path. */
static bool repo_ok(const char *repo)
{
    static const char ALLOWED[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t owner = strspn(repo, ALLOWED);
    size_t name = repo[owner] == '/' ? strspn(repo + owner + 1, ALLOWED) : 0;
    return owner > 0 && name > 0 && owner + name < 200 && repo[owner + 1 + name] == 0 &&
           relpath_is_valid(repo, strlen(repo));
}

static int read_row(const json_t *o, struct row *ret, struct error *err)
{
    *ret = (struct row){
        .id = member(o, "instance_id", err),
        .repo = member(o, "repo", err),
        .problem = member(o, "problem_statement", err),
        .patch = member(o, "patch", err),
        .commit = optional(o, "base_commit"),
        .test_patch = optional(o, "test_patch"),
        .json = o,
    };
    if (err->code)
        return -err->code;
    if (!repo_ok(ret->repo))
        return error_set(err, EINVAL, "repo: \"%.100s\" is not of the form OWNER/NAME", ret->repo);
    if (!ret->commit && ret->test_patch)
        return error_set(err, EINVAL, "base_commit: is missing");
    if (ret->commit && !is_hex(ret->commit))
        return error_set(err, EINVAL, "base_commit: \"%.100s\" is no commit's id", ret->commit);
    if (!ret->test_patch && strncmp(ret->repo, "swesmith/", 9) != 0)
        return error_set(err, EINVAL, "test_patch: is missing");
    if (!*ret->problem || !*ret->patch)
        return error_set(err, EINVAL, "%s: is empty",
                         *ret->problem ? "patch" : "problem_statement");
    return swebench_lists(ret, err);
}

static int take_instruction(struct task *t, const struct row *row, struct error *err)
{
    const char *must = optional(row->json, "requirements"),
               *interface = optional(row->json, "interface");
    return import_text(&t->instruction, err, "%s%s%s%s%s", row->problem,
                       must ? "\n\nRequirements:\n" : "", must ? must : "",
                       interface ? "\n\nInterface:\n" : "", interface ? interface : "");
}

static int describe(struct task *t, const struct row *row, const char *file, struct error *err)
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
    if (r == 0)
        r = take_instruction(t, row, err);
    if (r == 0)
        r = import_text(&t->origin, err, "%s", file);
    return r == 0 ? import_text(&t->language, err, "python") : r;
}

static int add_fix(struct task *t, const char *diff, struct error *err)
{
    return task_patch_add(t, "fix", diff) < 0 || task_list_add(&t->solution, "fix") < 0
               ? task_no_memory(err)
               : 0;
}

/* Pictures and the like that the diff names without what is in them stay as the base has them. */
static int take_diffs(struct rows *rows, const struct row *row, struct task *t, struct buf *tests,
                      struct error *err)
{
    _cleanup_buf_ struct buf fix = BUF_INIT(strlen(row->patch) + 1);
    size_t dropped = diff_drop_binary(row->patch, &fix) + diff_drop_binary(row->test_patch, tests);
    const char *text = buf_cstr(&fix);
    if (!text || !buf_cstr(tests))
        return task_no_memory(err);
    if (dropped)
        import_say(rows->im,
                   "%s: %zu binary files of its patches have no content and stay as they are",
                   t->name, dropped);
    return add_fix(t, text, err);
}

/* A row with tests of its own. */
static int take_patches(struct rows *rows, const struct row *row, struct task *t, struct error *err)
{
    _cleanup_buf_ struct buf tests = BUF_INIT(strlen(row->test_patch) + 1);
    int r = take_diffs(rows, row, t, &tests, err);
    if (r == 0)
        r = diff_paths(buf_cstr(&tests), &t->tests.own, err);
    return r == 0 ? swebench_hidden(rows, buf_cstr(&tests), t, err) : r;
}

static int make_task(struct rows *rows, const struct row *row, const char *file, struct task *t,
                     struct error *err)
{
    int r = describe(t, row, file, err);
    if (r == 0)
        r = swebench_root(rows, row, t, err);
    if (r == 0)
        r = row->test_patch ? take_patches(rows, row, t, err) : swebench_bug(rows, row, t, err);
    if (r == 0)
        r = swebench_tests(rows, row, t, err);
    if (r == 0)
        r = swebench_supports(t, row->patch, err);
    return r == 0 ? swebench_code(t, err) : r;
}

static void free_row(struct row *row)
{
    task_list_free(&row->must);
    task_list_free(&row->keep);
}

static int import_row(struct rows *rows, const json_t *o, const char *at, struct error *err)
{
    _cleanup_(free_row) struct row row = {0};
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
    int r = read_row(o, &row, &why);
    if (r == 0)
        r = make_task(rows, &row, at, t, &why);
    if (cancel_check(rows->im->o->cancel, err) < 0)
        return -ECANCELED;
    if (r < 0) {
        import_skip(rows->im, id ? name : at, &why);
        return 0;
    }
    return import_add(rows->im, &t, err);
}

static int import_swebench(struct import *im, const char *where, struct error *err)
{
    struct rows rows = {.im = im, .file = where};
    int r = import_cache(rows.cache, sizeof rows.cache, err);
    return r < 0 ? r : swebench_read(&rows, import_row, err);
}

const struct import_kind IMPORT_SWEBENCH = {"swebench", "swebench:FILE", import_swebench};
